"""What is known of interfaces without the generator of Rust bindings: names, layouts, values.

All of it comes from the Python and C bindings, for any package of interfaces.
"""

import functools
import importlib
import itertools
import json
import os
import pathlib
import re
import subprocess

from rosidl_parser.definition import AbstractGenericString
from rosidl_parser.definition import AbstractSequence
from rosidl_parser.definition import AbstractString
from rosidl_parser.definition import Array
from rosidl_parser.definition import BasicType
from rosidl_parser.definition import BoundedSequence

KINDS = ('msg', 'srv', 'action')
# The limits of each whole number.
RANGES = {
    'octet': (0, 255), 'uint8': (0, 255), 'int8': (-2 ** 7, 2 ** 7 - 1),
    **{'{}int{}'.format(sign, bits): (0, 2 ** bits - 1) if sign else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
       for bits in (16, 32, 64) for sign in ('', 'u')}}
# Exact in both widths; the largest single, the smallest normal single, no number, both zeros.
FLOATS = (
    0.0, -0.0, 1.5, -2.25, 1e10, float('inf'), float('-inf'), float('nan'),
    3.4028234663852886e38, 1.1754943508222875e-38)
TEXTS = ('', 'plain', 'quotes "\' and \\', 'line\nbreak', 'Hellö', '杯子', 'cup 🥤')


# --- Names -------------------------------------------------------------------------------------------

def interfaces(package, kind):
    """Return the Python types of a package's messages, services or actions, by name."""
    try:
        module = importlib.import_module('{}.{}'.format(package, kind))
    except ModuleNotFoundError:
        return {}
    return {
        name: type_ for name, type_ in sorted(vars(module).items())
        if isinstance(type_, type) and not re.search(r'_(Event|Request|Response)$', name)}


@functools.lru_cache(maxsize=None)
def parts(package, kind):
    """Return the Python types of all messages of a kind, by name: those that services consist of too."""
    found = {}
    for name, type_ in interfaces(package, kind).items():
        if kind == 'msg':
            found[name] = type_
            continue
        if kind == 'action':
            found[name + '_Goal'] = type_.Goal
            found[name + '_Result'] = type_.Result
            found[name + '_Feedback'] = type_.Feedback
            found[name + '_FeedbackMessage'] = type_.Impl.FeedbackMessage
            services = {
                name + '_SendGoal': type_.Impl.SendGoalService,
                name + '_GetResult': type_.Impl.GetResultService}
        else:
            services = {name: type_}
        for service_name, service in services.items():
            found[service_name + '_Request'] = service.Request
            found[service_name + '_Response'] = service.Response
    return found


def all_parts(packages):
    """Return the Python types of all messages of the packages, by (package, kind, name)."""
    return {
        (package, kind, name): type_
        for package in packages for kind in KINDS
        for name, type_ in parts(package, kind).items()}


def constants(type_):
    """Return the constants of a message, by name, with values of JSON."""
    names = [
        name for name in vars(type(type_))
        if name.isupper() and isinstance(vars(type(type_))[name], property)
        and not re.search('__DEFAULT$', name)]
    # A constant of type byte is a bytes object of length one.
    return {
        name: value[0] if isinstance(value, bytes) else value
        for name in names for value in (getattr(type_, name),)}


# --- The layout in C ---------------------------------------------------------------------------------

def c_layouts(names, source, folder):
    """Return size and fields with their offsets of each message, as C has them, by full name."""
    program = folder / 'layout'
    includes = [
        '-I{}'.format(path)
        for prefix in os.environ['AMENT_PREFIX_PATH'].split(os.pathsep)
        for path in sorted(pathlib.Path(prefix, 'include').glob('r*'))]
    subprocess.run(
        ['cc', '-std=c11', '-o', program, source, *includes, '-ldl'], check=True)
    ran = subprocess.run(
        [program], input='\n'.join(' '.join(name) for name in names), check=True,
        stdout=subprocess.PIPE, text=True)
    rows = map(json.loads, ran.stdout.splitlines())
    return {row['type']: (row['size'], row['fields']) for row in rows}


# --- Values ------------------------------------------------------------------------------------------

class Filler:
    """Fills messages with values that differ from field to field, the same in every run.

    Fullness says how many items a sequence gets: none, some, or as many as fit.
    """

    def __init__(self, fullness):
        """Begin with the first value of each kind."""
        self._fullness = fullness
        self._numbers = itertools.count()

    def message(self, type_):
        """Return a filled message."""
        message = type_()
        for name, field in zip(type_.get_fields_and_field_types(), type_.SLOT_TYPES):
            setattr(message, name, self._value(field))
        return message

    def _value(self, field):
        if isinstance(field, BasicType):
            return self._basic(field.typename)
        if isinstance(field, AbstractGenericString):
            return self._text(field)
        if isinstance(field, Array):
            return [self._value(field.value_type) for _ in range(field.size)]
        if isinstance(field, AbstractSequence):
            return [self._value(field.value_type) for _ in range(self._length(field))]
        return self.message(parts(*field.namespaces)[field.name])

    def _length(self, field):
        if self._fullness == 'empty':
            return 0
        bound = field.maximum_size if isinstance(field, BoundedSequence) else 7
        return bound if self._fullness == 'full' else min(2, bound)

    def _basic(self, name):
        number = next(self._numbers)
        if name == 'boolean':
            return number % 2 == 0
        if name in ('float', 'double'):
            return FLOATS[number % len(FLOATS)]
        low, high = RANGES[name]
        value = (low, high, 0, low + number % 100, high - number % 100)[number % 5]
        return bytes([value]) if name == 'octet' else value

    def _text(self, field):
        text = TEXTS[next(self._numbers) % len(TEXTS)]
        if not field.has_maximum_size():
            return text
        if self._fullness == 'full':
            return 'x' * field.maximum_size
        # What is bounded is the number of code units, bytes or of 16 bits.
        encoding, unit = ('utf-8', 1) if isinstance(field, AbstractString) else ('utf-16-le', 2)
        return text if len(text.encode(encoding)) // unit <= field.maximum_size else ''
