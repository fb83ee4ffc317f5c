"""The Rust goal client against an rclpy action server, as any robot's server would meet it."""

import threading
import time
import uuid

from conftest import cargo_example
from conftest import wait_until
import pytest

rclpy_action = pytest.importorskip('rclpy.action')

LIMIT = '10'


class Gripper:
    """A server whose behaviour is chosen by the goal's position.

    -1 rejects, -2 acknowledges late, 0 runs until it is canceled, all else succeeds at once.
    """

    def __init__(self, node):
        from control_msgs.action import GripperCommand
        from rclpy.callback_groups import ReentrantCallbackGroup

        self._type = GripperCommand
        self.started = []
        self.acknowledge = threading.Event()
        self._end = threading.Event()
        self._server = rclpy_action.ActionServer(
            node, GripperCommand, 'gripper', execute_callback=self._execute,
            goal_callback=self._decide, cancel_callback=lambda _: rclpy_action.CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup())

    def _decide(self, goal):
        if goal.command.position == -2.0:
            self.acknowledge.wait(timeout=10)
        if goal.command.position == -1.0:
            return rclpy_action.GoalResponse.REJECT
        return rclpy_action.GoalResponse.ACCEPT

    def _execute(self, handle):
        self.started.append(uuid.UUID(bytes=bytes(handle.goal_id.uuid)))
        result = self._type.Result(position=handle.request.command.position)
        if handle.request.command.position != 0.0:
            handle.succeed()
            return result
        while not self._end.wait(0.01):
            if handle.is_cancel_requested:
                handle.canceled()
                return result
        handle.abort()
        return result

    def close(self):
        """End what runs and the server."""
        self.acknowledge.set()
        self._end.set()
        self._server.destroy()


@pytest.fixture(scope='module')
def probe():
    return cargo_example('eh_ros_edge', 'goal_client_probe')


@pytest.fixture
def gripper(ros_node):
    server = Gripper(ros_node)
    yield server
    server.close()


@pytest.fixture
def step(probe, processes):
    """Give a function that performs one step in a process of its own and returns what it found."""
    def run(*arguments):
        process = processes.start([probe, *arguments])
        assert process.wait(timeout=30) == 0, process.output()
        return process.output().strip().splitlines()[-1]
    return run


def new_id():
    return str(uuid.uuid4())


def test_a_goal_runs_under_the_id_that_its_client_chose(gripper, step):
    goal = new_id()
    assert step('send', goal, '0.04', LIMIT) == 'accepted {} again refused true'.format(goal)
    assert gripper.started == [uuid.UUID(goal)]


def test_another_process_gets_the_result_by_id(gripper, step):
    goal = new_id()
    step('send', goal, '0.04', LIMIT)
    assert step('result', goal, LIMIT) == 'Succeeded position 0.04'


def test_another_process_sees_and_cancels_the_goal_by_id(gripper, step):
    goal = new_id()
    step('send', goal, '0', LIMIT)
    assert step('status', goal) == 'Some(Executing)'
    assert step('cancel', goal, LIMIT) == 'Accepted'
    assert step('result', goal, LIMIT) == 'Canceled position 0'
    assert step('cancel', goal, LIMIT) == 'AlreadyTerminal'


def test_no_result_in_time_is_an_error_that_names_the_goal(gripper, step):
    goal = new_id()
    step('send', goal, '0', LIMIT)
    found = step('result', goal, '0.2')
    assert found.startswith('error') and goal in found and 'did not answer' in found


def test_ids_that_the_server_does_not_know_are_told(gripper, step):
    stranger = new_id()
    assert 'does not know' in step('result', stranger, LIMIT)
    assert step('cancel', stranger, LIMIT) == 'UnknownGoal'


def test_the_id_of_all_goals_is_refused(gripper, step):
    running = new_id()
    step('send', running, '0', LIMIT)
    assert 'no goal' in step('cancel', str(uuid.UUID(int=0)), LIMIT)
    assert step('status', running) == 'Some(Executing)'


def test_a_rejected_goal_is_told(gripper, step):
    goal = new_id()
    found = step('send', goal, '-1', LIMIT)
    assert 'rejected' in found and goal in found
    assert gripper.started == []


def test_a_late_acknowledgement_is_not_lost(gripper, probe, processes):
    goal = new_id()
    process = processes.start([probe, 'send', goal, '-2', '0.2'])
    process.wait_for_output('not acknowledged')
    gripper.acknowledge.set()
    assert process.wait(timeout=30) == 0, process.output()
    assert process.output().strip().splitlines()[-1] == 'late {} accepted true'.format(goal)
    wait_until(lambda: gripper.started == [uuid.UUID(goal)], 5, 'the start of the goal')


def test_an_absent_server_is_told_within_the_limit(step):
    before = time.monotonic()
    found = step('absent', '0.5')
    assert 'no server' in found and "'gripper'" in found
    assert time.monotonic() - before < 10
