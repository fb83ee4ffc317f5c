#!/usr/bin/env python3
"""A skill adapter in Python, whole: the skill `blink_lamp` behind the action ExecuteSkill.

Take it as a template. The class Lamp is the device: put yours in its place, describe your skill in
`descriptor`, and let `advance` drive it. All else is the contract, in the order in which a command meets it;
`scripts/test --contract /lamp_adapter/execute_skill` says whether it still holds.

    python3 test/contract/python_adapter.py --ros-args -p state_directory:=/var/lib/lamp_adapter

Three habits carry it:

- The journal comes first. What is about to happen is on disk before it happens, so that after a crash
  the journal says at most too much, never too little: nothing can start a second time.
- Everything runs on one thread, in callbacks that never wait. A goal that runs costs no thread, and no two
  decisions are taken at the same time, so that none of them needs a lock.
- Input is not believed: it is measured before it is read, and read before it is used.
"""

import collections
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import signal
import sqlite3
import sys
import time
import uuid

from builtin_interfaces.msg import Duration, Time
from embodied_harness.action import ExecuteSkill
from embodied_harness.msg import ControlLease, ExecutorBeacon, FailureMode, ProtectionState
from embodied_harness.msg import RunEvent, SkillCatalog, SkillCommand, SkillDescriptor
from embodied_harness.msg import SkillStatus, SkillStatusArray
from embodied_harness.srv import QueryCommand, SettleCommand
import rclpy
from rclpy.action import ActionServer, CancelResponse
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions

# The digest of a command lies beside the tests; take it along with this file, or use a BLAKE3 library.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from command_digest import digest  # noqa: E402, I100, I202

Code = ExecuteSkill.Result
S = SkillStatus

ID = re.compile(r'[A-Za-z0-9_.-]{1,64}', re.ASCII)
# More is no command; hashing it would hold up everything else.
MAX_ARGUMENTS = 16 * 1024
MAX_TEXT = 256
# How often is looked at what runs, and the period of the beacons by ExecutorBeacon.msg [s].
TICK, BEACON = 0.05, 0.2
DEFAULT_STOP_TIMEOUT, MAX_STOP_TIMEOUT = 3.0, 60.0
# Settled commands that skill_status still shows.
RECENT = 16
STATES = {S.STATE_RECEIVED: 'RECEIVED', S.STATE_REJECTED: 'REJECTED', S.STATE_ACCEPTED: 'ACCEPTED',
          S.STATE_STARTED: 'STARTED', S.STATE_CANCELING: 'CANCELING', S.STATE_ENDED: 'ENDED',
          S.STATE_SETTLED: 'SETTLED'}


# --- The device and its skill: yours go here --------------------------------------------------------

class Lamp:
    """A lamp whose filament glows on for a moment after it is switched off, and a photodiode before it."""

    # Time in which the glow falls to 1/e, and the brightness below which it is dark, of 1.
    COOLING, DARK = 0.08, 0.05

    def __init__(self):
        self._is_on = False
        self._off_since = -math.inf

    def switch(self, on):
        """Switch it; doing so again changes nothing."""
        if self._is_on and not on:
            self._off_since = time.monotonic()
        self._is_on = on

    def brightness(self):
        """Measure it: 1 is full."""
        if self._is_on:
            return 1.0
        return math.exp(-(time.monotonic() - self._off_since) / self.COOLING)

    def stands_still(self):
        """Whether the device does nothing any more: measured, not concluded from what it was told."""
        return self.brightness() < self.DARK


SCHEMA = {
    'type': 'object',
    'properties': {
        'duration': {
            'type': 'number', 'minimum': 0.1, 'maximum': 60.0, 'default': 2.0, 'x-unit': 's',
            'description': 'How long to blink.'},
        'period': {
            'type': 'number', 'minimum': 0.1, 'maximum': 5.0, 'default': 0.4, 'x-unit': 's',
            'description': 'Time from one flash to the next.'}},
    'required': [],
    'additionalProperties': False}


