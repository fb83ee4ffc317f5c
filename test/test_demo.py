"""scripts/demo from end to end, each run in a ROS domain of its own; and what it says when things fail."""

import os
import re
import signal
import stat
import subprocess
import textwrap

from conftest import TOP
from conftest import wait_until
import pytest

pytest.importorskip('rclpy')

# A hung demo ends here; a good one takes well under a minute on a free machine.
TIMEOUT = 240


def environment(**changes):
    """Return this environment without a domain, so that each demo takes one that is free."""
    variables = {k: v for k, v in os.environ.items() if k != 'ROS_DOMAIN_ID'}
    variables.update(changes)
    return variables


def demo(*options, **changes):
    """Run the demo to its end."""
    return subprocess.run(
        [TOP / 'scripts' / 'demo', '--no-setup', *options], env=environment(**changes),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=TIMEOUT)


class Told:
    """What the command line tool told of a task."""

    def __init__(self, output):
        """Read the steps from the output."""
        self.output = output
        # "   14.5 s  pick object=cup_1" begins a step; what belongs to it is indented further.
        self.skills = re.findall(r'^ *[\d.]+ s  (\w+) \S*=', output, re.MULTILINE)
        self.verdicts = re.findall(r'judged (\w+): (.*)', output)
        self.ends = re.findall(r'step \d+ (\w+) in', output)
        end = re.search(r'^(\w+) after ([\d.]+) s, (\d+) steps?:', output, re.MULTILINE)
        assert end, output
        self.outcome, self.seconds = end[1], float(end[2])


def log_of(output):
    """Return the file that the nodes write to."""
    return re.search(r'log: (\S+)', output)[1]


def succeeded(done):
    """Check that a demo ended well and tell its steps."""
    assert done.returncode == 0, done.stdout
    told = Told(done.stdout)
    assert told.outcome == 'SUCCEEDED', done.stdout
    # Every step that succeeded was judged so, with evidence.
    assert told.ends.count('SUCCEEDED') <= sum(v == 'SUCCESS' for v, _ in told.verdicts)
    assert '· ' in done.stdout
    # Nothing is left behind.
    assert not os.path.exists(os.path.dirname(log_of(done.stdout)))
    return told


@pytest.mark.parametrize('instruction', [
    'go to the kitchen and bring the cup', '去厨房拿杯子'])
def test_the_cup_is_brought(instruction):
    told = succeeded(demo(f'--instruction={instruction}'))
    assert {'navigate_to', 'pick'} <= set(told.skills), told.output
    # There and back.
    assert told.skills.count('navigate_to') >= 2


def test_a_slipped_grasp_is_noticed_by_the_evaluator_and_tried_again():
    told = succeeded(demo('--fault=grasp_slip'))
    assert any(v == 'FAILURE' for v, _ in told.verdicts), told.output
    assert told.skills.count('pick') >= 2
    assert 'FAILED' in told.ends


def test_another_world_and_other_words():
    told = succeeded(demo('--world=two_rooms', '--instruction=bring the tape from the storeroom'))
    assert 'pick' in told.skills


