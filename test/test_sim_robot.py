"""sim_robot_node as the clients of a real robot meet it: rclpy on the actions, topics and services."""

import json
import math
import signal
import struct
import statistics
import threading
import time
import uuid

from conftest import action_client
from conftest import answer_of
from conftest import node_program
from conftest import TOP
from conftest import wait_until
from conftest import within
import pytest

pytest.importorskip('rclpy')

PARAMETERS = TOP / 'params' / 'sim_robot_node.yaml'
# action_msgs/GoalStatus
UNKNOWN, EXECUTING, SUCCEEDED, CANCELED, ABORTED = 0, 2, 4, 5, 6
# moveit_msgs/MoveItErrorCodes
NO_IK_SOLUTION, PREEMPTED, INVALID_GOAL_CONSTRAINTS = -31, -7, -16
GOAL_IN_COLLISION = -12
FRAME_TRANSFORM_FAILURE, INVALID_GROUP_NAME = -21, -15
# nav2_msgs: 2xx are the planner's, 9002 is a frame that is not known.
PLANNER_CODES, TF_ERROR = range(200, 210), 9002
NAVIGATE, MOVE = 'navigate_to_pose', 'move_action'
GRIP, LOOK = 'gripper_controller/gripper_cmd', 'head_controller/follow_joint_trajectory'
# worlds/apartment.yaml: where the robot starts, and a free place 1 m ahead of it.
START = (2.6, 2.8)
AHEAD = (3.6, 2.8)
# docs/sim_robot.md
STOW = {'arm_1_joint': 0.0, 'arm_2_joint': 2.0, 'arm_3_joint': -2.65, 'arm_4_joint': -0.921,
        'arm_5_joint': 0.0}


def start_robot(processes, namespace='', **parameters):
    """Start the node, in a namespace if one is given; return its process."""
    arguments = ['-r', '__ns:=/' + namespace]
    for name, value in parameters.items():
        arguments += ['-p', '{}:={}'.format(name, value)]
    return processes.start([
        node_program('sim_robot_node'), '--ros-args', '--params-file', PARAMETERS, *arguments])


