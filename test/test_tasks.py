"""Tasks and commands, held against what the simulated robot really did."""

import contextlib
import copy
import json
import math
import threading
import uuid

from command_digest import digest
from conftest import action_client
from conftest import assert_stays
from conftest import wait_until
import pytest
from task_graph import ABORTED
from task_graph import CANCELED
from task_graph import COMMAND_CANCELED
from task_graph import duration
from task_graph import elsewhere
from task_graph import Graph
from task_graph import new_id
from task_graph import OUTCOME
from task_graph import STANDING
from task_graph import SUCCEEDED

pytest.importorskip('rclpy')

# How far a base that stands may seem to move, for rounding only [m, rad].
STILL = 1e-3
CONTROLLER = '/test_client'
# How long a question waits for its answer [s]: time for four calls on a busy machine.
HUMAN_TIMEOUT = 10.0


@pytest.fixture(scope='module')
def graph(module_processes, tmp_path_factory):
    """Give all nodes, running, and a robot that tells the truth."""
    graph = Graph(module_processes, tmp_path_factory.mktemp('state'),
                  sim_robot_node={'expose_ground_truth': 'true'},
                  harness_node={'human_timeout': HUMAN_TIMEOUT})
    graph.start_all()
    return graph


@pytest.fixture(autouse=True)
def afterwards(graph, client):
    """No test may leave a dead node or a moving robot."""
    yield
    graph.assert_alive()
    wait_until(client.stands, 10, 'standstill after the test')


def moved(before, after):
    """Return how far the base has come between two truths [m, rad]."""
    a, b = before['base']['pose'], after['base']['pose']
    turn = math.remainder(b['yaw'] - a['yaw'], 2 * math.pi)
    return max(math.dist((a['x'], a['y']), (b['x'], b['y'])), abs(turn))


def stands(truth):
    """Whether the base really stands."""
    velocity = truth['base']['velocity']
    return abs(velocity['linear']) < STANDING[0] and abs(velocity['angular']) < STANDING[1]


@contextlib.contextmanager
def nothing_moves(graph, client):
    """Fail if a goal reaches the robot or anything of it moves in this block."""
    before = wait_until(lambda: (lambda t: t if stands(t) else None)(client.truth()), 10,
                        'a robot that stands')
    yield
    after = client.truth()
    assert after['requests'] == before['requests'] and after['goals'] == before['goals']
    assert moved(before, after) < STILL
    assert {n: j['position'] for n, j in after['joints'].items()} == pytest.approx(
        {n: j['position'] for n, j in before['joints'].items()}, abs=STILL)
    graph.assert_alive()


def starts(truth):
    """Return how often each goal was begun, by id, over all servers."""
    return {i: count for goals in truth['goals'].values() for i, count in goals.items()}


def test_canceled_means_that_the_robot_stands_and_stays(graph, client):
    """At the result the odometry stands; so does the robot, and it does not go on."""
    sent = client.send(elsewhere(client))
    sent.wait_until_moving()
    assert not stands(client.truth())
    sent.cancel()
    status, result = sent.result(15)
    at_result = client.truth()
    assert (status, result.outcome) == (CANCELED, OUTCOME['CANCELED']), result.error_msg
    assert result.error_code == client.action.Result.CANCELED
    assert result.steps[-1].command_state == COMMAND_CANCELED
    assert sent.stood_at_result, 'the odometry did not stand: {}'.format(client.speed)
    assert stands(at_result), at_result['base']
    assert_stays(
        lambda: (lambda t: stands(t) and moved(at_result, t) < STILL)(client.truth()), 1.0,
        lambda: 'standing, but {}'.format(client.truth()['base']))
    phases = {f.phase for _, f in sent.feedback}
    assert client.action.Feedback.PHASE_EXECUTE in phases
    assert client.action.Feedback.PHASE_CANCELING in phases


