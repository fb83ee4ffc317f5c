"""protection_node as a robot and its skills meet it: velocities, stop, lease, and what goes wrong."""

import math
import signal
import threading
import time

from conftest import answer_of
from conftest import node_program
from conftest import TOP
from conftest import wait_until
import pytest

pytest.importorskip('rclpy')

PARAMETERS = TOP / 'params' / 'protection_node.yaml'
FORWARD = 0.4


class Robot:
    """What protection_node hears on a robot; every part can fall silent or talk nonsense.

    The base obeys at once: odometry reports what was put out last.
    """

    def __init__(self, node):
        from embodied_harness.msg import ControlLease, DeclaredRun, ProtectionState
        from embodied_harness.srv import ManageLease, RequestStop, ResetStop
        from geometry_msgs.msg import TransformStamped, Twist
        from nav_msgs.msg import Odometry
        from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile
        from sensor_msgs.msg import LaserScan
        from tf2_msgs.msg import TFMessage

        self.node = node
        self.types = {
            'Twist': Twist, 'Odometry': Odometry, 'LaserScan': LaserScan, 'DeclaredRun': DeclaredRun,
            'ManageLease': ManageLease, 'RequestStop': RequestStop, 'ResetStop': ResetStop,
            'State': ProtectionState}
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.command = node.create_publisher(Twist, 'cmd_vel_nav', 1)
        self._scan = node.create_publisher(LaserScan, 'scan', qos_profile_sensor_data)
        self._odom = node.create_publisher(Odometry, 'odom', 10)
        self._runs = node.create_publisher(DeclaredRun, 'declared_runs', 10)
        self._tf = node.create_publisher(TFMessage, '/tf_static', latched)
        self.outputs = []
        self.states = []
        self.leases = []
        node.create_subscription(Twist, 'cmd_vel', self._take_output, 10)
        node.create_subscription(ProtectionState, 'protection_state', self.states.append, latched)
        node.create_subscription(ControlLease, 'control_lease', self.leases.append, latched)
        self.clients = {
            'manage_lease': node.create_client(ManageLease, 'manage_lease'),
            'request_stop': node.create_client(RequestStop, 'request_stop'),
            'reset_stop': node.create_client(ResetStop, 'reset_stop')}
        mounting = TransformStamped()
        mounting.header.frame_id = 'base_link'
        mounting.child_frame_id = 'laser'
        mounting.transform.translation.x = 0.1
        self._tf.publish(TFMessage(transforms=[mounting]))
        self.calm()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def calm(self):
        """Let everything be in order, with nobody commanding."""
        self.silent = set()
        # Distance of a wall ahead of the base's centre [m]; the footprint's radius is 0.27 m.
        self.wall = 5.0
        self.velocity = None
        self.moves = True
        self.token = 0
        self.policy = 2

    def _take_output(self, message):
        self.outputs.append((time.monotonic(), message))

    def output(self):
        """Return the forward speed put out last."""
        return self.outputs[-1][1].linear.x if self.outputs else None

    def state(self):
        """Return the state told last."""
        return self.states[-1] if self.states else None

    def _live(self):
        while not self._end.wait(0.05):
            now = self.node.get_clock().now().to_msg()
            if 'scan' not in self.silent:
                self._scan.publish(self._make_scan(now))
            if 'odom' not in self.silent:
                odom = self.types['Odometry']()
                odom.header.stamp = now
                if self.moves and self.outputs:
                    odom.twist.twist = self.outputs[-1][1]
                elif not self.moves:
                    odom.twist.twist.linear.x = 0.3
                self._odom.publish(odom)
            if 'run' not in self.silent and self.token:
                self._runs.publish(self.types['DeclaredRun'](
                    executor='navigation_skills_node', boot_id='b', run_id='r', command_id='c',
                    fencing_token=self.token, disconnect_policy=self.policy, active=True))
            if self.velocity is not None and 'command' not in self.silent:
                self.command.publish(self.velocity)

    def _make_scan(self, now):
        scan = self.types['LaserScan']()
        scan.header.stamp = now
        scan.header.frame_id = 'laser'
        scan.angle_min, scan.angle_max = -math.pi, math.pi
        scan.angle_increment = math.pi / 180
        scan.range_min, scan.range_max = 0.05, 10.0
        ranges = []
        for index in range(361):
            angle = scan.angle_min + index * scan.angle_increment
            # A wall across the way; the laser sits 0.1 m before the centre.
            ahead = math.cos(angle)
            ranges.append((self.wall - 0.1) / ahead if ahead > 0.2 else math.inf)
        scan.ranges = ranges
        return scan

    def call(self, name, **fields):
        """Call a service of protection_node."""
        client = self.clients[name]
        kind = {'manage_lease': 'ManageLease', 'request_stop': 'RequestStop', 'reset_stop': 'ResetStop'}
        request = self.types[kind[name]].Request(**fields)
        return answer_of(client, request)

    def lease(self, operation, who='/test', token=0, ttl=3.0, take_over=False):
        """Call manage_lease; 1 acquires, 2 renews, 3 releases. It is asked again while the disk is written."""
        from rclpy.duration import Duration

        def answer():
            answer = self.call(
                'manage_lease', operation=operation, controller_id=who, token=token,
                ttl=Duration(seconds=ttl).to_msg(), take_over=take_over)
            return None if 'ask again in a moment' in answer.error_msg else answer
        return wait_until(answer, 10, 'an end of writing')

    def drive(self, speed=FORWARD, ttl=60.0):
        """Take the lease, declare a run and command a speed; wait until it is put out."""
        answer = self.lease(1, ttl=ttl, take_over=True)
        assert answer.error_code == 0, answer.error_msg
        self.token = answer.lease.token
        self.velocity = self.types['Twist']()
        self.velocity.linear.x = speed
        wait_until(lambda: self.output() == pytest.approx(speed), 10, lambda: str(self.state()))

    def stands_because(self, reason, timeout=5):
        """Wait for zero output with a reason of ProtectionState."""
        number = getattr(self.types['State'], f'REASON_{reason}')
        wait_until(
            lambda: self.output() == 0.0 and self.state().reason == number, timeout,
            lambda: f'{reason}: {self.state()}')
        assert self.state().message

    def close(self):
        """End the thread."""
        self._end.set()
        self._thread.join(timeout=5)


