"""The whole graph on the simulation's clock, several times as fast as real time."""

import os

from conftest import wait_until
import pytest
from task_graph import elsewhere
from task_graph import Graph
from task_graph import NODES
from task_graph import SUCCEEDED

pytest.importorskip('rclpy')

# Simulated seconds per second; a machine that is too slow for it is waited for. Nodes without optimisation
# beside compilers are too slow for ten.
FULL = bool(os.environ.get('EMBODIED_HARNESS_FULL'))
SPEED = float(os.environ.get('EMBODIED_HARNESS_SIM_SPEED', '10' if FULL else '4'))


@pytest.fixture(scope='module')
def graph(module_processes, tmp_path_factory):
    """Give all nodes on the clock of a fast simulation."""
    parameters = {name: {'use_sim_time': 'true'} for name in NODES}
    parameters['sim_robot_node'].update(
        publish_clock='true', real_time_factor=SPEED, expose_ground_truth='true')
    graph = Graph(module_processes, tmp_path_factory.mktemp('state'), **parameters)
    graph.start_all()
    return graph


def test_the_cup_is_brought_faster_than_in_real_time(graph, client):
    """Every budget is on the simulation's clock: nothing times out because the robot is too quick."""
    began = client.truth()['time']
    sent = client.send('go to the kitchen and bring the cup')
    status, result = sent.result(120)
    graph.assert_alive()
    assert status == SUCCEEDED, result.error_msg
    assert [s.skill for s in result.steps if s.verdict == 2].count('navigate_to') >= 2
    truth = client.truth()
    assert truth['held'] == 'cup_red' or truth['objects']['cup_red']['support'] != 'kitchen_table'
    # Stamps are the simulation's, which begins at a second, and not those of this machine's clock.
    stamps = [e.stamp.sec for e in client.events]
    assert stamps and max(stamps) <= truth['time'] + 2 < 10_000, (stamps[-5:], truth['time'])
    print('simulated {:.1f} s for the task at {} times real time'.format(
        truth['time'] - began, SPEED))


def test_a_server_that_restarts_on_the_way_ends_in_success_or_by_name(graph, client):
    """The navigation forgets the goal that it was given: the robot stands, and nobody hangs."""
    answer = client.call('inject_fault', client.srv.InjectFault, fault='server_restart',
                         params_json='{"server": "navigate_to_pose", "after_s": 1.5}')
    assert answer.error_code == 0, answer.error_msg
    before = client.truth()
    status, result = client.send(elsewhere(client)).result(120)
    after = client.truth()
    graph.assert_alive()
    assert 'fault server_restart' in [e['event'] for e in after['events']]
    new = {i: n for i, n in after['goals']['navigate_to_pose'].items()
           if i not in before['goals']['navigate_to_pose']}
    # No goal was begun twice, whatever came of it.
    assert new and set(new.values()) == {1}, new
    print('outcome {} code {} after {} steps: {}'.format(
        result.outcome, result.error_code, len(result.steps), result.error_msg))
    if status != SUCCEEDED:
        assert result.error_code != 0 and len(result.error_msg) > 20
    wait_until(client.stands, 10, 'standstill')
