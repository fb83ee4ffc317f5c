"""Two issuers and one executor: many commands, sent twice and more, against each other, over DDS.

Each effect is a place to drive to. Both issuers have to bring about all of them, as a harness and the one that
follows it do when the first is not quite dead: they send the same commands, at the same time and again, make
other commands of the same name, and want the base for different ones. The navigation server counts what it was
really asked for.

The issuers call the services of the action by themselves: an action client of rclpy takes the status of all goals
with each change of one, and with hundreds of them does nothing else.
"""

import collections
import json
import os
import random
import threading
import uuid

from conftest import wait_until
from executor_surroundings import Commands
from executor_surroundings import errors
from executor_surroundings import nav2  # noqa: F401
from executor_surroundings import Robot
from executor_surroundings import start
import pytest

pytest.importorskip('rclpy')

# scripts/test --issuers sets it.
EFFECTS = int(os.environ.get('EMBODIED_HARNESS_EFFECTS', '60'))
SEED = 1
# An answer that has not come within so many seconds is taken for lost, and asked for again.
PATIENCE = 5.0
SUCCEEDED = 4


class Issuer(threading.Thread):
    """Brings about all effects, in an order of its own."""

    def __init__(self, robot, number):
        """Take the robot; the number seeds what is done."""
        super().__init__(daemon=True)
        self.commands = Commands(robot, 'navigation_skills_node')
        node, action = robot.node, robot.action.Impl
        self.request = action.SendGoalService.Request
        self.result_request = action.GetResultService.Request
        self.ask_goal, self.ask_result = (
            node.create_client(kind, '{}/execute_skill/_action/{}'.format(self.commands.name, name),
                               callback_group=robot.group)
            for kind, name in ((action.SendGoalService, 'send_goal'),
                               (action.GetResultService, 'get_result')))
        self.rng = random.Random('{} {}'.format(SEED, number))
        # Near to the other's order, so that they meet.
        self.effects = sorted(range(EFFECTS), key=lambda effect: effect + self.rng.uniform(0, 4))
        self.sent = collections.Counter()
        self.codes = collections.Counter()
        self.trouble = None

    def wait(self):
        """Wait until the executor is there and knows the lease."""
        assert self.ask_goal.wait_for_service(timeout_sec=20)
        assert self.ask_result.wait_for_service(timeout_sec=20)

        def lease_is_known():
            wait = self.commands.goal('wait', {'duration': 0.0})
            answer = self.send(wait, 'to begin').result
            self.commands.settle(wait.command.command_id)
            return answer.error_code == 0
        wait_until(lease_is_known, 20, 'the lease to be known')

    def run(self):
        """Bring about one effect after the other."""
        try:
            for effect in self.effects:
                self.bring_about(effect)
        except BaseException as error:  # noqa: B902 - told by the test's own thread
            self.trouble = error

    def await_(self, future):
        """Wait for a future without polling; None if it does not come."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        return future.result() if done.wait(PATIENCE) else None

    def goal(self, effect, attempt, place=None):
        """Make the command for an effect: the same contents whoever makes it."""
        name = 'effect-{}-{}'.format(effect, attempt)
        x = effect if place is None else place
        return self.commands.goal(
            arguments={'pose': {'frame_id': 'map', 'x': float(x), 'y': 0.0, 'yaw': 0.0}},
            command_id=name)

    def send_async(self, goal):
        """Send a goal under a UUID of its own; return that and the future of its acknowledgement."""
        request = self.request(goal=goal)
        request.goal_id.uuid = list(uuid.uuid4().bytes)
        return request.goal_id, self.ask_goal.call_async(request)

    def send(self, goal, kind):
        """Send a goal until it is answered; return the result."""
        for _ in range(10):
            self.sent[kind] += 1
            goal_id, future = self.send_async(goal)
            answer = self.await_(future) and self.await_(
                self.ask_result.call_async(self.result_request(goal_id=goal_id)))
            if answer:
                self.codes[answer.result.error_code] += 1
                return answer
            self.sent['no answer'] += 1
        return pytest.fail('no answer to ' + goal.command.command_id)

    def bring_about(self, effect):
        """Send commands for an effect until one has run, then settle it."""
        busy = errors().RESOURCE_BUSY
        attempt = 0
        while True:
            goal = self.goal(effect, attempt)
            if self.rng.random() < 0.3:
                # Not one after the other but at the same time, without waiting for an answer.
                self.sent['at once'] += 1
                self.send_async(goal)
            answer = self.send(goal, 'first')
            code = answer.result.error_code
            if code == busy:
                # What was refused under this name stays refused; the base is wanted under the next.
                assert self.send(goal, 'again').result.error_code == busy
                attempt += 1
                continue
            assert answer.status == SUCCEEDED, (code, answer.result.error_msg)
            break
        run = answer.result.status.run_id
        if self.rng.random() < 0.5:
            assert self.send(goal, 'again').result.status.run_id == run
        self.commands.settle(goal.command.command_id)
        if self.rng.random() < 0.3:
            # Also after it has been settled.
            assert self.send(goal, 'again').result.status.run_id == run
        if self.rng.random() < 0.3:
            other = self.send(self.goal(effect, attempt, place=-1 - effect), 'other contents')
            assert other.result.error_code == errors().COMMAND_ID_CONFLICT, other.result.error_msg


@pytest.fixture(scope='module')
def robot(ros_node):
    """Give a robot that tells little, for the sake of its language."""
    robot = Robot(ros_node, period=0.1)
    yield robot
    robot.close()


def test_each_effect_of_two_issuers_comes_about_once(nav2, processes, robot, tmp_path, capsys):
    """Duplicates and conflicts: each place is driven to once."""
    start(processes, 'navigation_skills_node', tmp_path)
    wait_until(lambda: '/navigation_skills_node' in robot.beacons, 20, 'a beacon')
    issuers = [Issuer(robot, number) for number in range(2)]
    for issuer in issuers:
        issuer.wait()
    for issuer in issuers:
        issuer.start()
    for issuer in issuers:
        issuer.join()
        assert issuer.trouble is None, repr(issuer.trouble)
    driven = collections.Counter(round(request.pose.pose.position.x) for request in nav2.requests)
    sent = sum((i.sent for i in issuers), collections.Counter())
    codes = sum((i.codes for i in issuers), collections.Counter())
    with capsys.disabled():
        print('\n{} effects of two issuers: sent {}; answers by error code {}; {} motions'.format(
            EFFECTS, json.dumps(sent), json.dumps(codes), len(nav2.started)))
    assert driven == collections.Counter(range(EFFECTS))
    assert len(set(nav2.started)) == EFFECTS
    # It was about something.
    assert sent['again'] > EFFECTS / 4 and sent['other contents'] > EFFECTS / 10
    assert codes[errors().RESOURCE_BUSY] > 0
