"""Tasks from an rclpy client, on all nodes with the simulated robot."""

import contextlib
import signal
import statistics
import subprocess

from conftest import wait_until
import pytest
from task_graph import ABORTED
from task_graph import CANCELED
from task_graph import COMMAND_CANCELED
from task_graph import COMMAND_SUCCEEDED
from task_graph import duration
from task_graph import elsewhere
from task_graph import Graph
from task_graph import new_id
from task_graph import OUTCOME
from task_graph import STANDING
from task_graph import SUCCEEDED

pytest.importorskip('rclpy')


@pytest.fixture(scope='module')
def graph(module_processes, tmp_path_factory):
    """Give all nodes, running."""
    graph = Graph(module_processes, tmp_path_factory.mktemp('state'))
    graph.start_all()
    return graph


@pytest.fixture(autouse=True)
def afterwards(graph, client):
    """No test may leave a dead node or a moving robot."""
    yield
    graph.assert_alive()
    wait_until(client.stands, 10, 'standstill after the test')


BAD_INPUT = {
    'empty': ('', {}, 'INSTRUCTION_EMPTY'),
    'blank': (' \n ', {}, 'INSTRUCTION_EMPTY'),
    'huge': ('杯' * 2001, {}, 'INSTRUCTION_TOO_LONG'),
    'very huge': ('x' * 1000000, {}, 'INSTRUCTION_TOO_LONG'),
    'nonsense': ('flurb the wug', {}, 'INSTRUCTION_NOT_UNDERSTOOD'),
    'control character': ('bring\x07the cup', {}, 'INSTRUCTION_NOT_UNDERSTOOD'),
    'bad id': ('go to the kitchen', {'task_id': 'a b'}, 'INVALID_TASK_ID'),
    'long id': ('go to the kitchen', {'task_id': 'x' * 65}, 'INVALID_TASK_ID'),
    'negative budget': ('go to the kitchen', {'time_budget': -1.0}, 'INVALID_BUDGET'),
    'too many steps': ('go to the kitchen', {'max_steps': 2**32 - 1}, 'INVALID_BUDGET'),
    'bad permission': ('go to the kitchen', {'permissions': ['']}, 'PERMISSION_DENIED'),
    'unknown permission': ('go to the kitchen', {'permissions': ['bogus']}, 'PERMISSION_DENIED'),
}


@pytest.mark.parametrize('name', BAD_INPUT)
def test_bad_input_is_refused_with_words_and_moves_nothing(client, name):
    """Each kind of bad input has its code and a sentence; nothing moves."""
    instruction, fields, code = BAD_INPUT[name]
    fields = dict(fields)
    if 'time_budget' in fields:
        fields['time_budget'] = duration(fields['time_budget'])
    client.fastest = 0.0
    status, result = client.send(instruction, **fields).result(20)
    assert status == ABORTED
    assert result.outcome == OUTCOME['REJECTED']
    assert result.error_code == getattr(client.action.Result, code), result.error_msg
    assert len(result.error_msg) > 20
    if fields.get('permissions') == ['bogus']:
        # The harness may hear of the skills later than this test.
        wait_until(
            lambda: 'known are: move_arm, move_base' in
            client.send(instruction, **fields).result(20)[1].error_msg, 20, 'both to be known')
    assert not result.steps
    assert client.fastest < STANDING[0]


def test_a_slipped_grasp_is_noticed_by_the_evaluator_and_tried_again(client):
    """The gripper reports success; the evaluator sees that nothing is held."""
    answer = client.call('inject_fault', client.srv.InjectFault, fault='grasp_slip')
    assert answer.error_code == 0, answer.error_msg
    status, result = client.send('去厨房拿杯子').result(180)
    assert status == SUCCEEDED, result
    picks = [s for s in result.steps if s.skill == 'pick']
    assert picks[0].verdict == 3, 'FAILURE'
    assert picks[-1].verdict == 2, 'SUCCESS'


