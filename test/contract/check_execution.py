"""One good command, from its start to its settlement, and what it must withstand meanwhile."""

from common import begin, refused, SUCCEEDED
from graph import CONTROLLER, expect, nanoseconds
import pytest

ONCE = 'SkillCommand.msg: digest; docs/architecture.md, "A command\'s life"'


@pytest.fixture(scope='module')
def first(adapter):
    """Give the first good command with its answer; it is held until it is settled below."""
    sent = adapter.send(adapter.goal())
    adapter.kept.add(sent.id)
    yield adapter.result(sent)
    adapter.kept.discard(sent.id)


@pytest.fixture(scope='module')
def completed(adapter, first):
    """Give a good command that has completed."""
    if first.answer.status != SUCCEEDED:
        pytest.skip('no good command has completed')
    adapter.until(lambda: adapter.ends(first.id), 1.0)
    return first


@pytest.fixture(scope='module')
def settled(adapter, completed):
    """Give the completed command, settled, with the answer of settle."""
    return completed, adapter.settle(completed.id, final_state=1)


def unchanged(adapter, before, what):
    """Expect that a command is as it was in a status before."""
    now = adapter.state_of(before.command_id)
    expect(now is not None, 'command {} is known'.format(before.command_id), 'COMMAND_NOT_FOUND',
           'QueryCommand.srv')
    for field in ('state', 'control_end', 'run_id', 'sequence', 'received_at', 'started_at', 'ended_at'):
        expect(getattr(now, field) == getattr(before, field),
               '{} of the command after {} as before: {}'.format(field, what, getattr(before, field)),
               getattr(now, field), 'SkillStatus.msg')


def same_answer(sent, original, adapter):
    """Expect the original's answer to a command that was sent again."""
    s, o = sent.status, original.status
    expect((s.run_id, s.control_end, sent.result.error_code) == (
        o.run_id, o.control_end, original.result.error_code),
        'the original\'s state: ' + original.summary(), sent.summary, ONCE)
    expect(s.received_at == o.received_at and s.started_at == o.started_at,
           'its stamps, since no deadline is refreshed', '{} and {}'.format(s.received_at, s.started_at),
           ONCE)
    expect(len(adapter.starts(sent.id)) == 1, 'one START of the command', len(adapter.starts(sent.id)), ONCE)


def test_a_good_command_completes(first):
    s = first.status
    expect((first.answer.status, first.result.error_code, s.state, s.control_end) == (
        SUCCEEDED, 0, s.STATE_ENDED, s.END_COMPLETED),
        'SUCCEEDED (4), error_code 0, state ENDED (6), control_end COMPLETED (1)', first.summary,
        'ExecuteSkill.action. If the skill can\'t be done now, give others by --skill and --arguments')
    expect(s.run_id and s.command_id == first.id and s.skill == first.goal.command.skill,
           'run_id, command_id and skill in the status', first.summary, 'SkillStatus.msg')


def test_a_result_speaks_for_this_executor_and_life(adapter, completed):
    s = completed.status
    expect((s.executor, s.boot_id) == (adapter.executor, adapter.boot_id),
           '{} in boot {}'.format(adapter.executor, adapter.boot_id), '{} {}'.format(s.executor, s.boot_id),
           'SkillStatus.msg: executor, boot_id')


def test_feedback_states_come_in_legal_order_and_sequence_never_goes_back(completed):
    heard = completed.feedback + [completed.status]
    expect(len(heard) > 1, 'feedback while it runs', 'none', 'ExecuteSkill.action')
    legal = {1, 3, 4, 5, 6}
    for before, after in zip(heard, heard[1:]):
        expect(after.state in legal and before.state <= after.state,
               'states that only go forward: RECEIVED 1, ACCEPTED 3, STARTED 4, CANCELING 5, ENDED 6',
               [s.state for s in heard], 'SkillStatus.msg: STATE_*')
        expect(before.sequence <= after.sequence, 'a sequence that never goes back',
               [s.sequence for s in heard], 'SkillStatus.msg: sequence')
    expect(heard[0].sequence >= 1, 'a sequence that counts from 1', heard[0].sequence,
           'SkillStatus.msg: sequence')
    for status in heard:
        running = status.state >= status.STATE_STARTED
        expect(bool(status.run_id) == running, 'run_id from STARTED on and never before',
               'state {}, run_id {!r}'.format(status.state, status.run_id), 'SkillStatus.msg: run_id')
        expect((status.control_end != status.END_NONE) == (status.state >= status.STATE_ENDED),
               'control_end once it has ended and never before',
               'state {}, control_end {}'.format(status.state, status.control_end), 'SkillStatus.msg')
    expect(len({s.run_id for s in heard if s.run_id}) == 1, 'one run_id', {s.run_id for s in heard},
           'SkillStatus.msg: run_id')
    progress = [s.progress for s in heard if s.progress == s.progress]
    expect(all(0.0 <= p <= 1.0 for p in progress), 'progress from 0 to 1, or NaN', progress,
           'SkillStatus.msg: progress')