def test_one_name_moves_once(graph, client):
    """While a task runs and after it, its name and other tasks start nothing more."""
    before = client.truth()
    task_id = new_id()
    instruction = elsewhere(client)
    sent = client.send(instruction, task_id=task_id)
    sent.wait_until_moving()
    _, busy = client.send('go to the bathroom').result(10)
    assert (busy.outcome, busy.error_code) == (
        OUTCOME['REJECTED'], client.action.Result.TASK_BUSY), busy.error_msg
    assert task_id in busy.error_msg
    follower = client.send(instruction, task_id=task_id)
    status, result = sent.result(120)
    assert status == SUCCEEDED, result.error_msg
    assert follower.result(10) == (status, result)
    new = {i: n for i, n in starts(client.truth()).items() if i not in starts(before)}
    assert list(new.values()) == [1], 'one drive, begun once'
    # Whoever missed the result can ask for it.
    told = client.call('query_task', client.srv.QueryTask, task_id=task_id)
    assert (told.error_code, told.running, told.outcome) == (0, False, OUTCOME['SUCCEEDED'])
    assert (told.instruction, told.steps) == (instruction, result.steps)

    with nothing_moves(graph, client):
        assert client.send(instruction, task_id=task_id).result(10) == (SUCCEEDED, result)
        for other in ({'instruction': 'go to the bathroom'},
                      {'instruction': instruction, 'max_steps': 3},
                      {'instruction': instruction, 'dry_run': True}):
            status, conflict = client.send(**other, task_id=task_id).result(10)
            assert status == ABORTED
            assert conflict.outcome == OUTCOME['REJECTED']
            assert conflict.error_code == client.action.Result.TASK_ID_CONFLICT, other


@pytest.mark.parametrize('instruction, fields, code', [
    ('', {}, 'INSTRUCTION_EMPTY'),
    ('x' * 100_000, {}, 'INSTRUCTION_TOO_LONG'),
    ('qwrtz 🤖 \u202e plugh', {}, 'INSTRUCTION_NOT_UNDERSTOOD'),
    ('go to the kitchen', {'time_budget': -1.0}, 'INVALID_BUDGET'),
], ids=['empty', '100 kB', 'gibberish', 'negative time'])
def test_what_is_refused_reaches_no_server(graph, client, instruction, fields, code):
    """Bad input has its code, asks no server for anything and ends no node."""
    if 'time_budget' in fields:
        fields = {'time_budget': duration(fields['time_budget'])}
    with nothing_moves(graph, client):
        status, result = client.send(instruction, **fields).result(20)
        assert status == ABORTED
        assert result.error_code == getattr(client.action.Result, code), result.error_msg
        assert 20 < len(result.error_msg) < 1000
        assert not result.steps


# Two tables at least fit this in the apartment, so that it is asked before anything moves.
AMBIGUOUS = 'go to the table'


def test_a_question_is_answered_by_number_by_name_or_in_words(graph, client):
    """A task that could mean several things asks; what is no answer is refused, and it asks on."""
    answers = client.srv.AnswerHumanRequest.Response
    for words in ('dining_table', 'the dining table', None):
        task_id = new_id()
        with nothing_moves(graph, client):
            sent = client.send(AMBIGUOUS, task_id=task_id)
            request = client.question(task_id)
            assert request.kind == request.KIND_QUESTION and len(request.options) >= 2
            assert 'table' in request.question
            for wrong in ('', 'the purple one', '99', '0'):
                assert client.answer(request, wrong) == answers.INVALID_ANSWER, wrong
            assert sent.feedback[-1][1].phase == client.action.Feedback.PHASE_WAIT_HUMAN
        number = 1 + next(i for i, o in enumerate(request.options)
                          if o.startswith('dining_table'))
        assert client.answer(request, words or str(number)) == 0
        status, result = sent.result(90)
        assert status == SUCCEEDED, result.error_msg
        # The first answer drives there; the others are there already.
        assert all('dining_table' in s.arguments_json for s in result.steps), result.steps
        wait_until(lambda: client.requests[request.request_id].closed, 5, 'its end')
        assert client.answer(request, 'dining_table') == answers.REQUEST_NOT_FOUND


def test_a_question_that_nobody_answers_has_an_end(graph, client):
    """Without an answer in time the task ends with its code, and nothing has moved."""
    with nothing_moves(graph, client):
        task_id = new_id()
        sent = client.send('去桌子那里', task_id=task_id)
        request = client.question(task_id)
        assert '桌子' in request.question, 'in the language of the instruction'
        status, result = sent.result(HUMAN_TIMEOUT + 20)
        assert (status, result.outcome) == (ABORTED, OUTCOME['FAILED'])
        assert result.error_code == client.action.Result.TARGET_AMBIGUOUS, result.error_msg
        wait_until(lambda: client.requests[request.request_id].closed, 5, 'its end')


