"""The generator of Rust bindings: every kind of field, without a warning, and only where needed."""

import os
import pathlib
import subprocess
import sys

from conftest import TOP
import pytest

sys.path.insert(0, str(TOP / 'bindings'))

pytest.importorskip('rosidl_parser')

from rosidl_parser.definition import BasicType  # noqa: E402
from rosidl_parser.definition import UnboundedString  # noqa: E402
from rust_bindings import literals  # noqa: E402
from rust_bindings import names  # noqa: E402
from rust_bindings import stage  # noqa: E402

MANIFEST = '''\
[package]
name = "bindings_check"
version = "0.0.0"
edition = "2021"

[dependencies]
rosidl_runtime_rs = "=0.7.0"

[workspace]
'''
BUILD_SCRIPT = '''\
fn main() {
    for prefix in std::env::var("AMENT_PREFIX_PATH").unwrap().split(':') {
        println!("cargo:rustc-link-search=native={prefix}/lib");
    }
}
'''


@pytest.fixture(autouse=True)
def without_the_stage_of_the_build(monkeypatch):
    """Take away the bindings that a build has made: these tests make their own."""
    stage_of_build = TOP / 'build' / 'embodied_harness' / 'stage'
    monkeypatch.setenv('AMENT_PREFIX_PATH', os.pathsep.join(
        place for place in os.environ['AMENT_PREFIX_PATH'].split(os.pathsep)
        if pathlib.Path(place) != stage_of_build))


def module_of(package, folder):
    """Return the Rust module of a package as ros-env makes it, but with nothing allowed."""
    manifest = (folder / 'Cargo.toml').read_text()
    uses = ' '.join(
        'use crate::{};'.format(line.split()[0])
        for line in manifest.splitlines() if line.endswith('= "*"'))
    # ros-env allows imports that are not used, since it puts them into every module.
    lines = ['#[allow(unused_imports)] pub mod {} {{'.format(package)]
    for path in sorted((folder / 'src').glob('*.rs')):
        if path.name != 'lib.rs':
            lines.append(
                'pub mod {0} {{ {1} include!("{2}"); pub mod rmw {{ {1} include!("{3}"); }} }}'
                .format(path.stem, uses, path, path.with_suffix('') / 'rmw.rs'))
    return '\n'.join([*lines, '}'])


def test_every_kind_of_field_works_and_nothing_warns(tmp_path):
    places = stage.prefixes()
    try:
        share = stage.find_share('test_msgs', places)
    except stage.StageError:
        pytest.skip('test_msgs is not installed')
    staged = tmp_path / 'stage'
    stage.make_stage('test_msgs', '0.0.0', share, [], staged)
    crate = tmp_path / 'crate'
    (crate / 'src').mkdir(parents=True)
    (crate / 'Cargo.toml').write_text(MANIFEST)
    (crate / 'build.rs').write_text(BUILD_SCRIPT)
    # Resolved as in the workspace, so that nothing new has to be downloaded.
    (crate / 'Cargo.lock').write_bytes((TOP / 'Cargo.lock').read_bytes())
    modules = [
        module_of(path.parent.name, path) for path in sorted(staged.glob('share/*/rust'))]
    tests = pathlib.Path(__file__).parent / 'data' / 'rust_bindings.rs'
    (crate / 'src' / 'lib.rs').write_text('\n'.join([
        '#![deny(warnings)]', *modules,
        '#[cfg(test)] mod tests {{ include!("{}"); }}'.format(tests)]))
    ran = subprocess.run(
        ['cargo', 'test', '--quiet', '--offline', '--lib'], cwd=crate, capture_output=True,
        text=True, env={**os.environ, 'CARGO_TARGET_DIR': str(tmp_path / 'target')})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert '7 passed' in ran.stdout


def test_a_second_run_writes_nothing(tmp_path):
    share = stage.find_share('action_msgs', stage.prefixes())
    first = stage.make_stage('action_msgs', '0.0.0', share, [], tmp_path)
    assert 'action_msgs' in first
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*.rs')}
    assert stage.make_stage('action_msgs', '0.0.0', share, [], tmp_path) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*.rs')} == before


def test_packages_that_bring_bindings_keep_theirs(tmp_path, monkeypatch):
    theirs = tmp_path / 'prefix' / 'share' / 'unique_identifier_msgs' / 'rust'
    theirs.mkdir(parents=True)
    (theirs / 'Cargo.toml').write_text('')
    monkeypatch.setenv('AMENT_PREFIX_PATH', '{}{}{}'.format(
        tmp_path / 'prefix', os.pathsep, os.environ['AMENT_PREFIX_PATH']))
    share = stage.find_share('action_msgs', stage.prefixes())
    written = stage.make_stage('action_msgs', '0.0.0', share, [], tmp_path / 'stage')
    assert 'builtin_interfaces' in written
    assert 'unique_identifier_msgs' not in written


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