class Client:
    """A program that uses the robot, and the protection between navigation and base."""

    def __init__(self, node):
        from action_msgs.msg import GoalStatusArray
        from control_msgs.action import FollowJointTrajectory, GripperCommand
        from embodied_harness.msg import ObjectObservationArray
        from embodied_harness.srv import GetGroundTruth, InjectFault
        from geometry_msgs.msg import Twist
        from moveit_msgs.action import MoveGroup
        from nav2_msgs.action import NavigateToPose
        from nav_msgs.msg import OccupancyGrid, Odometry
        from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile
        from sensor_msgs.msg import JointState, LaserScan
        from tf2_msgs.msg import TFMessage

        self.node = node
        self.types = {NAVIGATE: NavigateToPose, MOVE: MoveGroup, GRIP: GripperCommand,
                      LOOK: FollowJointTrajectory}
        self.actions = {
            name: action_client(node, kind, name, None) for name, kind in self.types.items()}
        self.inject = node.create_client(InjectFault, 'inject_fault')
        self.truth = node.create_client(GetGroundTruth, 'get_ground_truth')
        self.relays = True
        self.nav_velocities = []
        self.seen = {}
        self._base = node.create_publisher(Twist, 'cmd_vel', 1)
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(Twist, 'cmd_vel_nav', self._relay, 1)
        # Several robots have their transforms in their namespaces.
        tf = '/tf' if node.get_namespace() == '/' else 'tf'
        for topic, kind, profile in (
                ('odom', Odometry, 10), ('joint_states', JointState, 10),
                ('scan', LaserScan, qos_profile_sensor_data),
                ('detections', ObjectObservationArray, qos_profile_sensor_data),
                ('map', OccupancyGrid, latched),
                (tf, TFMessage, 100), (tf + '_static', TFMessage, latched),
                (NAVIGATE + '/_action/status', GoalStatusArray, latched)):
            self.seen[topic] = []
            node.create_subscription(kind, topic, self.seen[topic].append, profile)

    def _relay(self, message):
        self.nav_velocities.append(message)
        if self.relays:
            self._base.publish(message)

    def command(self, linear=0.0, angular=0.0):
        """Send one velocity to the base."""
        from geometry_msgs.msg import Twist
        message = Twist()
        message.linear.x, message.angular.z = linear, angular
        self._base.publish(message)

    def wait(self):
        """Wait until the node serves everything."""
        for name, action in self.actions.items():
            assert action.wait_for_server(timeout_sec=20), name
        assert self.inject.wait_for_service(timeout_sec=20)

    # --- Calls ---

    def call(self, client, request):
        """Call a service and return its answer."""
        return answer_of(client, request)

    def ground_truth(self):
        """Return the ground truth."""
        from embodied_harness.srv import GetGroundTruth
        return json.loads(self.call(self.truth, GetGroundTruth.Request()).truth_json)

    def base(self):
        """Return where the base truly is."""
        pose = self.ground_truth()['base']['pose']
        return pose['x'], pose['y']

    def fault(self, name, clear=False, **parameters):
        """Inject a fault; return the answer."""
        from embodied_harness.srv import InjectFault
        return self.call(self.inject, InjectFault.Request(
            fault=name, clear=clear, params_json=json.dumps(parameters) if parameters else ''))

    def send(self, name, goal, feedback=None, goal_id=None):
        """Send a goal; return its handle."""
        future = self.actions[name].send_goal_async(
            goal, feedback_callback=feedback, goal_uuid=goal_id and uuid_msg(goal_id))
        return done(future, 10)

    def run(self, name, goal, timeout=30, **options):
        """Send a goal that is accepted and wait for its end; return status and result."""
        handle = self.send(name, goal, **options)
        assert handle.accepted
        return self.end(handle, timeout)

    def end(self, handle, timeout=30):
        """Wait for a goal's end; return status and result."""
        answer = done(handle.get_result_async(), timeout)
        return answer.status, answer.result

    def ask_result(self, name, goal_id):
        """Ask for a goal's result by its id alone; return the future."""
        service = self.types[name].Impl.GetResultService
        client = self.node.create_client(service, name + '/_action/get_result')
        assert client.wait_for_service(timeout_sec=10)
        request = service.Request()
        request.goal_id.uuid = list(goal_id.bytes)
        return client.call_async(request)

    # --- Goals ---

    def pose_goal(self, x, y, yaw=0.0, frame='map'):
        """Return a goal for the navigation."""
        goal = self.types[NAVIGATE].Goal()
        goal.pose.header.frame_id = frame
        goal.pose.pose.position.x, goal.pose.pose.position.y = x, y
        goal.pose.pose.orientation.z = math.sin(yaw / 2)
        goal.pose.pose.orientation.w = math.cos(yaw / 2)
        return goal

    def tool_goal(self, x, y, z, frame='base_link', planner='', down=False):
        """Return a goal for the arm: the tool level or pointing down, at a place."""
        from geometry_msgs.msg import Pose
        from moveit_msgs.msg import Constraints, OrientationConstraint, PositionConstraint
        from shape_msgs.msg import SolidPrimitive
        position = PositionConstraint(link_name='gripper_tcp', weight=1.0)
        position.header.frame_id = frame
        position.constraint_region.primitives.append(
            SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.001]))
        at = Pose()
        at.position.x, at.position.y, at.position.z = x, y, z
        position.constraint_region.primitive_poses.append(at)
        orientation = OrientationConstraint(
            link_name='gripper_tcp', weight=1.0, absolute_x_axis_tolerance=0.2,
            absolute_y_axis_tolerance=0.2, absolute_z_axis_tolerance=3.2)
        orientation.header.frame_id = frame
        orientation.orientation.w = 1.0
        if down:
            # A quarter turn about y; the heading then does not matter.
            orientation.orientation.y = orientation.orientation.w = math.sqrt(0.5)
        goal = self.types[MOVE].Goal()
        goal.request.group_name = 'arm'
        goal.request.planner_id = planner
        goal.request.goal_constraints.append(Constraints(
            position_constraints=[position], orientation_constraints=[orientation]))
        return goal

    def joint_goal(self, scale=1.0, **positions):
        """Return a goal for the arm's joints."""
        from moveit_msgs.msg import Constraints, JointConstraint
        goal = self.types[MOVE].Goal()
        goal.request.group_name = 'arm'
        goal.request.max_velocity_scaling_factor = scale
        goal.request.goal_constraints.append(Constraints(joint_constraints=[
            JointConstraint(joint_name=name, position=value, weight=1.0)
            for name, value in positions.items()]))
        return goal

    def gripper_goal(self, position, effort=0.0):
        """Return a goal for the gripper."""
        goal = self.types[GRIP].Goal()
        goal.command.position, goal.command.max_effort = position, effort
        return goal

    def head_goal(self, pan, tilt, seconds=1, joints=('head_pan_joint', 'head_tilt_joint')):
        """Return a goal for the head."""
        from trajectory_msgs.msg import JointTrajectoryPoint
        goal = self.types[LOOK].Goal()
        goal.trajectory.joint_names = list(joints)
        point = JointTrajectoryPoint(positions=[pan, tilt])
        point.time_from_start.sec = seconds
        goal.trajectory.points.append(point)
        return goal


def uuid_msg(goal_id):
    """Return an id as a message."""
    from unique_identifier_msgs.msg import UUID
    return UUID(uuid=list(goal_id.bytes))


def done(future, timeout):
    """Wait for a future; return its result."""
    event = threading.Event()
    future.add_done_callback(lambda _: event.set())
    assert event.wait(timeout), 'no answer within {} s'.format(timeout)
    return future.result()


def distance(a, b):
    """Return the distance of two points."""
    return math.hypot(a[0] - b[0], a[1] - b[1])


@pytest.fixture(scope='module')
def robot(ros_node, module_processes):
    """Give a client of a robot that tells the truth."""
    process = start_robot(
        module_processes, expose_ground_truth='true', seed=3, camera_width=160, camera_height=120,
        overhead_camera_width=160, overhead_camera_height=120)
    client = Client(ros_node)
    client.process = process
    client.wait()
    assert client.truth.wait_for_service(timeout_sec=10)
    return client


@pytest.fixture(autouse=True)
def calm(request):
    """Relay velocities, and leave neither faults nor motion to the next test."""
    if 'robot' not in request.fixturenames:
        yield
        return
    robot = request.getfixturevalue('robot')
    robot.relays = True
    yield
    robot.relays = True
    for fault in ('lost_ack', 'lost_result', 'server_restart', 'nav_abort', 'scan_silent',
                  'grasp_slip'):
        robot.fault(fault, clear=True)
    wait_until(
        lambda: all(abs(v) < 1e-3 for v in robot.ground_truth()['base']['velocity'].values()),
        10, 'standstill')
    assert robot.process.is_running(), robot.process.output()


