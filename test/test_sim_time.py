"""The whole graph on the simulation's clock, several times as fast as real time."""

import os

import pytest
from task_graph import Client
from task_graph import Graph
from task_graph import NODES
from task_graph import SUCCEEDED

pytest.importorskip('rclpy')

# Simulated seconds per second.
SPEED = float(os.environ.get('EMBODIED_HARNESS_SIM_SPEED', '4'))


@pytest.fixture
def graph(processes, tmp_path):
    """Give all nodes on the clock of a fast simulation."""
    parameters = {name: {'use_sim_time': 'true'} for name in NODES}
    parameters['sim_robot_node'].update(
        publish_clock='true', real_time_factor=SPEED, expose_ground_truth='true')
    graph = Graph(processes, tmp_path / 'state', **parameters)
    graph.start_all()
    return graph


def test_the_cup_is_brought_faster_than_in_real_time(graph, ros_node):
    """Every budget is on the simulation's clock: nothing times out because the robot is too quick."""
    client = Client(ros_node)
    client.wait_until_ready()
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
