"""scene_graph_node and evaluator_node on a robot that consists of publishers only."""

import copy
import json
import math
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

# The table's top is at 0.8 m; a cup of 0.1 m stands with its centre at 0.85 m.
CUP = (2.0, 2.0, 0.85)
MAP = """
name: home
rooms:
  - {id: kitchen, names: {en: [kitchen], zh: [厨房]}, rect: [0, 0, 4, 4]}
  - {id: hall, rect: [4, 0, 8, 4]}
doors:
  - {id: door_1, between: [kitchen, hall], from: [4, 1.5], to: [4, 2.5]}
furniture:
  - {id: table_1, class: table, center: [2, 2], size: [1.0, 1.0, 0.8], surface: true}
"""
# EvaluateRun, Verdict, QueryScene
SUCCESS, FAILURE, UNKNOWN = 2, 3, 4
RUN_NOT_FOUND, RUN_NOT_ENDED, UNKNOWN_SKILL, INVALID_REQUEST = 10400, 10401, 10402, 10404
INVALID_POSTCONDITION = 10403
FIND, CHECK, BRIEF, ALL, CHANGES = 1, 2, 3, 4, 5
STALE, NOT_MET, REF_NOT_FOUND, SCENE_INVALID = 10502, 10503, 10501, 10500
NOT_SUCCESS, ALREADY_APPLIED = 10504, 10505
# action_msgs/GoalStatus
SUCCEEDED, CANCELED, ABORTED = 4, 5, 6