def test_a_task_succeeds_and_its_name_gives_the_result_again(client):
    """A drive is judged, told at 2 Hz or more, and never done twice under one name."""
    task_id = new_id()
    sent = client.send('go to the kitchen', task_id=task_id)
    # While it runs: another one waits, the same one is followed, other content is refused.
    sent.wait_until_moving()
    _, busy = client.send('go to the bedroom').result(10)
    assert busy.error_code == client.action.Result.TASK_BUSY
    _, conflict = client.send('go to the bedroom', task_id=task_id).result(10)
    assert conflict.error_code == client.action.Result.TASK_ID_CONFLICT
    follower = client.send('go to the kitchen', task_id=task_id)
    status, result = sent.result(90)
    assert status == SUCCEEDED, result.error_msg
    assert result.outcome == OUTCOME['SUCCEEDED']
    assert result.error_code == 0
    assert result.task_id == task_id
    step = result.steps[0]
    assert step.skill == 'navigate_to'
    assert step.command_state == COMMAND_SUCCEEDED
    assert step.verdict == 2, 'success needs a SUCCESS verdict'
    assert step.evidence and step.verdict_reason
    assert follower.result(10)[1] == result
    # At 2 Hz by the harness's own clock; single ones are late on a busy machine.
    times = [f.elapsed.sec + 1e-9 * f.elapsed.nanosec for _, f in sent.feedback]
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert statistics.median(gaps) <= 0.6
    told = [f.finished_step.step for _, f in sent.feedback if f.finished_step.step]
    assert told == [s.step for s in result.steps]
    # Afterwards the name gives the same result, and nothing moves.
    client.fastest = 0.0
    status, again = client.send('go to the kitchen', task_id=task_id).result(10)
    assert (status, again) == (SUCCEEDED, result)
    assert client.fastest < STANDING[0]
    answer = client.call('query_task', client.srv.QueryTask, task_id=task_id)
    assert answer.error_code == 0 and not answer.running
    assert answer.steps == result.steps
    # The command can be asked for by id, at the harness and at its executor.
    answer = client.call('query_command', client.srv.QueryCommand, command_id=step.command_id)
    assert list(answer.command_states) == [COMMAND_SUCCEEDED]
    answer = client.call('navigation_skills_node/query', client.srv.QueryCommand,
                         command_id=step.command_id)
    assert answer.statuses[0].state == 7, 'the executor was told to release it'
    kinds = client.kinds(task_id)
    assert kinds[0] == 'task_received' and kinds[-1] == 'task_ended'
    order = ['proposed', 'committed', 'dispatched', 'accepted', 'started', 'control_ended',
             'judged', 'settled']
    places = [kinds.index(k) for k in order]
    assert places == sorted(places), kinds
    sequences = [e.sequence for e in client.events if e.task_id == task_id]
    assert sequences == list(range(1, len(sequences) + 1))


def test_a_cancel_while_driving_waits_for_measured_standstill(client):
    """CANCELED comes when the base stands, not when the cancel was accepted."""
    sent = client.send(elsewhere(client))
    sent.wait_until_moving()
    sent.cancel()
    assert sent.result_at is None, 'a cancel is answered at once'
    status, result = sent.result(15)
    assert status == CANCELED
    assert result.outcome == OUTCOME['CANCELED']
    assert sent.stood_at_result, 'CANCELED came at {} m/s, {} rad/s'.format(*client.speed)
    assert result.steps[-1].command_state == COMMAND_CANCELED
    kinds = client.kinds(result.task_id)
    assert kinds.index('cancel_requested') < kinds.index('stop_confirmed')
    answer = client.call('query_command', client.srv.QueryCommand)
    assert not answer.command_ids, 'nothing is left unsettled'
    wait_until(lambda: client.lease.controller_id == '', 5, 'the release of the lease')


def test_a_cancel_at_once_is_a_cancel(client):
    """A cancel that comes before anything was sent ends the task, too."""
    sent = client.send('go to the bedroom')
    sent.cancel()
    status, result = sent.result(15)
    assert status == CANCELED, result.error_msg
    assert sent.stood_at_result


def test_a_dry_run_moves_nothing(client):
    """A dry run plans and checks."""
    client.fastest = 0.0
    status, result = client.send(elsewhere(client), dry_run=True).result(30)
    assert status == SUCCEEDED, result.error_msg
    assert result.steps
    assert client.fastest < STANDING[0]


