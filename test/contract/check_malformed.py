"""Input that is not what it should be is refused and kills nothing."""

import math

from common import begin, REFUSALS, refused, SUCCEEDED
from graph import expect
import pytest

HUGE = 'x' * 2**20
ANYTHING = 'ExecuteSkill.action: refusals; SkillCommand.msg'


def target(**values):
    """Return a binding with these values in its pose."""
    from embodied_harness.msg import TargetBinding
    binding = TargetBinding(argument='target', ref='cup_1', class_name='cup', kind=6, frame_id='map')
    binding.pose.orientation.w = 1.0
    for name, value in values.items():
        setattr(binding.pose.position, name, value)
    return binding


def condition(**values):
    from embodied_harness.msg import Precondition
    return Precondition(ref='cup_1', **values)


# Without a digest where it can't be made, or would take longer to make than it is worth.
CASES = {
    'a NaN in a pose': lambda a: a.goal(digested=False, targets=[target(x=math.nan)]),
    'an infinite pose': lambda a: a.goal(digested=False, targets=[target(y=math.inf)]),
    'a NaN in a precondition': lambda a: a.goal(
        digested=False, preconditions=[condition(max_displacement=math.nan)]),
    'a kind that does not exist': lambda a: kind(a),
    'two hundred targets': lambda a: a.goal(digested=False, targets=[target()] * 200),
    'a condition that is no JSON': lambda a: a.goal(
        digested=False, preconditions=[condition(predicates_json='{{')]),
    'an empty command_id': lambda a: a.goal(command_id=''),
    'a command_id with a line break': lambda a: a.goal(command_id='a\nb'),
    'a command_id of 65 characters': lambda a: a.goal(command_id='x' * 65),
    'a command_id of 1 MB': lambda a: a.goal(digested=False, command_id=HUGE),
    'an empty robot_id': lambda a: a.goal(robot_id=''),
    'a robot_id of 1 MB': lambda a: a.goal(digested=False, robot_id=HUGE),
    'an empty skill': lambda a: a.goal(skill=''),
    'a skill of 1 MB': lambda a: a.goal(digested=False, skill=HUGE),
    'a task_id of 1 MB': lambda a: a.goal(digested=False, task_id=HUGE),
    'an empty digest': lambda a: undigested(a),
    'arguments of 1 MB': lambda a: a.goal(digested=False, arguments_json='{"x": "' + HUGE + '"}'),
    'arguments that are no JSON': lambda a: a.goal(digested=False, arguments_json='{"x":'),
    'arguments with NaN': lambda a: a.goal(digested=False, arguments_json='{"x": NaN}'),
    'arguments that are no object': lambda a: a.goal(arguments_json='[1, 2]'),
    'arguments in ten thousand brackets': lambda a: a.goal(
        digested=False, arguments_json='{"x": ' + '[' * 10_000 + ']' * 10_000 + '}'),
    'a negative start_within': lambda a: negative(a),
    'a negative start_within of the envelope': lambda a: envelope(
        a, start_within=type(a.goal().envelope.start_within)(sec=-1)),
    'a controller_id of 1 MB': lambda a: envelope(a, controller_id=HUGE),
    'a tick of the beacon in the future': lambda a: future(a),
    'a boot_id of 1 MB': lambda a: boot(a),
}


def kind(adapter):
    binding = target()
    binding.kind = 200
    return adapter.goal(digested=False, targets=[binding])


def undigested(adapter):
    goal = adapter.goal()
    goal.command.digest = ''
    return goal


def negative(adapter):
    from builtin_interfaces.msg import Duration
    return adapter.goal(start_within=Duration(sec=-5))


def envelope(adapter, **values):
    goal = adapter.goal()
    for name, value in values.items():
        setattr(goal.envelope, name, value)
    return goal


def future(adapter):
    goal = adapter.goal()
    goal.envelope.beacon.tick = 2**64 - 1
    return goal


def boot(adapter):
    goal = adapter.goal()
    goal.envelope.beacon.boot_id = HUGE
    return goal


@pytest.mark.parametrize('case', CASES)
def test_it_refuses(case, adapter):
    before = adapter.boot_id
    sent = refused(adapter, CASES[case](adapter), REFUSALS, ANYTHING)
    expect(len(sent.result.error_msg) < 10_000, 'an error_msg that a person can read',
           '{} characters'.format(len(sent.result.error_msg)), 'ExecuteSkill.action: error_msg')
    expect(adapter.boot_id == before, 'that the adapter lives on', 'another boot_id', ANYTHING)


def test_services_withstand_odd_requests(adapter):
    for odd in (HUGE, 'a\nb', '%s%n', '\'; DROP TABLE commands; --'):
        found = adapter.query(odd)
        expect(found.error_code == found.COMMAND_NOT_FOUND, 'COMMAND_NOT_FOUND (10120)', found.error_code,
               'QueryCommand.srv')
        answer = adapter.settle(odd)
        expect(answer.error_code != 0, 'an error', answer.error_code, 'SettleCommand.srv')
    answer = adapter.settle('')
    expect(answer.error_code != 0, 'an error for an empty command_id', answer.error_code,
           'SettleCommand.srv')


def test_after_all_that_a_good_command_still_completes(adapter):
    sent = begin(adapter)
    adapter.result(sent)
    expect(sent.answer.status == SUCCEEDED, 'SUCCEEDED (4)', sent.summary, 'ExecuteSkill.action')