@pytest.fixture(scope='module')
def robot(ros_node):
    """Give the robot's other parts."""
    robot = Robot(ros_node)
    yield robot
    robot.close()


def start(processes, directory, *arguments):
    """Start the node with the package's parameter file."""
    return processes.start([
        node_program('protection_node'), '--ros-args', '--params-file', PARAMETERS,
        '-p', f'state_directory:={directory}', *arguments])


@pytest.fixture
def node(processes, robot, tmp_path):
    """Give a running node and a robot in order."""
    robot.calm()
    robot.outputs.clear()
    robot.states.clear()
    robot.leases.clear()
    process = start(processes, tmp_path / 'state')
    wait_until(lambda: robot.outputs and robot.states, 20, lambda: f'a start: {process.output()}')
    wait_until(lambda: robot.state().odom_age < 1 and robot.state().scan_age < 1, 10, 'sensors')
    yield process
    assert process.is_running(), process.output()
    process.stop()


def test_velocities_pass_only_with_lease_and_declared_run(node, robot):
    robot.velocity = robot.types['Twist']()
    robot.velocity.linear.x = FORWARD
    robot.stands_because('NO_DECLARED_RUN')
    robot.token = 1
    robot.stands_because('NO_LEASE')
    robot.drive()
    wait_until(lambda: robot.state().mode == robot.types['State'].MODE_PASS, 5, 'passing')


def test_limits_change_while_it_drives_and_what_does_not_fit_is_refused_with_the_reason(node, robot):
    from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
    from rcl_interfaces.srv import SetParameters

    client = robot.node.create_client(SetParameters, 'protection_node/set_parameters')

    def ask(name, value):
        return answer_of(client, SetParameters.Request(parameters=[Parameter(
            name=name, value=ParameterValue(
                type=ParameterType.PARAMETER_DOUBLE, double_value=value))])).results[0]

    robot.drive()
    assert ask('max_linear_speed', 0.25).successful
    wait_until(lambda: robot.output() == pytest.approx(0.25), 5, 'the new limit')
    for name, value, says in [
            # The stop margin of the package's file is 0.02 m.
            ('slow_margin', 0.01, 'stop_margin'), ('max_linear_speed', math.nan, 'finite'),
            ('max_linear_speed', 99.0, 'range'), ('scan_timeout', 1.0, 'read only')]:
        refused = ask(name, value)
        assert not refused.successful, name
        assert says in refused.reason, refused.reason
    assert robot.output() == pytest.approx(0.25), 'what was refused changes nothing'
    assert ask('max_linear_speed', 1.0).successful
    wait_until(lambda: robot.output() == pytest.approx(FORWARD), 5, 'the old limit')


