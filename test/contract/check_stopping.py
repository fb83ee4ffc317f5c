"""A stop that is asked for is not a stop that happened."""

import time

from common import begin, CANCELED, refused, was_stopped
from graph import expect, nanoseconds
import pytest

STOP = 'SkillStatus.msg: STOP_*; ExecuteSkill.action: CANCELED after measured standstill'


def confirmed(adapter, sent):
    """Expect that standstill was measured before the end was told."""
    s = sent.status
    expect(s.stop_stage == s.STOP_CONFIRMED, 'stop_stage CONFIRMED (3)', sent.summary, STOP)
    asked, still, end = (nanoseconds(t) for t in (s.cancel_requested_at, s.stop_confirmed_at, s.ended_at))
    expect(0 < asked <= still <= end, 'cancel_requested_at <= stop_confirmed_at <= ended_at, none zero',
           [asked, still, end], STOP)
    adapter.until(lambda: adapter.ends(sent.id), 1.0)
    ends = adapter.ends(sent.id)
    expect(ends and ends[0].run_id == s.run_id, 'the END of run {}'.format(s.run_id), ends, 'RunEvent.msg')
    expect(nanoseconds(ends[0].stamp) >= still, 'END not before standstill was measured',
           '{} before {}'.format(nanoseconds(ends[0].stamp), still), 'RunEvent.msg; ' + STOP)


def test_a_cancel_ends_as_CANCELED_after_confirmed_standstill(adapter):
    sent = begin(adapter)
    asked = time.monotonic()
    answer = adapter.cancel(sent)
    adapter.result(sent)
    was_stopped(sent, asked, 'a cancel')
    expect(answer.goals_canceling, 'a cancel request that is accepted while it runs', answer,
           'ExecuteSkill.action')
    s = sent.status
    if s.stop_stage == s.STOP_UNCONFIRMED:
        expect(sent.result.error_code == adapter.code.STOP_UNCONFIRMED and s.control_end == s.END_LOST
               and sent.answer.status != CANCELED, 'LOST with STOP_UNCONFIRMED, and never CANCELED',
               sent.summary, STOP)
        pytest.skip('standstill was not confirmed, and it says so: ' + sent.result.error_msg)
    expect(sent.answer.status == CANCELED and s.control_end == s.END_CANCELED
           and sent.result.error_code == adapter.code.CANCELED and sent.result.error_msg,
           'CANCELED (5), control_end CANCELED (3), error_code CANCELED (10131)', sent.summary, STOP)
    confirmed(adapter, sent)


def test_what_was_canceled_is_held_until_it_is_settled(adapter):
    if not adapter.claims:
        pytest.skip('{} claims no resource'.format(adapter.skill.name))
    sent = begin(adapter)
    adapter.cancel(sent)
    adapter.result(sent)
    refused(adapter, adapter.goal(), (adapter.code.RESOURCE_BUSY,), 'SkillDescriptor.msg: resources')
    expect(adapter.settle(sent.id, final_state=3).error_code == 0, 'that it is settled then', 'an error',
           'SettleCommand.srv')


def test_a_run_that_outlasts_its_execution_timeout_is_brought_to_standstill(adapter):
    from builtin_interfaces.msg import Duration
    sent = adapter.send(adapter.goal(execution_timeout=Duration(nanosec=100_000_000)))
    adapter.running(sent)
    started = time.monotonic()
    adapter.result(sent)
    was_stopped(sent, started, 'its execution_timeout of 0.1 s')
    s = sent.status
    expect(sent.result.error_code == adapter.code.EXECUTION_TIMEOUT and s.control_end == s.END_ABORTED,
           'EXECUTION_TIMEOUT (10130), control_end ABORTED (2)', sent.summary,
           'SkillCommand.msg: execution_timeout')
    confirmed(adapter, sent)


def test_a_latched_stop_stops_what_runs_and_refuses_what_comes(adapter):
    hindrance = adapter.protection.hindrance()
    if hindrance:
        pytest.skip(hindrance)
    sent = begin(adapter)
    latched = time.monotonic()
    try:
        adapter.protection.latch()
        if adapter.claims:
            # That it stops shows that it has heard.
            adapter.result(sent)
        else:
            adapter.probe(adapter.code.STOP_LATCHED)
        refused(adapter, adapter.goal(), (adapter.code.STOP_LATCHED,), 'ProtectionState.msg: stop_latched')
    finally:
        adapter.protection.release()
        adapter.wait_until_in_order()
    if not adapter.claims:
        pytest.skip('new commands are refused; {} claims nothing that a stop would stop'.format(
            adapter.skill.name))
    was_stopped(sent, latched, 'a latched stop')
    s = sent.status
    expect(sent.result.error_code == adapter.code.STOP_LATCHED and s.control_end == s.END_CANCELED,
           'STOP_LATCHED (10113), control_end CANCELED (3)', sent.summary, 'ProtectionState.msg')
    confirmed(adapter, sent)


def test_when_the_lease_expires_a_run_follows_its_disconnect_policy(adapter, kit):
    skill = adapter.skill
    if kit.options.without_lease:
        pytest.skip('--without-lease')
    if not adapter.claims:
        pytest.skip('{} claims nothing that could go on moving'.format(skill.name))
    sent = begin(adapter)
    lost = time.monotonic()
    try:
        adapter.lease.lose()
        adapter.result(sent)
    finally:
        adapter.lease.regain()
        adapter.wait_until_in_order()
    s = sent.status
    if skill.disconnect_policy == skill.DISCONNECT_FINISH:
        expect(s.control_end == s.END_COMPLETED, 'that it completes, by DISCONNECT_FINISH', sent.summary,
               'SkillDescriptor.msg: disconnect_policy')
        return
    was_stopped(sent, lost, 'a lease that has ended')
    expect(sent.result.error_code == adapter.code.NO_LEASE and s.control_end == s.END_CANCELED,
           'NO_LEASE (10107), control_end CANCELED (3)', sent.summary,
           'SkillDescriptor.msg: disconnect_policy')
    confirmed(adapter, sent)
