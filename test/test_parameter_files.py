"""The nodes, started by the commands of the launch files, have what the parameter files say."""

import os
import sys

from conftest import answer_of
from conftest import node_program
from conftest import TOP
from conftest import wait_until
import pytest
import yaml

pytest.importorskip('rclpy')
sys.path.insert(0, str(TOP / 'scripts' / 'lib'))

import launch_file  # noqa: E402
import launch_runner  # noqa: E402
import parameter_docs  # noqa: E402

NODES = {node.name: node for node in launch_file.read(
    TOP / 'launch' / 'demo.launch.xml', {'namespace': 'r2'}, lambda _: TOP)}
# What an own params_file changes for one node: a parameter, and a value that is not its default.
MINE = {
    'sim_robot_node': ('scan_rate', 8.0),
    'protection_node': ('odom_timeout', 0.75),
    'scene_graph_node': ('map_frame', 'floor'),
    'evaluator_node': ('map_frame', 'floor'),
    'navigation_skills_node': ('acknowledge_timeout', 1.5),
    'manipulation_skills_node': ('gripper_action', 'hand/grip'),
    'harness_node': ('default_max_steps', 7),
}

# What each node says of its parameters; filled by the fixture that starts them.
DESCRIPTORS = {}


def leaves(parameters, prefix=''):
    """Give name and value of each parameter of a section."""
    for key, value in parameters.items():
        if isinstance(value, dict):
            yield from leaves(value, prefix + key + '.')
        else:
            yield prefix + key, value


def of_file(path, node):
    """Return the parameters that a file has for a node."""
    found = {}
    for section, content in yaml.safe_load(path.read_text(encoding='utf-8')).items():
        assert section in ('/**', '/**/' + node) or path.name == 'mine.yaml', section
        if section in ('/**', '/**/' + node):
            found.update(leaves(content['ros__parameters']))
    return found


@pytest.fixture(scope='module')
def mine(tmp_path_factory):
    """Give a params_file as a user writes it."""
    path = tmp_path_factory.mktemp('mine') / 'mine.yaml'
    path.write_text(yaml.safe_dump({
        '/**': {'ros__parameters': {'robot_id': 'r2'}},
        **{'/**/' + node: {'ros__parameters': {name: value}}
           for node, (name, value) in MINE.items()}}), encoding='utf-8')
    return path


@pytest.fixture(scope='module')
def answers(module_processes, ros_node, mine, tmp_path_factory):
    """Start all nodes as the launch file does; give what each says of its parameters, by name."""
    from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters
    from rclpy.parameter import parameter_value_to_python

    folder = tmp_path_factory.mktemp('parameters')
    nodes = launch_file.read(
        TOP / 'launch' / 'demo.launch.xml',
        {'namespace': 'r2', 'params_file': str(mine),
         'state_directory': str(mine.parent / 'state')},
        lambda _: TOP)
    running = {
        node.name: module_processes.start(
            launch_runner.command_of(node, node_program(node.executable), folder), node.name)
        for node in nodes}

    def ask(node, name, request, kind):
        client = ros_node.create_client(kind, '/r2/{}/{}'.format(node, name))

        def is_there():
            assert running[node].is_running(), running[node].output()
            return client.service_is_ready()
        wait_until(is_there, 30, lambda: '{} of {}:\n{}'.format(name, node, running[node].output()))
        return answer_of(client, request)

    found = {}
    for node in running:
        names = ask(node, 'list_parameters', ListParameters.Request(), ListParameters).result.names
        values = ask(node, 'get_parameters', GetParameters.Request(names=names), GetParameters).values
        assert len(values) == len(names)
        found[node] = {
            name: parameter_value_to_python(value) for name, value in zip(names, values)}
        DESCRIPTORS[node] = ask(
            node, 'describe_parameters', DescribeParameters.Request(names=names),
            DescribeParameters).descriptors
    yield found
    for node, process in running.items():
        assert process.is_running(), '{} died:\n{}'.format(node, process.output())


def sources_of(node, mine):
    """Return what a node reads, in order: whether every key has to be its own, and the parameters."""
    for source in NODES[node].parameters:
        if isinstance(source, dict):
            given = {'state_directory': str(mine.parent / 'state')}
            yield True, {n: given.get(n, v) for n, v in source.items()}
        elif source.endswith('robot.yaml'):
            yield False, of_file(mine, node)
        else:
            # What is for every node may have more than this one needs.
            yield source.endswith(node + '.yaml'), of_file(TOP / 'params' / source, node)


@pytest.mark.parametrize('node', NODES)
def test_every_key_of_a_parameter_file_is_declared_with_its_value(answers, mine, node):
    """Later files win, as in launch; a key that the node does not declare is a typing error."""
    has = answers[node]
    expected = {}
    for is_own, parameters in sources_of(node, mine):
        assert [n for n in parameters if is_own and n not in has] == [], 'not declared'
        expected.update((n, v) for n, v in parameters.items() if n in has)
    wrong = {name: (value, has[name]) for name, value in expected.items()
             if (list(has[name]) if isinstance(value, list) else has[name]) != value}
    assert wrong == {}, 'file and node differ'
    name, value = MINE[node]
    assert has[name] == value, 'the section of the node in an own file'
    assert has.get('robot_id', 'r2') == 'r2', 'the section of all nodes in an own file'


@pytest.mark.parametrize('file', ['robot.yaml', 'embodiment.yaml'])
def test_every_key_of_a_shared_file_is_a_parameter_of_a_node(answers, file):
    """A key that no node declares is a typing error."""
    declared = set().union(*answers.values())
    assert sorted(set(of_file(TOP / 'params' / file, '')) - declared) == []


@pytest.mark.parametrize('node', NODES)
def test_every_parameter_of_a_node_is_in_a_file(answers, mine, node):
    """Who looks for a parameter finds it, with its comment, in params/."""
    listed = set(of_file(TOP / 'params' / 'robot.yaml', node))
    for _, parameters in sources_of(node, mine):
        listed |= set(parameters)
    # What every node of rclrs has.
    listed |= {'use_sim_time', 'start_type_description_service'}
    assert sorted(n for n in answers[node] if n not in listed) == []


def test_the_page_of_parameters_is_what_the_nodes_declare(answers):
    """Written anew when EMBODIED_HARNESS_UPDATE_DOCS is set."""
    nodes = {}
    for node in sorted(NODES):
        by_launch, files = set(), {}
        for source in NODES[node].parameters:
            if isinstance(source, dict):
                by_launch.update(source)
            else:
                files.update(of_file(TOP / 'params' / source, node))
        nodes[node] = [
            (d.name, d, files.get(d.name, answers[node].get(d.name)), d.name in by_launch)
            for d in sorted(DESCRIPTORS[node], key=lambda d: d.name)]
    page = parameter_docs.page(nodes)
    path = TOP / 'docs' / 'parameters.md'
    if os.environ.get('EMBODIED_HARNESS_UPDATE_DOCS'):
        path.write_text(page, encoding='utf-8')
    assert path.read_text(encoding='utf-8') == page, 'write it anew, as the page says'
