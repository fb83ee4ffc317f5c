#!/usr/bin/env python3
"""Check whether a running skill adapter keeps to the contract of ExecuteSkill.

    scripts/test --contract /my_adapter/execute_skill
    scripts/test --contract /my_adapter/execute_skill --skill wave --arguments '{"times": 3}'
    scripts/test --contract /my_adapter/execute_skill --restart 'kill -9 $(pidof my_adapter)'

The adapter is one of any language that runs already; it is looked for in the present ROS_DOMAIN_ID. Its skill
is run about twenty times, most of the times to be stopped. Ends with 0 when nothing failed.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import graph
import schema

HERE = pathlib.Path(__file__).resolve().parent
# In this order: what a later file does rests on what an earlier one has shown.
CHECKS = ('check_description.py', 'check_refusals.py', 'check_execution.py', 'check_stopping.py',
          'check_malformed.py', 'check_restart.py')
MOVING = {'base', 'arm', 'gripper', 'head'}
# What a run should last at most when nobody says which skill to take [s].
LONGEST = 30.0


def arguments_of_command_line():
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog='scripts/test --contract', description=__doc__.split('\n\n')[0],
        epilog='The conditions that it checks are those of msg/, srv/ and action/.')
    parser.add_argument('action', help='name of the ExecuteSkill action, e.g. /my_adapter/execute_skill')
    parser.add_argument('--skill', help='the skill to run; default: one that moves nothing, if there is one')
    parser.add_argument('--arguments', metavar='JSON',
                        help='arguments of the skill, for a run of some seconds; default: by its schema')
    parser.add_argument('--restart', metavar='COMMAND',
                        help='shell command that kills the adapter (kill -9) and starts it again')
    parser.add_argument('--yes', action='store_true', help='the robot may move: the place is clear')
    parser.add_argument('--without-lease', action='store_true',
                        help='the adapter requires no control lease (require_lease: false)')
    parser.add_argument('--report', metavar='FILE', help='write outcomes as JSON')
    parser.add_argument('-k', metavar='WORDS', dest='only', help='run only checks whose names match')
    return parser.parse_args()


def choose(adapter, options):
    """Choose the skill and its arguments."""
    skills = adapter.skills()
    if options.skill:
        skills = [s for s in skills if s.name == options.skill]
        if not skills:
            raise graph.Unusable('{} has no skill {!r}; it has {}'.format(
                adapter.action_name, options.skill, ', '.join(s.name for s in adapter.skills())))
    if options.arguments is not None:
        try:
            given = json.loads(options.arguments)
        except ValueError as error:
            raise graph.Unusable('--arguments is no JSON: {}'.format(error))
        if not options.skill and len(skills) > 1:
            raise graph.Unusable('--arguments needs --skill: the action has {}'.format(
                ', '.join(s.name for s in skills)))
        bound = [name for name, rule in json.loads(skills[0].arguments_schema).get('properties', {}).items()
                 if 'x-ref' in rule and name in given]
        if bound:
            raise graph.Unusable('{} of {} names a scene object, and this has no scene graph to bind it from; '
                                 'take another skill'.format(', '.join(bound), skills[0].name))
        return skills[0], given
    possible, missing = [], []
    for skill in skills:
        try:
            possible.append((skill, schema.example(json.loads(skill.arguments_schema))))
        except schema.NoExample as argument:
            missing.append('{} ({})'.format(skill.name, argument))
        except ValueError:
            missing.append('{} (its schema is no JSON)'.format(skill.name))
    if not possible:
        raise graph.Unusable(
            'no arguments can be made from the schemas of {}: there is neither default nor example for what '
            'is in brackets. Give --skill NAME --arguments JSON'.format(', '.join(missing)))

    def worth(candidate):
        skill = candidate[0]
        lasts = graph.seconds(skill.nominal_duration)
        return (not moves(skill), 'base' not in skill.resources, bool(skill.resources), lasts <= LONGEST,
                lasts if lasts <= LONGEST else -lasts)
    return max(possible, key=worth)


def moves(skill):
    """Whether the descriptor says that the robot moves."""
    return (bool(MOVING & set(skill.resources)) or skill.permission.startswith('move')
            or skill.risk != skill.RISK_REVERSIBLE)


def in_words(nodeid):
    """Return the sentence that the name of a check is."""
    name = nodeid.rpartition('::')[2].removeprefix('test_')
    # The codes keep their lines.
    return re.sub(r'(?<![A-Z])_|_(?![A-Z])', ' ', name)


class Kit:
    """What pytest needs to know: the fixtures, and what came of each check."""

    def __init__(self, adapter, options):
        self.adapter = adapter
        self.options = options
        self.outcomes = {}

    # pytest calls these by their names.

    def pytest_configure(self, config):
        """Give the checks what they work on."""
        config.contract = self

    def pytest_runtest_logreport(self, report):
        """Note and tell what came of a check."""
        name = in_words(report.nodeid)
        if report.when != 'call' and report.outcome == 'passed':
            return
        if report.when == 'teardown' and self.outcomes.get(name, ('',))[0] == 'failed':
            return
        reason = ''
        if report.outcome == 'skipped':
            reason = report.longrepr[2].removeprefix('Skipped: ')
        elif report.outcome == 'failed':
            crash = getattr(report.longrepr, 'reprcrash', None)
            kind, _, words = crash.message.partition(': ') if crash is not None else ('', '', '')
            reason = words if kind in ('graph.Violation', 'graph.Unusable') else report.longreprtext
        self.outcomes[name] = (report.outcome, reason)
        print('{:8} {:5.1f} s  {}'.format(report.outcome.upper(), report.duration, name), flush=True)
        if report.outcome == 'failed':
            print('    ' + reason.replace('\n', '\n    ').replace('        ', '    '), flush=True)

    def pytest_collectreport(self, report):
        """Tell when a file of checks can't be read."""
        if report.failed:
            self.outcomes[report.nodeid] = ('failed', report.longreprtext)
            print(report.longreprtext)

    def table(self):
        """Print what came of all; return the exit status."""
        print('\nThe contract of {}, checked with {} {}'.format(
            self.adapter.action_name, self.adapter.skill.name, json.dumps(self.adapter.arguments)))
        width = max(map(len, self.outcomes), default=0)
        for name, (outcome, reason) in self.outcomes.items():
            words = reason if outcome == 'skipped' else ''
            print('  {:{}}  {}{}'.format(name, width, outcome, ': ' + words if words else ''))
        count = [sum(o == which for o, _ in self.outcomes.values())
                 for which in ('passed', 'failed', 'skipped')]
        print('{} passed, {} failed, {} skipped'.format(*count))
        return 1 if count[1] or not count[0] else 0


