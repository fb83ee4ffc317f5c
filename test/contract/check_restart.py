"""A kill -9 in the middle of a run: nothing starts a second time, and nothing is forgotten.

What ran is brought to an end or gone on with; it is never started again. What had not started has expired.
"""

import os
import subprocess

from common import begin, refused, SUCCEEDED
from graph import expect, nanoseconds
import pytest

# How long the command and the adapter's start may take, each [s].
RESTART = 60.0
ONCE = 'SkillCommand.msg; docs/architecture.md, "A restart in the middle"'


class Restarted:
    """What was before the kill."""


@pytest.fixture(scope='module')
def restarted(adapter, kit):
    """Kill and restart the adapter while it runs a command, after another has been settled."""
    if not kit.options.restart:
        pytest.skip('--restart COMMAND is not given')
    this = Restarted()
    this.old = adapter.run(adapter.goal())
    expect(this.old.answer.status == SUCCEEDED, 'a good command that completes before the restart',
           this.old.summary, 'ExecuteSkill.action')
    adapter.settle(this.old.id, final_state=1)
    adapter.kept.add(this.old.id)
    this.sent = adapter.send(adapter.goal())
    adapter.kept.add(this.sent.id)
    this.start = adapter.running(this.sent)
    this.boot = adapter.boot_id
    if this.sent.answer:
        pytest.skip('the run had ended before the restart; give --arguments for a run of some seconds')
    # Nobody will answer these.
    adapter.orphan(this.sent)
    shell = subprocess.Popen(kit.options.restart, shell=True, env=os.environ, start_new_session=True)
    adapter.until(lambda: shell.poll() is not None, RESTART)
    expect(shell.poll() == 0, 'that the command of --restart ends with status 0 within {} s'.format(RESTART),
           shell.poll(), 'this kit')
    adapter.until(lambda: adapter.boot_id != this.boot, RESTART)
    expect(adapter.boot_id != this.boot, 'beacons of another boot after --restart', 'boot ' + adapter.boot_id,
           'ExecutorBeacon.msg: boot_id: new at each start')
    adapter.until(lambda: adapter.catalog_entry().boot_id == adapter.boot_id, 5.0)
    adapter.wait_until_ready()
    adapter.wait_until_in_order()
    yield this
    adapter.kept.clear()


@pytest.fixture(scope='module')
def ended(adapter, restarted):
    """Give the status of the run that was in the middle, when control has ended."""
    def state():
        s = adapter.state_of(restarted.sent.id)
        return s if s and s.state >= s.STATE_ENDED else None
    return adapter.until(state, adapter.patience) or adapter.state_of(restarted.sent.id)


def test_the_catalog_comes_again_with_the_new_boot(adapter, restarted):
    expect(adapter.catalog_entry().boot_id == adapter.boot_id, 'boot_id ' + adapter.boot_id,
           adapter.catalog_entry().boot_id, 'SkillCatalog.msg: boot_id')


def test_what_ran_is_known_and_brought_to_its_end(adapter, restarted, ended):
    expect(ended is not None, 'that command {} is known'.format(restarted.sent.id), 'COMMAND_NOT_FOUND', ONCE)
    expect(ended.state == ended.STATE_ENDED and ended.control_end != ended.END_NONE,
           'state ENDED within {:.0f} s'.format(adapter.patience), 'state {}, control_end {}'.format(
               ended.state, ended.control_end), ONCE)
    expect(ended.run_id == restarted.start.run_id, 'its run_id ' + restarted.start.run_id, ended.run_id, ONCE)
    if ended.control_end != ended.END_COMPLETED:
        expect(ended.error_code and ended.error_msg, 'a code and words for the end', ended.error_code,
               'SkillStatus.msg: error_code')
    if ended.control_end in (ended.END_ABORTED, ended.END_CANCELED):
        expect(ended.stop_stage == ended.STOP_CONFIRMED and nanoseconds(ended.stop_confirmed_at),
               'stop_stage CONFIRMED (3); LOST where standstill is not known', ended.stop_stage,
               'SkillStatus.msg: STOP_*')


def test_the_end_of_what_ran_is_told_once_and_its_start_never_again(adapter, restarted, ended):
    adapter.until(lambda: adapter.ends(restarted.sent.id), adapter.patience)
    # The new life may tell the start again, with its run_id and stamp, in case the old one could not.
    starts, ends = adapter.starts(restarted.sent.id), adapter.ends(restarted.sent.id)
    expect(len(starts) == 1 and len(ends) == 1 and ends[0].run_id == starts[0].run_id,
           'one START, of the life before, and one END of the same run',
           'START {}, END {}'.format(len(starts), len(ends)), 'RunEvent.msg')


def test_sent_again_after_the_restart_it_answers_with_its_end_and_starts_nothing(
        adapter, restarted, ended):
    sent = adapter.run(adapter.again(restarted.sent))
    adapter.until(lambda: len(adapter.starts(sent.id)) > 1, 0.3)
    expect(sent.status.run_id == restarted.start.run_id and len(adapter.starts(sent.id)) == 1,
           'run {} and no other start'.format(restarted.start.run_id), '{}; {} starts'.format(
               sent.summary(), len(adapter.starts(sent.id))), ONCE)


def test_what_ran_holds_its_resources_over_the_restart(adapter, restarted, ended):
    if not adapter.claims:
        pytest.skip('{} claims no resource'.format(adapter.skill.name))
    sent = refused(adapter, adapter.goal(), (adapter.code.RESOURCE_BUSY,), 'SkillDescriptor.msg: resources')
    expect(restarted.sent.id in sent.result.error_msg, 'its id in error_msg', repr(sent.result.error_msg),
           'ExecuteSkill.action: error_msg')


def test_what_was_made_before_the_restart_has_expired(adapter, restarted):
    goal = adapter.goal()
    goal.envelope.beacon.boot_id = restarted.boot
    refused(adapter, goal, (adapter.code.EXPIRED_COMMAND,), 'ExecutorBeacon.msg: boot_id')


def test_the_journal_knows_what_was_settled_before_the_restart(adapter, restarted):
    s = adapter.state_of(restarted.old.id)
    expect(s is not None and s.state == s.STATE_SETTLED and s.run_id == restarted.old.status.run_id,
           'command {}, SETTLED, with its run_id'.format(restarted.old.id),
           'COMMAND_NOT_FOUND' if s is None else 'state {}, run_id {!r}'.format(s.state, s.run_id), ONCE)
    again = adapter.run(adapter.again(restarted.old))
    adapter.until(lambda: len(adapter.starts(again.id)) > 1, 0.3)
    expect(again.status.run_id == restarted.old.status.run_id and len(adapter.starts(again.id)) == 1,
           'its answer, and no second start', again.summary, ONCE)


def test_an_id_from_before_the_restart_with_another_digest_is_COMMAND_ID_CONFLICT(adapter, restarted):
    sent = adapter.run(adapter.goal(command_id=restarted.old.id, plan_version=7))
    expect(sent.result.error_code == adapter.code.COMMAND_ID_CONFLICT, 'COMMAND_ID_CONFLICT (10104)',
           sent.summary, 'SkillCommand.msg')


def test_after_the_restart_and_the_settlement_a_good_command_runs(adapter, restarted, ended):
    answer = adapter.settle(restarted.sent.id)
    expect(answer.error_code == 0, 'that what ran is settled', '{} {!r}'.format(
        answer.error_code, answer.error_msg), 'SettleCommand.srv')
    sent = begin(adapter)
    adapter.result(sent)
    expect(sent.answer.status == SUCCEEDED, 'SUCCEEDED (4)', sent.summary, 'ExecuteSkill.action')
