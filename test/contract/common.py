"""What the checks share."""

from graph import expect, nanoseconds
import pytest

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6
REFUSALS = range(10100, 10120)
# How long a stop may take to be heard of [s].
HEED = 1.0


@pytest.fixture(scope='session')
def kit(request):
    """Give the run of the checks."""
    return request.config.contract


@pytest.fixture(scope='session')
def adapter(kit):
    """Give the adapter under test."""
    return kit.adapter


@pytest.fixture(autouse=True)
def tidy(adapter):
    """Leave nothing behind that spoils the next check."""
    yield
    adapter.tidy()


def begin(adapter, **changes):
    """Start the skill; return what was sent when it runs."""
    sent = adapter.send(adapter.goal(**changes))
    adapter.running(sent)
    return sent


def was_stopped(sent, since, what):
    """Expect that a run did not go on to its end after something that stops it.

    One that completed just when it was asked to stop is no fault: then the check can't be made.
    """
    if sent.answer is None or sent.status.control_end != sent.status.END_COMPLETED:
        return
    late = sent.answered_at - since
    expect(late < HEED, 'that it is stopped within {} s by {}'.format(HEED, what),
           'it went on for {:.1f} s and completed'.format(late), 'SkillStatus.msg: STOP_*')
    pytest.skip('the run completed before {} could count; give --arguments for a run of some seconds'
                .format(what))


def refused(adapter, goal, codes, source):
    """Send a command that must be refused; return it."""
    code = adapter.code
    names = {getattr(code, n): n for n in dir(code) if isinstance(getattr(code, n), int)}
    sent = adapter.send(goal)
    adapter.result(sent)
    came = sent.summary
    expect(sent.result.error_code in codes, ' or '.join(
        '{} ({})'.format(names.get(c, '?'), c) for c in sorted(codes)[:4]) + (
            ', or another refusal' if len(codes) > 4 else ''), came, source)
    expect(sent.answer.status == ABORTED, 'the goal is accepted and ends as ABORTED (6)', came,
           'ExecuteSkill.action: ABORTED otherwise')
    expect(sent.result.error_msg.strip(), 'an error_msg that says why', came,
           'ExecuteSkill.action: error_msg')
    expect(sent.status.state == adapter.S.STATE_REJECTED, 'state REJECTED (2)', came, 'SkillStatus.msg')
    expect(sent.status.run_id == '' and nanoseconds(sent.status.started_at) == 0,
           'neither run_id nor started_at: nothing was started', came, 'SkillStatus.msg')
    expect(not adapter.events(sent.id), 'no run event of a command that was refused',
           lambda: str(adapter.events(sent.id)[0])[:300], 'RunEvent.msg')
    return sent


@pytest.fixture
def refuse(adapter):
    """Give the check of a refusal; that none has a START that came late is looked at further on."""
    def one(goal, *codes, source):
        sent = refused(adapter, goal, codes, source)
        adapter.refused.append(sent.id)
        return sent
    return one