def test_a_time_budget_ends_a_task_with_the_robot_standing(client):
    """What runs when the time is over is stopped first."""
    sent = client.send('go to the bathroom', time_budget=duration(3.0))
    status, result = sent.result(20)
    assert status == ABORTED
    assert result.outcome == OUTCOME['FAILED']
    assert result.error_code == client.action.Result.TIME_BUDGET_EXHAUSTED
    assert sent.stood_at_result


def test_a_stop_ends_the_task_and_refuses_the_next_until_it_is_reset(client):
    """A latched stop is for everybody."""
    sent = client.send(elsewhere(client))
    sent.wait_until_moving()
    client.call('request_stop', client.srv.RequestStop, source='test', reason='try it')
    status, result = sent.result(20)
    assert status == ABORTED
    assert result.error_code == client.action.Result.STOP_LATCHED
    assert sent.stood_at_result
    _, refused = client.send('go to the kitchen').result(10)
    assert refused.outcome == OUTCOME['REJECTED']
    assert refused.error_code == client.action.Result.STOP_LATCHED
    # Both say once who asked for it, why, and how it ends.
    for text in (result.error_msg, refused.error_msg):
        for part in ('"test"', 'try it', 'harness reset', 'reset_stop'):
            assert text.count(part) == 1, text
    wait_until(lambda: client.protection.stop_stage == 3, 10, 'the confirmed stop')
    stopped = tool('status')
    assert 'STOPPED until it is reset (CONFIRMED): stop ' in stopped.stdout, stopped.stdout
    answer = client.call('reset_stop', client.srv.ResetStop, operator_name='test', reason='done')
    assert answer.error_code == 0, answer.error_msg
    wait_until(lambda: not client.protection.stop_latched, 5, 'the reset')


@pytest.fixture(autouse=True)
def no_stop_is_left(client):
    """Reset a stop that a test has left behind: the next one is not to fail of it."""
    yield
    wait_until(lambda: client.protection is not None, 10, 'the state of the protection')
    if client.protection.stop_latched:
        client.call('reset_stop', client.srv.ResetStop, operator_name='test', reason='cleanup')


