"""What must not start: every such command is accepted as a goal and ends at once, with a code."""

import json
import time

from common import REFUSALS
from graph import expect
import pytest
from schema import bad_arguments

COMMAND, ENVELOPE = 'SkillCommand.msg', 'CommandEnvelope.msg'


def test_an_unknown_skill_is_UNKNOWN_SKILL(adapter, refuse):
    refuse(adapter.goal(skill='no_such_skill_here'), adapter.code.UNKNOWN_SKILL,
           source='ExecuteSkill.action: UNKNOWN_SKILL')


def test_another_version_of_the_skill_is_UNKNOWN_SKILL(adapter, refuse):
    refuse(adapter.goal(skill_version='99.0.0'), adapter.code.UNKNOWN_SKILL,
           source=COMMAND + ': skill_version')


def test_a_command_for_another_robot_is_WRONG_ROBOT(adapter, refuse):
    refuse(adapter.goal(robot_id='another_robot'), adapter.code.WRONG_ROBOT, source=COMMAND + ': robot_id')


def test_a_command_that_does_not_give_its_digest_is_DIGEST_MISMATCH(adapter, refuse):
    source = COMMAND + ': digest; docs/architecture.md, "Digest"'
    refuse(adapter.goal(digested=False), adapter.code.DIGEST_MISMATCH, source=source)
    # Not only the digest is looked at, but what it covers.
    goal = adapter.goal()
    goal.command.plan_version += 1
    refuse(goal, adapter.code.DIGEST_MISMATCH, source=source)


def test_arguments_out_of_the_schema_are_INVALID_ARGUMENTS(adapter, refuse):
    cases = bad_arguments(json.loads(adapter.skill.arguments_schema), adapter.arguments)
    if not cases:
        pytest.skip('the schema of {} allows everything'.format(adapter.skill.name))
    for how, arguments in cases:
        refuse(adapter.goal(arguments), adapter.code.INVALID_ARGUMENTS,
               source='SkillDescriptor.msg: arguments_schema ({})'.format(how))


def test_an_unknown_schema_version_is_INVALID_COMMAND(adapter, refuse):
    refuse(adapter.goal(schema_version=2), adapter.code.INVALID_COMMAND, source=COMMAND + ': schema_version')


def test_a_segment_that_the_skill_has_not_is_INVALID_COMMAND(adapter, refuse):
    goal = adapter.goal()
    goal.segment = max(1, adapter.skill.max_segments)
    refuse(goal, adapter.code.INVALID_COMMAND, source='ExecuteSkill.action: segment')


def test_a_command_without_time_to_start_is_refused(adapter, refuse):
    from builtin_interfaces.msg import Duration
    refuse(adapter.goal(start_within=Duration()), adapter.code.INVALID_COMMAND,
           adapter.code.EXPIRED_COMMAND, source=COMMAND + ': start_within: zero or negative is refused')


def test_an_envelope_without_controller_is_refused(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.controller_id = ''
    refuse(goal, *REFUSALS, source=ENVELOPE + ': controller_id: empty is refused')


def test_an_old_fencing_token_is_OLD_TOKEN(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.fencing_token -= 1
    refuse(goal, adapter.code.OLD_TOKEN, source=ENVELOPE + ': fencing_token')


def test_no_fencing_token_is_NO_LEASE(adapter, refuse, kit):
    if kit.options.without_lease:
        pytest.skip('--without-lease')
    goal = adapter.goal()
    goal.envelope.fencing_token = 0
    refuse(goal, adapter.code.NO_LEASE, source=ENVELOPE + ': fencing_token: zero is refused')


def test_a_lease_that_has_ended_is_NO_LEASE(adapter, refuse, kit):
    if kit.options.without_lease:
        pytest.skip('--without-lease')
    adapter.lease.lose()
    try:
        # One that protection_node grants ends with its time to live.
        adapter.probe(adapter.code.NO_LEASE, 6.0)
        refuse(adapter.goal(), adapter.code.NO_LEASE, source='ControlLease.msg: remaining')
    finally:
        adapter.lease.regain()
        adapter.wait_until_in_order()


def test_no_beacon_is_NO_BEACON(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.beacon = type(goal.envelope.beacon)()
    refuse(goal, adapter.code.NO_BEACON, source=ENVELOPE + ': beacon')


def test_a_beacon_of_another_executor_is_refused(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.beacon.executor = '/another_executor'
    refuse(goal, adapter.code.NO_BEACON, adapter.code.EXPIRED_COMMAND, source=ENVELOPE + ': beacon')


def test_a_beacon_of_an_earlier_life_is_EXPIRED_COMMAND(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.beacon.boot_id = '00000000-0000-4000-8000-000000000000'
    refuse(goal, adapter.code.EXPIRED_COMMAND, source='ExecutorBeacon.msg: boot_id')


def test_a_command_that_is_older_than_start_within_is_EXPIRED_COMMAND(adapter, refuse):
    # By its beacon it is a second old, whenever it was sent.
    old = adapter.until(lambda: next(
        (m for t, m in reversed(adapter.beacons) if time.monotonic() - t > 1.0), None), 3.0)
    goal = adapter.goal()
    goal.envelope.beacon = old
    goal.envelope.start_within.sec, goal.envelope.start_within.nanosec = 0, 500_000_000
    refuse(goal, adapter.code.EXPIRED_COMMAND, source=ENVELOPE + ': start_within')


def test_an_envelope_with_nothing_left_is_EXPIRED_COMMAND(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.start_within.sec = 0
    refuse(goal, adapter.code.EXPIRED_COMMAND, source=ENVELOPE + ': start_within: zero has expired already')


def test_an_envelope_never_leaves_more_than_the_budget_of_the_command(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.start_within.sec = 3600
    refuse(goal, adapter.code.INVALID_COMMAND, adapter.code.EXPIRED_COMMAND,
           source=ENVELOPE + ': start_within: what remains of the budget, never refreshed')


def test_a_command_that_expired_stays_expired_when_it_is_sent_again(adapter, refuse):
    goal = adapter.goal()
    goal.envelope.start_within.sec = 0
    source = 'SkillCommand.msg; ' + ENVELOPE + ': never refreshed by sending again'
    sent = refuse(goal, adapter.code.EXPIRED_COMMAND, source=source)
    refuse(adapter.again(sent), adapter.code.EXPIRED_COMMAND, source=source)


def test_a_refused_command_claims_nothing(adapter, refuse):
    sent = refuse(adapter.goal(robot_id='another_robot'), adapter.code.WRONG_ROBOT,
                  source=COMMAND + ': robot_id')
    expect(not sent.status.resources, 'no resources held', list(sent.status.resources),
           'SkillDescriptor.msg: resources are held from the start')
    live = adapter.query('')
    expect(sent.id not in live.command_ids, 'a query for all that are not settled does not list it',
           list(live.command_ids), 'QueryCommand.srv: command_id')