def test_there_is_exactly_one_START_and_one_END_of_a_run(adapter, completed):
    # A third one would come right behind: what is on the way is given time.
    adapter.until(lambda: len(adapter.events(completed.id)) > 2, 0.5)
    events = [e.event for e in adapter.events(completed.id) if e.event != 2]
    expect(events == [1, 3], 'START (1), then END (3)', events, 'RunEvent.msg')
    for event in adapter.events(completed.id):
        expect((event.run_id, event.executor, event.boot_id, event.robot_id, event.skill) == (
            completed.status.run_id, adapter.executor, adapter.boot_id, adapter.catalog_entry().robot_id,
            adapter.skill.name), 'run_id, executor, boot_id, robot_id and skill of the run', event,
            'RunEvent.msg')


def test_stamps_are_in_order(adapter, completed):
    s = completed.status
    stamps = [nanoseconds(t) for t in (s.received_at, s.started_at, s.ended_at)]
    expect(0 < stamps[0] <= stamps[1] <= stamps[2], 'received_at <= started_at <= ended_at, none zero',
           stamps, 'SkillStatus.msg')
    expect(nanoseconds(s.cancel_requested_at) == nanoseconds(s.stop_confirmed_at) == 0,
           'cancel_requested_at and stop_confirmed_at zero: nobody asked', s, 'SkillStatus.msg')
    told = [nanoseconds(e.stamp) for e in adapter.starts(completed.id) + adapter.ends(completed.id)]
    expect(told == sorted(told) and all(stamps[0] <= t <= stamps[2] + 10**9 for t in told),
           'START and END within the run', '{}, the run {}'.format(told, stamps), 'RunEvent.msg: stamp')


def test_run_events_carry_the_arguments_that_the_judge_needs(adapter, completed):
    import json
    for event in adapter.events(completed.id):
        try:
            told = json.loads(event.arguments_json)
        except ValueError:
            told = None
        given = adapter.arguments
        expect(isinstance(told, dict) and all(told.get(k) == v for k, v in given.items()),
               'the arguments {}, with defaults filled in'.format(given), repr(event.arguments_json),
               'RunEvent.msg: arguments_json')


def test_a_query_by_id_gives_what_the_result_said(adapter, completed):
    found = adapter.query(completed.id)
    expect(found.error_code == 0 and list(found.command_ids) == [completed.id] and len(found.statuses) == 1,
           'one entry', '{} {} {}'.format(found.error_code, found.error_msg, list(found.command_ids)),
           'QueryCommand.srv')
    unchanged(adapter, completed.status, 'its end')


def test_a_query_for_all_lists_what_is_not_settled(adapter, completed):
    found = adapter.query('')
    expect(completed.id in found.command_ids and len(found.command_ids) == len(found.statuses),
           'command {} among those that are not settled'.format(completed.id), list(found.command_ids),
           'QueryCommand.srv: command_id: empty: all that are not settled')


def test_a_query_for_an_unknown_command_is_COMMAND_NOT_FOUND(adapter):
    found = adapter.query('contract-nobody-has-sent-this')
    expect(found.error_code == found.COMMAND_NOT_FOUND and found.error_msg and not found.statuses,
           'COMMAND_NOT_FOUND (10120), with words, and no entry',
           '{} {!r}'.format(found.error_code, found.error_msg), 'QueryCommand.srv')


def test_a_late_joiner_sees_the_command_in_skill_status(adapter, completed):
    heard = []
    late = adapter.node.create_subscription(
        adapter.types['SkillStatusArray'], adapter.named('skill_status'),
        lambda m: heard.append(m) if m.executor == adapter.executor else None, adapter.latched(8))
    try:
        adapter.until(lambda: heard, 3.0)
    finally:
        adapter.node.destroy_subscription(late)
    source = 'SkillStatusArray.msg: reliable, transient local, every command that is not settled'
    expect(heard, 'the last array at once for who joins late', 'none within 3 s', source)
    found = [s for s in heard[-1].statuses if s.command_id == completed.id]
    expect(len(found) == 1 and found[0].state == completed.status.state, 'the command, ENDED',
           [(s.command_id, s.state) for s in heard[-1].statuses], source)