# --- Navigation --------------------------------------------------------------------------------------

def test_navigation_reaches_its_goal_through_cmd_vel(robot):
    told = []
    status, result = robot.run(
        NAVIGATE, robot.pose_goal(*AHEAD), feedback=lambda m: told.append(m.feedback))
    assert (status, result.error_code) == (SUCCEEDED, 0)
    # 5 cm tolerance of the goal and as much of the localisation.
    assert distance(robot.base(), AHEAD) < 0.1
    assert len(told) >= 3
    assert told[0].current_pose.header.frame_id == 'map'
    assert told[-1].distance_remaining < told[0].distance_remaining


def test_nothing_moves_when_velocities_are_not_passed_on(robot):
    robot.relays = False
    before = robot.base()
    robot.nav_velocities.clear()
    handle = robot.send(NAVIGATE, robot.pose_goal(*START))
    wait_until(lambda: any(v.linear.x != 0 or v.angular.z != 0 for v in robot.nav_velocities),
               5, 'a velocity on cmd_vel_nav')
    assert distance(robot.base(), before) < 1e-6
    done(handle.cancel_goal_async(), 5)
    status, _ = robot.end(handle)
    assert status == CANCELED
    assert distance(robot.base(), before) < 1e-6


def test_a_canceled_navigation_ends_as_canceled_and_the_base_stops(robot):
    handle = robot.send(NAVIGATE, robot.pose_goal(8.0, 5.0))
    wait_until(lambda: robot.ground_truth()['base']['velocity']['linear'] > 0.1, 10, 'motion')
    answer = done(handle.cancel_goal_async(), 5)
    assert [bytes(g.goal_id.uuid) for g in answer.goals_canceling] == [
        bytes(handle.goal_id.uuid)]
    assert robot.end(handle)[0] == CANCELED
    # 1 m/s at 1 m/s² and the lag of the drives.
    wait_until(lambda: abs(robot.ground_truth()['base']['velocity']['linear']) < 1e-3, 3, 'a stop')


def test_a_new_navigation_goal_takes_the_place_of_the_old_one(robot):
    first = robot.send(NAVIGATE, robot.pose_goal(8.0, 5.0))
    second = robot.send(NAVIGATE, robot.pose_goal(*START))
    status, result = robot.end(first)
    assert (status, result.error_code) == (ABORTED, 0)
    assert robot.end(second)[0] == SUCCEEDED
    assert distance(robot.base(), START) < 0.1


@pytest.mark.parametrize('x, y, frame, codes', [
    (6.6, 2.3, 'map', PLANNER_CODES),  # the kitchen table
    (400.0, 2.0, 'map', PLANNER_CODES),  # outside
    (1.0, 1.0, 'moon', [TF_ERROR]),
])
def test_a_goal_that_cannot_be_reached_is_aborted_with_code_and_text(robot, x, y, frame, codes):
    before = robot.base()
    status, result = robot.run(NAVIGATE, robot.pose_goal(x, y, frame=frame))
    assert status == ABORTED
    assert result.error_code in codes
    assert result.error_msg
    assert distance(robot.base(), before) < 1e-3


def test_goals_and_velocities_that_are_no_numbers_move_nothing(robot):
    # The base brakes a little longer than its last goal runs.
    wait_until(lambda: not any(robot.ground_truth()['base']['velocity'].values()), 5, 'standstill')
    before = robot.ground_truth()
    nan = math.nan
    bad_turn = robot.pose_goal(1.0, 1.0)
    bad_turn.pose.pose.orientation.w = 0.0
    for name, goal in (
            (NAVIGATE, robot.pose_goal(nan, 1.0)), (NAVIGATE, robot.pose_goal(1.0, math.inf)),
            (NAVIGATE, bad_turn), (MOVE, robot.tool_goal(0.5, nan, 0.9)),
            (MOVE, robot.joint_goal(arm_1_joint=nan)), (GRIP, robot.gripper_goal(nan)),
            (GRIP, robot.gripper_goal(0.05, nan)), (LOOK, robot.head_goal(nan, 0.0))):
        assert not robot.send(name, goal).accepted, goal
    robot.command(nan, 0.0)
    robot.command(0.0, math.inf)
    after = robot.ground_truth()
    assert after['base']['pose'] == before['base']['pose']
    assert after['joints'] == before['joints']
    assert after['goals'] == before['goals']


def test_an_id_that_was_used_is_rejected_and_starts_nothing_twice(robot):
    goal_id = uuid.uuid4()
    assert robot.run(GRIP, robot.gripper_goal(0.06), goal_id=goal_id)[0] == SUCCEEDED
    assert not robot.send(GRIP, robot.gripper_goal(0.02), goal_id=goal_id).accepted
    assert robot.ground_truth()['goals'][GRIP][str(goal_id)] == 1


# --- Arm, gripper, head ------------------------------------------------------------------------------

