"""The Rust bindings against those of Python and C: layouts, constants, and every value there and back.

interfaces/probe is the Rust side; its names are explained in interfaces/probe/src/hub.rs. Which types
there are comes from the Python bindings, so that none can be forgotten.
"""

import functools
import json
import os
import shutil
import subprocess
import threading

from conftest import action_client
from conftest import BUILD
from conftest import INSTALL
from conftest import wait_until
import interface_data
import interface_probe
import pytest

rclpy = pytest.importorskip('rclpy')

SAMPLE = interface_probe.SAMPLE
if not interface_probe.sample_is_installed():
    pytest.skip('test_msgs is not installed', allow_module_level=True)
MESSAGES = [
    (kind, name) for kind in interface_data.KINDS for name in interface_data.parts(SAMPLE, kind)]
SERVICES = list(interface_data.interfaces(SAMPLE, 'srv'))
ACTIONS = list(interface_data.interfaces(SAMPLE, 'action'))
# Each message sent comes back as the default, copied and moved.
ECHOES = 3


def test_the_sample_has_what_it_is_taken_for():
    assert len(MESSAGES) >= 35 and len(SERVICES) == 3 and len(ACTIONS) == 2


# --- What was compiled -------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def types():
    """Give the Python types of all messages that are bound, by (package, kind, name)."""
    return interface_data.all_parts([*interface_probe.bound_packages(), SAMPLE])


@pytest.fixture(scope='module')
def layouts(types, tmp_path_factory):
    """Give the layout of the same messages in C."""
    return interface_data.c_layouts(
        types, interface_probe.FOLDER / 'layout.c', tmp_path_factory.mktemp('layout'))


@pytest.fixture(scope='module')
def sources(types, layouts):
    """Write what the Rust program includes."""
    interface_probe.write_sources(types, layouts)


@pytest.fixture(scope='module')
def programs(sources):
    """Build the Rust programs and give their folder."""
    return interface_probe.build()


@pytest.fixture(scope='module')
def program(programs):
    """Give the Rust side."""
    return programs / 'interface_probe'