def test_two_demos_side_by_side_do_not_meet():
    second = subprocess.Popen(
        [TOP / 'scripts' / 'demo', '--no-setup', '--instruction=go to the kitchen'],
        env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    first = demo('--instruction=go to the kitchen')
    output, _ = second.communicate(timeout=TIMEOUT)
    domains = [re.search(r'in ROS domain (\d+)', text)[1] for text in (first.stdout, output)]
    assert domains[0] != domains[1]
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + output


def test_keep_goes_on_until_ctrl_c_and_ends_everything(tmp_path):
    log = tmp_path / 'demo.log'
    with open(log, 'w') as output:
        process = subprocess.Popen(
            [TOP / 'scripts' / 'demo', '--no-setup', '--keep', '--instruction=go to the kitchen'],
            env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: 'until Ctrl-C' in log.read_text(), TIMEOUT, log.read_text)
        nodes = log_of(log.read_text())

        def started():
            return [int(pid) for pid in re.findall(r'started with pid \[(\d+)\]', open(nodes).read())]
        pids = started()
        assert len(pids) == 7
        line = re.search(r'export ROS_DOMAIN_ID=(\d+)', log.read_text())
        status = subprocess.run(
            ['harness', 'status'], env=environment(ROS_DOMAIN_ID=line[1], ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST'),
            stdout=subprocess.PIPE, text=True, timeout=60)
        assert status.returncode == 0, status.stdout
        # A node that is killed is started again, and the others stay.
        killed = re.search(r'harness_node-\d+\]: process started with pid \[(\d+)\]', open(nodes).read())[1]
        os.kill(int(killed), signal.SIGKILL)
        wait_until(lambda: 'harness_node has died (exit code -9) and is started again' in log.read_text(),
                   30, log.read_text)
        wait_until(lambda: len(started()) == 8, 30, lambda: open(nodes).read())
        pids = started()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
    assert not [pid for pid in pids if os.path.exists(f'/proc/{pid}')]


# --- What it says when things fail; with programs in place of ros2 and harness -----------------------


@pytest.fixture
def path(tmp_path):
    """Give a PATH on which `ros2 launch` does what `launch.sh` says, and a maker of programs."""

    def program(name, body):
        file = tmp_path / name
        file.write_text('#!/bin/bash\n' + textwrap.dedent(body))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    program('harness', 'exit 0')
    return program, {'PATH': f'{tmp_path}:{os.environ["PATH"]}', 'EMBODIED_HARNESS_ENV': str(TOP),
                     'TMPDIR': str(tmp_path)}


def test_a_node_that_dies_is_named_with_its_last_lines(path):
    program, variables = path
    program('ros2', """
        [ "$3" = --help ] || [ "$2" = --help ] && exit 0
        echo "[harness_node-3] the last words"
        echo "[ERROR] [harness_node-3]: process has died [pid 1, exit code 101, cmd 'x']."
        exec sleep 100
        """)
    done = demo(**variables)
    assert done.returncode == 21, done.stdout
    assert 'harness_node has died (exit code 101)' in done.stdout
    assert '[harness_node-3] the last words' in done.stdout
    # What went wrong can be looked up.
    assert f'the log stays in {os.path.dirname(log_of(done.stdout))}' in done.stdout
    assert 'the last words' in open(log_of(done.stdout)).read()


def test_a_launch_that_ends_is_told(path):
    program, variables = path
    program('ros2', '[ "$2" = --help ] && exit 0\necho "no such package"\nexit 1\n')
    done = demo(**variables)
    assert done.returncode == 21, done.stdout
    assert 'no such package' in done.stdout


def test_ros2_launch_is_used_where_it_exists_and_gets_the_options(path, tmp_path):
    program, variables = path
    program('ros2', f'[ "$2" = --help ] && exit 0\nprintf "%s\\n" "$@" >{tmp_path}/arguments\nexit 1\n')
    demo('--world=two_rooms', '--log-level=warn', **variables)
    arguments = (tmp_path / 'arguments').read_text().splitlines()
    assert arguments[:3] == ['launch', 'embodied_harness', 'demo.launch.xml']
    assert f'world:={TOP}/worlds/two_rooms.yaml' in arguments
    assert 'log_level:=warn' in arguments and 'respawn:=false' in arguments
    assert any(a.startswith('state_directory:=') for a in arguments)


@pytest.mark.parametrize('option, says', [
    ('--world=/nowhere.yaml', '/nowhere.yaml'), ('--instruction=', '--instruction'),
    ('--domain=999', '999'), ('--timeout=nan', '--timeout'), ('--nonsense', '--nonsense'),
    ('--log-level=loud', 'loud')])
def test_wrong_options_are_told_before_anything_starts(option, says):
    done = demo(option)
    assert done.returncode != 0
    assert says in done.stdout and 'starting' not in done.stdout