def test_the_arm_goes_to_a_pose_and_says_how(robot):
    told = []
    status, result = robot.run(
        MOVE, robot.tool_goal(0.55, 0.0, 0.9), feedback=lambda m: told.append(m.feedback.state))
    assert (status, result.error_code.val) == (SUCCEEDED, 1), result.error_code
    assert result.planning_time > 0
    wait_until(lambda: told == ['PLANNING', 'MONITOR', 'IDLE'], 5, lambda: 'not {}'.format(told))
    truth = robot.ground_truth()
    pose, tool = truth['base']['pose'], truth['tool']['position']
    # The tool in the map, from the pose asked for in base_link.
    expected = (pose['x'] + 0.55 * math.cos(pose['yaw']), pose['y'] + 0.55 * math.sin(pose['yaw']))
    assert distance(tool, expected) < 0.02
    assert abs(tool[2] - 0.9) < 0.02


def test_the_arm_goes_on_a_line(robot):
    assert robot.run(MOVE, robot.tool_goal(0.55, 0.0, 0.9))[0] == SUCCEEDED
    status, result = robot.run(MOVE, robot.tool_goal(0.55, 0.0, 1.0, planner='LIN'))
    assert status == SUCCEEDED, result.error_code


@pytest.mark.parametrize('topic, frame', [
    ('camera', 'camera_optical_frame'), ('overhead_camera', 'overhead_camera_optical_frame')])
def test_cameras_draw_while_somebody_listens(robot, topic, frame):
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import CameraInfo, Image
    got = {}
    subscriptions = [
        robot.node.create_subscription(
            kind, topic + name, lambda m, name=name: got.setdefault(name, {}).__setitem__(
                (m.header.stamp.sec, m.header.stamp.nanosec), m), qos_profile_sensor_data)
        for name, kind in (('/image_raw', Image), ('/camera_info', CameraInfo),
                           ('/depth/image_raw', Image), ('/depth/camera_info', CameraInfo))]

    def of_one_time():
        stamps = set.intersection(*(set(m) for m in got.values())) if len(got) == 4 else ()
        return {name: m[max(stamps)] for name, m in got.items()} if stamps else None
    taken = wait_until(of_one_time, 10, 'an image with all that belongs to it')
    for subscription in subscriptions:
        robot.node.destroy_subscription(subscription)
    assert {m.header.frame_id for m in taken.values()} == {frame}
    image, depth, info = (taken[n] for n in ('/image_raw', '/depth/image_raw', '/camera_info'))
    assert (image.encoding, image.width, image.height, image.step) == ('rgb8', 160, 120, 480)
    assert len(image.data) == 480 * 120 and len(set(image.data)) > 10
    assert (depth.encoding, depth.step, len(depth.data)) == ('32FC1', 640, 640 * 120)
    depths = struct.unpack('<{}f'.format(160 * 120), bytes(depth.data))
    finite = [d for d in depths if math.isfinite(d)]
    # Nothing is nearer than 0.2 m, and no pixel is without a number.
    assert finite and min(finite) >= 0.2 and not any(math.isnan(d) for d in depths)
    assert (info.width, info.height, info.k[2], info.k[5]) == (160, 120, 79.5, 59.5)
    assert list(info.p)[:3] == list(info.k)[:3]
    known = {t.child_frame_id: t.header.frame_id for m in robot.seen['/tf_static'] for t in m.transforms}
    assert known[frame] == {'camera_optical_frame': 'camera_link'}.get(frame, 'map')


def test_the_arm_heeds_its_planning_scene(robot):
    from moveit_msgs.msg import CollisionObject, PlanningScene
    from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from shape_msgs.msg import SolidPrimitive
    told = []
    robot.node.create_subscription(
        PlanningScene, 'monitored_planning_scene', told.append,
        QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    get = robot.node.create_client(GetPlanningScene, 'get_planning_scene')
    apply = robot.node.create_client(ApplyPlanningScene, 'apply_planning_scene')
    assert get.wait_for_service(10) and apply.wait_for_service(10)

    def change(operation, size=0.2):
        thing = CollisionObject(id='thing', operation=operation)
        thing.header.frame_id = 'base_link'
        thing.pose.position.x, thing.pose.position.z = 0.55, 0.9
        thing.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[size] * 3)]
        request = ApplyPlanningScene.Request()
        request.scene.is_diff = request.scene.robot_state.is_diff = True
        request.scene.world.collision_objects = [thing]
        return robot.call(apply, request).success

    def known():
        scene = robot.call(get, GetPlanningScene.Request()).scene
        return [thing.id for thing in scene.world.collision_objects]

    assert robot.run(MOVE, robot.joint_goal(**STOW))[0] == SUCCEEDED
    assert not change(CollisionObject.ADD, math.nan) and known() == []
    assert change(CollisionObject.ADD) and known() == ['thing']
    wait_until(lambda: told and [o.id for o in told[-1].world.collision_objects] == ['thing'],
               5, 'the scene to be told')
    status, result = robot.run(MOVE, robot.tool_goal(0.55, 0.0, 0.9))
    assert (status, result.error_code.val) == (ABORTED, GOAL_IN_COLLISION)
    assert "'thing'" in result.error_code.message
    assert change(CollisionObject.REMOVE) and known() == []
    assert not change(CollisionObject.REMOVE), 'there is nothing left to remove'
    assert robot.run(MOVE, robot.tool_goal(0.55, 0.0, 0.9))[0] == SUCCEEDED