def descriptor(action_name):
    """Return what planners, the harness and people have to know about the skill."""
    def failure(code, name, description, recoverable):
        return FailureMode(error_code=code, name=name, description=description, recoverable=recoverable)
    return SkillDescriptor(
        name='blink_lamp', version='1.0.0', action_name=action_name,
        description='Blinks the signal lamp, for example to show somebody that the robot waits.',
        arguments_schema=json.dumps(SCHEMA),
        preconditions_json='{}', effects_json='{"add": [], "remove": []}',
        # Nobody has to judge whether it has blinked: control's end is the result.
        postcondition_text='', postcondition_json='', evaluated=False,
        progress_meaning='time blinked / duration', progress_rate=0.0,
        failure_modes=[
            failure(Code.CANCELED, 'canceled', 'Canceled by the caller; darkness was measured.', True),
            failure(Code.EXECUTION_TIMEOUT, 'execution_timeout', 'It took longer than allowed.', True),
            failure(Code.STOP_UNCONFIRMED, 'stop_unconfirmed',
                    'The lamp did not go dark; look at it, then settle the command.', False),
            failure(Code.RESULT_LOST, 'result_lost',
                    'The adapter was restarted while it blinked; the lamp was switched off.', True)],
        resources=['lamp'], permission='', risk=SkillDescriptor.RISK_REVERSIBLE,
        segmented=False, max_segments=0,
        nominal_duration=Duration(sec=2), maximum_duration=Duration(sec=62),
        embodiment_json='', foreign_actions=[],
        # What goes on without a controller, and what does not, is a property of the skill.
        disconnect_policy=SkillDescriptor.DISCONNECT_STOP)


def bound(arguments):
    """Check arguments against SCHEMA; return them with the defaults filled in.

    With a JSON Schema library at hand this is its work. The contract wants the defaults filled in and each
    refusal to say value and limit.
    """
    if not isinstance(arguments, dict):
        raise ValueError('the arguments are no JSON object; write {"duration": 2.0}')
    unknown = sorted(set(arguments) - set(SCHEMA['properties']))
    if unknown:
        raise ValueError('there is no argument {!r}; the arguments are duration and period'.format(
            unknown[0][:MAX_TEXT]))
    filled = {}
    for name, rule in SCHEMA['properties'].items():
        value = arguments.get(name, rule['default'])
        # A bool is an int in Python, and none in JSON.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError('{} is no number; give {} to {} s'.format(
                name, rule['minimum'], rule['maximum']))
        if not rule['minimum'] <= value <= rule['maximum']:
            raise ValueError('{} is {} s; allowed are {} to {} s'.format(
                name, value, rule['minimum'], rule['maximum']))
        filled[name] = float(value)
    return filled


# --- What is known about a command, and where it is kept -------------------------------------------

@dataclasses.dataclass
class Record:
    """Everything that must survive a crash about one command. Stamps are ROS times [ns]."""

    command_id: str
    digest: str
    task_id: str
    skill: str
    skill_version: str
    segment: int
    arguments: dict
    execution_timeout: float
    stop_timeout: float
    state: int = S.STATE_RECEIVED
    control_end: int = S.END_NONE
    stop_stage: int = S.STOP_NONE
    # Counts what was written about it, so that late news never replaces newer.
    sequence: int = 0
    run_id: str = ''
    resources: list = dataclasses.field(default_factory=list)
    error_code: int = 0
    error_msg: str = ''
    # How it ends once standstill is measured, decided when the stop begins.
    end_when_still: int = S.END_NONE
    received_at: int = 0
    started_at: int = 0
    cancel_requested_at: int = 0
    stop_confirmed_at: int = 0
    ended_at: int = 0
    final_state: int = 0
    settled_by: str = ''

    def is_answered(self):
        """Whether the action has its result."""
        return self.state in (S.STATE_REJECTED, S.STATE_ENDED, S.STATE_SETTLED)

    def holds(self):
        """Whether it keeps others from its resources: until it is settled, not until it ends."""
        return self.state in (S.STATE_ACCEPTED, S.STATE_STARTED, S.STATE_CANCELING, S.STATE_ENDED)


class Journal:
    """The records in one SQLite file.

    WAL with synchronous = FULL: a commit that returned survives a power cut. Nothing is deleted here;
    delete settled commands that are older than 30 days when the file grows.
    """

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a transaction of Python's own: each statement commits by itself.
        self._file = sqlite3.connect(path, timeout=0.0, isolation_level=None)
        # A second adapter on the same journal would start everything twice; the kernel frees the lock
        # of one that was killed.
        for pragma in ('locking_mode = EXCLUSIVE', 'journal_mode = WAL', 'synchronous = FULL'):
            self._file.execute('PRAGMA ' + pragma)
        self._file.execute('CREATE TABLE IF NOT EXISTS commands '
                           '(command_id TEXT PRIMARY KEY, live INTEGER, record TEXT) STRICT')
        self._file.execute('CREATE TABLE IF NOT EXISTS tokens '
                           '(id INTEGER PRIMARY KEY, newest INTEGER) STRICT')

    def put(self, record):
        """Make a record durable."""
        live = record.state not in (S.STATE_REJECTED, S.STATE_SETTLED)
        self._file.execute('INSERT OR REPLACE INTO commands VALUES (?, ?, ?)',
                           (record.command_id, live, json.dumps(dataclasses.asdict(record))))

    def get(self, command_id):
        """Return a record, or None."""
        found = self._file.execute(
            'SELECT record FROM commands WHERE command_id = ?', (command_id,)).fetchone()
        return Record(**json.loads(found[0])) if found else None

    def live(self):
        """Return every record that may still change."""
        found = self._file.execute('SELECT record FROM commands WHERE live ORDER BY rowid')
        return [Record(**json.loads(text)) for text, in found]

    def newest_token(self):
        """Return the newest fencing token that was ever seen."""
        found = self._file.execute('SELECT newest FROM tokens').fetchone()
        return found[0] if found else 0

    def saw_token(self, token):
        """Make a token durable."""
        self._file.execute('INSERT OR REPLACE INTO tokens VALUES (1, ?)', (token,))


