"""What users of ROS do with nodes: start them in any order, remap, end them by a signal, start them again."""

import random
import signal

from conftest import node_program
from conftest import TOP
from conftest import wait_until
import pytest
from task_graph import Graph
from task_graph import NODES
from task_graph import OUTCOME

pytest.importorskip('rclpy')

# Each is started again while all others go on; the simulated robot is the robot and stays.
COME_BACK = ('scene_graph_node', 'evaluator_node', 'protection_node', 'navigation_skills_node',
             'manipulation_skills_node', 'harness_node')


@pytest.fixture(scope='module')
def graph(module_processes, tmp_path_factory):
    """Start everything, the robot last."""
    graph = Graph(module_processes, tmp_path_factory.mktemp('state'))
    for name in reversed(NODES):
        graph.start(name)
    return graph


def go(client, where):
    """Send the robot somewhere; it has to get there."""
    _, result = client.send('go to the {}'.format(where)).result(120)
    assert result.outcome == OUTCOME['SUCCEEDED'], result


def test_nodes_start_in_any_order(graph, client):
    go(client, 'kitchen')
    graph.assert_alive()


def test_every_node_may_be_started_again(graph, client):
    order = random.Random(7).sample(COME_BACK, len(COME_BACK))
    for name in order:
        boots = {c.boot_id for c in client.catalogs.values()}
        process = graph.running[name]
        process.signal(signal.SIGKILL)
        process.wait()
        client.catalogs = {
            e: c for e, c in client.catalogs.items() if not e.endswith(name)}
        graph.start(name)
        client.wait_until_ready()
        assert name.endswith('skills_node') == (
            {c.boot_id for c in client.catalogs.values()} != boots), name
    go(client, 'hallway')
    graph.assert_alive()


def test_a_signal_in_the_middle_of_a_drive_ends_a_node_with_the_robot_standing(graph, client):
    task = client.send('go to the bedroom')
    wait_until(lambda: client.speed[0] > 0.1, 60, 'driving')
    assert graph.running['navigation_skills_node'].signal(signal.SIGTERM) is None
    assert graph.running['navigation_skills_node'].wait(15) == 0
    wait_until(client.stands, 15, lambda: 'standstill; speed {}'.format(client.speed))
    _, result = task.result(120)
    assert result.outcome != OUTCOME['SUCCEEDED'], result


def test_every_node_ends_by_itself_when_asked(graph):
    for number, name in enumerate(NODES):
        process = graph.running[name]
        if process.is_running():
            process.signal((signal.SIGTERM, signal.SIGINT)[number % 2])
    for name in NODES:
        assert graph.running[name].wait(15) == 0, graph.running[name].output()


def test_remaps_move_topics_services_and_the_node(processes, ros_node):
    process = processes.start([
        node_program('scene_graph_node'), '--ros-args',
        '--params-file', TOP / 'params' / 'scene_graph_node.yaml',
        '-r', '__ns:=/cellar', '-r', '__node:=memory', '-r', 'detections:=camera/boxes',
        '-r', 'query_scene:=ask', '-r', '/tf:=tf'])

    def moved():
        assert process.is_running(), process.output()
        services = {name for name, _ in ros_node.get_service_names_and_types()}
        by = [i.node_name for topic in ('/cellar/camera/boxes', '/cellar/tf')
              for i in ros_node.get_subscriptions_info_by_topic(topic)]
        return '/cellar/ask' in services and by == ['memory', 'memory']
    wait_until(moved, 30, lambda: process.output())
    names = {name for name, _ in ros_node.get_service_names_and_types()}
    assert '/cellar/query_scene' not in names
    assert not ros_node.get_subscriptions_info_by_topic('/cellar/detections')
