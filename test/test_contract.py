"""The conformance kit: who passes it, and that it finds what it says that it finds."""

from concurrent.futures import ThreadPoolExecutor
import json
import os
import sys
import threading
import time

from conftest import node_program
from conftest import TOP
import pytest

pytest.importorskip('rclpy')

# A run has to outlast what is done to it meanwhile, also on a busy machine [s].
RUN = 1.8
# Kits that run side by side: they wait for runs for most of the time.
AT_ONCE = 5
LIMIT = 170

RESENT = {
    'sent again after its end it answers with the original and starts nothing',
    'sent again after its settlement it answers with the original and starts nothing',
    'sent again while it runs it joins the run',
    'sent twice at the same time it starts once'}
CONFLICTS = {
    'a known id with another digest is COMMAND_ID_CONFLICT',
    'another digest while it runs is COMMAND_ID_CONFLICT and the run goes on'}
REFUSED_FOR_GOOD = {
    'a command that expired stays expired when it is sent again', 'nothing that was refused has started'}
STOPS = {
    'a cancel ends as CANCELED after confirmed standstill',
    'a run that outlasts its execution timeout is brought to standstill',
    'a latched stop stops what runs and refuses what comes',
    'when the lease expires a run follows its disconnect policy'}
# What each rule of the template that is switched off must make fail.
FAULTS = {
    'StartsAgain': RESENT | REFUSED_FOR_GOOD,
    'CountsBackwards': {'feedback states come in legal order and sequence never goes back'},
    'TellsNoLateJoiner': {'a late joiner sees the command in skill status'},
    'ComparesNoDigest': {
        'a command that does not give its digest is DIGEST_MISMATCH', 'it refuses[an empty digest]'},
    'TakesOldTokens': {
        'an old fencing token is OLD_TOKEN', 'a settlement under an old token is OLD_TOKEN'},
    'EndsTwice': {'there is exactly one START and one END of a run'},
    'IgnoresStops': {'a latched stop stops what runs and refuses what comes'},
    'MixesUpIds': CONFLICTS,
    'ReleasesAtTheEnd': {
        'what has ended holds its resources until it is settled',
        'what was canceled is held until it is settled'},
    'ForgetsRefusals': REFUSED_FOR_GOOD,
    'IsCanceledAtOnce': STOPS,
    'Forgets': {
        'what ran is known and brought to its end',
        'the end of what ran is told once and its start never again',
        'sent again after the restart it answers with its end and starts nothing',
        'what ran holds its resources over the restart',
        'the journal knows what was settled before the restart',
        'an id from before the restart with another digest is COMMAND_ID_CONFLICT'},
    'IgnoresAge': {
        'no beacon is NO_BEACON', 'a beacon of another executor is refused',
        'a beacon of an earlier life is EXPIRED_COMMAND',
        'a command that is older than start within is EXPIRED_COMMAND',
        'an envelope with nothing left is EXPIRED_COMMAND',
        'an envelope never leaves more than the budget of the command',
        'a command that expired stays expired when it is sent again',
        'it refuses[a negative start within of the envelope]',
        'it refuses[a tick of the beacon in the future]', 'it refuses[a boot id of 1 MB]'},
    'IgnoresTheLease': {
        'a lease that has ended is NO_LEASE',
        'when the lease expires a run follows its disconnect policy'},
}
# Faults that do not touch each other share an adapter, each adapter in a namespace of its own.
BROKEN = {
    'broken_1': ('StartsAgain', 'CountsBackwards', 'TellsNoLateJoiner', 'ComparesNoDigest', 'TakesOldTokens',
                 'EndsTwice', 'IgnoresStops'),
    'broken_2': ('MixesUpIds', 'ReleasesAtTheEnd', 'ForgetsRefusals', 'IsCanceledAtOnce', 'Forgets'),
    'broken_3': ('IgnoresAge', 'IgnoresTheLease'),
}
# Who is killed and restarted meanwhile.
RESTARTED = {'sound', 'broken_2', 'navigation', 'manipulation'}