class Robot:
    """What a robot publishes: transforms, joints, odometry, scans, detections, run events, skills."""

    def __init__(self, node):
        """Publish at 20 Hz from a thread of its own."""
        from embodied_harness.msg import ObjectObservationArray, RunEvent, SkillCatalog
        from nav_msgs.msg import Odometry
        from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile
        from sensor_msgs.msg import JointState, LaserScan
        from tf2_msgs.msg import TFMessage
        latched = QoSProfile(depth=64, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.node = node
        self.base = (0.9, 2.0, 0.0)
        self.tool = (1.5, 2.0, 1.0)
        self.width, self.effort = 0.1, 0.0
        self.objects = []
        # Run events that were published.
        self.told = []
        self.silent = set()
        self.frame = 'camera'
        self._tf = node.create_publisher(TFMessage, '/tf', 100)
        self._joints = node.create_publisher(JointState, 'joint_states', qos_profile_sensor_data)
        self._odom = node.create_publisher(Odometry, 'odom', qos_profile_sensor_data)
        self._scan = node.create_publisher(LaserScan, 'scan', qos_profile_sensor_data)
        self.detections = node.create_publisher(
            ObjectObservationArray, 'detections', qos_profile_sensor_data)
        self.events = node.create_publisher(RunEvent, 'run_events', latched)
        self.catalog = node.create_publisher(SkillCatalog, 'skill_catalog', latched)
        self.catalog.publish(catalog())
        self._rounds = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        """Stop publishing."""
        self._ended.set()
        self._thread.join(timeout=5)

    def now(self):
        """Return the time as a message."""
        return self.node.get_clock().now().to_msg()

    def _run(self):
        while not self._ended.wait(0.05):
            self._publish()
            self._rounds += 1

    def wait_for_rounds(self, count):
        """Wait until everything was published so often, as it is now."""
        # One may be under way.
        wanted = self._rounds + 1 + count
        wait_until(lambda: self._rounds >= wanted, 20, 'the robot to publish')

    def _publish(self):
        from nav_msgs.msg import Odometry
        from sensor_msgs.msg import JointState, LaserScan
        from tf2_msgs.msg import TFMessage
        stamp = self.now()
        if 'tf' not in self.silent:
            x, y, yaw = self.base
            down = math.radians(20)
            # A camera that looks along x and 20 degrees down: Ry(20 deg) after the optical rotation.
            c, s = math.cos(down / 2) / 2, math.sin(down / 2) / 2
            self._tf.publish(TFMessage(transforms=[
                transform(stamp, 'map', 'odom', (0.0, 0.0, 0.0)),
                transform(stamp, 'odom', 'base_link', (x, y, 0.0),
                          (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))),
                transform(stamp, 'map', 'gripper_tcp', self.tool),
                transform(stamp, 'base_link', 'camera', (0.0, 0.0, 1.2),
                          (-c - s, c + s, -c + s, c - s))]))
        if 'joints' not in self.silent:
            joints = JointState()
            joints.header.stamp = stamp
            joints.name = ['arm_1_joint', 'gripper_joint']
            joints.position = [0.0, self.width]
            joints.velocity = [0.0, 0.0]
            joints.effort = [0.0, self.effort]
            self._joints.publish(joints)
        odom = Odometry()
        odom.header.stamp = stamp
        self._odom.publish(odom)
        scan = LaserScan()
        scan.header.stamp = stamp
        scan.header.frame_id = 'base_link'
        scan.angle_increment, scan.range_max = 1.0, 10.0
        scan.ranges = [2.0, 2.0]
        self._scan.publish(scan)
        if 'detections' not in self.silent:
            self.detections.publish(self.observation(stamp))

    def send_transform(self, transform_):
        """Publish one transform beside the robot's own."""
        from tf2_msgs.msg import TFMessage
        self._tf.publish(TFMessage(transforms=[transform_]))

    def observation(self, stamp):
        """Return a frame of detections with all objects that are in view."""
        from embodied_harness.msg import ObjectObservation, ObjectObservationArray
        frame = ObjectObservationArray()
        frame.header.stamp, frame.header.frame_id = stamp, self.frame
        frame.source = 'camera'
        frame.horizontal_fov, frame.vertical_fov = 1.2, 0.95
        frame.min_range, frame.max_range = 0.2, 4.0
        for name, (x, y, z), color in self.objects:
            seen = ObjectObservation()
            seen.class_name, seen.confidence = name, 0.9
            seen.attributes.append(pair('color', color))
            # The inverse of the camera's pose: level axes first, then 20 degrees about the level y.
            dx, dy, dz = x - self.base[0], y - self.base[1], z - 1.2
            down = math.radians(20)
            ahead = dx * math.cos(down) - dz * math.sin(down)
            above = dx * math.sin(down) + dz * math.cos(down)
            position = seen.pose.pose.position
            position.x, position.y, position.z = -dy, -above, ahead
            # The box stands upright in the map: the inverse rotation.
            c, s = math.cos(down / 2) / 2, math.sin(down / 2) / 2
            q = seen.pose.pose.orientation
            q.x, q.y, q.z, q.w = c + s, -c - s, c - s, c - s
            seen.size.x, seen.size.y, seen.size.z = 0.08, 0.08, 0.1
            frame.observations.append(seen)
        return frame

    def event(self, kind, run, skill='pick', arguments=None, targets=(), stamp=None):
        """Publish a run event."""
        from embodied_harness.msg import RunEvent
        event = RunEvent()
        event.event, event.stamp = kind, stamp or self.now()
        event.executor, event.boot_id, event.robot_id = 'adapter', 'b', 'robot'
        event.command_id, event.run_id, event.sequence = 'c_' + run, run, kind
        event.skill, event.skill_version = skill, '1.0.0'
        event.arguments_json = json.dumps(arguments or {'object': 'cup_1'})
        event.targets = list(targets)
        # Told to nobody it would be heard late, and a start that is heard late has no baseline.
        within(10, lambda: self.events.get_subscription_count() > 0)
        self.told.append(event)
        self.events.publish(event)


def pair(key, value):
    """Return a KeyValue."""
    from diagnostic_msgs.msg import KeyValue
    return KeyValue(key=key, value=value)


def transform(stamp, parent, child, position, rotation=(0.0, 0.0, 0.0, 1.0)):
    """Return a TransformStamped."""
    from geometry_msgs.msg import TransformStamped
    message = TransformStamped()
    message.header.stamp, message.header.frame_id, message.child_frame_id = stamp, parent, child
    t, q = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z = map(float, position)
    q.x, q.y, q.z, q.w = map(float, rotation)
    return message


