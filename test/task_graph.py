"""All nodes with the simulated robot, and a client of execute_task that watches what the robot does."""

import json
import math
import threading
import time
import uuid

from conftest import action_client
from conftest import node_program
from conftest import TOP
from conftest import wait_until
from conftest import within
import pytest

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6
OUTCOME = {'SUCCEEDED': 1, 'FAILED': 2, 'CANCELED': 3, 'REJECTED': 4, 'UNKNOWN': 5}
COMMAND_SUCCEEDED, COMMAND_CANCELED = 9, 11
# What counts as standing [m/s, rad/s], as protection_node has it.
STANDING = (0.01, 0.02)
WORLD = TOP / 'worlds' / 'apartment.yaml'
NODES = ('sim_robot_node', 'protection_node', 'scene_graph_node', 'evaluator_node',
         'navigation_skills_node', 'manipulation_skills_node', 'harness_node')


class Graph:
    """All nodes of the demo."""

    def __init__(self, processes, state, **parameters):
        """Prepare, with parameters as a dict for some nodes; start_all() starts."""
        self.parameters = parameters
        self.processes = processes
        self.state = state
        self.running = {}

    def start(self, name, environment=None, **parameters):
        """Start one node, with parameters beside those of its file."""
        arguments = ['--ros-args', '--params-file', TOP / 'params' / (name + '.yaml'),
                     '-p', 'state_directory:={}'.format(self.state)]
        if name == 'sim_robot_node':
            arguments += ['-p', 'world:={}'.format(WORLD)]
        if name in ('scene_graph_node', 'evaluator_node'):
            arguments += ['-p', 'semantic_map:={}'.format(WORLD)]
        for key, value in {**self.parameters.get(name, {}), **parameters}.items():
            arguments += ['-p', '{}:={}'.format(key, value)]
        self.running[name] = self.processes.start(
            [node_program(name), *arguments], name, environment)
        return self.running[name]

    def start_all(self):
        """Start every node."""
        for name in NODES:
            self.start(name)

    def assert_alive(self):
        """Fail if a node has died."""
        for name, process in self.running.items():
            assert process.is_running(), '{} died:\n{}'.format(name, process.output())