class Body:
    """A gripper that takes its time, its joint and a base that stands, in the namespace of an adapter."""

    def __init__(self, node, namespace):
        from control_msgs.action import GripperCommand
        from nav_msgs.msg import Odometry
        from rclpy.action import ActionServer, CancelResponse
        from rclpy.callback_groups import ReentrantCallbackGroup
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import JointState
        self._node, self._action = node, GripperCommand
        self._joints, self._odometry = JointState, Odometry
        group = ReentrantCallbackGroup()
        self._publisher = node.create_publisher(
            JointState, namespace + '/joint_states', qos_profile_sensor_data)
        self._odom = node.create_publisher(Odometry, namespace + '/odom', qos_profile_sensor_data)
        self._server = ActionServer(
            node, GripperCommand, namespace + '/gripper_controller/gripper_cmd',
            execute_callback=self._close, cancel_callback=lambda _: CancelResponse.ACCEPT,
            callback_group=group)
        self._timer = node.create_timer(0.05, self._tell, callback_group=group)
        self._end = threading.Event()

    def _tell(self):
        joints = self._joints(name=['gripper_joint'], position=[0.0], velocity=[0.0], effort=[0.0])
        joints.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(joints)
        odometry = self._odometry()
        odometry.header.stamp = joints.header.stamp
        self._odom.publish(odometry)

    def _close(self, handle):
        deadline = time.monotonic() + RUN
        while time.monotonic() < deadline and not self._end.wait(0.01):
            if handle.is_cancel_requested:
                handle.canceled()
                return self._action.Result()
        handle.succeed()
        return self._action.Result(reached_goal=True)

    def close(self):
        """End what runs."""
        self._end.set()
        self._node.destroy_timer(self._timer)


def lamp(*faults):
    """Return the command of the lamp's adapter, perhaps with faults."""
    if faults:
        return [sys.executable, TOP / 'test' / 'broken_lamp_adapters.py', ','.join(faults)]
    return [sys.executable, TOP / 'test' / 'contract' / 'python_adapter.py']


def check(starter, folder, name, program, action, *options):
    """Run the kit against an adapter; return its exit status, its outcomes and what it wrote."""
    folder.mkdir()
    pid = folder / 'pid'
    # Whenever it ends, it is started again, as a robot's launch file has it.
    starter.start(
        ['bash', '-c', 'while :; do "$@" & echo $! >"$0"; wait $!; done', pid, *program, '--ros-args', '-r',
         '__ns:=/' + name, '-p', 'state_directory:={}'.format(folder)], name=name)
    if name in RESTARTED:
        options += ('--restart', 'kill -9 $(cat {})'.format(pid))
    report = folder / 'report.json'
    status, output = run_kit(
        starter, name, '/{}/{}'.format(name, action), *options, '--report', report)
    outcomes = json.loads(report.read_text())['outcomes'] if report.exists() else {}
    return status, outcomes, output


def run_kit(starter, name, *arguments):
    """Run the kit; return its exit status and what it wrote."""
    # Once as its users do.
    kit = ([TOP / 'scripts' / 'test', '--contract'] if name == 'sound'
           else [sys.executable, TOP / 'test' / 'contract' / 'run.py'])
    run = starter.start([*kit, *arguments], name='kit_' + name)
    return run.wait(LIMIT), run.output()


