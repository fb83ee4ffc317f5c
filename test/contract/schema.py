"""As much of JSON Schema (draft 2020-12) as descriptors need, without a library.

With the Python package jsonschema installed, its verdict on the schema itself is added.
"""

import math

TYPES = {
    'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None),
    'number': (int, float), 'integer': int}
NUMBERS = ('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf')
COUNTS = ('minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties')


def problems(schema, place='arguments_schema'):
    """Return what is wrong with a schema, as sentences."""
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, dict):
        return ['{} is no object'.format(place)]
    found = []
    types = schema.get('type', [])
    for name in types if isinstance(types, list) else [types]:
        if name not in TYPES:
            found.append('{}.type is {!r}, no type of JSON Schema'.format(place, name))
    for word in NUMBERS:
        value = schema.get(word, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            found.append('{}.{} is {!r}, no number'.format(place, word, value))
    for word in COUNTS:
        value = schema.get(word, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            found.append('{}.{} is {!r}, no count'.format(place, word, value))
    required = schema.get('required', [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        found.append('{}.required is no list of names'.format(place))
    if not isinstance(schema.get('enum', []), list):
        found.append('{}.enum is no list'.format(place))
    for word in ('properties', 'patternProperties', '$defs'):
        part = schema.get(word, {})
        if not isinstance(part, dict):
            found.append('{}.{} is no object'.format(place, word))
            continue
        for name, inner in part.items():
            found += problems(inner, '{}.{}.{}'.format(place, word, name))
    for word in ('items', 'additionalProperties', 'not'):
        if word in schema:
            found += problems(schema[word], '{}.{}'.format(place, word))
    for word in ('allOf', 'anyOf', 'oneOf', 'prefixItems'):
        part = schema.get(word, [])
        if not isinstance(part, list):
            found.append('{}.{} is no list'.format(place, word))
            continue
        for number, inner in enumerate(part):
            found += problems(inner, '{}.{}[{}]'.format(place, word, number))
    return found


def library_problems(schema):
    """Return what the package jsonschema finds, or nothing where it is not installed."""
    try:
        import jsonschema
    except ImportError:
        return []
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return [error.message]
    return []


class NoExample(Exception):
    """The schema gives no value for an argument; its words say for which."""


def example(schema, place=''):
    """Make a value from defaults, examples, constants and choices; raise NoExample where there is none."""
    if isinstance(schema, dict):
        for word in ('default', 'const'):
            if word in schema:
                return schema[word]
        for word in ('examples', 'enum'):
            if schema.get(word):
                return schema[word][0]
        if schema.get('type') == 'object' or (not place and 'properties' in schema):
            if 'x-ref' not in schema:
                wanted = schema.get('properties', {})
                return {name: example(wanted.get(name, {}), name) for name in wanted
                        if name in schema.get('required', [])}
    raise NoExample(place or 'the arguments')


def bad_arguments(schema, arguments):
    """Return arguments that break the schema in different ways, each with words for how."""
    properties = schema.get('properties', {})
    found = []
    if schema.get('additionalProperties') is False:
        found.append(('an argument that the schema does not know',
                      {**arguments, 'no_such_argument_of_this_skill': 1}))
    for name in schema.get('required', []):
        found.append(('{} is missing'.format(name), {k: v for k, v in arguments.items() if k != name}))
    for name, rule in properties.items():
        kind = rule.get('type') if isinstance(rule, dict) else None
        if not isinstance(kind, str):
            continue
        found.append(('{} is of a wrong type'.format(name),
                      {**arguments, name: 'text' if kind != 'string' else 1}))
        if kind in ('number', 'integer'):
            if 'maximum' in rule:
                found.append(('{} is above its maximum'.format(name),
                              {**arguments, name: rule['maximum'] + 1}))
            if 'minimum' in rule:
                found.append(('{} is below its minimum'.format(name),
                              {**arguments, name: rule['minimum'] - 1}))
        if 'enum' in rule and kind == 'string':
            found.append(('{} is no choice'.format(name), {**arguments, name: 'no_such_choice'}))
    return found