@pytest.mark.parametrize('goal, code', [
    (lambda r: r.tool_goal(3.0, 0.0, 1.0), NO_IK_SOLUTION),
    (lambda r: r.tool_goal(0.5, 0.0, 1.0, frame='moon'), FRAME_TRANSFORM_FAILURE),
    (lambda r: r.joint_goal(no_joint=1.0), INVALID_GOAL_CONSTRAINTS),
    (lambda r: r.types[MOVE].Goal(), INVALID_GOAL_CONSTRAINTS),
], ids=['out of reach', 'frame', 'joint', 'empty'])
def test_arm_goals_that_cannot_be_have_moveits_codes(robot, goal, code):
    before = robot.ground_truth()['joints']
    status, result = robot.run(MOVE, goal(robot))
    assert (status, result.error_code.val) == (ABORTED, code)
    assert result.error_code.message
    assert robot.ground_truth()['joints'] == before


def test_planning_alone_moves_nothing(robot):
    before = robot.ground_truth()['joints']
    goal = robot.joint_goal(arm_1_joint=0.4)
    goal.planning_options.plan_only = True
    status, result = robot.run(MOVE, goal)
    assert (status, result.error_code.val) == (SUCCEEDED, 1)
    points = result.planned_trajectory.joint_trajectory.points
    assert points[-1].positions[0] == pytest.approx(0.4)
    assert robot.ground_truth()['joints'] == before


def test_a_canceled_arm_ends_when_it_stands_still(robot):
    robot.run(MOVE, robot.joint_goal(arm_1_joint=0.0))
    handle = robot.send(MOVE, robot.joint_goal(scale=0.3, arm_1_joint=1.2))

    def speed():
        joints = robot.ground_truth()['joints']
        return max(abs(joints['arm_{}_joint'.format(n)]['velocity']) for n in range(1, 6))
    wait_until(lambda: speed() > 0.05, 10, 'motion')
    done(handle.cancel_goal_async(), 5)
    status, result = robot.end(handle)
    assert (status, result.error_code.val) == (CANCELED, PREEMPTED)
    assert speed() == 0.0
    assert robot.ground_truth()['joints']['arm_1_joint']['position'] < 1.2


def test_the_gripper_opens_and_closes(robot):
    status, result = robot.run(GRIP, robot.gripper_goal(0.08))
    assert (status, result.reached_goal, result.stalled) == (SUCCEEDED, True, False)
    assert result.position == pytest.approx(0.08, abs=0.003)
    assert robot.run(GRIP, robot.gripper_goal(0.0))[0] == SUCCEEDED
    # joint_states say the same: the distance between the fingers.
    robot.seen['joint_states'].clear()
    state = wait_until(lambda: robot.seen['joint_states'][-1:], 5, 'joint states')[0]
    index = state.name.index('gripper_joint')
    assert state.position[index] == pytest.approx(0.0, abs=0.003)
    assert len(state.velocity) == len(state.effort) == len(state.name)
    assert not robot.send(GRIP, robot.gripper_goal(0.5)).accepted


def test_the_head_turns_and_the_camera_sees_what_is_there(robot):
    # From the start the sofa table (1.2, 1.9), on which a book and a remote lie, is behind the robot's
    # right: atan2(-0.9, -1.4) = -2.57 rad, 1.66 m away and 0.78 m below the camera: 0.44 rad down.
    assert robot.run(NAVIGATE, robot.pose_goal(*START))[0] == SUCCEEDED
    status, result = robot.run(LOOK, robot.head_goal(-2.57, 0.44))
    assert (status, result.error_code) == (SUCCEEDED, 0), result.error_string
    robot.seen['detections'].clear()

    def classes():
        return {o.class_name for m in robot.seen['detections'] for o in m.observations}
    wait_until(lambda: {'book', 'remote'} <= classes(), 5, lambda: 'detections: {}'.format(classes()))
    frame = robot.seen['detections'][-1]
    assert frame.header.frame_id == 'camera_optical_frame'
    assert frame.horizontal_fov > 0 and frame.vertical_fov > 0 and frame.max_range > 0
    # Empty frames come as well.
    assert robot.run(LOOK, robot.head_goal(0.0, -0.8))[0] == SUCCEEDED
    robot.seen['detections'].clear()
    wait_until(lambda: any(not m.observations for m in robot.seen['detections']), 5, 'an empty frame')


@pytest.mark.parametrize('goal, code', [
    (lambda r: r.head_goal(9.0, 0.0), -1),
    (lambda r: r.head_goal(0.0, 0.0, joints=('a', 'b')), -2),
    (lambda r: r.types[LOOK].Goal(), -2),
], ids=['limit', 'joints', 'empty'])
def test_head_goals_that_cannot_be_have_their_codes(robot, goal, code):
    status, result = robot.run(LOOK, goal(robot))
    assert (status, result.error_code) == (ABORTED, code)
    assert result.error_string