def test_what_has_ended_holds_its_resources_until_it_is_settled(adapter, completed):
    if not adapter.claims:
        pytest.skip('{} claims no resource'.format(adapter.skill.name))
    expect(set(completed.status.resources) == set(adapter.claims), 'the resources {} in the status'.format(
        adapter.claims), list(completed.status.resources), 'SkillStatus.msg: resources')
    sent = refused(adapter, adapter.goal(), (adapter.code.RESOURCE_BUSY,),
                   'SkillDescriptor.msg: resources: held from the start until the command is settled')
    expect(completed.id in sent.result.error_msg, 'the id of the holder, {}, in error_msg'.format(
        completed.id), repr(sent.result.error_msg), 'ExecuteSkill.action: error_msg')


def test_a_known_id_with_another_digest_is_COMMAND_ID_CONFLICT(adapter, completed):
    before = adapter.state_of(completed.id)
    sent = adapter.run(adapter.goal(command_id=completed.id, plan_version=7))
    expect(sent.result.error_code == adapter.code.COMMAND_ID_CONFLICT and sent.result.error_msg,
           'COMMAND_ID_CONFLICT (10104)', sent.summary, 'SkillCommand.msg')
    unchanged(adapter, before, 'another command came under its id')


def test_canceling_what_has_ended_changes_nothing(adapter, completed):
    before = adapter.state_of(completed.id)
    answer = adapter.cancel(completed)
    expect(not answer.goals_canceling, 'a cancel that is refused', answer, 'action_msgs/CancelGoal')
    unchanged(adapter, before, 'a cancel that came too late')


def test_a_settlement_that_is_none_is_refused_and_changes_nothing(adapter, completed):
    source, before = 'SettleCommand.srv', adapter.state_of(completed.id)
    for what, values in (('final_state 0', {'final_state': 0}), ('final_state 99', {'final_state': 99}),
                         ('nobody who settles', {'by': ''})):
        answer = adapter.settle(completed.id, **values)
        expect(answer.error_code == answer.INVALID_REQUEST and answer.error_msg,
               'INVALID_REQUEST (10122) for ' + what, '{} {!r}'.format(answer.error_code, answer.error_msg),
               source)
    answer = adapter.settle('contract-nobody-has-sent-this')
    expect(answer.error_code == answer.COMMAND_NOT_FOUND, 'COMMAND_NOT_FOUND (10120) for an unknown id',
           answer.error_code, source)
    unchanged(adapter, before, 'settlements that were refused')


def test_a_settlement_under_an_old_token_is_OLD_TOKEN(adapter, completed):
    answer = adapter.settle(completed.id, final_state=1, token=adapter.lease.token - 1)
    expect(answer.error_code == answer.OLD_TOKEN, 'OLD_TOKEN (10106)', '{} {!r}'.format(
        answer.error_code, answer.error_msg), 'SettleCommand.srv: fencing_token')


def test_settling_releases_the_resources(adapter, settled):
    completed, answer = settled
    expect(answer.error_code == 0 and answer.state == 'SETTLED', 'error_code 0 and SETTLED',
           '{} {!r} {!r}'.format(answer.error_code, answer.error_msg, answer.state), 'SettleCommand.srv')
    s = adapter.state_of(completed.id)
    expect(s and s.state == s.STATE_SETTLED and not s.resources and s.control_end == s.END_COMPLETED,
           'state SETTLED, no resources, control_end as before', s, 'SkillStatus.msg')
    # It is free for the next one.
    begin(adapter)


def test_settling_the_same_way_again_is_fine_and_otherwise_NOT_SETTLEABLE(adapter, settled):
    completed, _ = settled
    again = adapter.settle(completed.id, final_state=1)
    expect(again.error_code == 0, 'error_code 0 for the same settlement again',
           '{} {!r}'.format(again.error_code, again.error_msg), 'SettleCommand.srv')
    other = adapter.settle(completed.id, final_state=2)
    expect(other.error_code == other.NOT_SETTLEABLE, 'NOT_SETTLEABLE (10121) for another one',
           '{} {!r}'.format(other.error_code, other.error_msg), 'SettleCommand.srv')


