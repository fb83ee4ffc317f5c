"""The issuer's side of the contract: an rclpy node that finds an adapter, commands it and hears it.

Everything is spun by the thread that asks, so that no answer comes before its question is noted.
"""

import contextlib
import copy
import json
import os
import pathlib
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from command_digest import digest  # noqa: E402, I202

CONTROLLER = '/contract_test'
# How long discovery may take, and the answer of a service [s].
DISCOVERY, ANSWER = 15.0, 5.0
LEASE_TTL = 3
# How long news on a topic may take to count in the adapter [s].
NEWS = 3.0


class Violation(AssertionError):
    """The adapter does not keep to the contract."""


class Unusable(Exception):
    """The checks can't be run; says what to do."""


def expect(condition, expected, came, source):
    """Fail unless the condition holds: what was expected, what came, and where the contract says so."""
    if not condition:
        raise Violation('expected: {}\n    came: {}\n    says: {}'.format(
            expected, came() if callable(came) else came, source))


def nanoseconds(stamp):
    """Return a Time or Duration message in nanoseconds."""
    return stamp.sec * 10**9 + stamp.nanosec


def seconds(duration):
    """Return a Duration message in seconds."""
    return 1e-9 * nanoseconds(duration)


class Sent:
    """A goal that was sent: its command, what was heard of it, and its answer."""

    def __init__(self, goal):
        self.goal = goal
        self.handle = None
        self.answer = None
        self.answered_at = None
        self.feedback = []

    def answered(self, future):
        """Take the answer."""
        self.answer, self.answered_at = future.result(), time.monotonic()

    @property
    def id(self):
        """The command's id."""
        return self.goal.command.command_id

    @property
    def result(self):
        """The result."""
        return self.answer.result

    @property
    def status(self):
        """The SkillStatus of the result."""
        return self.answer.result.status

    def summary(self):
        """Say in a line how it ended."""
        if self.answer is None:
            return 'no answer yet'
        s = self.status
        return ('goal status {}, error_code {}, error_msg {!r}, state {}, control_end {}, stop_stage {}, '
                'run_id {!r}').format(self.answer.status, self.result.error_code,
                                      self.result.error_msg[:200], s.state, s.control_end, s.stop_stage,
                                      s.run_id)