@pytest.mark.parametrize('part, reason', [
    ('command', 'COMMAND_TIMEOUT'), ('scan', 'SCAN_STALE'), ('odom', 'ODOM_STALE'),
    ('run', 'NO_DECLARED_RUN')])
def test_silence_stops(node, robot, part, reason):
    robot.drive()
    robot.silent.add(part)
    robot.stands_because(reason)
    robot.silent.clear()
    wait_until(lambda: robot.output() == pytest.approx(FORWARD), 5, 'going on')


@pytest.mark.parametrize('field, value', [
    ('linear.x', math.nan), ('linear.z', 1.0), ('angular.z', math.inf), ('linear.x', 1e6)])
def test_nonsense_stops(node, robot, field, value):
    robot.drive()
    part, axis = field.split('.')
    bad = robot.types['Twist']()
    setattr(getattr(bad, part), axis, value)
    robot.velocity = bad
    robot.stands_because('COMMAND_INVALID')


def test_the_base_slows_down_before_a_wall_and_stands_at_it(node, robot):
    robot.drive()
    # 0.1 m free: sqrt((1.2 * 0.2)^2 + 2 * 1.2 * (0.37 - 0.27 - 0.02)) - 1.2 * 0.2 = 0.26 m/s.
    robot.wall = 0.37
    wait_until(lambda: robot.output() == pytest.approx(0.26, abs=0.02), 5, lambda: str(robot.state()))
    assert robot.state().mode == robot.types['State'].MODE_SLOW
    robot.wall = 0.28
    robot.stands_because('STOP_ZONE')
    robot.velocity.linear.x = -0.2
    wait_until(lambda: robot.output() == pytest.approx(-0.2), 5, 'backing out')
    robot.velocity.linear.x = 0.0
    robot.velocity.angular.z = 0.5
    wait_until(lambda: robot.outputs[-1][1].angular.z == pytest.approx(0.5), 5, 'turning in place')


def test_a_stop_is_latched_confirmed_by_standstill_and_reset_by_an_operator(node, robot):
    state = robot.types['State']
    robot.drive()
    answer = robot.call('request_stop', stop_id='s1', source='test', reason='test')
    assert (answer.error_code, answer.stop_id, answer.stage) == (0, 's1', 2)
    robot.stands_because('STOP_REQUESTED')
    wait_until(lambda: robot.state().stop_stage == 3, 5, lambda: str(robot.state()))
    assert robot.state().stop_latched and robot.state().mode == state.MODE_LATCHED
    assert robot.call('reset_stop', reason='x').error_code == 10602
    assert robot.output() == 0.0
    answer = robot.call('reset_stop', operator_name='ann', reason='clear')
    assert answer.error_code == 0, answer.error_msg
    assert robot.call('reset_stop', operator_name='ann', reason='clear').error_code == 10610
    wait_until(lambda: robot.output() == pytest.approx(FORWARD), 5, 'going on')


def test_a_stop_that_motion_does_not_follow_is_unconfirmed_and_a_second_is_not_dropped(node, robot):
    robot.drive()
    robot.moves = False
    robot.call('request_stop', stop_id='s1', source='test', reason='test')
    wait_until(lambda: robot.state().stop_id == 's1', 5, lambda: str(robot.state()))
    robot.call('request_stop', stop_id='s2', source='test', reason='again')
    # The budget is 3 s.
    wait_until(lambda: robot.state().stop_stage == 4, 15, lambda: str(robot.state()))
    assert robot.state().stop_id == 's2'
    assert robot.call('reset_stop', operator_name='ann', reason='x').error_code == 10611
    assert robot.call('reset_stop', operator_name='ann', reason='x', force=True).error_code == 0


