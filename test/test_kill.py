"""kill -9 of the harness and the adapters at their failpoints, over running tasks."""

import os
import sqlite3

from conftest import wait_until
from kill_campaign import Campaign
from kill_campaign import VICTIMS
import pytest
from task_graph import Client
from task_graph import Graph
from task_graph import NODES
from task_graph import SUCCEEDED

pytest.importorskip('rclpy')

# scripts/test --kill sets these.
KILLS = int(os.environ.get('EMBODIED_HARNESS_KILLS', '12'))
SEED = int(os.environ.get('EMBODIED_HARNESS_SEED', '1'))
SPEED = float(os.environ.get('EMBODIED_HARNESS_KILL_SPEED', '1'))


@pytest.fixture(scope='module')
def graph(module_processes, tmp_path_factory):
    """Give all nodes but those that are going to be killed."""
    parameters = {'sim_robot_node': {'expose_ground_truth': 'true'}}
    if SPEED != 1:
        parameters = {name: {'use_sim_time': 'true'} for name in NODES}
        parameters['sim_robot_node'].update(
            publish_clock='true', real_time_factor=SPEED, expose_ground_truth='true')
    graph = Graph(module_processes, tmp_path_factory.mktemp('state'), **parameters)
    for name in NODES:
        if name not in VICTIMS:
            graph.start(name)
    return graph


def test_nothing_is_started_twice_and_every_task_comes_to_its_end(graph, ros_node, capsys):
    """Crashes of both sides at every failpoint: counted by the robot, judged by the truth."""
    client = Client(ros_node)
    wait_until(lambda: client.lease is not None, 30, 'the control lease')
    campaign = Campaign(graph, client, SEED)
    campaign.run(KILLS)
    # The graph is as good as new.
    client.wait_until_ready()
    status, result = client.send('go to the kitchen').result(90)
    starts = campaign.count_starts()
    with capsys.disabled():
        print('\nseed {}: {}\n{} motions begun'.format(SEED, campaign.report(), starts))
    assert not campaign.violations
    assert status == SUCCEEDED, result.error_msg
    assert campaign.total() >= KILLS
    twice = ('SELECT command_id, segment, name FROM sub_goals '
             'GROUP BY command_id, segment, name HAVING count(*) > 1')
    for victim in VICTIMS:
        # The journal belongs to its process as long as that lives.
        graph.running[victim].stop()
        if victim != 'harness_node':
            with sqlite3.connect(graph.state / (victim + '.sqlite')) as journal:
                assert not journal.execute(twice).fetchall()