def test_a_task_is_canceled_before_anything_starts(graph, client):
    """A cancel while it asks ends it at once; the name is used up."""
    with nothing_moves(graph, client):
        task_id = new_id()
        sent = client.send(AMBIGUOUS, task_id=task_id)
        request = client.question(task_id)
        sent.cancel()
        status, result = sent.result(10)
        assert (status, result.outcome) == (CANCELED, OUTCOME['CANCELED'])
        assert result.error_code == client.action.Result.CANCELED
        assert not result.steps
        wait_until(lambda: client.requests[request.request_id].closed, 5, 'its end')
        again = client.send(AMBIGUOUS, task_id=task_id).result(10)[1]
        assert again == result
        told = client.call('query_task', client.srv.QueryTask, task_id=task_id)
        assert (told.running, told.outcome) == (False, OUTCOME['CANCELED'])


def test_a_time_budget_ends_a_task_that_waits(graph, client):
    """The time budget counts while a person is asked, too."""
    with nothing_moves(graph, client):
        status, result = client.send(AMBIGUOUS, time_budget=duration(2.0)).result(20)
        assert (status, result.outcome) == (ABORTED, OUTCOME['FAILED'])
        assert result.error_code == client.action.Result.TIME_BUDGET_EXHAUSTED, result.error_msg


def test_one_step_is_one_step(graph, client):
    """A budget of one step ends a longer task after it, with the robot standing."""
    before = client.truth()
    status, result = client.send('bring the cup from the kitchen', max_steps=1).result(120)
    after = client.truth()
    assert (status, result.outcome) == (ABORTED, OUTCOME['FAILED'])
    assert result.error_code == client.action.Result.STEP_BUDGET_EXHAUSTED, result.error_msg
    assert len(result.steps) == 1
    # The drive, and the look at its target when it is over.
    assert len(starts(after)) <= len(starts(before)) + 2
    assert stands(after) and not after['held']


class Issuer:
    """An issuer of commands beside the harness, with a lease of its own."""

    def __init__(self, client):
        from embodied_harness.action import ExecuteSkill
        from embodied_harness.msg import ExecutorBeacon
        self.client = client
        self.action = ExecuteSkill
        self.beacon = None
        self.token = 0
        self._subscription = client.node.create_subscription(
            ExecutorBeacon, 'executor_beacon', self._take_beacon, 10)
        self._actions = action_client(
            client.node, ExecuteSkill, 'navigation_skills_node/execute_skill', client.group)

    def _take_beacon(self, message):
        if message.executor == '/navigation_skills_node':
            self.beacon = message

    def manage_lease(self, operation):
        """Ask for an operation on the lease."""
        kind = self.client.srv.ManageLease
        answer = self.client.call(
            'manage_lease', kind, operation=getattr(kind.Request, 'OPERATION_' + operation),
            controller_id=CONTROLLER, token=self.token, ttl=duration(10.0))
        assert answer.error_code == 0, answer.error_msg
        self.token = answer.lease.token

    def run(self, skill, arguments, targets=()):
        """Send a command that is in order but for its arguments; return its result."""
        goal = self.action.Goal()
        c = goal.command
        c.schema_version = 1
        c.command_id = 'c-' + uuid.uuid4().hex[:12]
        c.task_id = 'task'
        c.robot_id = 'robot'
        c.skill = skill
        c.skill_version = '1.0.0'
        c.arguments_json = json.dumps(arguments)
        c.targets = list(targets)
        c.start_within.sec = 5
        c.digest = digest(c)
        goal.envelope.fencing_token = self.token
        goal.envelope.controller_id = CONTROLLER
        goal.envelope.start_within.sec = 5
        goal.envelope.beacon = copy.deepcopy(self.beacon)
        future = self._actions.send_goal_async(goal)
        handle = wait_until(lambda: future.done() and future.result(), 10, 'an acknowledgement')
        assert handle.accepted, 'refusals are told in the result'
        arrived = threading.Event()
        answer = handle.get_result_async()
        answer.add_done_callback(lambda _: arrived.set())
        assert arrived.wait(15), 'no result of execute_skill'
        return answer.result().result