@pytest.fixture(scope='module')
def checked(module_processes, ros_node, tmp_path_factory):
    """Run the kit against all adapters side by side; give what came of each."""
    folder = tmp_path_factory.mktemp('contract')
    bodies = [Body(ros_node, '/manipulation'), Body(ros_node, '/navigation')]
    # One of them is under a lease and a stop that are not the kit's own.
    module_processes.start([node_program('protection_node'), '--ros-args', '-r', '__ns:=/navigation', '-p',
                            'state_directory:={}'.format(folder)])
    blink = ('--skill', 'blink_lamp', '--arguments', json.dumps({'duration': RUN}))
    wait = ('--skill', 'wait', '--arguments', json.dumps({'duration': RUN}))
    plans = {name: (lamp(*faults), 'lamp_adapter/execute_skill', *blink)
             for name, faults in BROKEN.items()}
    plans['sound'] = (lamp(), 'lamp_adapter/execute_skill', *blink)
    plans['navigation'] = (
        [node_program('navigation_skills_node')], 'navigation_skills_node/execute_skill', *wait)
    plans['manipulation'] = (
        [node_program('manipulation_skills_node')], 'manipulation_skills_node/execute_skill',
        '--skill', 'close_gripper', '--yes')
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {name: pool.submit(check, module_processes, folder / name, name, *plan)
                   for name, plan in plans.items()}
        # These get no further than to look around.
        running['nowhere'] = pool.submit(
            run_kit, module_processes, 'nowhere', '/nowhere/execute_skill')
        running['unasked'] = pool.submit(
            run_kit, module_processes, 'unasked', '/manipulation/manipulation_skills_node/execute_skill',
            '--skill', 'close_gripper')
        yield {name: future.result() for name, future in running.items()}
    for body in bodies:
        body.close()


def failed(outcomes):
    """Return the names of the checks that failed."""
    return {name for name, (outcome, _) in outcomes.items() if outcome == 'failed'}


def skipped(outcomes):
    """Return the names of the checks that were skipped."""
    return {name for name, (outcome, _) in outcomes.items() if outcome == 'skipped'}


def test_the_python_template_passes_all(checked):
    status, outcomes, output = checked['sound']
    assert (status, failed(outcomes), skipped(outcomes)) == (0, set(), set()), output
    # Each of the files was run, and the table is there to read.
    assert len(outcomes) > 90 and ' passed, 0 failed, 0 skipped' in output
    assert 'manage_lease is not served' in output, 'it says whose lease it is'


@pytest.mark.parametrize('name', ['navigation', 'manipulation'])
def test_our_own_adapters_pass(checked, name):
    status, outcomes, output = checked[name]
    assert (status, failed(outcomes)) == (0, set()), output
    if name == 'manipulation':
        assert not skipped(outcomes), output
    else:
        assert 'acquired by /navigation/manage_lease' in output
        # A reason stands beside what is skipped.
        assert all('claims no' in outcomes[n][1] or 'claims nothing' in outcomes[n][1]
                   for n in skipped(outcomes)), output


@pytest.mark.parametrize('name', BROKEN)
def test_rules_that_are_switched_off_fail_exactly_their_checks(checked, name):
    status, outcomes, output = checked[name]
    assert status == 1, output
    expected = set().union(*(FAULTS[fault] for fault in BROKEN[name]))
    assert failed(outcomes) == expected, output
    if name not in RESTARTED:
        assert 'the catalog comes again with the new boot' in skipped(outcomes), output
    for fault in BROKEN[name]:
        for check_name in FAULTS[fault]:
            reason = outcomes[check_name][1]
            assert 'expected: ' in reason and 'came: ' in reason and 'says: ' in reason, reason


def test_nothing_moves_before_it_is_allowed_to(checked):
    status, output = checked['unasked']
    assert status == 2, output
    assert 'give --yes' in output and "'gripper'" in output
    assert 'control_lease' not in output and 'PASSED' not in output


def test_an_adapter_that_is_not_there_is_named_with_what_to_look_at(checked):
    status, output = checked['nowhere']
    assert status == 2, output
    # What is there is told, for whoever mistyped the name.
    for word in ('/nowhere/execute_skill', '/sound/lamp_adapter/execute_skill (blink_lamp)',
                 'ROS_DOMAIN_ID ' + os.environ['ROS_DOMAIN_ID']):
        assert word in output, output