@pytest.fixture(scope='module')
def tables(program):
    """Give what the Rust program tells of layouts and constants."""
    ran = subprocess.run([program, 'tables'], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_the_compiler_warns_of_nothing(sources):
    checked = interface_probe.cargo('check', '--package', 'packages')
    assert checked.returncode == 0, checked.stdout


def test_every_message_is_laid_out_as_in_c(tables, layouts):
    found = {row['type']: (row['size'], row['fields']) for row in tables if 'fields' in row}
    assert len(found) > 300
    assert found == layouts


def test_every_constant_has_its_value(tables, types):
    expected = {
        ('/'.join(name), constant): value
        for name, type_ in types.items()
        for constant, value in interface_data.constants(type_).items()}
    found = {
        (row['type'], row['constant']): row['value'] for row in tables if 'constant' in row}
    assert len(found) > 300
    assert found == expected


# --- There and back ----------------------------------------------------------------------------------
# Nothing is destroyed before the end: rclpy's executor may stop when something it waits for goes away.

@pytest.fixture(scope='module')
def probe(program, module_processes):
    """Start the Rust program's node."""
    process = module_processes.start([program, 'serve'])
    process.wait_for_output('ready')
    return process


class Line:
    """The topics of one type: what is sent, and what comes back."""

    def __init__(self, node, kind, name):
        """Connect."""
        from rclpy.qos import DurabilityPolicy, QoSProfile

        self.type = interface_data.parts(SAMPLE, kind)[name]
        self.received = []
        self._publisher = node.create_publisher(self.type, 'send/{}/{}'.format(kind, name), 20)
        node.create_subscription(
            self.type, 'echo/{}/{}'.format(kind, name), self.received.append,
            QoSProfile(depth=20, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        wait_until(
            self._publisher.get_subscription_count, 20, 'the subscription to {}'.format(name))

    def send(self, message):
        """Send a message and return what comes back."""
        self.received.clear()
        self._publisher.publish(message)
        return self.wait(ECHOES)

    def wait(self, count):
        """Wait for so many messages, return them and forget them."""
        wait_until(
            lambda: len(self.received) >= count, 20,
            lambda: '{} of {} messages'.format(len(self.received), count))
        messages = list(self.received)
        self.received.clear()
        return messages


@pytest.fixture(scope='module')
def line(ros_node, probe):
    """Give a function that connects to the topics of a type, once for all tests."""
    return functools.lru_cache(maxsize=None)(functools.partial(Line, ros_node))


@pytest.mark.parametrize('kind, name', MESSAGES)
def test_every_message_comes_back_as_it_was_sent(line, kind, name):
    topics = line(kind, name)
    for fullness in ('empty', 'some', 'full'):
        sent = interface_data.Filler(fullness).message(topics.type)
        default, copied, moved = topics.send(sent)
        # Their texts tell more than equality: numbers that are none, and the sign of zero.
        assert repr(default) == repr(topics.type())
        assert repr(copied) == repr(sent)
        assert repr(moved) == repr(sent)


def filled(type_, fullness='some'):
    return interface_data.Filler(fullness).message(type_)


@pytest.mark.parametrize('name', SERVICES)
def test_a_service_in_rust_gets_the_request_and_its_response_comes_back(line, ros_node, name):
    type_ = interface_data.interfaces(SAMPLE, 'srv')[name]
    requests, responses = line('srv', name + '_Request'), line('srv', name + '_Response')
    response = filled(type_.Response, 'full')
    responses.send(response)
    client = ros_node.create_client(type_, 'serve/srv/' + name)
    assert client.wait_for_service(timeout_sec=20)
    request = filled(type_.Request)
    answer = client.call_async(request)
    wait_until(answer.done, 20, 'an answer')
    assert repr(answer.result()) == repr(response)
    assert repr(requests.wait(1)) == repr([request])


@pytest.mark.parametrize('name', SERVICES)
def test_a_client_in_rust_sends_the_request_and_gets_the_response(
        line, ros_node, ask, name):
    type_ = interface_data.interfaces(SAMPLE, 'srv')[name]
    responses = line('srv', name + '_Response')
    request, response, got = filled(type_.Request, 'full'), filled(type_.Response), []

    def answer(asked, _):
        got.append(asked)
        return response
    ros_node.create_service(type_, 'call/srv/' + name, answer)
    ask(type_.Request, 'srv/' + name, request)
    assert repr(responses.wait(1)) == repr([response])
    assert repr(got) == repr([request])


@pytest.fixture
def ask(ros_node, probe):
    """Give a function that has the Rust program use the server that was just started here."""
    def send(type_, name, message):
        publisher = ros_node.create_publisher(type_, 'ask/' + name, 1)
        wait_until(publisher.get_subscription_count, 20, 'the subscription to ask/' + name)
        publisher.publish(message)
    return send


@pytest.mark.parametrize('name', ACTIONS)
def test_an_action_in_rust_gets_the_goal_and_its_feedback_and_result_come_back(
        line, ros_node, name):
    type_ = interface_data.interfaces(SAMPLE, 'action')[name]
    goals = line('action', name + '_Goal')
    feedback, result = filled(type_.Feedback), filled(type_.Result, 'full')
    line('action', name + '_Feedback').send(feedback)
    line('action', name + '_Result').send(result)
    client = action_client(ros_node, type_, 'serve/action/' + name, ros_node.default_callback_group)
    assert client.wait_for_server(timeout_sec=20)
    goal, came = filled(type_.Goal), []
    accepted = client.send_goal_async(goal, feedback_callback=came.append)
    wait_until(accepted.done, 20, 'the goal taken')
    wait_until(lambda: came, 20, 'feedback')
    accepted.result().cancel_goal_async()
    ended = accepted.result().get_result_async()
    wait_until(ended.done, 20, 'the result')
    assert repr(goals.wait(1)) == repr([goal])
    assert {repr(message.feedback) for message in came} == {repr(feedback)}
    assert repr(ended.result().result) == repr(result)


class Server:
    """An action server in Python that gives feedback until it is told to end."""

    def __init__(self, node, name):
        """Serve the action by the name at which the Rust program looks for it."""
        from rclpy.action import ActionServer
        from rclpy.callback_groups import ReentrantCallbackGroup

        self.type = interface_data.interfaces(SAMPLE, 'action')[name]
        self.feedback, self.result = filled(self.type.Feedback), filled(self.type.Result, 'full')
        self.goals = []
        self.end = threading.Event()
        ActionServer(
            node, self.type, 'call/action/' + name, self._execute,
            callback_group=ReentrantCallbackGroup())

    def _execute(self, handle):
        self.goals.append(handle.request)
        # What is published before the client has matched the topic is lost.
        while not self.end.wait(0.05):
            handle.publish_feedback(self.feedback)
        handle.succeed()
        return self.result


@pytest.fixture(scope='module')
def server(ros_node):
    """Give a function that serves an action, once for all tests."""
    servers = functools.lru_cache(maxsize=None)(functools.partial(Server, ros_node))

    def ready(name):
        servers(name).goals.clear()
        servers(name).end.clear()
        return servers(name)
    return ready


@pytest.mark.parametrize('name', ACTIONS)
def test_a_client_in_rust_sends_the_goal_and_gets_feedback_and_result(line, ask, server, name):
    feedback, result = line('action', name + '_Feedback'), line('action', name + '_Result')
    here = server(name)
    goal = filled(here.type.Goal, 'full')
    ask(here.type.Goal, 'action/' + name, goal)
    assert repr(feedback.wait(1)) == repr([here.feedback])
    here.end.set()
    assert repr(result.wait(1)) == repr([here.result])
    assert repr(here.goals) == repr([goal])


def test_an_idle_client_in_rust_outlives_another_client_of_its_action(
        line, ros_node, ask, probe, server):
    # From Kilted on rcl_action has another number for "nothing to take", and rclrs ends the spinning of a
    # node whose client was woken up by the answers to somebody else.
    name = ACTIONS[0]
    here = server(name)
    here.end.set()
    client = action_client(
        ros_node, here.type, 'call/action/' + name, ros_node.default_callback_group)
    assert client.wait_for_server(timeout_sec=20)
    for _ in range(3):
        accepted = client.send_goal_async(here.type.Goal())
        wait_until(accepted.done, 20, 'the goal taken')
        ended = accepted.result().get_result_async()
        wait_until(ended.done, 20, 'the result')
    # It still answers, and its own use of the action still works.
    result = line('action', name + '_Result')
    assert len(result.send(here.type.Result())) == ECHOES
    here.end.clear()
    ask(here.type.Goal, 'action/' + name, filled(here.type.Goal))
    line('action', name + '_Feedback').wait(1)
    here.end.set()
    assert repr(result.wait(1)) == repr([here.result])
    assert probe.is_running()


# --- Outside of this package -------------------------------------------------------------------------

def test_the_installed_bindings_are_those_that_the_nodes_are_built_with():
    def files(folder):
        return {
            path.relative_to(folder): path.read_text() for path in sorted(folder.rglob('*'))
            if path.is_file() and path.name != '.complete'}
    installed = files(INSTALL / 'share' / 'embodied_harness' / 'rust')
    assert installed
    assert installed == files(BUILD / 'stage' / 'share' / 'embodied_harness' / 'rust')


def use_wave_skill(node):
    """Find the skill of interfaces/downstream in its catalog and execute it."""
    from embodied_harness.action import ExecuteSkill
    from embodied_harness.msg import SkillCatalog
    from rclpy.qos import DurabilityPolicy, QoSProfile

    catalogs = []
    node.create_subscription(
        SkillCatalog, 'skill_catalog', catalogs.append,
        QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    wait_until(lambda: catalogs, 20, 'the catalog of skills')
    descriptor, = catalogs[0].skills
    assert (catalogs[0].executor, descriptor.name) == ('wave_skill_node', 'wave')
    client = action_client(
        node, ExecuteSkill, descriptor.action_name, node.default_callback_group)
    assert client.wait_for_server(timeout_sec=20)
    codes = []
    for skill in ('wave', 'juggle'):
        goal = ExecuteSkill.Goal()
        goal.command.skill = skill
        accepted = client.send_goal_async(goal)
        wait_until(accepted.done, 20, 'the goal taken')
        ended = accepted.result().get_result_async()
        wait_until(ended.done, 20, 'the result')
        codes.append(ended.result().result.error_code)
    assert codes == [ExecuteSkill.Result.NONE, ExecuteSkill.Result.UNKNOWN_SKILL]


def test_a_skill_of_another_package_speaks_these_interfaces(programs, ros_node, processes):
    processes.start([programs / 'wave_skill_node']).wait_for_output('ready')
    use_wave_skill(ros_node)


@pytest.mark.skipif(
    'EMBODIED_HARNESS_FULL' not in os.environ, reason='builds rclrs anew: runs with --full')
def test_another_package_is_built_with_the_installation_alone(tmp_path, ros_node, processes):
    # As in a user's workspace: nothing of this source folder is in reach.
    source = tmp_path / 'src' / 'wave_skill'
    shutil.copytree(interface_probe.FOLDER / 'downstream', source)
    built = subprocess.run(
        ['colcon', 'build', '--event-handlers', 'console_direct+',
         '--cmake-args', '-DCMAKE_BUILD_TYPE=Debug'],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)
    assert built.returncode == 0, built.stdout
    program = tmp_path / 'install' / 'wave_skill' / 'lib' / 'wave_skill' / 'wave_skill_node'
    processes.start([program]).wait_for_output('ready')
    use_wave_skill(ros_node)
