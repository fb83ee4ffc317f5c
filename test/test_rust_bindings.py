"""The generator of Rust bindings: names and literals, and bindings only where there are none."""

import os
import pathlib
import sys

from conftest import BUILD
from conftest import TOP
import pytest

sys.path.insert(0, str(TOP / 'bindings'))

pytest.importorskip('rosidl_parser')

from rosidl_parser.definition import BasicType  # noqa: E402
from rosidl_parser.definition import UnboundedString  # noqa: E402
from rust_bindings import literals  # noqa: E402
from rust_bindings import names  # noqa: E402
from rust_bindings import stage  # noqa: E402


@pytest.fixture(autouse=True)
def without_the_stage_of_the_build(monkeypatch):
    """Take away the bindings that a build has made: these tests make their own."""
    stage_of_build = BUILD / 'stage'
    monkeypatch.setenv('AMENT_PREFIX_PATH', os.pathsep.join(
        place for place in os.environ['AMENT_PREFIX_PATH'].split(os.pathsep)
        if pathlib.Path(place) != stage_of_build))


def test_a_second_run_writes_nothing(tmp_path):
    share = stage.find_share('action_msgs', stage.prefixes())
    first = stage.make_stage('action_msgs', '0.0.0', share, [], tmp_path)
    assert 'action_msgs' in first
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*.rs')}
    assert stage.make_stage('action_msgs', '0.0.0', share, [], tmp_path) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*.rs')} == before


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Give a function that makes a package in a prefix; the prefix of the last call is found first."""
    def make(prefix_name, package, *folders):
        place = tmp_path / prefix_name
        for folder in folders:
            (place / 'share' / package / folder).mkdir(parents=True)
            if folder == 'rust':
                (place / 'share' / package / folder / 'Cargo.toml').write_text('')
        monkeypatch.setenv('AMENT_PREFIX_PATH', '{}{}{}'.format(
            place, os.pathsep, os.environ['AMENT_PREFIX_PATH']))
    return make


@pytest.fixture
def packages_written(tmp_path, monkeypatch):
    """Give a function that tells which packages bindings are written for, without writing them."""
    def written():
        monkeypatch.setattr(stage, 'stage_package', lambda *_: True)
        share = stage.find_share('action_msgs', stage.prefixes())
        return stage.make_stage('action_msgs', '0.0.0', share, [], tmp_path / 'stage')
    return written


def test_packages_that_bring_bindings_keep_theirs(prefix, packages_written):
    # As on ROS 2 Lyrical, whose packages have a Rust folder beside their definitions.
    prefix('lyrical', 'unique_identifier_msgs', 'msg', 'rust')
    prefix('lyrical', 'builtin_interfaces', 'msg', 'rust')
    written = packages_written()
    assert {'action_msgs', 'rcl_interfaces'} <= set(written)
    assert not {'unique_identifier_msgs', 'builtin_interfaces'} & set(written)


def test_all_bindings_may_be_brought(prefix, packages_written):
    for package in packages_written():
        if package != 'action_msgs':
            prefix('lyrical', package, 'msg', 'rust')
    assert packages_written() == ['action_msgs']


def test_bindings_may_come_from_a_prefix_of_their_own(prefix, packages_written):
    prefix('bindings', 'unique_identifier_msgs', 'rust')
    assert 'unique_identifier_msgs' not in packages_written()


def test_bindings_of_a_package_that_is_overlaid_do_not_count(prefix, packages_written):
    # The definitions found first are the overlay's, the bindings below are of others.
    prefix('lyrical', 'unique_identifier_msgs', 'msg', 'rust')
    prefix('overlay', 'unique_identifier_msgs', 'msg')
    assert 'unique_identifier_msgs' in packages_written()


def test_a_missing_package_is_named_with_what_to_do():
    with pytest.raises(stage.StageError, match="'no_such_msgs'.*scripts/setup"):
        stage.find_share('no_such_msgs', stage.prefixes())


@pytest.mark.parametrize('name, expected', [
    ('type', 'type_'), ('move', 'move_'), ('self', 'self_'), ('kind', 'kind')])
def test_keywords_get_an_underscore(name, expected):
    assert names.rust_name(name) == expected


@pytest.mark.parametrize('typename, value, expected', [
    ('boolean', True, ('bool', 'true')),
    ('float', 1, ('f32', '1.0')),
    ('double', 1e300, ('f64', '1e+300')),
    ('double', float('inf'), ('f64', 'f64::INFINITY')),
    ('double', float('-inf'), ('f64', 'f64::NEG_INFINITY')),
    ('float', float('nan'), ('f32', 'f32::NAN')),
    ('int64', -2 ** 63, ('i64', '-9223372036854775808')),
    ('octet', 255, ('u8', '255')),
    ('char', 'A', ('u8', '65'))])
def test_constants_become_literals(typename, value, expected):
    assert literals.constant(BasicType(typename), value) == expected


def test_texts_are_escaped():
    assert literals.constant(UnboundedString(), 'a"b\\c\nö') == (
        "&'static str", '"a\\"b\\\\c\\u{a}\\u{f6}"')