class Client:
    """A client of execute_task, with what a careful client watches beside it."""

    def __init__(self, node):
        from action_msgs.srv import CancelGoal
        from embodied_harness.action import ExecuteTask
        from embodied_harness.msg import ControlLease, HumanRequest, ProtectionState
        from embodied_harness.msg import SessionEvent, SkillCatalog
        from embodied_harness import srv
        from nav_msgs.msg import Odometry
        from rclpy.callback_groups import ReentrantCallbackGroup
        from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile

        self.node = node
        self.action = ExecuteTask
        self.srv = srv
        self.group = ReentrantCallbackGroup()
        self.cancel_type = CancelGoal
        self.tasks = action_client(node, ExecuteTask, 'execute_task', self.group)
        self.speed = (math.nan, math.nan)
        self.fastest = 0.0
        self.lease = None
        self.catalogs = {}
        self.events = []
        self.protection = None
        self.requests = {}
        self._clients = {}

        def latched(depth):
            return QoSProfile(depth=depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(Odometry, 'odom', self._take_odom, qos_profile_sensor_data)
        node.create_subscription(
            ControlLease, 'control_lease', lambda m: setattr(self, 'lease', m), latched(1))
        node.create_subscription(
            ProtectionState, 'protection_state', lambda m: setattr(self, 'protection', m),
            latched(1))
        node.create_subscription(
            SkillCatalog, 'skill_catalog', lambda m: self.catalogs.__setitem__(m.executor, m),
            latched(8))
        node.create_subscription(
            SessionEvent, 'session_events', self.events.append, latched(256))
        node.create_subscription(
            HumanRequest, 'human_requests',
            lambda m: self.requests.__setitem__(m.request_id, m), latched(16))

    def _take_odom(self, message):
        twist = message.twist.twist
        self.speed = (math.hypot(twist.linear.x, twist.linear.y), abs(twist.angular.z))
        self.fastest = max(self.fastest, self.speed[0])

    def stands(self):
        """Whether the base stands by the newest odometry."""
        return self.speed[0] <= STANDING[0] and self.speed[1] <= STANDING[1]

    def call(self, name, kind, **fields):
        """Call a service and return its response."""
        client = self._clients.get(name)
        if client is None:
            client = self.node.create_client(kind, name, callback_group=self.group)
            self._clients[name] = client
        assert client.wait_for_service(timeout_sec=20), '{} is not there'.format(name)
        # A question may be asked again: one to a server that was just killed is lost.
        patience = 2 if name.rsplit('/', 1)[-1].startswith('query') else 20
        over = time.monotonic() + 20
        while time.monotonic() < over:
            future = client.call_async(kind.Request(**fields))
            if within(patience, future.done):
                return future.result()
            client.remove_pending_request(future)
        pytest.fail('no answer of {}'.format(name))

    def truth(self):
        """Return what the simulated robot really does; needs its expose_ground_truth."""
        return json.loads(self.call('get_ground_truth', self.srv.GetGroundTruth).truth_json)

    def wait_until_ready(self):
        """Wait for everything that a task needs."""
        assert self.tasks.wait_for_server(timeout_sec=30)
        wait_until(lambda: len(self.catalogs) == 2, 30, 'two skill catalogs')

        def robot_is_known():
            answer = self.call(
                'query_scene', self.srv.QueryScene,
                operation=self.srv.QueryScene.Request.OPERATION_FIND, refs=['robot'])
            return list(answer.objects)
        wait_until(robot_is_known, 30, 'the robot in the scene')

    def kinds(self, task_id):
        """Return the kinds of a task's events, once the last has come: it may be after the result."""
        def all_of_them():
            kinds = [e.kind for e in self.events if e.task_id == task_id]
            return kinds if 'task_ended' in kinds else None
        return wait_until(all_of_them, 10, 'the events of {}'.format(task_id))

    def question(self, task_id):
        """Wait for a question of this task; return the request."""
        def asked():
            return next((r for r in self.requests.values()
                         if r.task_id == task_id and not r.closed), None)
        return wait_until(asked, 20, 'a question of {}'.format(task_id))

    def answer(self, request, words):
        """Answer a request; return the error code."""
        return self.call('answer_human_request', self.srv.AnswerHumanRequest,
                         request_id=request.request_id, answer=words,
                         answered_by='test').error_code

    def send(self, instruction, **fields):
        """Send a task; return it as a Sent."""
        return Sent(self, self.action.Goal(instruction=instruction, **fields))


class Sent:
    """A task that was sent."""

    def __init__(self, client, goal):
        self.client = client
        self.feedback = []
        self.stood_at_result = None
        self.result_at = None
        self._arrived = threading.Event()
        self.handle = self._send(client, goal)
        # Also what is refused is accepted, because a rejected goal carries no reason.
        assert self.handle.accepted
        self._result = self.handle.get_result_async()
        self._result.add_done_callback(self._take_result)

    def _send(self, client, goal):
        # One to a server that was just killed is lost; under the same name it is the same task.
        goal.task_id = goal.task_id or new_id()
        for _ in range(6):
            future = client.tasks.send_goal_async(goal, feedback_callback=self._take_feedback)
            if within(3, future.done):
                return future.result()
        return pytest.fail('no acknowledgement of the task')

    def _take_feedback(self, message):
        self.feedback.append((time.monotonic(), message.feedback))

    def _take_result(self, _):
        self.stood_at_result = self.client.stands()
        self.result_at = time.monotonic()
        self._arrived.set()

    def result(self, timeout):
        """Wait for the end; return the status and the result."""
        assert self._arrived.wait(timeout), 'no result; last feedback {}'.format(
            self.feedback[-1:])
        response = self._result.result()
        return response.status, response.result

    def is_done(self):
        """Whether the result has come."""
        return self._arrived.is_set()

    def wait_until_moving(self):
        """Wait until a command runs and the base moves."""
        wait_until(
            lambda: self.is_done() or (
                self.feedback and self.feedback[-1][1].command_state == 6
                and self.client.speed[0] > 0.1),
            30, lambda: 'motion; last feedback {}'.format(self.feedback[-1:]))
        assert not self.is_done(), self.result(1)

    def cancel(self):
        """Ask to cancel; return when the request was answered."""
        future = self.handle.cancel_goal_async()
        wait_until(future.done, 5, 'an answer to the cancel')
        assert len(future.result().goals_canceling) == 1


def new_id():
    """Return a task's name that was never used."""
    return 'test-{}'.format(uuid.uuid4().hex[:12])


def duration(seconds):
    """Return a duration as a message."""
    from builtin_interfaces.msg import Duration
    whole = math.floor(seconds)
    return Duration(sec=whole, nanosec=int((seconds - whole) * 1e9))


def elsewhere(client):
    """Return an instruction that takes the robot a good way."""
    rooms = ('kitchen', 'bedroom')
    answer = client.call(
        'query_scene', client.srv.QueryScene,
        operation=client.srv.QueryScene.Request.OPERATION_FIND, refs=['robot', *rooms])
    at = {o.ref: o.pose.pose.position for o in answer.objects}
    far = max(rooms, key=lambda r: math.dist(
        (at[r].x, at[r].y), (at['robot'].x, at['robot'].y)))
    return 'go to the ' + far
