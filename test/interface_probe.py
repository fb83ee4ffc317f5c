"""Builds the Rust programs in interfaces/: above all the one that speaks every interface of test_msgs."""

import functools
import os
import subprocess
import sys

from conftest import BUILD
from conftest import TOP
import interface_data

sys.path.insert(0, str(TOP / 'bindings'))

from rust_bindings import names  # noqa: E402
from rust_bindings import stage  # noqa: E402
from rust_bindings.package import write_if_changed  # noqa: E402

FOLDER = TOP / 'test' / 'interfaces'
GENERATED = BUILD.parent / 'interface_probe'
# The one that has every kind of field.
SAMPLE = 'test_msgs'


def bound_packages():
    """Return the packages that the nodes have bindings of."""
    return sorted(path.parent.name for path in (BUILD / 'stage' / 'share').glob('*/rust'))


@functools.lru_cache(maxsize=None)
def sample_is_installed():
    """Whether test_msgs, which has every kind of field, is there."""
    try:
        stage.find_share(SAMPLE, stage.prefixes())
    except stage.StageError:
        return False
    return True


def rust_folder(package):
    """Return the folder of a package's bindings: the generated ones or its own."""
    for place in [GENERATED / 'stage', BUILD / 'stage', *stage.prefixes()]:
        folder = place / 'share' / package / 'rust'
        if folder.is_dir():
            return folder
    raise FileNotFoundError('{} has no bindings: run scripts/setup'.format(package))


def used_packages(folder):
    """Return the other packages that a package's bindings use."""
    return [
        line.split()[0] for line in (folder / 'Cargo.toml').read_text().splitlines()
        if line.endswith('= "*"')]


def module_of(package, root):
    """Return the Rust module of a package as ros-env makes it, but with no warning allowed."""
    folder = rust_folder(package)
    uses = ' '.join('use {}::{};'.format(root, name) for name in used_packages(folder))
    # ros-env allows imports that are not used, since it puts them into every module.
    lines = ['#[allow(unused_imports)] pub mod {} {{'.format(package)]
    for path in sorted((folder / 'src').glob('*.rs')):
        if path.name != 'lib.rs':
            lines.append(
                'pub mod {0} {{ {1} include!("{2}"); pub mod rmw {{ {1} include!("{3}"); }} }}'
                .format(path.stem, uses, path, path.with_suffix('') / 'rmw.rs'))
    return '\n'.join([*lines, '}'])


def with_used_packages(packages):
    """Return the packages and all that their bindings use."""
    found, todo = set(), set(packages)
    while todo:
        package = todo.pop()
        found.add(package)
        todo |= set(used_packages(rust_folder(package))) - found
    return sorted(found)


def rust_path(package, *names_):
    """Return the path of a type within the program."""
    root = [] if package == SAMPLE else ['ros_env']
    return '::'.join([*root, package, *names_])


def offers():
    """Return the lines that offer every interface of test_msgs."""
    lines = ['pub fn offer(hub: &mut crate::hub::Hub) -> Result<(), crate::hub::Failure> {']
    if sample_is_installed():
        for kind in interface_data.KINDS:
            for name in interface_data.parts(SAMPLE, kind):
                lines.append('    hub.message::<{0}::{1}::{2}>("{1}/{2}")?;'.format(
                    SAMPLE, kind, name))
        for kind, method in (('srv', 'service'), ('action', 'action')):
            for name in interface_data.interfaces(SAMPLE, kind):
                lines.append('    hub.{3}::<{0}::{1}::{2}>("{1}/{2}")?;'.format(
                    SAMPLE, kind, name, method))
    return [*lines, '    Ok(())', '}']


def tables(types, layouts):
    """Return the lines of what the program tells: layouts and constants."""
    lines = [
        'pub const LAYOUTS: &[(&str, usize, &[(&str, usize)])] = &[']
    for package, kind, name in types:
        path = rust_path(package, kind, 'rmw', name)
        _, fields = layouts['{}/{}/{}'.format(package, kind, name)]
        offsets = ', '.join(
            '("{}", std::mem::offset_of!({}, {}))'.format(field, path, names.rust_name(field))
            for field, _ in fields)
        lines.append('    ("{}/{}/{}", std::mem::size_of::<{}>(), &[{}]),'.format(
            package, kind, name, path, offsets))
    lines += [
        '];',
        'pub fn constants() -> Vec<(&\'static str, &\'static str, serde_json::Value)> {',
        '    vec![']
    for (package, kind, name), type_ in types.items():
        for constant in interface_data.constants(type_):
            lines.append('        ("{0}/{1}/{2}", "{3}", {4}::{5}.into()),'.format(
                package, kind, name, constant, rust_path(package, kind, name),
                names.rust_name(constant)))
    return [*lines, '    ]', '}']


def write_sources(types, layouts):
    """Write what the program includes."""
    packages = bound_packages()
    lines = []
    if sample_is_installed():
        # What it uses is in the stage of the nodes already.
        stage.stage_package(
            SAMPLE, '0.0.0', stage.find_share(SAMPLE, stage.prefixes()), GENERATED / 'stage')
        lines += ['#[allow(dead_code)]', module_of(SAMPLE, 'ros_env')]
        packages = [*packages, SAMPLE]
    lines += [*offers(), *tables(types, layouts)]
    write_if_changed(GENERATED / 'generated.rs', '\n'.join(lines) + '\n')
    write_if_changed(GENERATED / 'packages.rs', '\n'.join(
        module_of(package, 'crate') for package in with_used_packages(packages)) + '\n')


def cargo(*arguments):
    """Run Cargo on the programs, in the environment and the target folder of the nodes."""
    # Resolved as the nodes are, so that nothing has to be downloaded or built a second time.
    (FOLDER / 'Cargo.lock').write_bytes((TOP / 'Cargo.lock').read_bytes())
    return subprocess.run(
        [TOP / 'scripts' / 'dev', 'cargo', *arguments, '--offline',
         '--manifest-path', FOLDER / 'Cargo.toml'],
        cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        # The package's own libraries are not in an installed prefix here.
        env={**os.environ, 'INTERFACE_PROBE_GENERATED': str(GENERATED), 'LIBRARY_PATH': str(BUILD)})


def build():
    """Build the programs in interfaces/ and return their folder."""
    built = cargo('build')
    assert built.returncode == 0, built.stdout
    return BUILD / 'cargo' / 'debug'