def test_an_object_is_grasped_slips_and_is_grasped_again(robot):
    robot.run(MOVE, robot.joint_goal(**STOW))
    # The apple lies on the kitchen table at (6.75, 2.4), whose edge is at y = 2.65: the base's centre is
    # 0.33 m off the edge, the shoulder 0.08 m ahead of it, so the apple is 0.50 m from the shoulder.
    assert robot.run(NAVIGATE, robot.pose_goal(6.75, 2.98, -math.pi / 2), timeout=60)[0] == SUCCEEDED
    robot.fault('grasp_slip')

    def tool(x, y, z, **options):
        # In base_link, as a camera would tell it: the localisation is a centimetre or two off.
        base = robot.ground_truth()['base']['pose']
        dx, dy, c, s = x - base['x'], y - base['y'], math.cos(base['yaw']), math.sin(base['yaw'])
        goal = robot.tool_goal(c * dx + s * dy, c * dy - s * dx, z, down=True, **options)
        status, result = robot.run(MOVE, goal)
        assert status == SUCCEEDED, result.error_code
    for held in ('', 'apple'):
        x, y, z = robot.ground_truth()['objects']['apple']['pose']['position']
        assert robot.run(GRIP, robot.gripper_goal(0.10))[0] == SUCCEEDED
        tool(x, y, z + 0.12)
        tool(x, y, z, planner='LIN')
        # 0.065 m wide. The gripper can't tell that it will slip.
        status, result = robot.run(GRIP, robot.gripper_goal(0.0))
        assert (status, result.stalled, result.reached_goal) == (SUCCEEDED, True, False)
        assert result.position == pytest.approx(0.065, abs=0.003) and result.effort > 1
        tool(x, y, z + 0.12, planner='LIN')
        truth = robot.ground_truth()
        assert truth['held'] == held, truth['events']
    assert truth['objects']['apple']['support'] == 'gripper'
    assert truth['objects']['apple']['pose']['position'][2] > z + 0.08
    events = [e['event'] for e in truth['events']]
    assert events.count('grasped apple') == 2 and events.count('slipped apple') == 1
    # It is let go by opening.
    tool(x, y, z, planner='LIN')
    robot.run(GRIP, robot.gripper_goal(0.10))
    truth = robot.ground_truth()
    assert truth['held'] == '' and truth['objects']['apple']['support'] == 'kitchen_table'
    tool(x, y, z + 0.12, planner='LIN')
    robot.run(MOVE, robot.joint_goal(**STOW))


# --- Topics ------------------------------------------------------------------------------------------

def test_the_topics_of_a_robot_are_there(robot):
    for messages in robot.seen.values():
        if messages is not robot.seen['map'] and messages is not robot.seen['/tf_static']:
            messages.clear()

    def stamps(topic):
        headers = [m.transforms[0].header if topic == '/tf' else m.header
                   for m in robot.seen[topic]]
        return [h.stamp.sec + h.stamp.nanosec * 1e-9 for h in headers]
    # Rates of params/sim_robot_node.yaml, by stamp: a busy machine may deliver late.
    for topic, rate in (('odom', 30), ('joint_states', 30), ('scan', 10), ('detections', 5),
                        ('/tf', 30)):
        wait_until(lambda: len(robot.seen[topic]) > 10, 30, topic)
        taken = stamps(topic)
        steps = [late - early for early, late in zip(taken, taken[1:])]
        assert statistics.median(steps) == pytest.approx(1 / rate, rel=0.25), topic
    links = {t.child_frame_id: t.header.frame_id
             for topic in ('/tf', '/tf_static') for m in robot.seen[topic] for t in m.transforms}
    assert links['odom'] == 'map' and links['base_link'] == 'odom'
    for frame in ('laser', 'gripper_tcp', 'camera_optical_frame', 'head_pan_link'):
        steps = 0
        while frame != 'base_link':
            frame, steps = links[frame], steps + 1
            assert steps < 10
    scan = robot.seen['scan'][-1]
    assert scan.header.frame_id == 'laser'
    assert len(scan.ranges) > 100 and any(math.isfinite(r) for r in scan.ranges)
    assert scan.angle_min + (len(scan.ranges) - 1) * scan.angle_increment == pytest.approx(
        scan.angle_max, abs=1e-3)
    odom = robot.seen['odom'][-1]
    assert (odom.header.frame_id, odom.child_frame_id) == ('odom', 'base_link')
    now = robot.node.get_clock().now().nanoseconds * 1e-9
    assert abs(now - odom.header.stamp.sec - odom.header.stamp.nanosec * 1e-9) < 1.0


def test_the_map_shows_walls_and_rooms(robot):
    grid = wait_until(lambda: robot.seen['map'], 5, 'the map')[0]
    info = grid.info

    def cell(x, y):
        column = int((x - info.origin.position.x) / info.resolution)
        row = int((y - info.origin.position.y) / info.resolution)
        return grid.data[row * info.width + column]
    assert len(grid.data) == info.width * info.height
    assert cell(*START) == 0
    assert cell(5.0, 1.0) == 100  # a wall
    assert cell(6.6, 2.3) == 100  # the kitchen table
    assert cell(5.0, 2.9) == 0  # the kitchen door


def test_the_base_stops_when_commands_cease(robot):
    def drives():
        robot.command(linear=0.3)
        return robot.ground_truth()['base']['velocity']['linear'] > 0.1
    wait_until(drives, 5, 'motion')
    wait_until(lambda: abs(robot.ground_truth()['base']['velocity']['linear']) < 1e-3, 3, 'a stop')
    assert 'command_timeout' in [e['event'] for e in robot.ground_truth()['events']]


# --- Faults ------------------------------------------------------------------------------------------

def test_faults_are_checked(robot):
    answer = robot.fault('gremlin')
    assert answer.error_code == 10700 and 'grasp_slip' in answer.error_msg
    assert robot.fault('').error_code == 10700
    assert robot.fault('lost_ack', server='nav').error_code == 10701
    assert robot.fault('door_closed').error_code == 10701
    assert robot.fault('scan_silent', duration_s=-1).error_code == 10701
    answer = robot.fault('lost_ack', server=NAVIGATE)
    assert (answer.error_code, list(answer.active)) == (0, ['lost_ack'])
    assert list(robot.fault('lost_ack', clear=True).active) == []


