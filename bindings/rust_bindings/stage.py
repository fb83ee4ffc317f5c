"""A stage: the Rust folders of a package and of all it needs, as far as no prefix has them."""

import hashlib
import os
import pathlib
import re
import xml.etree.ElementTree

from .package import definition_files
from .package import KINDS
from .package import Package
from .package import write_if_changed

# What rclrs itself is written against.
CLIENT_LIBRARY_PACKAGES = (
    'action_msgs', 'builtin_interfaces', 'rcl_interfaces', 'rosgraph_msgs',
    'unique_identifier_msgs')
STAMP = '.complete'


class StageError(Exception):
    """The stage cannot be made; the text says why and what to do."""


def prefixes():
    """Return the prefixes in which packages are looked up, the first one first."""
    places = os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
    return [pathlib.Path(place) for place in places if place]


def find_share(name, places):
    """Return the share folder of an installed interface package."""
    for place in places:
        share = place / 'share' / name
        if any((share / kind).is_dir() for kind in KINDS):
            return share
    raise StageError(
        "the interface package '{}' is in no prefix of AMENT_PREFIX_PATH: install it, or run "
        'scripts/setup, which builds what is missing'.format(name))


def has_bindings(name, places):
    """Whether the package brings bindings, as all do from ROS 2 Lyrical on.

    The first prefix that has the package decides: bindings further down may be of other definitions.
    """
    for place in places:
        share = place / 'share' / name
        if (share / 'rust' / 'Cargo.toml').is_file():
            return True
        if any((share / kind).is_dir() for kind in KINDS):
            return False
    return False


def package_version(share):
    """Return the version that an installed package declares."""
    try:
        return xml.etree.ElementTree.parse(share / 'package.xml').getroot().findtext('version')
    except OSError:
        return '0.0.0'


def included_packages(root):
    """Return the packages whose definitions the files below root include."""
    names = set()
    for kind, files in definition_files(root).items():
        for path in files:
            names.update(re.findall(
                r'^#include "([^/"]+)/', path.read_text(encoding='utf-8'), re.MULTILINE))
            if kind == 'action':
                names.update(CLIENT_LIBRARY_PACKAGES)
    return names


def digest(root, *words):
    """Return a digest of the definitions, of the generator and of the given words."""
    result = hashlib.sha256('\0'.join(words).encode())
    files = [path for paths in definition_files(root).values() for path in paths]
    for path in files + sorted(pathlib.Path(__file__).parent.glob('*.py')):
        result.update(path.name.encode() + b'\0' + path.read_bytes())
    return result.hexdigest()


def stage_package(name, version, root, stage):
    """Write the Rust folder of one package; return whether there was anything to do."""
    folder = stage / 'share' / name / 'rust'
    stamp = folder / STAMP
    wanted = digest(root, name, version)
    if stamp.is_file() and stamp.read_text(encoding='utf-8') == wanted:
        return False
    Package(name, version, root).write(folder)
    write_if_changed(stamp, wanted)
    return True


def make_stage(name, version, root, dependencies, stage):
    """Write the Rust folders of the package, and of all others that it needs and that have none.

    Without a name only those of the dependencies and of what they need.
    """
    stage = pathlib.Path(stage).resolve()
    places = [place for place in prefixes() if place.resolve() != stage]
    written, done, todo = [], set(), {*dependencies, *CLIENT_LIBRARY_PACKAGES}
    if name:
        root = pathlib.Path(root)
        done.add(name)
        todo |= included_packages(root)
        if stage_package(name, version, root, stage):
            written.append(name)
    todo -= done
    while todo:
        other = todo.pop()
        done.add(other)
        share = find_share(other, places)
        todo |= included_packages(share) - done
        if has_bindings(other, places):
            continue
        if stage_package(other, package_version(share), share, stage):
            written.append(other)
    return sorted(written)