def tool(*arguments):
    """Run the command line tool beside the graph."""
    return subprocess.run(
        ['harness', *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=60)


def test_the_tool_says_that_a_robot_at_rest_is_ready(client):
    wait_until(client.stands, 10, 'standstill')
    wait_until(lambda: client.protection.command_age > 1.0, 10, 'the navigation to be silent')
    status = tool('status')
    assert status.returncode == 0, status.stdout
    assert 'protection  ready, the base is at rest: ' in status.stdout, status.stdout


def test_the_tool_tells_nothing_of_another_task_of_the_same_name(client):
    task_id = new_id()
    first = tool('run', '--dry-run', '--task-id', task_id, elsewhere(client))
    assert first.returncode == 0, first.stdout
    assert 'navigate_to ' in first.stdout and ', 1 step: ' in first.stdout, first.stdout
    other = tool('run', '--task-id', task_id, 'bring the cup')
    assert other.returncode == 3, other.stdout
    assert 'TASK_ID_CONFLICT' in other.stdout
    assert 'navigate_to' not in other.stdout, other.stdout


@pytest.mark.parametrize('arguments, says', [
    (['--time-budget', 'nan'], 'between 0 and 2147483647'),
    (['--max-steps', '-1'], 'whole number of steps')], ids=['nan', '-1 steps'])
def test_the_tool_says_what_a_number_has_to_be(arguments, says):
    done = tool('run', *arguments, 'go to the kitchen')
    assert done.returncode == 2 and says in done.stdout, done.stdout


def test_settling_and_answering_need_something_to_settle_and_to_answer(client):
    """Wrong requests have their codes."""
    settle = client.srv.SettleCommand
    answer = client.call('settle_command', settle, command_id='none', final_state=1,
                         settled_by='test', reason='x')
    assert answer.error_code == settle.Response.COMMAND_NOT_FOUND
    answer = client.call('settle_command', settle, command_id='none', final_state=9,
                         settled_by='test', reason='x')
    assert answer.error_code == settle.Response.INVALID_REQUEST
    done = client.call('query_task', client.srv.QueryTask).steps
    human = client.srv.AnswerHumanRequest
    answer = client.call('answer_human_request', human, request_id='none', answer='x',
                         answered_by='test')
    assert answer.error_code == human.Response.REQUEST_NOT_FOUND
    query = client.srv.QueryCommand
    answer = client.call('query_command', query, command_id='none')
    assert answer.error_code == query.Response.COMMAND_NOT_FOUND
    answer = client.call('query_task', client.srv.QueryTask, task_id='none')
    assert answer.error_code == client.srv.QueryTask.Response.TASK_NOT_FOUND
    assert done is not None


def kill_and_start_again(graph):
    """kill -9 of the harness, and another process of it."""
    graph.running['harness_node'].signal(signal.SIGKILL)
    graph.running['harness_node'].wait()
    graph.start('harness_node')


def test_a_killed_harness_is_taken_up_and_starts_nothing_twice(client, graph):
    """After kill -9 in mid-drive the next process adopts the run and brings the task to its end."""
    task_id = new_id()
    sent = client.send(elsewhere(client), task_id=task_id)
    sent.wait_until_moving()
    command_id = sent.feedback[-1][1].command_id
    kill_and_start_again(graph)

    def ended():
        answer = client.call('query_task', client.srv.QueryTask, task_id=task_id)
        return None if answer.running or answer.error_code else answer
    answer = wait_until(ended, 60, 'the end of the task that was taken up')
    assert answer.outcome == OUTCOME['SUCCEEDED'], answer.task_error_msg
    # Started in time it finds the run still going; else the lease had expired and the drive was stopped.
    assert answer.steps[0].command_id == command_id
    answer = client.call('navigation_skills_node/query', client.srv.QueryCommand,
                         command_id=command_id)
    assert answer.statuses[0].state == 7
    assert len(answer.foreign_calls) == 1, 'one goal was sent, and never again'
    wait_until(lambda: client.lease.controller_id == '', 5, 'the release of the lease')
    # Who sends the task again hears of its end and starts nothing.
    _, result = client.send(answer_of(client, task_id), task_id=task_id).result(10)
    assert result.outcome == OUTCOME['SUCCEEDED']


def test_the_tool_follows_a_task_over_the_end_of_the_harness(client, graph):
    """What harness run shows goes on with the next process, and ends as the task does."""
    # Only the tool is to hear what it says.
    with subprocess.Popen(
            ['harness', 'run', elsewhere(client)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True) as shown:
        wait_until(lambda: client.speed[0] > 0.1, 30, 'motion')
        kill_and_start_again(graph)
        output, _ = shown.communicate(timeout=90)
    assert shown.returncode == 0, output
    assert 'it was restarted, and is asked for the task by its name' in output, output
    assert output.splitlines()[-1].startswith('SUCCEEDED after '), output


def answer_of(client, task_id):
    """The instruction of a task."""
    return client.call('query_task', client.srv.QueryTask, task_id=task_id).instruction


def test_an_end_of_the_harness_stops_what_runs_and_releases_the_lease(client, graph):
    """SIGTERM in mid-drive: the node waits for the stop, then it ends."""
    client.wait_until_ready()
    sent = client.send(elsewhere(client))
    sent.wait_until_moving()
    process = graph.running['harness_node']
    process.signal(signal.SIGTERM)
    assert process.wait(15) == 0, process.output()
    wait_until(client.stands, 2, 'standstill')
    wait_until(lambda: client.lease.controller_id == '', 2, 'the release of the lease')
    with contextlib.suppress(AssertionError):
        status, result = sent.result(2)
        assert (status, result.error_code) == (ABORTED, client.action.Result.SHUTTING_DOWN)
    graph.start('harness_node')
    client.wait_until_ready()


def test_missing_skill_servers_are_named(client, graph):
    """Without executors there are no skills, and the answer says so."""
    graph.running.pop('navigation_skills_node').stop()
    boot_id = client.catalogs['/navigation_skills_node'].boot_id
    client.fastest = 0.0
    status, result = client.send('go to the bathroom').result(40)
    assert status == ABORTED
    assert result.error_code == client.action.Result.SKILL_UNAVAILABLE, result.error_msg
    assert len(result.error_msg) > 20
    assert client.fastest < STANDING[0]
    graph.start('navigation_skills_node')
    wait_until(
        lambda: client.catalogs['/navigation_skills_node'].boot_id != boot_id, 20, 'the skills')
