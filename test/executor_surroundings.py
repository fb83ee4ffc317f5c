"""What an executor meets: a robot, foreign servers that do as a test wants, and an issuer."""

import copy
import math
import threading
import time
import uuid

from command_digest import digest
from conftest import action_client
from conftest import answer_of
from conftest import node_program
from conftest import wait_until
from conftest import within
import pytest

TOKEN = 7
# Where the middle of the cup is in base_link [m].
CUP = (0.55, 0.0, 0.79)


class Robot:
    """Nav2, MoveIt 2, a gripper, a base and the control lease, as the adapters meet them."""

    def __init__(self, node, period=0.02):
        """Begin to tell what is sensed, once in each period [s]."""
        from embodied_harness.action import ExecuteSkill
        from embodied_harness.msg import ControlLease, DeclaredRun, ExecutorBeacon
        from embodied_harness.msg import ObjectObservation, ObjectObservationArray, ProtectionState
        from embodied_harness.msg import RunEvent, SkillCatalog, SkillStatusArray
        from geometry_msgs.msg import TransformStamped
        from nav_msgs.msg import Odometry
        from rclpy.callback_groups import ReentrantCallbackGroup
        from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile
        from sensor_msgs.msg import JointState
        from tf2_msgs.msg import TFMessage

        self.node = node
        self._period = period
        self.group = ReentrantCallbackGroup()
        self.action = ExecuteSkill
        self.types = {'odom': Odometry, 'joints': JointState, 'lease': ControlLease,
                      'protection': ProtectionState, 'detection': ObjectObservation,
                      'detections': ObjectObservationArray, 'transform': TransformStamped,
                      'tf': TFMessage}

        def latched(depth):
            return QoSProfile(depth=depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._odom = node.create_publisher(Odometry, 'odom', qos_profile_sensor_data)
        self._joints = node.create_publisher(JointState, 'joint_states', qos_profile_sensor_data)
        self._lease = node.create_publisher(ControlLease, 'control_lease', latched(1))
        self._protection = node.create_publisher(ProtectionState, 'protection_state', latched(1))
        self._fixed = node.create_publisher(TFMessage, '/tf_static', latched(1))
        self._tf = node.create_publisher(TFMessage, '/tf', 100)
        self._detections = node.create_publisher(
            ObjectObservationArray, 'detections', qos_profile_sensor_data)
        self.beacons = {}
        self.catalogs = {}
        self.statuses = {}
        self.runs = []
        self.declared = []
        node.create_subscription(
            ExecutorBeacon, 'executor_beacon', self._take_beacon, 10)
        node.create_subscription(
            SkillCatalog, 'skill_catalog',
            lambda m: self.catalogs.__setitem__(m.executor, m), latched(8))
        node.create_subscription(
            SkillStatusArray, 'skill_status',
            lambda m: self.statuses.__setitem__(m.executor, m), latched(8))
        node.create_subscription(RunEvent, 'run_events', self.runs.append, latched(64))
        node.create_subscription(DeclaredRun, 'declared_runs', self.declared.append, 10)
        self._send_map_to_base()
        # What the base does: its speed, and how it gets there when it is told to stop [m/s, m/s²].
        self.speed = 0.0
        self.braking = 1.0
        self.wanted = 0.0
        self.lease_is_live = True
        self.token = TOKEN
        self.stop_latched = False
        self.arm_speed = 0.0
        # Between the fingers [m], and their force [N].
        self.gap = 0.05
        self.effort = 0.0
        # What they are once the gripper has closed; None: as they were.
        self.gap_after_a_grasp = None
        # Where the tool is in base_link [m].
        self.tool = (0.55, 0.0, 0.795)
        self.stood_at = None
        # What the camera sees: class and place in base_link [m].
        self.seen = []
        self.servers = {}
        self.joints_told = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def _take_beacon(self, message):
        self.beacons[message.executor] = message

    def _send_map_to_base(self):
        transform = self.types['transform']()
        transform.header.frame_id = 'map'
        transform.child_frame_id = 'base_link'
        self._fixed.publish(self.types['tf'](transforms=[transform]))

    def _look(self, time_s):
        """Publish what is seen now, from a head that is never still."""
        stamp = self.node.get_clock().now().to_msg()
        # At 1 rad/s a frame that is a tenth of a second off is 5 cm off at half a metre.
        pan = 0.25 * math.sin(4.0 * time_s)
        transform = self.types['transform']()
        transform.header.stamp = stamp
        transform.header.frame_id = 'base_link'
        transform.child_frame_id = 'camera_optical_frame'
        x, z = 0.1, 1.2
        transform.transform.translation.x = x
        transform.transform.translation.z = z
        # The turn by pan about z, and then the axes of a camera (REP-103): quaternion
        # (0, 0, sin(pan/2), cos(pan/2)) times (-1, 1, -1, 1)/2.
        s, c = math.sin(pan / 2), math.cos(pan / 2)
        rotation = transform.transform.rotation
        rotation.x, rotation.y = (-c - s) / 2, (c - s) / 2
        rotation.z, rotation.w = (s - c) / 2, (c + s) / 2
        tool = self.types['transform']()
        tool.header.stamp = stamp
        tool.header.frame_id = 'base_link'
        tool.child_frame_id = 'gripper_tcp'
        place = tool.transform.translation
        place.x, place.y, place.z = self.tool
        self._tf.publish(self.types['tf'](transforms=[transform, tool]))

        frame = self.types['detections'](source='test')
        frame.header.stamp = stamp
        frame.header.frame_id = 'camera_optical_frame'
        for number, (class_name, place) in enumerate(self.seen):
            detection = self.types['detection'](
                detection_id=str(number), class_name=class_name, confidence=0.9)
            forward = math.cos(pan) * (place[0] - x) + math.sin(pan) * place[1]
            left = -math.sin(pan) * (place[0] - x) + math.cos(pan) * place[1]
            pose = detection.pose.pose
            pose.position.x, pose.position.y, pose.position.z = -left, z - place[2], forward
            # Upright in base_link: the inverse of the camera's rotation.
            pose.orientation.x, pose.orientation.y = -rotation.x, -rotation.y
            pose.orientation.z, pose.orientation.w = -rotation.z, rotation.w
            frame.observations.append(detection)
        self._detections.publish(frame)

    def feel(self, gap, effort):
        """Let the fingers be so far apart and press so hard; return when it has been told for a while."""
        self.gap, self.effort = gap, effort
        told = self.joints_told
        wait_until(lambda: self.joints_told > told + 10, 20, 'joint states to be sent')

    def _live(self):
        period = self._period
        count = 0
        while not self._end.wait(period):
            change = self.braking * period
            before = self.speed
            self.speed += max(-change, min(change, self.wanted - self.speed))
            if before != 0.0 and self.speed == 0.0:
                self.stood_at = time.time()
            odom = self.types['odom']()
            odom.twist.twist.linear.x = self.speed
            self._odom.publish(odom)
            joints = self.types['joints']()
            joints.name = ['arm_{}_joint'.format(i) for i in range(1, 6)] + [
                'gripper_joint', 'head_pan_joint', 'head_tilt_joint']
            joints.position = [0.0] * 5 + [self.gap, 0.0, 0.0]
            joints.velocity = [self.arm_speed] * 5 + [0.0] * 3
            joints.effort = [0.0] * 5 + [self.effort, 0.0, 0.0]
            self._joints.publish(joints)
            self.joints_told += 1
            if count % 10 == 0:
                self._tell_lease()
            if count % 3 == 0:
                self._look(count * period)
            count += 1

    def _tell_lease(self):
        lease = self.types['lease'](controller_id='/harness_node', token=self.token)
        lease.ttl.sec = 3
        lease.remaining.sec = 3 if self.lease_is_live else 0
        self._lease.publish(lease)
        self._protection.publish(
            self.types['protection'](stop_latched=self.stop_latched, stop_id='stop_1'))

    def calm(self):
        """Let everything be in order."""
        self.wanted = 0.0
        self.speed = 0.0
        self.braking = 1.0
        self.lease_is_live = True
        self.token = TOKEN
        self.stop_latched = False
        self.arm_speed = 0.0
        self.gap = 0.05
        self.effort = 0.0
        self.gap_after_a_grasp = None
        self.seen = [('cup', CUP)]
        self._tell_lease()
        self.runs.clear()
        self.declared.clear()
        self.stood_at = None

    def close(self):
        """Fall silent."""
        self._end.set()
        self._thread.join(timeout=5)


@pytest.fixture(scope='module')
def robot(ros_node):
    """Give the robot around the executors."""
    robot = Robot(ros_node)
    yield robot
    robot.close()


class ForeignServer:
    """One foreign action server whose behaviour the test sets."""

    def __init__(self, robot, action, name, finish):
        from rclpy.action import ActionServer, CancelResponse, GoalResponse
        self.robot = robot
        self.name = name
        self.action = action
        self.finish = finish
        self.started = []
        self.requests = []
        self.acknowledge = threading.Event()
        self.acknowledge.set()
        self.accept = True
        self.error = None
        self.run_for = 0.0
        # How many goals from now on succeed before one fails with CONTROL_FAILED; None: all.
        self.fail_at = None
        self.ends = []
        # Goals that were asked for and that have not been answered with their end or a refusal.
        self.open = 0
        self._lock = threading.Lock()
        self._end = threading.Event()

        def decide(_):
            self._count(1)
            self.acknowledge.wait(timeout=20)
            if self.accept:
                return GoalResponse.ACCEPT
            self._count(-1)
            return GoalResponse.REJECT
        self._server = ActionServer(
            robot.node, action, name, execute_callback=self._execute, goal_callback=decide,
            cancel_callback=lambda _: CancelResponse.ACCEPT, callback_group=robot.group)

    def _count(self, change):
        with self._lock:
            self.open += change

    def _execute(self, handle):
        try:
            return self._run(handle)
        finally:
            self._count(-1)

    def _run(self, handle):
        self.started.append(uuid.UUID(bytes=bytes(handle.goal_id.uuid)))
        self.requests.append(handle.request)
        moves = self.finish == 'navigation'
        deadline = time.monotonic() + self.run_for
        if moves and self.run_for > 0:
            self.robot.wanted = 0.4
            self.robot.speed = 0.4
        while time.monotonic() < deadline and not self._end.wait(0.01):
            if handle.is_cancel_requested:
                if moves:
                    self.robot.wanted = 0.0
                handle.canceled()
                self.ends.append('canceled')
                return self.action.Result()
        if moves:
            self.robot.wanted = 0.0
        return self._result(handle)

    def _result(self, handle):
        result = self.action.Result()
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at == 0:
                self.fail_at = None
                result.error_code.val = -4
                handle.abort()
                self.ends.append('aborted')
                return result
        if self.error is not None:
            if self.finish == 'arm':
                result.error_code.val = self.error
            else:
                result.error_code = self.error
                result.error_msg = 'as the test wants'
            handle.abort()
            self.ends.append('aborted')
            return result
        if self.finish == 'arm':
            result.error_code.val = 1
        if self.finish == 'gripper':
            goal = handle.request.command
            result.position = max(goal.position, 0.07)
            result.reached_goal = goal.position > 0.0
            result.stalled = goal.position == 0.0
            if result.stalled and self.robot.gap_after_a_grasp is not None:
                self.robot.gap, self.robot.effort = self.robot.gap_after_a_grasp
        handle.succeed()
        self.ends.append('succeeded')
        return result

    def calm(self):
        """End what runs, and behave again."""
        self._end.set()
        self.acknowledge.set()
        wait_until(lambda: self.open == 0, 20, 'the end of the goals of ' + self.name)
        self._end.clear()
        self.accept = True
        self.error = None
        self.fail_at = None
        self.run_for = 0.0
        for memory in (self.started, self.requests, self.ends):
            memory.clear()


def foreign_server(robot, action, name, finish):
    """Give a server that lives as long as the module, since rclpy can't end one while it spins."""
    if name not in robot.servers:
        robot.servers[name] = ForeignServer(robot, action, name, finish)
    return robot.servers[name]


@pytest.fixture
def nav2(robot):
    """Give a NavigateToPose server."""
    from nav2_msgs.action import NavigateToPose
    server = foreign_server(robot, NavigateToPose, 'navigate_to_pose', 'navigation')
    yield server
    server.calm()


class Commands:
    """Makes commands for one executor, asks for them and settles them."""

    def __init__(self, robot, executor):
        from embodied_harness.srv import QueryCommand, SettleCommand
        self.robot = robot
        self.name = '/' + executor
        node = robot.node
        self._query = node.create_client(QueryCommand, executor + '/query')
        self._settle = node.create_client(SettleCommand, executor + '/settle')
        self._query_type, self._settle_type = QueryCommand, SettleCommand

    def goal(self, skill='navigate_to_pose', arguments=None, command_id=None, **changes):
        """Make a goal that is in order; changes are made before the digest is computed."""
        import json
        goal = self.robot.action.Goal()
        c = goal.command
        c.schema_version = 1
        c.command_id = command_id or 'c-' + uuid.uuid4().hex[:12]
        c.task_id = 'task'
        c.robot_id = 'robot'
        c.skill = skill
        c.skill_version = '1.0.0'
        if arguments is None:
            arguments = {'pose': {'frame_id': 'map', 'x': 1.0, 'y': 0.5, 'yaw': 0.25}}
        c.arguments_json = json.dumps(arguments)
        c.start_within.sec = 5
        # A busy machine may take long to tell that everything stands.
        c.stop_timeout.sec = 20
        for name, value in changes.items():
            setattr(c, name, value)
        c.digest = digest(c)
        goal.envelope.fencing_token = TOKEN
        goal.envelope.controller_id = '/harness_node'
        goal.envelope.start_within.sec = 5
        goal.envelope.beacon = copy.deepcopy(self.robot.beacons[self.name])
        return goal

    def query(self, command_id):
        """Ask for a command."""
        return answer_of(self._query, self._query_type.Request(command_id=command_id))

    def settle(self, command_id, final_state=1, token=TOKEN, by='/harness_node', reason=''):
        """Settle a command."""
        return answer_of(self._settle, self._settle_type.Request(
            command_id=command_id, final_state=final_state, settled_by=by, reason=reason,
            fencing_token=token))


class Client(Commands):
    """The issuer's side of one executor."""

    def __init__(self, robot, executor):
        super().__init__(robot, executor)
        self.harmless, self.arguments = {
            'navigation_skills_node': ('wait', {'duration': 0.0}),
            'manipulation_skills_node': ('close_gripper', {})}[executor]
        self._actions = action_client(
            robot.node, robot.action, executor + '/execute_skill', robot.group)

    def wait(self):
        """Wait until the executor is there and has beaten."""
        assert self._actions.wait_for_server(timeout_sec=20)
        assert self._query.wait_for_service(timeout_sec=20)
        assert self._settle.wait_for_service(timeout_sec=20)
        wait_until(lambda: self.name in self.robot.beacons, 10, 'a beacon of ' + self.name)

        # The sender is checked before the age: a late command tells whether the lease is known.
        def lease_is_known():
            goal = self.goal(self.harmless, self.arguments)
            goal.envelope.start_within.sec = 0
            goal.envelope.start_within.nanosec = 1
            # Right after discovery a request can be lost; here it is only sent again.
            future = self._actions.send_goal_async(goal)
            return (within(2, future.done) and self.result(future.result()).result.error_code
                    == errors().EXPIRED_COMMAND)
        wait_until(lease_is_known, 20, 'the lease to be known to ' + self.name)

    def forget(self):
        """Forget what was heard of an earlier life."""
        self.robot.beacons.pop(self.name, None)
        self.robot.catalogs.pop(self.name, None)

    def send(self, goal):
        """Send a goal; return its handle."""
        future = self._actions.send_goal_async(goal)
        handle = wait_until(lambda: future.done() and future.result(), 10, 'an acknowledgement')
        assert handle.accepted, 'refusals are told in the result'
        return handle

    def result(self, handle, timeout=15):
        """Wait for the answer of a handle."""
        future = handle.get_result_async()
        wait_until(future.done, timeout, 'the result of execute_skill')
        return future.result()

    def run(self, goal, timeout=15):
        """Send a goal and return its answer."""
        return self.result(self.send(goal), timeout)

    def busy(self, goal):
        """Run a goal; return the answer if a resource is busy, else free what it held."""
        answer = self.run(goal)
        if answer.result.error_code == errors().RESOURCE_BUSY:
            return answer
        assert self.settle(goal.command.command_id).error_code == 0
        return None


def start(processes, executor, folder, *parameters):
    """Start an executor with its journal in the folder."""
    command = [node_program(executor), '--ros-args', '-p', 'state_directory:={}'.format(folder)]
    for parameter in parameters:
        command += ['-p', parameter]
    return processes.start(command)


def errors():
    """Return the error constants of ExecuteSkill."""
    from embodied_harness.action import ExecuteSkill
    return ExecuteSkill.Result