class Adapter:
    """The adapter under test, as its issuer meets it."""

    def __init__(self, action_name):
        import rclpy
        from embodied_harness.action import ExecuteSkill
        from embodied_harness.msg import ControlLease, ExecutorBeacon, ProtectionState, RunEvent
        from embodied_harness.msg import SkillCatalog, SkillStatus, SkillStatusArray
        from embodied_harness.srv import ManageLease, QueryCommand, RequestStop, ResetStop, SettleCommand
        from rclpy.action import ActionClient
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import DurabilityPolicy, QoSProfile

        self.action = ExecuteSkill
        self.code = ExecuteSkill.Result
        self.S = SkillStatus
        self.types = {t.__name__: t for t in (
            ControlLease, ProtectionState, SkillStatusArray, ManageLease, QueryCommand, RequestStop,
            ResetStop, SettleCommand, RunEvent)}
        self.latched = lambda depth: QoSProfile(
            depth=depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        rclpy.init()
        self.rclpy = rclpy
        self.node = rclpy.create_node('contract_test_' + uuid.uuid4().hex[:8])
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self.notes = []
        self.beacons, self.catalogs, self.runs = [], {}, []
        self.commands = {}
        # Ids that were refused, and ids that outlive the check that sent them.
        self.refused, self.kept = [], set()
        self.action_name = self._resolved(action_name)

        self._find_catalog(SkillCatalog)
        self._client = ActionClient(self.node, ExecuteSkill, self.action_name)
        self._query = self.node.create_client(QueryCommand, self.executor + '/query')
        self._settle = self.node.create_client(SettleCommand, self.executor + '/settle')
        self.node.create_subscription(
            ExecutorBeacon, self.named('executor_beacon'), self._take_beacon, 32)
        self.node.create_subscription(
            RunEvent, self.named('run_events'), self.runs.append, self.latched(64))
        self.wait_until_ready()
        if not self.until(lambda: self.beacons, 5.0):
            raise Violation('expected: beacons of {} on {} at 5 Hz\n    came: none within 5 s\n    says: '
                            'ExecutorBeacon.msg'.format(self.executor, self.named('executor_beacon')))
        self.lease = self.protection = None

    def take_command(self):
        """Acquire the lease and all else that the robot needs to obey, and wait until it does."""
        self.lease = Lease(self)
        self.protection = Protection(self)

    # Finding.

    def _resolved(self, name):
        return name if name.startswith('/') else '/' + name

    def named(self, name):
        """Return a name in the robot's namespace."""
        return self.namespace + '/' + name

    def _find_catalog(self, kind):
        topics = {}

        def found():
            for topic, types in self.node.get_topic_names_and_types():
                if 'embodied_harness/msg/SkillCatalog' in types and topic not in topics:
                    topics[topic] = self.node.create_subscription(
                        kind, topic, lambda m, t=topic: self._take_catalog(t, m), self.latched(16))
            return self.catalog_entry()
        if not self.until(found, DISCOVERY):
            heard = sorted('{} ({})'.format(self._resolved_in(t, s.action_name), s.name)
                           for (t, _), m in self.catalogs.items() for s in m.skills)
            raise Unusable(
                'no skill with the action {} is in a skill_catalog within {} s. The catalogs heard of offer: '
                '{}. Is the adapter running in ROS_DOMAIN_ID {}, does it publish SkillCatalog reliable and '
                'transient local, and is SkillDescriptor.action_name relative to the robot\'s namespace?'
                .format(self.action_name, DISCOVERY, ', '.join(heard) or 'nothing', self._domain()))

    @staticmethod
    def _domain():
        import os
        return os.environ.get('ROS_DOMAIN_ID', '0')

    def _take_catalog(self, topic, message):
        self.catalogs[(topic, message.executor)] = message

    def _resolved_in(self, topic, name):
        return name if name.startswith('/') else topic.rpartition('/')[0] + '/' + name

    def catalog_entry(self):
        """Return the catalog that offers the action, and remember where it came from."""
        for (topic, executor), message in self.catalogs.items():
            if any(self._resolved_in(topic, s.action_name) == self.action_name for s in message.skills):
                self.namespace = topic.rpartition('/')[0]
                self.executor = executor
                return message
        return None

    def skills(self):
        """Return the skills that the action runs."""
        return [s for s in self.catalog_entry().skills
                if self._resolved_in(self.namespace + '/x', s.action_name) == self.action_name]

    def wait_until_ready(self):
        """Wait until all of the adapter is discovered."""
        for what, ready in (
                ('an action server of ' + self.action_name, self._client.server_is_ready),
                ('the service {}/query'.format(self.executor), self._query.service_is_ready),
                ('the service {}/settle'.format(self.executor), self._settle.service_is_ready)):
            if not self.until(ready, DISCOVERY):
                raise Unusable('{} is not there within {} s; is it served by the node that publishes the '
                               'catalog?'.format(what, DISCOVERY))

    def served(self, client, topic):
        """Whether a service is there, or we have to do its work on the topic that belongs to it."""
        if self.until(client.service_is_ready, 4.0):
            return True
        if self.node.count_publishers(self.named(topic)) and not self.until(
                client.service_is_ready, DISCOVERY):
            raise Unusable('somebody publishes {}, but nobody serves {}; end that, or start protection_node'
                           .format(self.named(topic), client.srv_name))
        return client.service_is_ready()

    # Hearing.

    def _take_beacon(self, message):
        if message.executor == self.executor:
            self.beacons.append((time.monotonic(), message))
            del self.beacons[:-200]

    @property
    def boot_id(self):
        """The process life that was heard last."""
        return self.beacons[-1][1].boot_id

    def events(self, command_id):
        """Return the run events of a command in the order of their arrival."""
        return [e for e in self.runs if e.command_id == command_id]

    def starts(self, command_id):
        """Return the START events of a command."""
        return self._told(command_id, 1)

    def ends(self, command_id):
        """Return the END events of a command."""
        return self._told(command_id, 3)

    def _told(self, command_id, kind):
        # A later life may tell what an earlier one did, which may have died before it could: the same run
        # with the same stamp is nothing new.
        found = []
        for event in self.events(command_id):
            old = [e for e in found if e.boot_id != event.boot_id
                   and (e.run_id, e.stamp) == (event.run_id, event.stamp)]
            if event.event == kind and not old:
                found.append(event)
        return found

    def until(self, condition, timeout):
        """Spin until condition() is true, but no longer than timeout seconds; return its last value."""
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value or time.monotonic() > deadline:
                return value
            self._executor.spin_once(timeout_sec=0.02)

    # Commanding.

    def choose(self, skill, arguments):
        """Set which skill is run with what from now on."""
        self.skill, self.arguments = skill, arguments
        self.patience = seconds(skill.maximum_duration)
        self.patience = min(self.patience, max(20.0, 4 * seconds(skill.nominal_duration))) + 10.0
        self.claims = list(skill.resources)

    def goal(self, arguments=None, digested=True, **changes):
        """Make a goal that is in order; changes of the command are made before the digest."""
        goal = self.action.Goal()
        c = goal.command
        c.schema_version = c.SCHEMA_VERSION
        c.command_id = 'contract-' + uuid.uuid4().hex[:16]
        c.robot_id = self.catalog_entry().robot_id
        c.skill, c.skill_version = self.skill.name, self.skill.version
        c.arguments_json = json.dumps(self.arguments if arguments is None else arguments)
        c.start_within.sec = 10
        for name, value in changes.items():
            setattr(c, name, value)
        c.digest = digest(c) if digested else '0' * 64
        self.address(goal)
        return goal

    def address(self, goal):
        """Give a goal the envelope that an issuer would give it now."""
        e = goal.envelope
        e.fencing_token = self.lease.token
        e.controller_id = CONTROLLER
        e.start_within.sec = 10
        e.beacon = copy.deepcopy(self.beacons[-1][1])
        return goal

    def again(self, sent):
        """Return the same command in a new envelope, as an issuer sends it again."""
        goal = copy.deepcopy(sent.goal)
        return self.address(goal)

    def send(self, goal, wait=True):
        """Send a goal; return it when it was acknowledged."""
        sent = Sent(goal)
        self.commands.setdefault(goal.command.command_id, []).append(sent)

        def acknowledged(future):
            sent.handle = future.result()
            if sent.handle.accepted:
                sent.handle.get_result_async().add_done_callback(sent.answered)
        self._client.send_goal_async(
            goal, feedback_callback=lambda m: sent.feedback.append(m.feedback.status)
        ).add_done_callback(acknowledged)
        if wait:
            self.acknowledged(sent)
        return sent

    def acknowledged(self, sent):
        """Wait until a goal was taken."""
        self.until(lambda: sent.handle, ANSWER)
        expect(sent.handle is not None, 'an acknowledgement of the goal within {} s'.format(ANSWER), 'none',
               'ExecuteSkill.action')
        expect(sent.handle.accepted, 'every goal is accepted; a refusal is told in the result, with its code',
               'the goal was rejected, which says neither why nor what to do',
               'ExecuteSkill.action (error_code, error_msg); docs/your_robot.md, "An adapter of your own"')

    def result(self, sent):
        """Wait for the answer."""
        self.until(lambda: sent.answer, self.patience)
        expect(sent.answer is not None, 'a result of command {} within {:.0f} s'.format(
            sent.id, self.patience), 'none', 'ExecuteSkill.action: the action ends when control ends')
        return sent

    def run(self, goal):
        """Send a goal and wait for its answer."""
        return self.result(self.send(goal))

    def running(self, sent):
        """Wait until a command has started; return its START event."""
        self.until(lambda: self.starts(sent.id) or sent.answer, self.patience)
        self.until(lambda: self.starts(sent.id), 0.5)
        expect(self.starts(sent.id), 'a run event START of command {}'.format(sent.id),
               sent.summary, 'RunEvent.msg')
        return self.starts(sent.id)[0]

    def cancel(self, sent):
        """Ask to cancel; wait for the answer to the request."""
        future = sent.handle.cancel_goal_async()
        self.until(future.done, ANSWER)
        expect(future.done(), 'an answer to the cancel request within {} s'.format(ANSWER), 'none',
               'ExecuteSkill.action')
        return future.result()

    def call(self, client, request, what):
        """Call a service that may be called again; its first answer can be lost right after discovery."""
        for _ in range(3):
            future = client.call_async(request)
            if self.until(future.done, ANSWER):
                return future.result()
            client.remove_pending_request(future)
        raise Violation('expected: an answer of {} within {} s\n    came: none\n    says: {}'.format(
            client.srv_name, ANSWER, what))

    def query(self, command_id):
        """Ask the executor for a command."""
        return self.call(self._query, self.types['QueryCommand'].Request(command_id=command_id),
                         'QueryCommand.srv')

    def settle(self, command_id, final_state=2, token=None, by=CONTROLLER, reason='contract test'):
        """Settle a command."""
        return self.call(self._settle, self.types['SettleCommand'].Request(
            command_id=command_id, final_state=final_state, settled_by=by, reason=reason,
            fencing_token=self.lease.token if token is None else token), 'SettleCommand.srv')

    def state_of(self, command_id):
        """Return the executor's status of a command, or None."""
        found = self.query(command_id)
        return found.statuses[0] if found.error_code == 0 and found.statuses else None

    def tidy(self):
        """Cancel and settle whatever of ours is not over, so that one failed check spoils no other."""
        known = [s for i, many in self.commands.items() if i not in self.kept for s in many]
        taken = [s for s in known if s.handle is not None and s.handle.accepted]
        for sent in taken:
            if sent.answer is None:
                sent.handle.cancel_goal_async()
        self.until(lambda: all(s.answer for s in taken), self.patience)
        for sent in known:
            refused = sent.answer is not None and sent.status.state == self.S.STATE_REJECTED
            if not refused or self.starts(sent.id):
                self.settle(sent.id)
        for command_id in set(self.commands) - self.kept:
            del self.commands[command_id]

    def orphan(self, sent):
        """Expect no answer of a goal any more: its server is about to die."""
        self.commands.get(sent.id, []).remove(sent)

    def expired(self):
        """Send a command that has expired already; return its answer, or None."""
        goal = self.goal()
        goal.envelope.start_within.sec, goal.envelope.start_within.nanosec = 0, 1
        sent = self.send(goal, wait=False)
        self.until(lambda: sent.answer, 2.0)
        return sent if sent.answer else None

    def probe(self, code, timeout=NEWS):
        """Send commands that have expired until they are refused with this code; return whether.

        Whether a lease or a stop is known can be learned from them only where the adapter looks at it before
        the age; else this waits for the whole time.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            sent = self.expired()
            if sent and sent.result.error_code == code:
                return True
            self.until(lambda: False, 0.05)
        return False

    def wait_until_in_order(self):
        """Wait until the adapter knows the lease and of no stop."""
        deadline, last = time.monotonic() + 10.0, None
        while time.monotonic() < deadline:
            last = self.expired() or last
            code = last.result.error_code if last else 0
            if code == self.code.OLD_TOKEN and self.lease.is_ours:
                self.lease.raise_token()
            elif last and code not in (self.code.NO_LEASE, self.code.OLD_TOKEN, self.code.STOP_LATCHED):
                # One that does not look at the age has started it.
                self.tidy()
                return
            self.until(lambda: False, 0.05)
        raise Unusable('the adapter takes no commands under token {} of {}: {}'.format(
            self.lease.token, CONTROLLER, last.summary() if last else 'it does not answer'))

    def close(self):
        """Leave the graph."""
        if self.lease is not None:
            self.lease.close()
        self._executor.shutdown(timeout_sec=2)
        self.node.destroy_node()
        self.rclpy.shutdown()


class Lease:
    """The control lease, acquired where somebody grants it, else given out by ourselves."""

    def __init__(self, adapter):
        self._adapter = adapter
        node, kinds = adapter.node, adapter.types
        self._manage = node.create_client(kinds['ManageLease'], adapter.named('manage_lease'))
        self.is_ours = not adapter.served(self._manage, 'control_lease')
        self.token = 0
        self._live = True
        if self.is_ours:
            self._publisher = node.create_publisher(
                kinds['ControlLease'], adapter.named('control_lease'), adapter.latched(1))
            self.token = 2
            adapter.notes.append('{} is not served: this publishes control_lease itself; use a journal that '
                                 'was made for the test, since it remembers the token'.format(
                                     adapter.named('manage_lease')))
        else:
            # Twice, so that there is an older token than the one in force.
            self._acquire()
            self._release()
            self._acquire()
            adapter.notes.append('the control lease was acquired by {} with token {}'.format(
                adapter.named('manage_lease'), self.token))
        self._timer = node.create_timer(0.4, self._keep)
        self._keep()

    def _ask(self, operation):
        request = self._adapter.types['ManageLease'].Request(
            operation=operation, controller_id=CONTROLLER, token=self.token)
        request.ttl.sec = LEASE_TTL
        return self._adapter.call(self._manage, request, 'ManageLease.srv')

    def _acquire(self):
        # Never taken from somebody who commands the robot at the moment.
        answer = self._ask(1)
        if answer.error_code:
            raise Unusable('the control lease is refused ({}): {}. End what commands the robot, for example '
                           'harness_node, and try again'.format(answer.error_code, answer.error_msg))
        self.token = answer.lease.token

    def _release(self):
        self._ask(3)

    def raise_token(self):
        """Give out the lease under a much newer token, since the adapter's journal knows a newer one."""
        self.token *= 2
        self._keep()

    def _keep(self):
        adapter = self._adapter
        if not self.is_ours:
            if self._live:
                request = adapter.types['ManageLease'].Request(
                    operation=2, controller_id=CONTROLLER, token=self.token)
                request.ttl.sec = LEASE_TTL
                self._manage.call_async(request)
            return
        lease = adapter.types['ControlLease'](controller_id=CONTROLLER, token=self.token)
        lease.ttl.sec = LEASE_TTL
        lease.remaining.sec = LEASE_TTL if self._live else 0
        self._publisher.publish(lease)

    def lose(self):
        """Let the lease end."""
        self._live = False
        if not self.is_ours:
            self._release()
        self._keep()

    def regain(self):
        """Hold the lease again."""
        self._live = True
        if not self.is_ours:
            self._acquire()
        self._keep()

    def close(self):
        """Give it back."""
        self._timer.cancel()
        with contextlib.suppress(Violation):
            self.lose()


class Protection:
    """The latched stop, asked for where somebody protects, else told by ourselves."""

    def __init__(self, adapter):
        self._adapter = adapter
        node, kinds = adapter.node, adapter.types
        self._stop = node.create_client(kinds['RequestStop'], adapter.named('request_stop'))
        self._reset = node.create_client(kinds['ResetStop'], adapter.named('reset_stop'))
        self.is_ours = not adapter.served(self._stop, 'protection_state')
        self._publisher = self._state = None
        node.create_subscription(
            kinds['ProtectionState'], adapter.named('protection_state'), self._take, adapter.latched(1))
        if self.is_ours:
            self._publisher = node.create_publisher(
                kinds['ProtectionState'], adapter.named('protection_state'), adapter.latched(1))
            adapter.notes.append('{} is not served: this publishes protection_state itself'.format(
                adapter.named('request_stop')))
            self._tell(False)

    def _take(self, state):
        self._state = state

    def hindrance(self):
        """Say why a stop should not be latched, since it could not be reset; empty: it could."""
        if self.is_ours:
            return ''
        self._adapter.until(lambda: self._state, 3.0)
        if self._state is None or self._state.measured_linear != self._state.measured_linear:
            return 'protection_node measures no standstill (is there odometry?), so a stop could not be reset'
        return ''

    def _tell(self, latched):
        self._publisher.publish(self._adapter.types['ProtectionState'](
            stop_latched=latched, stop_id='contract-stop' if latched else ''))

    def latch(self):
        """Latch a stop."""
        if self.is_ours:
            self._tell(True)
        else:
            self._adapter.call(self._stop, self._adapter.types['RequestStop'].Request(
                source=CONTROLLER, reason='contract test'), 'RequestStop.srv')

    def release(self):
        """Reset the stop."""
        if self.is_ours:
            self._tell(False)
            return
        request = self._adapter.types['ResetStop'].Request(
            operator_name=CONTROLLER, reason='contract test')
        # Refused while standstill is not confirmed.
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            if self._adapter.call(self._reset, request, 'ResetStop.srv').error_code in (0, 10610):
                return
            self._adapter.until(lambda: False, 0.2)
        raise Unusable('the stop can\'t be reset; see "harness status"')