class Refusal(Exception):
    """Why a command is not started: a code of ExecuteSkill, and value, limit and what to do."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message


def seconds(message):
    """Return a Duration message in seconds; a negative one is used up, as zero is."""
    return max(0.0, message.sec + 1e-9 * message.nanosec)


def stamp(nanoseconds):
    """Return a ROS time as a message."""
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def refuse_constant(name):
    """Refuse NaN and Infinity, which Python reads and JSON has not."""
    raise ValueError('{} is no JSON'.format(name))


# --- The adapter ------------------------------------------------------------------------------------

class LampAdapter(Node):
    """Serves one skill."""

    # Refusals of commands that are what they claim to be are kept: the same command gets the same answer,
    # even when the reason is gone. Others are not, or anybody could fill the disk.
    kept = {Code.INVALID_ARGUMENTS, Code.EXPIRED_COMMAND, Code.OLD_TOKEN, Code.NO_LEASE,
            Code.RESOURCE_BUSY, Code.STALE_PRECONDITION, Code.STOP_LATCHED, Code.NO_BEACON}

    def __init__(self, lamp):
        super().__init__('lamp_adapter')
        self.lamp = lamp
        self.executor_name = self.get_fully_qualified_name()
        self.robot_id = self.declare_parameter('robot_id', 'robot').value
        self.require_lease = self.declare_parameter('require_lease', True).value
        folder = self.declare_parameter('state_directory', '').value or os.path.join(
            os.environ.get('ROS_HOME', os.path.expanduser('~/.ros')), 'lamp_adapter')
        self.journal = self.open_journal(pathlib.Path(folder) / 'journal.sqlite')
        # This process life: who holds a beacon of an earlier one has made the command before a restart.
        self.boot_id = str(uuid.uuid4())
        self.began = time.monotonic_ns()
        self.skill = descriptor('{}/execute_skill'.format(self.get_name()))
        # What this life remembers: settled and refused commands to show, the goals that wait for the end
        # of a command, those that get their answer next, and of the command that runs since when.
        self.recent = collections.deque(maxlen=RECENT)
        self.waiting = {}
        self.answers = {}
        self.run_since = 0.0
        self.stop_since = 0.0
        self.progress = math.nan
        self.newest_token = self.journal.newest_token()
        self.lease_holder = ''
        self.lease_until = -math.inf
        self.stop_id = None
        self.is_ending = False

        def latched(depth):
            return QoSProfile(depth=depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        # Relative names, so that a namespace moves the whole robot.
        self._beacons = self.create_publisher(ExecutorBeacon, 'executor_beacon', 32)
        self._catalogs = self.create_publisher(SkillCatalog, 'skill_catalog', latched(1))
        self._statuses = self.create_publisher(SkillStatusArray, 'skill_status', self.status_qos())
        self._runs = self.create_publisher(RunEvent, 'run_events', latched(64))
        self.create_subscription(ControlLease, 'control_lease', self.heard_lease, latched(1))
        self.create_subscription(
            ProtectionState, 'protection_state', self.heard_protection, latched(1))
        self.recover()
        self.create_service(QueryCommand, self.get_name() + '/query', self.query)
        self.create_service(SettleCommand, self.get_name() + '/settle', self.settle)
        # A goal is always accepted, because a rejected one can't say why. It is executed, in the words
        # of rclpy, when its answer is known; until then it waits here and in no thread.
        self._server = ActionServer(
            self, ExecuteSkill, self.skill.action_name, execute_callback=self.give_answer,
            handle_accepted_callback=self.arrived,
            cancel_callback=lambda _: CancelResponse.ACCEPT)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(BEACON, self.beat, clock=steady)
        self.create_timer(TICK, self.tick, clock=steady)
        self.publish_catalog([self.skill])
        self.publish_statuses()

    def open_journal(self, path):
        """Open the journal."""
        return Journal(path)

    def status_qos(self):
        """Return the quality of service of skill_status: who joins late sees every live command."""
        return QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)

    # A command arrives.

    def arrived(self, handle):
        """Take a goal: its command is new, known or refused."""
        goal = handle.request
        try:
            record = self.take(goal)
        except Refusal as refusal:
            return self.answer(handle, self.refused(goal.command.command_id, refusal))
        except sqlite3.Error as error:
            # Without a journal nothing starts.
            refusal = Refusal(Code.STORAGE_FAILURE, 'the journal can\'t be used: {}; free space on its '
                              'disk, then send the command again'.format(error))
            return self.answer(handle, self.refused(goal.command.command_id, refusal))
        self.waiting.setdefault(record.command_id, []).append(handle)
        self.tell(record)

    def take(self, goal):
        """Return the record of a command; raise Refusal where none is kept."""
        command = goal.command
        if self.is_ending:
            raise Refusal(Code.SHUTTING_DOWN, 'the adapter is ending; send it to its successor')
        arguments = self.read(command)
        self.check_digest(command)
        known = self.journal.get(command.command_id)
        if known:
            return self.known(known, goal)
        record = Record(
            command_id=command.command_id, digest=command.digest, task_id=command.task_id,
            skill=command.skill, skill_version=command.skill_version, segment=goal.segment,
            arguments=arguments,
            execution_timeout=min(seconds(command.execution_timeout) or math.inf,
                                  seconds(self.skill.maximum_duration)),
            stop_timeout=seconds(command.stop_timeout) or DEFAULT_STOP_TIMEOUT,
            state=S.STATE_RECEIVED, received_at=self.now())
        try:
            record.arguments = self.check_command(goal, arguments)
            self.check_sender(goal.envelope)
            self.check_age(command, goal.envelope)
            self.check_robot()
        except Refusal as refusal:
            self.get_logger().warning('{} refused: {}'.format(record.command_id, refusal))
            if refusal.code not in self.kept:
                raise
            self.write(record, state=S.STATE_REJECTED, error_code=refusal.code,
                       error_msg=refusal.message, ended_at=self.now())
            return record
        self.start(record)
        return record

    def read(self, command):
        """Check the form of a command, and read its arguments."""
        if command.schema_version != SkillCommand.SCHEMA_VERSION:
            raise Refusal(Code.INVALID_COMMAND, 'schema_version is {}, known is {}; use the same release '
                          'on both sides'.format(command.schema_version, SkillCommand.SCHEMA_VERSION))
        for name in ('command_id', 'task_id'):
            value = getattr(command, name)
            if not ID.fullmatch(value) and (value or name == 'command_id'):
                raise Refusal(Code.INVALID_COMMAND, '{} is {!r}; it has 1 to 64 of A-Z, a-z, 0-9, _.-'
                              .format(name, value[:80]))
        for name in ('robot_id', 'skill', 'skill_version', 'digest'):
            if len(getattr(command, name)) > MAX_TEXT:
                raise Refusal(Code.INVALID_COMMAND, '{} has {} characters, the limit is {}'.format(
                    name, len(getattr(command, name)), MAX_TEXT))
        if len(command.arguments_json) > MAX_ARGUMENTS:
            raise Refusal(Code.INVALID_COMMAND, 'arguments_json has {} characters, the limit is {}'.format(
                len(command.arguments_json), MAX_ARGUMENTS))
        # The lamp stands nowhere and asks no scene graph. An adapter that does reads both here.
        if command.targets or command.preconditions:
            raise Refusal(Code.INVALID_COMMAND, '{} targets and {} preconditions are given; blink_lamp '
                          'has none'.format(len(command.targets), len(command.preconditions)))
        try:
            return json.loads(command.arguments_json or '{}', parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise Refusal(Code.INVALID_COMMAND, 'arguments_json is no JSON ({})'.format(error))

    def check_digest(self, command):
        """Refuse a command that was changed on its way."""
        computed = digest(command)
        if computed != command.digest:
            raise Refusal(Code.DIGEST_MISMATCH, 'the command says digest {!r}, its fields give {}; see '
                          '"Digest" in docs/architecture.md'.format(command.digest[:80], computed))

    def known(self, record, goal):
        """Answer for a command that has been here before: nothing starts, no deadline is refreshed."""
        if record.digest != goal.command.digest:
            raise Refusal(Code.COMMAND_ID_CONFLICT, 'command {} is known with digest {}, now it comes with '
                          '{}; a new command needs a new command_id'.format(
                              record.command_id, record.digest, goal.command.digest))
        if record.segment != goal.segment:
            raise Refusal(Code.COMMAND_ID_CONFLICT, 'command {} runs segment {}, not {}'.format(
                record.command_id, record.segment, goal.segment))
        return record

    def check_command(self, goal, arguments):
        """Check what is wanted; return the bound arguments."""
        command = goal.command
        if command.robot_id != self.robot_id:
            raise Refusal(Code.WRONG_ROBOT, 'the command is for robot {!r}, this adapter is of {!r}; send '
                          'it there'.format(command.robot_id, self.robot_id))
        if (command.skill, command.skill_version) != (self.skill.name, self.skill.version):
            raise Refusal(Code.UNKNOWN_SKILL, 'there is no skill {!r} {!r} here, only {} {}; read the '
                          'catalog again'.format(command.skill, command.skill_version, self.skill.name,
                                                 self.skill.version))
        if goal.segment != 0:
            raise Refusal(Code.INVALID_COMMAND, 'segment {} is asked for; blink_lamp has no segments, send '
                          'segment 0'.format(goal.segment))
        if seconds(command.start_within) == 0.0:
            raise Refusal(Code.INVALID_COMMAND, 'start_within is zero or negative; give it time, e.g. 2 s')
        if seconds(command.stop_timeout) > MAX_STOP_TIMEOUT:
            raise Refusal(Code.INVALID_COMMAND, 'stop_timeout is {} s, the limit is {} s'.format(
                seconds(command.stop_timeout), MAX_STOP_TIMEOUT))
        try:
            return bound(arguments)
        except ValueError as error:
            raise Refusal(Code.INVALID_ARGUMENTS, str(error))

    def check_sender(self, envelope):
        """Refuse who has no lease, or had it before somebody else took it."""
        token = envelope.fencing_token
        if not envelope.controller_id or len(envelope.controller_id) > MAX_TEXT:
            raise Refusal(Code.INVALID_COMMAND, 'controller_id of the envelope is empty or longer than {}; '
                          'say who sends'.format(MAX_TEXT))
        if self.is_old(token):
            raise Refusal(Code.OLD_TOKEN, 'token {} is older than the newest, {}; somebody else has taken '
                          'the control lease: acquire it again'.format(token, self.newest_token))
        if not self.require_lease:
            return
        if token == 0 or time.monotonic() >= self.lease_until:
            raise Refusal(Code.NO_LEASE, 'the command comes under token {}, and the lease {} alive; acquire '
                          'it by manage_lease and renew it'.format(
                              token, 'is not' if time.monotonic() >= self.lease_until else 'is'))
        if token > self.newest_token:
            # Only the lease itself makes a token known: one that somebody made up must shut nobody out.
            raise Refusal(Code.NO_LEASE, 'token {} is newer than the newest that control_lease has told '
                          'here, {}; send a new command when it is told'.format(token, self.newest_token))
        if token == self.newest_token and self.lease_holder not in ('', envelope.controller_id):
            raise Refusal(Code.NO_LEASE, 'token {} belongs to {!r}, not to {!r}; send under your own '
                          'lease'.format(token, self.lease_holder, envelope.controller_id))

    def is_old(self, token):
        """Whether a token is not the newest one; 0 is none."""
        return 0 != token < self.newest_token

    def check_age(self, command, envelope):
        """Refuse what is late, on this adapter's own clock: two steady clocks are never compared."""
        beacon = envelope.beacon
        if beacon.executor != self.executor_name:
            raise Refusal(Code.NO_BEACON, 'the beacon is of {!r}, this is {!r}; echo the newest one of '
                          'executor_beacon'.format(beacon.executor[:80], self.executor_name))
        if beacon.boot_id != self.boot_id:
            raise Refusal(Code.EXPIRED_COMMAND, 'the command was made for boot {!r}, this is {}; make a new '
                          'one'.format(beacon.boot_id[:80], self.boot_id))
        age = 1e-9 * (self.steady() - beacon.tick)
        if age < 0.0:
            raise Refusal(Code.NO_BEACON, 'tick {} of the beacon is in the future; echo a beacon that came'
                          .format(beacon.tick))
        left = seconds(envelope.start_within)
        if left > seconds(command.start_within):
            raise Refusal(Code.INVALID_COMMAND, 'the envelope leaves {} s, more than the whole budget of {} '
                          's; it is never refreshed'.format(left, seconds(command.start_within)))
        if age >= left:
            raise Refusal(Code.EXPIRED_COMMAND, 'the command is {:.3f} s old and had to start within {:.3f} '
                          's; make a new one'.format(age, left))

    def check_robot(self):
        """Refuse while a stop is latched or the lamp is not free."""
        if self.stop_id is not None:
            raise Refusal(Code.STOP_LATCHED, 'stop {!r} is latched; when it is safe, reset it with '
                          'reset_stop'.format(self.stop_id))
        holder = self.holder()
        if holder:
            raise Refusal(Code.RESOURCE_BUSY, 'lamp is held by {}; wait until that is settled, or settle '
                          'it'.format(holder.command_id))

    def holder(self):
        """Return the command that holds the lamp, or None."""
        return next((r for r in self.journal.live() if r.holds()), None)

    # It runs.

    def start(self, record):
        """Start: STARTED is durable, and told, before anything glows.

        What was received and accepted is not written down by itself, because nothing lies between that and
        the start. An adapter that asks others in between writes it, and refuses it after a restart.
        """
        self.write(record, state=S.STATE_STARTED, run_id='run-{}'.format(uuid.uuid4()),
                   resources=list(self.skill.resources), started_at=self.now())
        self.tell_run(record, RunEvent.EVENT_START, record.started_at)
        self.run_since = time.monotonic()
        self.progress = 0.0
        self.lamp.switch(True)
        self.get_logger().info('{}: started {}'.format(record.command_id, record.arguments))

    def tick(self):
        """Look at what runs."""
        for record in self.journal.live():
            if record.state == S.STATE_STARTED and not self.wants_stop(record):
                self.advance(record)
            elif record.state == S.STATE_CANCELING:
                self.bring_to_standstill(record)

    def advance(self, record):
        """Go on with the skill."""
        gone = time.monotonic() - self.run_since
        duration, period = record.arguments['duration'], record.arguments['period']
        self.lamp.switch(gone < duration and gone % period < period / 2)
        self.progress = min(1.0, gone / duration)
        if gone >= duration and self.lamp.stands_still():
            self.end(record, S.END_COMPLETED)

    def wants_stop(self, record):
        """Begin to stop what somebody wants to stop; return whether."""
        reason = None
        # Who asks by the action is seen in its goals. A cancel needs no token.
        if any(handle.is_cancel_requested for handle in self.waiting.get(record.command_id, [])):
            reason = (S.END_CANCELED, Code.CANCELED, 'canceled by the caller; darkness was measured')
        elif self.stop_id is not None:
            reason = (S.END_CANCELED, Code.STOP_LATCHED, 'stopped, because stop {!r} is latched; when it '
                      'is safe, reset it with reset_stop'.format(self.stop_id))
        elif self.is_ending:
            reason = (S.END_CANCELED, Code.SHUTTING_DOWN, 'stopped, because the adapter is ending')
        elif self.require_lease and time.monotonic() >= self.lease_until:
            # DISCONNECT_STOP; with DISCONNECT_FINISH this branch is left out.
            reason = (S.END_CANCELED, Code.NO_LEASE, 'stopped, because the control lease expired; acquire '
                      'it with manage_lease and send a new command')
        elif time.monotonic() - self.run_since >= record.execution_timeout:
            reason = (S.END_ABORTED, Code.EXECUTION_TIMEOUT, 'it ran for its execution_timeout of {} s; '
                      'give it more time'.format(record.execution_timeout))
        if reason is None:
            return False
        self.stop(record, *reason)
        return True

    def stop(self, record, control_end, code, message):
        """Begin to stop. The device is told first: a full disk must not keep it going."""
        self.lamp.switch(False)
        self.stop_since = time.monotonic()
        self.write_end(record, state=S.STATE_CANCELING, stop_stage=S.STOP_REQUESTED,
                       end_when_still=control_end, error_code=code, error_msg=message,
                       cancel_requested_at=self.now())
        self.tell(record)

    def bring_to_standstill(self, record):
        """End a stop when standstill is measured, or say that it was not."""
        self.lamp.switch(False)
        if self.lamp.stands_still():
            self.end(record, record.end_when_still, stop_stage=S.STOP_CONFIRMED,
                     stop_confirmed_at=self.now())
        elif time.monotonic() - self.stop_since >= record.stop_timeout:
            # Not CANCELED: nobody knows that it has stopped.
            self.end(record, S.END_LOST, stop_stage=S.STOP_UNCONFIRMED, error_code=Code.STOP_UNCONFIRMED,
                     error_msg='brightness is still {:.2f} after {} s, the limit is {}; look at the lamp, '
                     'then settle the command'.format(
                         self.lamp.brightness(), record.stop_timeout, Lamp.DARK))

    def end(self, record, control_end, **changes):
        """Control has ended: write it, tell it, answer. The resources stay held until it is settled."""
        self.progress = math.nan
        self.write_end(record, state=S.STATE_ENDED, control_end=control_end, ended_at=self.now(), **changes)
        # The evaluator takes its evidence from here on, so this comes before the answer.
        self.tell_run(record, RunEvent.EVENT_END, record.ended_at)
        self.tell(record)
        self.get_logger().info('{}: ended {} {}'.format(
            record.command_id, record.control_end, record.error_msg))

    def recover(self):
        """Bring to an end what an earlier life left in the middle. Nothing is ever started again."""
        self.lamp.switch(False)
        self.stop_since = time.monotonic()
        for record in self.journal.live():
            # The earlier life may have died before it could tell, and its latched events died with it. The
            # same run_id and stamp say that this is nothing new.
            self.tell_run(record, RunEvent.EVENT_START, record.started_at)
            if record.state == S.STATE_ENDED:
                self.tell_run(record, RunEvent.EVENT_END, record.ended_at)
            else:
                # It may have glown for a while or not at all: the journal can't tell, so nobody claims it.
                self.write(record, state=S.STATE_CANCELING, stop_stage=S.STOP_REQUESTED,
                           end_when_still=S.END_ABORTED, error_code=Code.RESULT_LOST,
                           error_msg='the adapter was restarted in the middle and the lamp was switched '
                           'off; look at it', cancel_requested_at=self.now())

    # Writing and telling.

    def write(self, record, **changes):
        """Change a record, make it durable before anything follows from it, and tell everybody."""
        record.__dict__.update(changes, sequence=self.next_sequence(record))
        self.journal.put(record)
        if not record.holds():
            self.recent.appendleft(record)
        self.publish_statuses()

    def next_sequence(self, record):
        """Count the events of a command."""
        return record.sequence + 1

    def write_end(self, record, **changes):
        """Write what ends a motion: that is performed even when it can't be written down."""
        try:
            self.write(record, **changes)
        except sqlite3.Error as error:
            self.get_logger().error('{} is not written down: {}'.format(record.command_id, error))

    def tell(self, record):
        """Tell those who wait for the command."""
        handles = self.waiting.get(record.command_id, [])
        status = self.status(record)
        if record.is_answered():
            for handle in self.waiting.pop(record.command_id, []):
                self.answer(handle, status)
        else:
            for handle in handles:
                handle.publish_feedback(ExecuteSkill.Feedback(status=status))

    def answer(self, handle, status):
        """Let a goal end with this status."""
        self.answers[bytes(handle.goal_id.uuid)] = status
        handle.execute()

    def give_answer(self, handle):
        """Give the answer of a goal; its command has ended."""
        status = self.answers.pop(bytes(handle.goal_id.uuid))
        if status.control_end == S.END_COMPLETED:
            handle.succeed()
        elif status.control_end == S.END_CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            # Also one that was stopped without this client's asking: rclpy cancels no goal by itself.
            handle.abort()
        return ExecuteSkill.Result(
            error_code=status.error_code, error_msg=status.error_msg, status=status)

    def refused(self, command_id, refusal):
        """Return the status of a command that leaves no record."""
        self.get_logger().warning('{!r} refused: {}'.format(command_id[:80], refusal))
        return S(executor=self.executor_name, boot_id=self.boot_id, command_id=command_id[:MAX_TEXT],
                 state=S.STATE_REJECTED, progress=math.nan, error_code=refusal.code,
                 error_msg=refusal.message)

    def status(self, record):
        """Return a record as others see it."""
        running = record.state == S.STATE_STARTED
        return S(
            executor=self.executor_name, boot_id=self.boot_id, command_id=record.command_id,
            task_id=record.task_id, skill=record.skill, run_id=record.run_id, state=record.state,
            control_end=record.control_end, stop_stage=record.stop_stage, sequence=record.sequence,
            segment=record.segment, sub_goal='blink' if running else '',
            progress=self.progress if running else math.nan,
            resources=record.resources if record.holds() else [],
            error_code=record.error_code, error_msg=record.error_msg,
            received_at=stamp(record.received_at), started_at=stamp(record.started_at),
            cancel_requested_at=stamp(record.cancel_requested_at),
            stop_confirmed_at=stamp(record.stop_confirmed_at), ended_at=stamp(record.ended_at))

    def tell_run(self, record, event, when):
        """Tell start or end of a run."""
        self._runs.publish(RunEvent(
            event=event, stamp=stamp(when), executor=self.executor_name, boot_id=self.boot_id,
            robot_id=self.robot_id, command_id=record.command_id, run_id=record.run_id,
            segment=record.segment, sequence=record.sequence, skill=record.skill,
            skill_version=record.skill_version, arguments_json=json.dumps(record.arguments)))

    def publish_statuses(self):
        """Publish every live command and the last ones that are over."""
        self._statuses.publish(SkillStatusArray(
            executor=self.executor_name, boot_id=self.boot_id, stamp=stamp(self.now()),
            statuses=[self.status(r) for r in self.journal.live() + list(self.recent)]))

    def publish_catalog(self, skills):
        """Publish the skills; none withdraws them all."""
        self._catalogs.publish(SkillCatalog(
            executor=self.executor_name, boot_id=self.boot_id, robot_id=self.robot_id, skills=skills))

    def beat(self):
        """Tell this adapter's own clock, and how far it is."""
        self._beacons.publish(ExecutorBeacon(
            executor=self.executor_name, boot_id=self.boot_id, tick=self.steady()))
        running = [r for r in self.journal.live() if r.state == S.STATE_STARTED]
        for record in running:
            self.tell(record)
        if running:
            # Progress, for those who only look on.
            self.publish_statuses()

    def steady(self):
        """Return the steady time since the start [ns]."""
        return time.monotonic_ns() - self.began

    def now(self):
        """Return the ROS time, for stamps only [ns]."""
        return self.get_clock().now().nanoseconds

    # What others say.

    def heard_lease(self, lease):
        """Note who may command, and until when on this clock."""
        if lease.token < self.newest_token:
            return
        self.lease_holder = lease.controller_id
        self.lease_until = time.monotonic() + seconds(lease.remaining)
        self.see_token(lease.token)

    def see_token(self, token):
        """Remember a newer token, over restarts too: an old controller does not become new by a crash."""
        if token > self.newest_token:
            # SQLite counts up to 2^63 - 1; no lease is ever granted that often.
            with contextlib.suppress(OverflowError):
                self.journal.saw_token(token)
                self.newest_token = token

    def heard_protection(self, state):
        """Note whether a stop is latched."""
        self.stop_id = state.stop_id if state.stop_latched else None

    def query(self, request, response):
        """Say where a command is; with an empty id, all that are not settled."""
        if request.command_id:
            record = self.journal.get(request.command_id)
            if record is None:
                response.error_code = QueryCommand.Response.COMMAND_NOT_FOUND
                response.error_msg = 'no command {!r} is in the journal of {}; check the id'.format(
                    request.command_id[:80], self.executor_name)
            found = [record] if record else []
        else:
            found = self.journal.live()
        response.command_ids = [r.command_id for r in found]
        response.command_states = [QueryCommand.Request.COMMAND_UNSPECIFIED] * len(found)
        response.statuses = [self.status(r) for r in found]
        return response

    def settle(self, request, response):
        """Take the issuer's or a person's word on what became of a command, and free its resources."""
        record = self.journal.get(request.command_id)
        try:
            if record is None:
                raise Refusal(SettleCommand.Response.COMMAND_NOT_FOUND, 'no command {!r} is known here; '
                              'check the id'.format(request.command_id[:80]))
            self.check_settlement(record, request)
            if record.state == S.STATE_ENDED:
                self.write(record, state=S.STATE_SETTLED, final_state=request.final_state,
                           settled_by=request.settled_by[:MAX_TEXT])
        except Refusal as refusal:
            response.error_code, response.error_msg = refusal.code, refusal.message
        except sqlite3.Error as error:
            response.error_code = Code.STORAGE_FAILURE
            response.error_msg = 'it is not settled, the journal can\'t be written: {}'.format(error)
        response.state = STATES.get(record.state, '') if record else ''
        return response

    def check_settlement(self, record, request):
        """Refuse a settlement that is not one."""
        R = SettleCommand.Request
        if request.final_state not in (R.FINAL_SUCCEEDED, R.FINAL_FAILED, R.FINAL_CANCELED):
            raise Refusal(SettleCommand.Response.INVALID_REQUEST, 'final_state is {}; use a FINAL_* constant'
                          .format(request.final_state))
        if not request.settled_by:
            raise Refusal(SettleCommand.Response.INVALID_REQUEST, 'settled_by is empty; say who settles')
        if request.fencing_token == 0 and self.require_lease and not request.reason:
            raise Refusal(SettleCommand.Response.INVALID_REQUEST, 'neither a fencing_token nor a reason is '
                          'given; a person says why')
        if self.is_old(request.fencing_token):
            raise Refusal(SettleCommand.Response.OLD_TOKEN, 'token {} is older than the newest, {}'.format(
                request.fencing_token, self.newest_token))
        if record.state == S.STATE_SETTLED and record.final_state != request.final_state:
            raise Refusal(SettleCommand.Response.NOT_SETTLEABLE, 'it was settled as {} by {!r} before'.format(
                record.final_state, record.settled_by))
        if record.state not in (S.STATE_ENDED, S.STATE_SETTLED):
            raise Refusal(SettleCommand.Response.NOT_SETTLEABLE, 'it is {}; control has to end first'.format(
                STATES.get(record.state)))

    def begin_to_end(self):
        """Take nothing any more, and stop what runs."""
        self.is_ending = True
        self.publish_catalog([])

    def is_idle(self):
        """Whether nothing runs and everybody has an answer."""
        return not self.waiting and not self.answers and all(
            r.state not in (S.STATE_STARTED, S.STATE_CANCELING) for r in self.journal.live())


def main(adapter_type=LampAdapter):
    """Run the adapter until SIGINT or SIGTERM."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    adapter = adapter_type(Lamp())
    executor = SingleThreadedExecutor()
    executor.add_node(adapter)
    asked = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.append(True))
    give_up = math.inf
    while not (asked and adapter.is_idle()) and time.monotonic() < give_up:
        executor.spin_once(timeout_sec=0.1)
        if asked and not adapter.is_ending:
            adapter.begin_to_end()
            give_up = time.monotonic() + MAX_STOP_TIMEOUT
    executor.shutdown()
    rclpy.shutdown()


if __name__ == '__main__':
    main()