def check(adapter, options):
    """Run the checks; return the exit status."""
    # Whatever plug-ins the environment brings have no business here.
    os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'
    os.environ.pop('PYTEST_ADDOPTS', None)
    import pytest
    import common
    kit = Kit(adapter, options)
    arguments = ['-p', 'no:terminal', '-p', 'no:cacheprovider', '-p', 'no:unraisableexception',
                 '-c', os.devnull,
                 '--rootdir', str(HERE), '--confcutdir', str(HERE), '-o', 'python_files=check_*.py']
    if options.only:
        arguments += ['-k', options.only]
    pytest.main(arguments + [str(HERE / name) for name in CHECKS], plugins=[kit, common])
    if options.report:
        pathlib.Path(options.report).write_text(json.dumps(
            {'skill': adapter.skill.name, 'arguments': adapter.arguments, 'outcomes': kit.outcomes},
            indent=1))
    return kit.table()


def say(text):
    """Tell something about the run."""
    print('[contract] {}'.format(text), flush=True)


def main():
    """Find the adapter, choose what to run, run the checks."""
    options = arguments_of_command_line()
    try:
        import embodied_harness.action  # noqa: F401
        import pytest  # noqa: F401
        import rclpy  # noqa: F401
    except ImportError as error:
        sys.exit('[contract] error: {}: source the workspace with embodied_harness first'.format(error))
    adapter = None
    try:
        adapter = graph.Adapter(options.action)
        skill, arguments = choose(adapter, options)
        adapter.choose(skill, arguments)
        lasts = graph.seconds(skill.nominal_duration)
        say('{} of {} (robot {!r}), {} {}, about {:.1f} s a run{}'.format(
            adapter.action_name, adapter.executor, adapter.catalog_entry().robot_id, skill.name,
            json.dumps(arguments), lasts, '' if options.skill else '; --skill takes another'))
        if moves(skill) and not options.yes:
            raise graph.Unusable(
                '{} moves the robot (resources {}, permission {!r}): twenty times, and it is stopped in the '
                'middle. Clear the place, keep a hand on the emergency stop, and give --yes'.format(
                    skill.name, list(skill.resources), skill.permission))
        if moves(skill):
            say('WARNING: the robot moves now')
        adapter.take_command()
        for note in adapter.notes:
            say(note)
        adapter.wait_until_in_order()
        began = time.monotonic()
        status = check(adapter, options)
        say('done in {:.0f} s'.format(time.monotonic() - began))
    except (graph.Unusable, graph.Violation) as error:
        say('error: {}'.format(error))
        status = 2
    finally:
        if adapter is not None:
            adapter.close()
    return status


if __name__ == '__main__':
    sys.exit(main())
