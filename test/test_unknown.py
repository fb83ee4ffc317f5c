"""Commands that are UNKNOWN: held with their resources, worked off by the harness, or settled by a person."""

import signal

from conftest import wait_until
import pytest
from task_graph import ABORTED
from task_graph import COMMAND_SUCCEEDED
from task_graph import elsewhere
from task_graph import Graph
from task_graph import OUTCOME
from task_graph import SUCCEEDED

pytest.importorskip('rclpy')

COMMAND_FAILED, COMMAND_UNKNOWN = 10, 12
KIND_SETTLE = 3


@pytest.fixture(scope='module')
def graph(module_processes, tmp_path_factory):
    """Give all nodes, running, with a harness that does not wait long for a verdict."""
    graph = Graph(module_processes, tmp_path_factory.mktemp('state'),
                  harness_node={'evaluation_timeout': 2.0, 'max_looks': 1})
    graph.start_all()
    return graph


def drive_that_nobody_judges(graph, client):
    """Drive somewhere and lose the evaluator on the way; return the id of the command."""
    sent = client.send(elsewhere(client))
    sent.wait_until_moving()
    graph.running['evaluator_node'].signal(signal.SIGKILL)
    graph.running['evaluator_node'].wait()
    status, result = sent.result(60)
    assert (status, result.outcome) == (ABORTED, OUTCOME['UNKNOWN']), result.error_msg
    assert result.error_code == client.action.Result.COMMAND_UNKNOWN
    command_id = result.steps[-1].command_id
    assert state(client, command_id) == COMMAND_UNKNOWN
    return command_id


def state(client, command_id):
    """Return the issuer's state of a command."""
    answer = client.call('query_command', client.srv.QueryCommand, command_id=command_id)
    assert answer.error_code == 0, answer.error_msg
    return answer.command_states[0]


def refusal(client):
    """Return why a drive is refused; the robot stays where it is."""
    _, result = client.send(elsewhere(client)).result(30)
    assert result.outcome == OUTCOME['REJECTED'], result
    return result.error_msg


def open_requests(client, command_id):
    """Return what people are asked about a command."""
    return [r for r in client.requests.values()
            if r.command_id == command_id and r.kind == KIND_SETTLE and not r.closed]


def judged_again(graph, client):
    """Start the evaluator; a drive ends well once it has been found."""
    graph.start('evaluator_node')

    def drives():
        status, _ = client.send(elsewhere(client)).result(60)
        return status == SUCCEEDED
    wait_until(drives, 60, 'a drive that is judged')


def test_what_nobody_judged_holds_its_resources_and_is_worked_off(graph, client):
    command_id = drive_that_nobody_judges(graph, client)
    wait_until(lambda: open_requests(client, command_id), 10, 'that a person is asked')
    said = refusal(client)
    assert command_id in said and 'UNKNOWN' in said, said
    assert client.stands()
    # Nobody does anything but start what was missing.
    graph.start('evaluator_node')
    wait_until(lambda: state(client, command_id) == COMMAND_SUCCEEDED, 60, 'its settlement')
    wait_until(lambda: not open_requests(client, command_id), 10, 'that nobody is asked any more')
    status, result = client.send(elsewhere(client)).result(60)
    assert status == SUCCEEDED, result.error_msg
    graph.assert_alive()


def test_a_person_settles_with_a_reason_and_frees_what_was_held(graph, client):
    settle = client.srv.SettleCommand
    command_id = drive_that_nobody_judges(graph, client)
    assert command_id in refusal(client)
    without = client.call('settle_command', settle, command_id=command_id,
                          final_state=settle.Request.FINAL_FAILED, settled_by='ann', reason='')
    assert without.error_code == settle.Response.INVALID_REQUEST, without.error_msg
    assert state(client, command_id) == COMMAND_UNKNOWN
    answer = client.call('settle_command', settle, command_id=command_id,
                         final_state=settle.Request.FINAL_FAILED, settled_by='ann',
                         reason='it stands before the wrong door')
    assert answer.error_code == 0, answer.error_msg
    assert state(client, command_id) == COMMAND_FAILED
    told = wait_until(
        lambda: [e for e in client.events
                 if e.command_id == command_id and 'wrong door' in e.text + e.payload_json],
        10, 'the reason in the log')
    assert told
    # Its executor holds nothing any more either.
    judged_again(graph, client)
    assert state(client, command_id) == COMMAND_FAILED
    graph.assert_alive()