def catalog():
    """Return the skills whose runs are judged."""
    from embodied_harness.msg import SkillCatalog, SkillDescriptor

    def skill(name, postcondition):
        d = SkillDescriptor()
        d.name, d.version, d.action_name = name, '1.0.0', 'adapter/execute_skill'
        d.arguments_schema = json.dumps({
            'type': 'object',
            'properties': {'object': {'type': 'string'}, 'target': {'type': 'string'}}})
        d.postcondition_json = json.dumps(postcondition)
        d.evaluated = True
        d.nominal_duration.sec, d.maximum_duration.sec = 5, 30
        return d
    message = SkillCatalog()
    message.executor, message.boot_id, message.robot_id = 'adapter', 'b', 'robot'
    message.skills = [
        skill('pick', {'all': [{'holding': {'object': '$object'}},
                               {'lifted': {'object': '$object', 'min_height': 0.05}}]}),
        skill('navigate_to', {'near': {'target': '$target'}}),
        skill('open_gripper', {'gripper': {'state': 'open'}})]
    return message


def binding(position=CUP):
    """Return the cup as a command names it."""
    from embodied_harness.msg import TargetBinding
    b = TargetBinding()
    b.argument, b.ref, b.class_name, b.kind, b.version = 'object', 'cup_1', 'cup', 6, 1
    b.frame_id = 'map'
    b.pose.position.x, b.pose.position.y, b.pose.position.z = position
    b.size.x, b.size.y, b.size.z = 0.08, 0.08, 0.1
    return b


@pytest.fixture
def robot(ros_node):
    """Give a robot that publishes while the test runs."""
    robot = Robot(ros_node)
    yield robot
    robot.close()


@pytest.fixture
def home(tmp_path):
    """Give the file of the annotated map."""
    path = tmp_path / 'home.yaml'
    path.write_text(MAP, encoding='utf-8')
    return path


def start(processes, name, *parameters):
    """Start a node with its own parameter file and these parameters on top."""
    arguments = [part for p in parameters for part in ('-p', '{}:={}'.format(*p))]
    return processes.start([
        node_program(name), '--ros-args', '--params-file', TOP / 'params' / (name + '.yaml'),
        *arguments])


def start_scene(processes, home, folder):
    """Start the scene graph."""
    process = start(processes, 'scene_graph_node', ('semantic_map', home),
                    ('state_directory', folder))
    process.wait_for_output('nodes remembered')
    return process


class Scene:
    """A client of the scene graph."""

    def __init__(self, node):
        """Create the clients."""
        from embodied_harness.srv import ApplyEffects, QueryScene
        self.query_type, self.apply_type = QueryScene, ApplyEffects
        self._query = node.create_client(QueryScene, 'query_scene')
        self._apply = node.create_client(ApplyEffects, 'apply_effects')

    def query(self, operation, **fields):
        """Ask the scene graph."""
        request = self.query_type.Request(operation=operation)
        for name, value in fields.items():
            setattr(request, name, value)
        return answer_of(self._query, request)

    def find(self, **fields):
        """Return the refs of what is found."""
        answer = self.query(FIND, **fields)
        assert answer.error_code == 0, answer.error_msg
        return [o.ref for o in answer.objects]

    def apply(self, run, effects, outcome=SUCCESS):
        """Apply effects; return the error code."""
        request = self.apply_type.Request(effects_json=json.dumps(effects))
        request.verdict.run_id, request.verdict.outcome = run, outcome
        return answer_of(self._apply, request).error_code


class Judge:
    """A client of the evaluator."""

    def __init__(self, node):
        """Create the client."""
        from embodied_harness.action import EvaluateRun
        self.type = EvaluateRun
        self.feedback = []
        self._client = action_client(node, EvaluateRun, 'evaluate_run', None)

    def send(self, run, **fields):
        """Ask for a verdict; return the goal handle."""
        goal = self.type.Goal(run_id=run, **fields)
        assert self._client.wait_for_server(timeout_sec=20)
        # Right after discovery a request can be lost. Asking twice for a verdict changes nothing.
        for _ in range(4):
            future = self._client.send_goal_async(
                goal, feedback_callback=lambda m: self.feedback.append(m.feedback.text))
            if within(5, future.done):
                assert future.result().accepted
                return future.result()
        return pytest.fail('the evaluator accepts no goal')

    def result(self, handle):
        """Wait for the result; return status and result."""
        future = handle.get_result_async()
        wait_until(future.done, 15, 'a verdict')
        return future.result().status, future.result().result

    def judge(self, run, **fields):
        """Return status and result of an evaluation."""
        return self.result(self.send(run, **fields))