def test_a_navigation_abort_carries_its_code(robot):
    assert robot.fault('nav_abort', after_s=0.2, code=105).error_code == 0
    status, result = robot.run(NAVIGATE, robot.pose_goal(*AHEAD))
    assert (status, result.error_code) == (ABORTED, 105)
    assert result.error_msg


def test_a_silent_scan_is_silent(robot):
    robot.fault('scan_silent', duration_s=60.0)
    wait_until(lambda: silent(robot.seen['scan']), 5, 'silence')
    robot.fault('scan_silent', clear=True)
    wait_until(lambda: robot.seen['scan'], 5, 'scans again')


def silent(messages):
    """Whether nothing comes for half a second."""
    messages.clear()
    return not within(0.5, lambda: messages)


def test_a_lost_acknowledgement_hides_a_goal_that_runs(robot):
    goal_id = uuid.uuid4()
    robot.fault('lost_ack', server=NAVIGATE)
    future = robot.actions[NAVIGATE].send_goal_async(
        robot.pose_goal(*START), goal_uuid=uuid_msg(goal_id))
    wait_until(lambda: str(goal_id) in robot.ground_truth()['goals'][NAVIGATE], 5, 'a start')
    answer = done(robot.ask_result(NAVIGATE, goal_id), 30)
    assert answer.status == SUCCEEDED
    assert not future.done()
    assert robot.ground_truth()['goals'][NAVIGATE][str(goal_id)] == 1
    states = {bytes(s.goal_info.goal_id.uuid): s.status
              for s in robot.seen[NAVIGATE + '/_action/status'][-1].status_list}
    assert states[goal_id.bytes] == SUCCEEDED
    # Only one is lost.
    assert robot.send(NAVIGATE, robot.pose_goal(*START)).accepted


def test_a_lost_result_comes_when_it_is_asked_for_again(robot):
    goal_id = uuid.uuid4()
    robot.fault('lost_result', server=GRIP)
    handle = robot.send(GRIP, robot.gripper_goal(0.09), goal_id=goal_id)
    lost = handle.get_result_async()
    wait_until(lambda: handle.status == SUCCEEDED, 10, 'the end')
    assert not lost.done()
    assert done(robot.ask_result(GRIP, goal_id), 5).status == SUCCEEDED
    assert not lost.done()


def test_a_restarted_server_has_forgotten_its_goals(robot):
    goal_id = uuid.uuid4()
    robot.fault('server_restart', server=LOOK, after_s=0.3, duration_s=0.2)
    handle = robot.send(LOOK, robot.head_goal(1.0, 0.0, seconds=4), goal_id=goal_id)
    assert handle.accepted
    result = handle.get_result_async()

    def forgotten():
        answer = robot.ask_result(LOOK, goal_id)
        return within(0.3, answer.done) and answer.result().status == UNKNOWN
    wait_until(forgotten, 10, 'a server that does not know the goal')
    assert not result.done()
    # The head has stopped on its way, and the server works again.
    pan = robot.ground_truth()['joints']['head_pan_joint']
    assert pan['velocity'] == 0.0 and pan['position'] < 0.9
    assert robot.run(LOOK, robot.head_goal(0.0, 0.0))[0] == SUCCEEDED
    assert robot.ground_truth()['goals'][LOOK][str(goal_id)] == 1


# --- The process -------------------------------------------------------------------------------------

def test_the_ground_truth_is_hidden_by_default(processes, ros_context):
    import rclpy
    node = rclpy.create_node('looker', context=ros_context)
    try:
        # The robot of the other tests serves it: this one is told apart by its namespace.
        start_robot(processes, 'hidden').wait_for_output('simulating')
        wait_until(lambda: '/hidden/inject_fault' in names(node), 10, 'its services')
        wait_until(lambda: '/hidden/move_action/_action/get_result' in names(node), 10, 'the others')
        assert '/hidden/get_ground_truth' not in names(node)
    finally:
        node.destroy_node()


def names(node):
    """Return the names of all services in the graph."""
    return [name for name, _ in node.get_service_names_and_types()]


@pytest.mark.parametrize('parameters, text', [
    ({'world': '/nowhere.yaml'}, '/nowhere.yaml'),
    ({'world': '__file__'}, 'the world file'),
    ({'faults': 'gremlin'}, 'grasp_slip'),
    ({'time_step': '7.0'}, 'time_step'),
    ({'scan_rate': '.nan'}, 'scan_rate'),
    ({'seed': 'x'}, 'seed'),
    ({'world': 'generated:x'}, 'seed'),
    ({'real_time_factor': '4.0'}, 'publish_clock'),
    ({'robots': 'a,a'}, 'twice'),
    ({'robots': '1a'}, '1a'),
    # This one was started in a namespace, which would be that of every robot.
    ({'robots': 'a,b'}, 'namespace'),
], ids=['missing', 'invalid', 'fault', 'range', 'nan', 'type', 'generated', 'speed', 'same names',
        'bad name', 'namespace'])
def test_what_cannot_be_used_ends_the_node_with_a_sentence(processes, parameters, text):
    if parameters.get('world') == '__file__':
        parameters = {'world': __file__}
    process = start_robot(processes, 'broken', **parameters)
    assert process.wait() not in (0, 101, -signal.SIGABRT), process.output()
    assert text in process.output()