def test_the_lease_is_granted_held_taken_over_and_expires(node, robot):
    first = robot.lease(1, 'a', ttl=60.0)
    assert first.error_code == 0 and first.lease.token >= 1
    held = robot.lease(1, 'b')
    assert held.error_code == 10600 and held.lease.controller_id == 'a'
    # Long enough for whatever happens before it is renewed.
    over = robot.lease(1, 'b', ttl=60.0, take_over=True)
    assert over.error_code == 0 and over.lease.token > first.lease.token
    assert robot.lease(2, 'a', first.lease.token).error_code == 10601
    assert robot.lease(2, 'b', over.lease.token, ttl=0.6).error_code == 0
    wait_until(lambda: robot.leases[-1].controller_id == '', 5, 'expiry')
    assert robot.leases[-1].token == over.lease.token
    for operation, who in ((0, 'a'), (9, 'a'), (1, '')):
        assert robot.lease(operation, who).error_code == 10602
    again = robot.lease(1, 'c')
    assert robot.lease(3, 'c', again.lease.token).error_code == 0
    wait_until(lambda: robot.leases[-1].controller_id == '', 5, 'release')


def test_when_the_lease_expires_the_policy_decides(node, robot):
    robot.drive(ttl=1.0)
    robot.stands_because('NO_LEASE')
    robot.policy = 0
    wait_until(lambda: robot.output() == pytest.approx(FORWARD), 5, 'finishing without a lease')


def test_a_second_publisher_is_an_alarm(node, robot):
    robot.drive()
    other = robot.node.create_publisher(robot.types['Twist'], 'cmd_vel', 1)
    try:
        robot.stands_because('SECOND_PUBLISHER')
        assert robot.state().output_publishers == 2
    finally:
        robot.node.destroy_publisher(other)
    wait_until(lambda: robot.output() == pytest.approx(FORWARD), 10, 'going on')


def test_the_output_comes_whether_or_not_anything_comes_in(node, robot):
    robot.drive()
    robot.silent.update({'command', 'scan', 'odom', 'run'})
    robot.stands_because('SCAN_STALE', 10)
    robot.outputs.clear()
    wait_until(lambda: len(robot.outputs) > 25, 20, lambda: '26 outputs, only {}'.format(
        len(robot.outputs)))


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_the_last_word_is_zero(processes, robot, tmp_path, number):
    robot.calm()
    robot.outputs.clear()
    process = start(processes, tmp_path / 'state')
    wait_until(lambda: robot.outputs, 20, lambda: process.output())
    robot.drive()
    process.signal(number)
    assert process.wait() == 0, process.output()
    wait_until(lambda: robot.output() == 0.0, 5, 'zero')


def test_tokens_grow_over_a_crash(processes, robot, tmp_path):
    robot.calm()
    tokens = []
    for _ in range(3):
        process = start(processes, tmp_path / 'state')
        process.wait_for_output('protecting')

        def granted():
            # Right after a crash a call can arrive late, and then a second one meets the first.
            answer = robot.lease(1, take_over=True)
            assert answer.error_code in (0, 10600), answer.error_msg
            return answer.error_code == 0 and answer.lease.token

        tokens.append(wait_until(granted, 20, 'a grant'))
        process.signal(signal.SIGKILL)
        process.wait()
    assert tokens == sorted(set(tokens)), tokens


def stand_and_reset(robot, **fields):
    """Reset the stop in force once standstill is measured; return the answer."""
    wait_until(lambda: robot.state().stop_stage == 3, 10, lambda: str(robot.state()))
    return robot.call('reset_stop', operator_name='ann', reason='looked at it', **fields)


