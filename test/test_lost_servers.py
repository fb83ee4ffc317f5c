"""Servers that die, come back without memory, or forget results: nothing is sent twice, nothing is guessed."""

import os
import signal
import sys

from conftest import TOP
from conftest import wait_until
from executor_surroundings import Client
from executor_surroundings import errors
from executor_surroundings import robot  # noqa: F401
from executor_surroundings import start
import pytest

pytest.importorskip('rclpy')

ENDED = 6


class Surroundings:
    """An executor and a navigation server, each in a process of its own that can be killed."""

    def __init__(self, processes, robot, folder):
        """Take what it is made of."""
        self.processes = processes
        self.folder = folder
        self.client = Client(robot, 'navigation_skills_node')
        self.servers = []

    def serve(self, seconds=30.0, kept=900.0):
        """Start a server that knows of nothing."""
        server = self.processes.start(
            [sys.executable, TOP / 'test' / 'navigation_server.py', seconds, kept])
        server.wait_for_output('ready')
        self.servers.append(server)
        return server

    def execute(self):
        """Start an executor on the journal of the earlier ones."""
        self.client.forget()
        self.executor = start(
            self.processes, 'navigation_skills_node', self.folder, 'acknowledge_timeout:=10.0',
            'lost_timeout:=1.5', 'server_timeout:=20.0')
        self.client.wait()

    def drive(self):
        """Send a command; return it when its goal runs."""
        goal = self.client.goal()
        self.handle = self.client.send(goal)
        ended = self.handle.get_result_async()
        wait_until(
            lambda: ended.done() or 'started' in self.servers[-1].output(), 20,
            'the start of the goal')
        if ended.done():
            result = ended.result().result
            pytest.fail('it ended before its goal started: {} {}'.format(
                result.error_code, result.error_msg))
        return goal

    def ended(self, goal):
        """Return the status of a command once its control has ended."""
        def look():
            answer = self.client.query(goal.command.command_id)
            return (answer.error_code == 0 and answer.statuses[0].state == ENDED
                    and answer.statuses[0])
        return wait_until(look, 30, 'the end of the command')

    def starts(self):
        """Return how many goals all servers together have started."""
        return sum(server.output().count('started') for server in self.servers)

    def is_held(self, status):
        """Check that what can't be known is called so, and holds the base until it is settled."""
        assert status.control_end == status.END_LOST, status.error_msg
        busy = self.client.run(self.client.goal()).result
        assert busy.error_code == errors().RESOURCE_BUSY
        assert status.command_id in busy.error_msg
        assert self.starts() == 1
        settled = self.client.settle(
            status.command_id, final_state=2, by='Ann', reason='it stands in the hall')
        assert settled.error_code == 0, settled.error_msg


@pytest.fixture
def around(processes, robot, tmp_path):
    """Give the surroundings of a test with a robot in order."""
    robot.calm()
    return Surroundings(processes, robot, tmp_path)


def kill(process):
    """Kill a process and wait until it is gone."""
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_a_server_that_comes_back_without_memory_leaves_unknown_behind(around):
    around.serve()
    around.execute()
    goal = around.drive()
    kill(around.servers[-1])
    around.serve(seconds=0.1)
    status = around.ended(goal)
    assert status.error_code == errors().RESULT_LOST
    around.is_held(status)
    # It serves whoever comes next.
    assert around.client.run(around.client.goal()).status == 4


def test_executor_and_server_die_together_and_nothing_is_sent_again(around):
    around.serve()
    around.execute()
    goal = around.drive()
    kill(around.executor)
    kill(around.servers[-1])
    around.serve()
    around.execute()
    around.is_held(around.ended(goal))
    again = around.client.run(goal).result
    assert around.starts() == 1, again.error_msg


def test_a_result_that_came_while_nobody_listened_is_asked_for(around):
    around.serve(seconds=1.0)
    around.execute()
    goal = around.drive()
    kill(around.executor)
    around.servers[-1].wait_for_output('reached')
    around.execute()
    status = around.ended(goal)
    assert status.native_outcome.status == 4, status.error_msg
    assert around.starts() == 1


def test_a_result_that_is_kept_no_more_is_not_made_up(around):
    around.serve(seconds=0.5, kept=0.0)
    around.execute()
    goal = around.drive()
    kill(around.executor)
    around.servers[-1].wait_for_output('reached')
    kill(around.servers[-1])
    around.serve()
    around.execute()
    around.is_held(around.ended(goal))