def stopped(adapter):
    """Start the skill and cancel it; return what was sent when control has ended."""
    sent = begin(adapter)
    adapter.cancel(sent)
    return adapter.result(sent)


def test_sent_again_after_its_end_it_answers_with_the_original_and_starts_nothing(adapter):
    sent = stopped(adapter)
    before = adapter.state_of(sent.id)
    again = adapter.run(adapter.again(sent))
    adapter.until(lambda: len(adapter.starts(sent.id)) > 1, 0.2)
    same_answer(again, sent, adapter)
    unchanged(adapter, before, 'it was sent again')


def test_sent_again_after_its_settlement_it_answers_with_the_original_and_starts_nothing(adapter):
    sent = stopped(adapter)
    adapter.settle(sent.id)
    again = adapter.run(adapter.again(sent))
    adapter.until(lambda: len(adapter.starts(sent.id)) > 1, 0.2)
    same_answer(again, sent, adapter)


def test_sent_again_while_it_runs_it_joins_the_run(adapter):
    sent = begin(adapter)
    before = adapter.state_of(sent.id)
    again = adapter.send(adapter.again(sent))
    adapter.until(lambda: again.feedback or again.answer, 2.0)
    now = adapter.state_of(sent.id)
    adapter.cancel(sent)
    adapter.result(sent)
    adapter.result(again)
    expect(now.run_id == before.run_id and now.started_at == before.started_at
           and now.received_at == before.received_at, 'run {} goes on with its stamps'.format(before.run_id),
           '{} {}'.format(now.run_id, now.started_at), ONCE)
    same_answer(again, sent, adapter)


def test_sent_twice_at_the_same_time_it_starts_once(adapter):
    goal = adapter.goal()
    both = [adapter.send(goal, wait=False) for _ in range(2)]
    for sent in both:
        adapter.acknowledged(sent)
    adapter.running(both[0])
    adapter.until(lambda: len(adapter.starts(both[0].id)) > 1, 0.3)
    adapter.cancel(both[0])
    for sent in both:
        adapter.result(sent)
    same_answer(both[1], both[0], adapter)


def test_another_digest_while_it_runs_is_COMMAND_ID_CONFLICT_and_the_run_goes_on(adapter):
    sent = begin(adapter)
    other = adapter.run(adapter.goal(command_id=sent.id, plan_version=7))
    expect(other.result.error_code == adapter.code.COMMAND_ID_CONFLICT, 'COMMAND_ID_CONFLICT (10104)',
           other.summary, 'SkillCommand.msg')
    adapter.result(sent)
    expect(sent.answer.status == SUCCEEDED and len(adapter.starts(sent.id)) == 1,
           'the run completes undisturbed', sent.summary, 'SkillCommand.msg')


def test_what_runs_is_NOT_SETTLEABLE(adapter):
    sent = begin(adapter)
    answer = adapter.settle(sent.id)
    if sent.answer:
        pytest.skip('the run had ended before it was settled; give --arguments for a run of some seconds')
    expect(answer.error_code == answer.NOT_SETTLEABLE and answer.error_msg,
           'NOT_SETTLEABLE (10121) while control has not ended',
           '{} {!r}'.format(answer.error_code, answer.error_msg), 'SettleCommand.srv')
    s = adapter.state_of(sent.id)
    expect(s.state in (s.STATE_STARTED, s.STATE_ENDED), 'that it goes on', 'state {}'.format(s.state),
           'SkillStatus.msg')


def test_a_person_settles_without_a_token_but_with_a_reason(adapter):
    sent = stopped(adapter)
    answer = adapter.settle(sent.id, token=0, by='a person', reason='has looked')
    expect(answer.error_code == 0, 'error_code 0', '{} {!r}'.format(answer.error_code, answer.error_msg),
           'SettleCommand.srv: fencing_token: zero from a person; reason: required for a person')


def test_nothing_that_was_refused_has_started(adapter):
    # Run events of one publisher arrive in order: when this START is here, all before it are.
    sent = begin(adapter)
    started = [i for i in adapter.refused if adapter.starts(i)]
    expect(not started and sent.id, 'no START of any of {} refused commands ({} sends)'.format(
        len(set(adapter.refused)), CONTROLLER), started, 'RunEvent.msg; ExecuteSkill.action: refusals')