def test_a_world_is_made_up_from_a_seed(processes):
    """The node lives in it, and prints the same one as a file."""
    import subprocess

    import yaml
    process = start_robot(processes, 'made_up', world='generated:7')
    line = process.wait_for_output('simulating generated:7')
    text = subprocess.run([node_program('sim_robot_node'), '--print-world', '7'], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    world = yaml.safe_load(text)
    assert 'simulating generated:7: {} rooms, {} objects, seed 7'.format(
        len(world['rooms']), len(world['objects'])) in line


@pytest.mark.parametrize('world', ['clutter_table', 'corridor'])
def test_the_worlds_that_ship_are_lived_in(processes, world):
    process = start_robot(processes, world, world=TOP / 'worlds' / (world + '.yaml'))
    assert world in process.wait_for_output('simulating')


def test_another_world_and_faults_by_parameter(processes):
    process = start_robot(
        processes, 'other', world=TOP / 'worlds' / 'two_rooms.yaml', faults='grasp_slip')
    assert 'two_rooms.yaml' in process.wait_for_output('simulating')
    process.signal(signal.SIGINT)
    assert process.wait() == 0, process.output()


@pytest.fixture
def two_robots(processes, ros_context):
    """Give clients of two robots in one world, 1.4 m apart and face to face."""
    import rclpy
    from rclpy.executors import MultiThreadedExecutor
    robots = '[{namespace: robot1, start: [2.2, 2.8, 0.0]}, {namespace: robot2, start: [3.6, 2.8, 3.14]}]'
    process = processes.start([
        node_program('sim_robot_node'), '--ros-args', '--params-file', PARAMETERS,
        '-p', 'robots:="{}"'.format(robots), '-p', 'expose_ground_truth:=true'])
    process.wait_for_output('robots: 2')
    executor = MultiThreadedExecutor(num_threads=4, context=ros_context)
    nodes = [rclpy.create_node('client', namespace=name, context=ros_context)
             for name in ('robot1', 'robot2')]
    for node in nodes:
        executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    clients = [Client(node) for node in nodes]
    for client in clients:
        client.wait()
        assert client.truth.wait_for_service(timeout_sec=10)
    yield clients
    executor.shutdown(timeout_sec=5)
    thread.join(timeout=5)
    for node in nodes:
        node.destroy_node()


def test_two_robots_in_one_world_do_not_mix(two_robots, ros_context):
    """Goals, topics and faults are each robot's own; each sees the other."""
    one, two = two_robots
    before = one.base()
    assert two.fault('nav_abort', after_s=0.3, code=105).error_code == 0
    # What is asked of the second moves the second, and its fault is its own.
    status, result = two.run(NAVIGATE, two.pose_goal(4.4, 3.0))
    assert (status, result.error_code) == (ABORTED, 105)
    assert two.run(NAVIGATE, two.pose_goal(4.2, 3.0))[0] == SUCCEEDED
    assert math.dist(two.base(), (4.2, 3.0)) < 0.15
    assert math.dist(one.base(), before) < 1e-6 and not one.nav_velocities
    assert one.ground_truth()['goals'][NAVIGATE] == {}
    assert len(two.ground_truth()['goals'][NAVIGATE]) == 2
    assert one.run(NAVIGATE, one.pose_goal(2.0, 2.4))[0] == SUCCEEDED
    assert math.dist(two.base(), (4.2, 3.0)) < 0.15
    # Each one's transforms and odometry are in its namespace, with the usual frames.
    for client in two_robots:
        links = {t.child_frame_id: t.header.frame_id
                 for topic in ('tf', 'tf_static') for m in client.seen[topic] for t in m.transforms}
        assert links['odom'] == 'map' and links['base_link'] == 'odom'
        assert client.seen['odom'][-1].header.frame_id == 'odom'
    assert not [p for p in one.node.get_publishers_info_by_topic('/tf')
                if p.node_name == 'sim_robot_node' and p.node_namespace in ('/robot1', '/robot2')]
    # One sees the other: it turns to it.
    here, there = one.base(), two.base()
    yaw = math.atan2(there[1] - here[1], there[0] - here[0])
    assert one.run(NAVIGATE, one.pose_goal(*here, yaw))[0] == SUCCEEDED
    one.seen['detections'].clear()
    wait_until(
        lambda: any(o.class_name == 'robot' for m in one.seen['detections'] for o in m.observations),
        10, 'the other robot among the detections')
    nearest = min(one.seen['scan'][-1].ranges)
    assert nearest < math.dist(here, there)
    assert one.ground_truth()['objects']['robot2']['class'] == 'robot'


def test_the_simulation_can_be_the_clock(processes, ros_context):
    import rclpy
    from rosgraph_msgs.msg import Clock
    node = rclpy.create_node('clock_reader', context=ros_context)
    executor = rclpy.executors.SingleThreadedExecutor(context=ros_context)
    executor.add_node(node)
    times = []
    node.create_subscription(
        Clock, '/clock', lambda m: times.append(m.clock.sec + m.clock.nanosec * 1e-9),
        rclpy.qos.qos_profile_sensor_data)
    try:
        start_robot(processes, 'clock', publish_clock='true', real_time_factor='2.0')

        def enough():
            executor.spin_once(timeout_sec=0.1)
            return len(times) > 20
        wait_until(enough, 20, 'the clock')
        assert times == sorted(times) and times[0] >= 1.0
    finally:
        executor.shutdown()
        node.destroy_node()
