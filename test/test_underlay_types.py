"""The foreign interfaces are those that robots speak: types by their hash, constants and defaults
one by one.

The expectations were taken from the real packages. Where those are installed instead of the underlay,
this tells whether they are still what the nodes were written against.
"""

import importlib
import json
import os
import pathlib

from conftest import TOP
import interface_data
import pytest

DATA = pathlib.Path(__file__).parent / 'data'
TYPE_HASHES = json.loads((DATA / 'type_hashes.json').read_text())['type_hashes']
CONSTANTS = json.loads((DATA / 'constants.json').read_text())['constants']
DEFAULTS = json.loads((DATA / 'constants.json').read_text())['defaults']
PACKAGES = sorted({name.split('/')[0] for name in TYPE_HASHES})
# Of messages, services and actions, by the ending of the file.
DEFINED = sorted(
    (path.parent.parent.name, path.suffix[1:], path.stem)
    for kind in interface_data.KINDS
    for path in (TOP / 'underlay').glob('*/{0}/*.{0}'.format(kind)))


def installed_hashes(package):
    """Return the hash of each type of an installed package."""
    for prefix in os.environ['AMENT_PREFIX_PATH'].split(os.pathsep):
        share = pathlib.Path(prefix) / 'share' / package
        if (share / 'package.xml').is_file():
            hashes = {}
            for path in share.glob('*/*.json'):
                for entry in json.loads(path.read_text())['type_hashes']:
                    hashes[entry['type_name']] = entry['hash_string']
            return hashes
    pytest.fail('{} is in no prefix: run scripts/setup'.format(package))


@pytest.mark.parametrize('package', PACKAGES)
def test_types_have_the_hashes_of_the_real_package(package):
    expected = {
        name: value for name, value in TYPE_HASHES.items() if name.startswith(package + '/')}
    found = installed_hashes(package)
    assert {name: found.get(name) for name in expected} == expected


def test_every_type_of_the_underlay_has_an_expectation():
    assert len(DEFINED) > 40
    assert ['/'.join(name) for name in DEFINED if '/'.join(name) not in TYPE_HASHES] == []


def is_zero(value):
    """Whether a field has the value that it has without a default in its definition."""
    if isinstance(value, bytes):
        return not any(value)
    if isinstance(value, (str, bool, int, float)):
        return not value
    # Arrays and sequences; other messages are looked at by themselves.
    return all(map(is_zero, value)) if hasattr(value, '__len__') else True


@pytest.mark.parametrize('package, kind, name', DEFINED)
def test_fields_have_the_defaults_of_the_real_package(package, kind, name):
    # The hash covers no defaults either.
    for part, type_ in interface_data.parts(package, kind).items():
        if part == name or part.startswith(name + '_'):
            found = {
                field: getattr(type_(), field) for field in type_.get_fields_and_field_types()
                if not is_zero(getattr(type_(), field))}
            assert found == DEFAULTS.get('/'.join((package, kind, part)), {}), part


@pytest.mark.parametrize('name', sorted(CONSTANTS))
def test_constants_have_the_values_of_the_real_package(name):
    # The hash covers no constants.
    package, kind, message = name.split('/')
    outer, *inner = message.rsplit('_', 1)
    type_ = getattr(importlib.import_module('{}.{}'.format(package, kind)), outer)
    for part in inner:
        type_ = getattr(type_, part)
    found = {constant: getattr(type_, constant, None) for constant in CONSTANTS[name]}
    # A constant of type byte is a bytes object of length one in Python.
    found = {
        constant: value[0] if isinstance(value, bytes) else value
        for constant, value in found.items()}
    assert found == CONSTANTS[name]