def see_cup(robot, scene):
    """Let the scene graph see one cup."""
    robot.objects = [('cup', CUP, 'red')]
    wait_until(lambda: scene.find(class_name='cup') == ['cup_1'], 20, 'the cup in the scene')
    wait_until(lambda: scene.find(attributes=[pair('gripper', 'open')]) == ['robot'],
               20, 'the robot in the scene, with what its fingers feel')


def test_what_is_seen_can_be_asked_for(processes, robot, home, tmp_path, ros_node):
    """One cup in many frames is one object, found by class, words and region, for late joiners too."""
    from embodied_harness.msg import SceneGraph
    from rclpy.qos import DurabilityPolicy, QoSProfile
    start_scene(processes, home, tmp_path)
    scene = Scene(ros_node)
    see_cup(robot, scene)
    assert scene.find(text='红色的杯子') == ['cup_1']
    assert scene.find(text='the red cup', within='kitchen') == ['cup_1']
    assert scene.find(text='the blue cup') == []
    assert scene.find(class_name='cup', within='hall') == []
    cup = scene.query(FIND, refs=['cup_1']).objects[0]
    assert math.dist(CUP, (cup.pose.pose.position.x, cup.pose.pose.position.y,
                           cup.pose.pose.position.z)) < 0.01
    everything = scene.query(ALL)
    edges = {(r.subject, r.relation, r.object) for r in everything.relations}
    assert {('cup_1', 'on', 'table_1'), ('cup_1', 'in', 'kitchen'), ('robot', 'in', 'kitchen'),
            ('table_1', 'in', 'kitchen')} <= edges
    assert everything.map_id == 'home'
    brief = scene.query(BRIEF, focus='去厨房拿杯子', token_budget=200).brief
    assert 'cup_1' in brief and 'kitchen' in brief and len(brief) < 800
    # Confirmations are no news.
    version = everything.version
    wait_until(lambda: scene.query(FIND, refs=['cup_1']).objects[0].sightings > cup.sightings + 10,
               10, 'more sightings')
    assert scene.query(CHANGES, since_version=version).objects == []

    graphs = []
    late = ros_node.create_subscription(
        SceneGraph, 'scene_graph', graphs.append,
        QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    wait_until(lambda: graphs, 10, 'the latched graph')
    assert any(o.ref == 'cup_1' for o in graphs[-1].objects)
    assert graphs[-1].header.frame_id == 'map'
    ros_node.destroy_subscription(late)


def test_preconditions_and_effects(processes, robot, home, tmp_path, ros_node):
    """Preconditions are checked at one version; effects need a SUCCESS verdict and count once."""
    from embodied_harness.msg import Precondition
    start_scene(processes, home, tmp_path)
    scene = Scene(ros_node)
    see_cup(robot, scene)

    def check(**fields):
        condition = Precondition(ref='cup_1')
        condition.max_age.sec = 20
        for name, value in fields.items():
            setattr(condition, name, value)
        return scene.query(CHECK, preconditions=[condition])
    near = json.dumps({'near': {'target': 'cup_1', 'max_distance': 1.2}})
    assert check(predicates_json=near).error_code == 0
    answer = check(predicates_json=json.dumps({'holding': {'object': 'cup_1'}}))
    assert (answer.error_code, answer.failed_precondition) == (NOT_MET, 0)
    assert 'cup_1' in answer.error_msg
    assert check(version=10**9, same_version=True).error_code == STALE
    assert check(ref='cup_9').error_code == REF_NOT_FOUND
    assert check(max_displacement=math.nan).error_code == SCENE_INVALID
    assert check(predicates_json='{').error_code == SCENE_INVALID

    effects = {'add': [{'holding': {'object': 'cup_1'}}],
               'remove': [{'on': {'object': 'cup_1', 'support': '*'}}]}
    assert scene.apply('r1', effects, FAILURE) == NOT_SUCCESS
    assert scene.apply('r1', effects, UNKNOWN) == NOT_SUCCESS
    assert scene.apply('r1', effects, 0) == SCENE_INVALID
    robot.silent.add('detections')
    # A frame that is under way when the effect is applied is older than the effect and does not count.
    robot.width, robot.effort = 0.07, 20.0
    assert scene.apply('r1', {'add': [{'holding': {'object': 'cup_9'}}]}) == REF_NOT_FOUND
    assert scene.apply('r1', effects) == 0
    assert scene.apply('r1', effects) == ALREADY_APPLIED
    cup = scene.query(FIND, refs=['cup_1']).objects[0]
    assert (cup.source, cup.run_id) == (3, 'r1')
    # It follows the tool.
    robot.tool = (1.0, 3.0, 1.1)

    def follows():
        p = scene.query(FIND, refs=['cup_1']).objects[0].pose.pose.position
        return math.dist((p.x, p.y, p.z), robot.tool) < 0.01
    wait_until(follows, 10, 'the held cup at the tool')

    def edges():
        return {(r.subject, r.relation, r.object) for r in scene.query(ALL).relations}
    # Perception contradicts: it stands where it stood.
    robot.silent.clear()
    wait_until(lambda: ('cup_1', 'on', 'table_1') in edges(), 15, 'the observation to win')
    assert scene.find(class_name='cup') == ['cup_1']
    # The fingers close on it, and nobody judges that: it is felt.
    robot.tool, robot.width, robot.effort = CUP, 0.1, 0.0
    wait_until(lambda: scene.find(attributes=[pair('gripper', 'open')]) == ['robot'],
               15, 'the open fingers to be felt')
    robot.width, robot.effort = 0.07, 20.0
    wait_until(lambda: ('robot', 'holds', 'cup_1') in edges(), 15, 'the grasp to be felt')
    assert ('cup_1', 'on', 'table_1') not in edges()
    robot.width, robot.effort = 0.1, 0.0
    wait_until(lambda: ('robot', 'holds', 'cup_1') not in edges()
               and ('cup_1', 'on', 'table_1') in edges(), 15, 'the letting go to be felt')
    assert scene.find(class_name='cup') == ['cup_1']


def test_a_restart_keeps_names_and_ages(processes, robot, home, tmp_path, ros_node):
    """A killed node comes back with its objects; a new object gets a name that was never given."""
    import signal
    first = start_scene(processes, home, tmp_path)
    scene = Scene(ros_node)
    see_cup(robot, scene)
    robot.silent.add('detections')
    time.sleep(1.6)  # longer than persist_period: what is not written yet may be lost by a kill
    seen = scene.query(FIND, refs=['cup_1']).objects[0].last_seen
    first.signal(signal.SIGKILL)
    first.wait()
    start_scene(processes, home, tmp_path)
    wait_until(lambda: scene.query(FIND, refs=['cup_1']).error_code == 0, 20, 'cup_1 again')
    again = scene.query(FIND, refs=['cup_1']).objects[0]
    assert abs(again.last_seen.sec - seen.sec) <= 1
    robot.objects = [('cup', CUP, 'red'), ('cup', (2.0, 2.4, 0.85), 'blue')]
    robot.silent.clear()
    wait_until(lambda: scene.find(class_name='cup') == ['cup_1', 'cup_2'], 20, 'the second cup')


def test_bad_input_kills_nothing(processes, robot, home, tmp_path, ros_node):
    """NaN, unknown frames, floods and senseless requests are answered, and the node goes on."""
    process = start_scene(processes, home, tmp_path)
    scene = Scene(ros_node)
    see_cup(robot, scene)
    bad = robot.observation(robot.now())
    bad.source = 'broken'
    bad.observations[0].pose.covariance[0] = math.nan
    lost = robot.observation(robot.now())
    lost.source, lost.header.frame_id = 'lost', 'nowhere'
    flood = robot.observation(robot.now())
    flood.source = 'flood'
    flood.observations = flood.observations * 3000
    for message in (bad, lost, flood):
        robot.detections.publish(message)
    assert scene.query(99).error_code == SCENE_INVALID
    assert scene.query(0).error_code == SCENE_INVALID
    assert scene.query(FIND, nearest=True, max_distance=math.nan).error_code == SCENE_INVALID
    assert scene.query(FIND, text='x' * 100000).error_code == SCENE_INVALID
    assert scene.query(FIND, within='moon').error_code == REF_NOT_FOUND

    def is_told():
        # One line of a kind in 5 s, and a frame from before the first transform may have had it.
        if 'nowhere' not in process.output():
            robot.detections.publish(lost)
            return False
        return True

    wait_until(is_told, 20, process.output)
    assert process.is_running()
    assert scene.find(class_name='cup')[0] == 'cup_1'


@pytest.mark.parametrize('name', ['scene_graph_node', 'evaluator_node'])
def test_a_map_that_cannot_be_read_is_said_at_the_start(processes, tmp_path, name):
    """A missing or malformed map ends the node with one sentence that names the file."""
    missing = start(processes, name, ('semantic_map', tmp_path / 'no.yaml'))
    assert missing.wait() == 1
    assert 'no.yaml' in missing.output()
    (tmp_path / 'bad.yaml').write_text('rooms: []', encoding='utf-8')
    bad = start(processes, name, ('semantic_map', tmp_path / 'bad.yaml'))
    assert bad.wait() == 1
    assert 'no rooms' in bad.output()


def test_a_judge_that_there_is_not_is_said_at_the_start(processes):
    """It does not judge by another one instead."""
    process = start(processes, 'evaluator_node', ('judge', 'model'))
    assert process.wait() != 0
    assert 'setting url of the model' in process.output()


def start_judge(processes, home, *parameters):
    """Start the evaluator."""
    process = start(processes, 'evaluator_node', ('semantic_map', home), *parameters)
    process.wait_for_output('judging on')
    return process


def run_pick(robot, process, after, run=None):
    """Play a pick: the cup is seen, the fingers close, `after` is what is true at its end."""
    run = run or 'run_' + uuid.uuid4().hex[:8]
    robot.objects, robot.width, robot.effort = [('cup', CUP, 'red')], 0.1, 0.0
    robot.tool = CUP
    robot.wait_for_rounds(12)  # some frames for the baseline
    robot.event(1, run, targets=[binding()])
    process.wait_for_output('Start of run ' + run)
    robot.width, robot.effort = 0.07, 20.0
    robot.wait_for_rounds(4)
    after(robot)
    robot.wait_for_rounds(4)
    robot.event(3, run, targets=[binding()])
    process.wait_for_output('End of run ' + run)
    return run


def lifted(robot):
    """Make the cup rise with the tool, out of the camera's view."""
    robot.tool, robot.objects = (1.6, 2.0, 1.0), []


def slipped(robot):
    """Make the cup fall back and the fingers close."""
    robot.tool, robot.width, robot.effort = (1.6, 2.0, 1.0), 0.001, 5.0


def test_runs_are_judged_by_what_is_observed(processes, robot, home, ros_node):
    """A lift succeeds, a slip fails, a grip on something else fails; silence is not success."""
    process = start_judge(processes, home)
    judge = Judge(ros_node)

    status, result = judge.judge(run_pick(robot, process, lifted))
    assert (status, result.error_code) == (SUCCEEDED, 0), result.error_msg
    verdict = result.verdict
    assert verdict.outcome == SUCCESS, verdict.reason
    assert [p.truth for p in verdict.predicates] == [1, 1]
    assert verdict.judge == 'predicates' and verdict.judge_version == '1.0.0'
    ids = {e.id for e in verdict.evidence}
    assert all(set(p.evidence_ids) <= ids for p in verdict.predicates)
    assert {e.kind for e in verdict.evidence} >= {'gripper', 'tool_pose'}

    _, result = judge.judge(run_pick(robot, process, slipped))
    assert result.verdict.outcome == FAILURE, result.verdict.reason
    assert 'nothing between the fingers' in result.verdict.reason
    assert '0.001 m' in result.verdict.reason

    # The fingers hold something, the cup stands where it stood.
    _, result = judge.judge(run_pick(robot, process, lambda r: setattr(r, 'tool', (1.6, 2, 1))))
    assert result.verdict.outcome == FAILURE
    assert 'old place' in result.verdict.reason

    def blind(robot):
        lifted(robot)
        robot.silent.add('joints')
    run = run_pick(robot, process, blind)
    _, result = judge.judge(run)
    assert result.verdict.outcome == UNKNOWN
    assert 'state of the gripper' in result.verdict.reason
    assert any('state of the gripper' in text for text in judge.feedback)
    robot.silent.clear()
    # The evidence came later: the same run is judged again.
    _, result = judge.judge(run)
    assert result.verdict.outcome == SUCCESS, result.verdict.reason


def test_an_external_judge_is_asked(processes, robot, home, ros_node):
    """It is believed on evidence from after the end only; who gives no answer decides nothing."""
    from embodied_harness.action import EvaluateRun
    from embodied_harness.msg import Evidence
    from rclpy.action import ActionServer
    process = start_judge(processes, home, ('judge', 'external'))
    judge = Judge(ros_node)
    run = run_pick(robot, process, slipped)
    _, result = judge.judge(run)
    assert (result.error_code, result.verdict.outcome) == (0, UNKNOWN), result.error_msg
    assert 'the external judge gave no verdict' in result.verdict.reason
    said = EvaluateRun.Result()

    def answer(goal):
        said.verdict.run_id, said.verdict.segment = goal.request.run_id, goal.request.segment
        goal.succeed()
        return said
    server = ActionServer(ros_node, EvaluateRun, 'external_evaluate_run', answer)
    try:
        said.verdict.outcome, said.verdict.reason = SUCCESS, 'because I say so'
        wait_until(lambda: 'without evidence' in judge.judge(run)[1].verdict.reason, 30,
                   'the external judge to be heard and not believed')
        said.verdict.evidence = [Evidence(
            id='s1', kind='external', source='scales', stamp=robot.now(), summary='0.25 kg',
            value_json='{"kg": 0.25}')]
        _, result = judge.judge(run)
        assert result.verdict.outcome == SUCCESS, result.verdict.reason
        assert (result.verdict.judge, result.verdict.reason) == ('external', 'because I say so')
        said.error_code, said.error_msg = RUN_NOT_FOUND, 'never heard of it'
        _, result = judge.judge(run)
        assert result.verdict.outcome == UNKNOWN and 'never heard of it' in result.verdict.reason
    finally:
        server.destroy()


def test_a_stop_is_measured(processes, robot, home, ros_node):
    """The reason tells the gap and the reach."""
    process = start_judge(processes, home)
    judge = Judge(ros_node)

    def drive(run, x):
        robot.base = (x, 2.0, 0.0)
        for kind in (1, 3):
            robot.event(kind, run, 'navigate_to', {'target': 'table_1'})
        process.wait_for_output('End of run ' + run)
        return judge.judge(run)[1].verdict
    # The table's edge is at x = 1.5.
    verdict = drive('near', 0.95)
    assert verdict.outcome == SUCCESS and 'stopped 0.55 m from table_1' in verdict.reason
    verdict = drive('far', 0.4)
    assert verdict.outcome == FAILURE and 'stopped 1.10 m from table_1' in verdict.reason
    # 0.9 - 1.1
    assert verdict.predicates[0].margin == pytest.approx(-0.2, abs=1e-6)
    assert verdict.predicates[0].unit == 'm'
    robot.silent.add('tf')
    verdict = drive('lost', 0.95)
    assert verdict.outcome == UNKNOWN and 'pose of the base' in verdict.reason


def test_what_cannot_be_judged_is_said(processes, robot, home, ros_node):
    """Unknown runs, runs that go on, unknown skills; a cancel ends the wait."""
    process = start_judge(processes, home)
    judge = Judge(ros_node)
    status, result = judge.judge('never_heard_of')
    assert (status, result.error_code) == (ABORTED, RUN_NOT_FOUND)
    assert 'never_heard_of' in result.error_msg
    status, result = judge.judge('')
    assert (status, result.error_code) == (ABORTED, RUN_NOT_FOUND)
    assert 'breaks the contract' in result.error_msg
    robot.event(1, 'going_on')
    process.wait_for_output('Start of run going_on')
    assert judge.judge('going_on')[1].error_code == RUN_NOT_ENDED
    robot.event(3, 'other', skill='dance')
    assert judge.judge('other')[1].error_code == UNKNOWN_SKILL

    robot.silent.add('joints')
    robot.wait_for_rounds(1)
    robot.event(3, 'waiting', skill='open_gripper', arguments={'object': 'x'})
    handle = judge.send('waiting')
    wait_until(lambda: any('gripper' in text for text in judge.feedback), 10, 'feedback')
    cancel = handle.cancel_goal_async()
    wait_until(cancel.done, 10, 'an answer to the cancel')
    status, result = judge.result(handle)
    assert status == CANCELED
    assert process.is_running()


def bad_frames(robot):
    """Return frames of detections, each with something that can't be."""
    def frame(source, change):
        message = robot.observation(robot.now())
        message.source = source
        change(message)
        return message

    def set_covariance(index, value):
        def change(message):
            message.observations[0].pose.covariance[index] = value
        return change

    def turn(message):
        q = message.observations[0].pose.pose.orientation
        q.x = q.y = q.z = q.w = 0.0

    def flood(message):
        message.observations = message.observations * 3000
    return [
        frame('nan', set_covariance(0, math.nan)), frame('negative', set_covariance(7, -1.0)),
        frame('quaternion', turn), frame('flood', flood),
        frame('infinite', lambda m: setattr(m, 'horizontal_fov', math.inf)),
        frame('lost', lambda m: setattr(m.header, 'frame_id', 'nowhere'))]


def test_bad_input_kills_no_judge(processes, robot, home, ros_node):
    """Malformed descriptors, unknown predicates and refs, bad numbers, lost frames and floods are told."""
    skills = catalog()
    hovers, words, bare = (copy.deepcopy(skills.skills[2]) for _ in range(3))
    hovers.name, hovers.postcondition_json = 'hover', '{"hovering": {"object": "$object"}}'
    words.name, words.postcondition_json = 'words', '{"near": '
    bare.name, bare.postcondition_json = 'bare', ''
    skills.skills = [*skills.skills, hovers, words, bare]
    robot.catalog.publish(skills)
    process = start_judge(processes, home)
    judge = Judge(ros_node)
    # What can't be read is left out and named; the rest of the catalog counts.
    process.wait_for_output('the descriptor of skill "words"')

    def ended(run, skill, **arguments):
        robot.event(3, run, skill, arguments)
        process.wait_for_output('End of run ' + run)
        return judge.judge(run)[1]
    for skill, told in (('hover', 'hovering'), ('words', 'words'), ('bare', 'bare')):
        result = ended('run_' + skill, skill, object='cup_1')
        assert result.error_code in (UNKNOWN_SKILL, INVALID_POSTCONDITION)
        assert told in result.error_msg
    verdict = ended('unicorn', 'navigate_to', target='unicorn').verdict
    assert verdict.outcome == UNKNOWN and 'unicorn' in verdict.reason

    robot.objects = [('cup', CUP, 'red')]
    for message in bad_frames(robot) * 3:
        robot.detections.publish(message)
    turned = transform(robot.now(), 'map', 'gripper_tcp', (math.nan, 0.0, 0.0), (0.0,) * 4)
    robot.send_transform(turned)

    def is_told():
        # One line of a kind in 5 s.
        robot.detections.publish(bad_frames(robot)[-1])
        return 'nowhere' in process.output()
    wait_until(is_told, 30, process.output)
    for _ in range(2000):
        robot.detections.publish(bad_frames(robot)[0])
    assert process.is_running()
    # And a run is judged as before.
    _, result = judge.judge(run_pick(robot, process, lifted))
    assert result.verdict.outcome == SUCCESS, result.verdict.reason
    assert all(p.truth == 1 for p in result.verdict.predicates)


def test_a_judge_that_comes_late_has_no_baseline(processes, robot, home, ros_node):
    """The latched start event of a run that began long before tells no baseline, and that is said."""
    judge = Judge(ros_node)
    robot.objects = [('cup', CUP, 'red')]
    past = robot.now()
    past.sec -= 10
    robot.event(1, 'old', targets=[binding()], stamp=past)
    process = start_judge(processes, home)
    process.wait_for_output('Start of run old')
    lifted(robot)
    robot.width, robot.effort = 0.07, 20.0
    robot.wait_for_rounds(6)
    robot.event(3, 'old', targets=[binding()])
    _, result = judge.judge('old')
    assert result.verdict.outcome == UNKNOWN
    assert 'no baseline' in result.verdict.reason