def test_a_latched_stop_and_its_reset_survive_a_crash(processes, robot, tmp_path):
    wal = tmp_path / 'state' / 'stop.sqlite-wal'

    def again():
        robot.calm()
        robot.outputs.clear()
        robot.states.clear()
        process = start(processes, tmp_path / 'state')
        wait_until(lambda: robot.outputs and robot.states, 20, lambda: process.output())
        return process

    def crash(process):
        process.signal(signal.SIGKILL)
        process.wait()

    process = again()
    assert not robot.state().stop_latched, 'a new state directory holds no stop'
    robot.drive()
    robot.call('request_stop', stop_id='s1', source='ann', reason='smoke')
    robot.stands_because('STOP_REQUESTED')
    wait_until(lambda: b'smoke' in wal.read_bytes(), 10, 'the write')
    crash(process)
    for _ in range(2):
        process = again()
        # From its first word on, and whatever comes in.
        assert robot.states[0].stop_latched and robot.states[0].stop_id == 's1'
        assert robot.states[0].stop_source == 'ann' and 'smoke' in robot.states[0].message
        answer = robot.lease(1, take_over=True)
        assert answer.error_code == 0, answer.error_msg
        robot.token = answer.lease.token
        robot.velocity = robot.types['Twist']()
        robot.velocity.linear.x = FORWARD
        wait_until(lambda: robot.state().input.linear.x == FORWARD, 10, lambda: str(robot.state()))
        robot.stands_because('STOP_REQUESTED')
        assert all(message.linear.x == 0.0 for _, message in robot.outputs)
        crash(process)
    process = again()
    answer = stand_and_reset(robot)
    assert answer.error_code == 0, answer.error_msg
    crash(process)
    process = again()
    assert not robot.state().stop_latched
    robot.drive()


@pytest.mark.parametrize('what', ['damaged', 'blocked'])
def test_what_can_not_be_read_starts_stopped_and_a_person_frees_it(processes, robot, tmp_path, what):
    robot.calm()
    robot.outputs.clear()
    robot.states.clear()
    state = tmp_path / 'state'
    if what == 'damaged':
        state.mkdir()
        culprit = state / 'stop.sqlite'
        culprit.write_bytes(b'no database' * 500)
    else:
        culprit = state
        culprit.write_text('no folder')
    process = start(processes, state, '-p', 'require_lease:=false')
    wait_until(lambda: robot.outputs and robot.states, 20, lambda: process.output())
    assert robot.states[0].stop_latched, robot.states[0]
    for part in ('look at the robot', str(culprit), 'harness reset'):
        assert part in robot.states[0].message, robot.states[0].message
    # The reset would be forgotten: it takes force, or a repair.
    answer = stand_and_reset(robot)
    assert answer.error_code == 10603 and str(culprit) in answer.error_msg
    assert robot.state().stop_latched
    if what == 'damaged':
        culprit.unlink()
        answer = stand_and_reset(robot)
    else:
        answer = stand_and_reset(robot, force=True)
    assert answer.error_code == 0, answer.error_msg
    if what == 'blocked':
        refused = robot.lease(1)
        assert refused.error_code == 10603 and str(culprit) in refused.error_msg
    robot.token = 1
    robot.velocity = robot.types['Twist']()
    robot.velocity.linear.x = FORWARD
    wait_until(lambda: robot.output() == pytest.approx(FORWARD), 10, lambda: str(robot.state()))


@pytest.mark.parametrize('parameter', [
    'stop_margin:=.nan', 'deceleration:=0.0', 'stop_strategy:=fly', 'output_rate:=fast',
    'slow_margin:=0.001', 'footprint_polygon:=[0.0, 0.0, 1.0, 0.0]'])
def test_bad_parameters_are_named_and_the_node_ends(processes, tmp_path, parameter):
    process = start(processes, tmp_path / 'state', '-p', parameter)
    assert process.wait() != 0
    name = parameter.partition(':=')[0]
    name = {'footprint_polygon': 'footprint polygon'}.get(name, name)
    assert name in process.output(), process.output()


def test_the_section_of_a_parameter_file_reaches_the_node(processes, robot, tmp_path):
    file = tmp_path / 'mine.yaml'
    file.write_text('/**/protection_node: {ros__parameters: {max_linear_speed: 0.25}}\n')
    robot.calm()
    robot.outputs.clear()
    process = start(processes, tmp_path / 'state', '--params-file', file)
    wait_until(lambda: robot.outputs, 20, lambda: process.output())
    robot.drive(speed=0.2)
    robot.velocity.linear.x = 0.5
    wait_until(lambda: robot.output() == pytest.approx(0.25), 5, lambda: str(robot.state()))
