"""What an adapter says about itself: catalog, descriptors, beacons."""

import json
import math
import re
import statistics
import uuid

from graph import expect, nanoseconds, seconds
import pytest
from schema import library_problems, problems


@pytest.fixture
def skills(adapter):
    """Give every descriptor of the action."""
    return adapter.skills()


def each(skills, test, expected, source):
    """Expect the same of each descriptor."""
    for skill in skills:
        wrong = test(skill)
        expect(not wrong, expected, '{}: {}'.format(skill.name or 'a skill without name', wrong), source)


def test_the_catalog_names_executor_boot_and_robot(adapter):
    catalog = adapter.catalog_entry()
    expect(catalog.executor.startswith('/'), 'the executor\'s fully qualified node name',
           repr(catalog.executor), 'SkillCatalog.msg, ExecutorBeacon.msg: executor')
    expect(catalog.boot_id == adapter.boot_id, 'the boot_id of the beacons, {}'.format(adapter.boot_id),
           repr(catalog.boot_id), 'SkillCatalog.msg: boot_id')
    expect(catalog.robot_id, 'the robot that the skills move', 'an empty robot_id',
           'SkillCatalog.msg: robot_id')
    names = [s.name for s in catalog.skills]
    expect(len(set(names)) == len(names), 'each skill once', names, 'SkillDescriptor.msg: name')


def test_the_executor_itself_serves_the_action_that_its_skills_name(adapter):
    from rclpy.action import get_action_server_names_and_types_by_node as served_by
    space, _, name = adapter.executor.rpartition('/')

    def served():
        try:
            return dict(served_by(adapter.node, name, space or '/'))
        except RuntimeError:
            return {}
    adapter.until(lambda: adapter.action_name in served(), 5.0)
    expect('embodied_harness/action/ExecuteSkill' in served().get(adapter.action_name, []),
           '{} served by the node {} with type ExecuteSkill'.format(adapter.action_name, adapter.executor),
           sorted(served().items()), 'SkillDescriptor.msg: action_name')


def test_every_descriptor_has_name_version_and_description(skills):
    each(skills, lambda s: not re.fullmatch('[a-z][a-z0-9_]*', s.name) and repr(s.name),
         'a name in snake_case', 'SkillDescriptor.msg: name')
    each(skills, lambda s: not re.fullmatch(r'\d+\.\d+\.\d+([-+].*)?', s.version) and repr(s.version),
         'a semantic version, such as 1.0.0', 'SkillDescriptor.msg: version')
    each(skills, lambda s: not s.description.strip() and 'an empty description',
         'a description for planners and people', 'SkillDescriptor.msg: description')


def test_every_arguments_schema_is_a_JSON_Schema_of_an_object(skills):
    def wrong(skill):
        try:
            schema = json.loads(skill.arguments_schema)
        except ValueError as error:
            return 'no JSON: {}'.format(error)
        found = problems(schema) + library_problems(schema)
        if not isinstance(schema, dict) or schema.get('type') != 'object':
            found.append('its type is not "object"')
        elif not isinstance(schema.get('properties'), dict):
            found.append('it has no "properties"; give {} for a skill without arguments')
        elif set(schema.get('required', [])) - set(schema['properties']):
            found.append('it requires what is no property')
        return '; '.join(found)
    each(skills, wrong, 'a JSON Schema (draft 2020-12) of an object',
         'SkillDescriptor.msg: arguments_schema')


def test_preconditions_effects_and_postcondition_are_JSON(skills):
    def wrong(skill):
        for field in ('preconditions_json', 'effects_json', 'postcondition_json', 'embodiment_json'):
            text = getattr(skill, field)
            try:
                value = json.loads(text) if text else {}
            except ValueError as error:
                return '{} is no JSON: {}'.format(field, error)
            if not isinstance(value, dict):
                return '{} is no object'.format(field)
            lists = [value.get('add', []), value.get('remove', [])]
            if field == 'effects_json' and not all(isinstance(part, list) for part in lists):
                return 'effects_json is not {"add": [conditions], "remove": [conditions]}'
        return ''
    each(skills, wrong, 'JSON objects', 'SkillDescriptor.msg; docs/predicates.md')


def test_an_evaluated_skill_has_a_postcondition(skills):
    each(skills, lambda s: s.evaluated and not s.postcondition_text.strip()
         and s.postcondition_json.strip() in ('', '{}') and 'evaluated, and nothing to judge it by',
         'a post-condition as text or predicates', 'SkillDescriptor.msg: evaluated, postcondition_text')


def test_times_segments_risk_and_policy_of_every_descriptor_are_in_range(skills):
    def wrong(s):
        if not 0 < nanoseconds(s.nominal_duration) <= nanoseconds(s.maximum_duration):
            return 'nominal_duration {} s, maximum_duration {} s'.format(
                seconds(s.nominal_duration), seconds(s.maximum_duration))
        if s.segmented != (s.max_segments > 0):
            return 'segmented {}, max_segments {}'.format(s.segmented, s.max_segments)
        if s.disconnect_policy > s.DISCONNECT_STOP or s.risk > s.RISK_IRREVERSIBLE:
            return 'disconnect_policy {}, risk {}'.format(s.disconnect_policy, s.risk)
        if not (math.isfinite(s.progress_rate) and s.progress_rate >= 0):
            return 'progress_rate {}'.format(s.progress_rate)
        return ''
    each(skills, wrong, '0 < nominal_duration <= maximum_duration, max_segments only where segmented, '
         'constants that exist, a finite progress_rate', 'SkillDescriptor.msg')


def test_failure_modes_and_resources_of_every_descriptor_have_names(skills):
    each(skills, lambda s: ('' in s.resources or len(set(s.resources)) < len(s.resources))
         and list(s.resources), 'each resource named once', 'SkillDescriptor.msg: resources')
    each(skills, lambda s: [m.name for m in s.failure_modes
                            if not re.fullmatch('[a-z][a-z0-9_]*', m.name) or not m.description],
         'a snake_case name and a description of each failure', 'FailureMode.msg')


def test_beacons_come_at_5_Hz_with_a_growing_tick_of_one_life(adapter):
    # Eight periods.
    had = len(adapter.beacons)
    adapter.until(lambda: len(adapter.beacons) >= had + 8, 4.0)
    heard = adapter.beacons[had:]
    source = 'ExecutorBeacon.msg'
    expect(len(heard) >= 8, '8 beacons in far less than 4 s', len(heard), source)
    boots = {m.boot_id for _, m in heard}
    expect(len(boots) == 1, 'one boot_id', boots, source)
    boot = boots.pop()
    try:
        is_uuid = str(uuid.UUID(boot)) == boot
    except ValueError:
        is_uuid = False
    expect(is_uuid, 'a boot_id that is a UUID in 36 lower-case characters', repr(boot), source)
    ticks = [m.tick for _, m in heard]
    steps = [1e-9 * (b - a) for a, b in zip(ticks, ticks[1:])]
    expect(all(s > 0 for s in steps), 'ticks that grow', ticks, source)
    # Half and twice the period: what a busy machine does to a timer is no fault.
    middle = statistics.median(steps)
    expect(0.1 <= middle <= 0.4, 'a beacon each 0.2 s by its own tick [ns]', '{:.6f} s'.format(middle),
           source)