@pytest.fixture
def issuer(client):
    """Give an issuer that holds the lease."""
    issuer = Issuer(client)
    assert issuer._actions.wait_for_server(timeout_sec=10)
    wait_until(lambda: issuer.beacon, 10, 'a beacon of the executor')
    issuer.manage_lease('ACQUIRE')
    # The executor hears of the lease by a topic.
    wait_until(lambda: issuer.run('wait', {'duration': 0.0}).error_code
               != issuer.action.Result.NO_LEASE, 10, 'the lease to be known')
    yield issuer
    issuer.manage_lease('RELEASE')


def binding(x):
    """Return a binding of a cup at x."""
    from embodied_harness.msg import TargetBinding
    target = TargetBinding(argument='target', ref='cup_1', class_name='cup', kind=6,
                           frame_id='map', version=1)
    target.pose.position.x = x
    target.pose.orientation.w = 1.0
    return target


def test_commands_with_places_that_are_none_are_refused(graph, client, issuer):
    """NaN, infinity, unknown frames and places far away reach no server."""
    e = issuer.action.Result
    cases = {
        'frame': ('navigate_to_pose', {'pose': {'frame_id': 'moon', 'x': 0, 'y': 0, 'yaw': 0}},
                  [], ('moon',)),
        'no number': ('navigate_to_pose', {'pose': {'frame_id': 'map', 'x': 'here', 'y': 0,
                                                    'yaw': 0}}, [], ('x',)),
        'NaN': ('navigate_to', {'target': 'cup_1'}, [binding(math.nan)], ()),
        'infinite': ('navigate_to', {'target': 'cup_1'}, [binding(math.inf)], ()),
        'no target': ('navigate_to', {'target': 'cup_1'}, [], ('target',)),
    }
    with nothing_moves(graph, client):
        for name, (skill, arguments, targets, words) in cases.items():
            result = issuer.run(skill, arguments, targets)
            # What is no number has no canonical form, so the digest may be what is wrong.
            assert result.error_code in (e.INVALID_ARGUMENTS, e.DIGEST_MISMATCH), (
                name, result.error_code, result.error_msg)
            assert not targets or 'pose' in result.error_msg or 'digest' in result.error_msg
            assert all(word in result.error_msg for word in words), (name, result.error_msg)
            assert result.status.run_id == ''


def test_without_nav2_a_task_says_what_to_do(graph, client):
    """A server that is not there is named with its parameter; the task ends and nothing moves."""
    name = 'navigation_skills_node'
    graph.running.pop(name).stop()
    boot_id = client.catalogs['/' + name].boot_id

    def restart(**parameters):
        graph.start(name, **parameters)
        wait_until(lambda: client.catalogs['/' + name].skills
                   and client.catalogs['/' + name].boot_id != boot_id, 20, 'the skills')
        return client.catalogs['/' + name].boot_id
    boot_id = restart(navigate_to_pose_action='nowhere/navigate_to_pose', server_timeout=0.3)
    # The executor hears of the lease by a topic, some time after it is back: the harness waits for it.
    def offered():
        status, result = client.send('wait 1 second').result(30)
        unknown = result.error_code == client.action.Result.SKILL_UNAVAILABLE
        return None if unknown else (status, result)
    status, result = wait_until(offered, 20, 'the harness to hear of the skills')
    assert (status, len(result.steps)) == (SUCCEEDED, 1), result
    with nothing_moves(graph, client):
        status, result = client.send(elsewhere(client)).result(90)
        assert (status, result.outcome) == (ABORTED, OUTCOME['FAILED']), result
        assert result.error_code in (
            client.action.Result.SKILL_UNAVAILABLE, client.action.Result.ATTEMPTS_EXHAUSTED), result
        told = result.error_msg + ' '.join(s.verdict_reason + s.error_msg for s in result.steps)
        for word in ('nowhere/navigate_to_pose', 'navigate_to_pose_action'):
            assert word in told, told
    graph.running.pop(name).stop()
    restart()
