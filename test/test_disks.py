"""Executors on disks that fail: a clear word, no motion, and nothing lost that was durable."""

import os
import pathlib
import resource
import signal

from conftest import node_program
from conftest import wait_until
from executor_surroundings import Client
from executor_surroundings import errors
from executor_surroundings import start
import pytest
from task_graph import SUCCEEDED

from executor_surroundings import nav2  # noqa: F401, I100
from executor_surroundings import robot  # noqa: F401

pytest.importorskip('rclpy')

EXECUTOR = 'navigation_skills_node'


def journal(folder):
    """Return the file of the executor's journal."""
    found = sorted(pathlib.Path(folder).glob('*.sqlite'))
    assert len(found) == 1, found
    return found[0]


def start_with_limits(processes, folder):
    """Start the executor so that a file that may grow no more is an error and no signal."""
    command = ['bash', '-c', 'trap "" XFSZ; exec "$@"', 'bash', node_program(EXECUTOR),
               '--ros-args', '-p', 'state_directory:={}'.format(folder)]
    return processes.start(command, EXECUTOR)


def fill(process, full):
    """Let no file of the process grow beyond its first page, or all of them."""
    limit = 4096 if full else resource.RLIM_INFINITY
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def test_a_full_disk_starts_nothing_stops_what_runs_and_loses_nothing(
        nav2, processes, robot, tmp_path):  # noqa: F811
    client = Client(robot, EXECUTOR)
    client.forget()
    process = start_with_limits(processes, tmp_path)
    client.wait()
    nav2.run_for = 0.1
    before = client.goal()
    assert client.run(before).status == SUCCEEDED
    assert client.settle(before.command.command_id).error_code == 0

    wait_until(lambda: robot.speed == 0.0, 10, 'a base that stands')
    fill(process, True)
    sent = len(nav2.started)
    refused = client.run(client.goal()).result
    assert refused.error_code == errors().STORAGE_FAILURE, refused.error_msg
    assert 'nothing is started' in refused.error_msg and 'full' in refused.error_msg
    assert len(nav2.started) == sent and robot.speed == 0.0

    # With room again it goes on by itself; and what ends a motion is done without any.
    fill(process, False)
    nav2.run_for = 30.0
    running = client.goal()
    handle = client.send(running)
    wait_until(lambda: robot.speed > 0, 10, 'the base to move')
    fill(process, True)
    handle.cancel_goal_async()
    status = client.result(handle, 25).result.status
    assert status.stop_stage == status.STOP_CONFIRMED, status.error_msg
    assert nav2.ends[-1] == 'canceled' and robot.speed == 0.0

    # Another life knows what was durable: the end of the first, the start of the second, which was not sent twice.
    sent = len(nav2.started)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    client.forget()
    start(processes, EXECUTOR, tmp_path)
    client.wait()
    assert client.query(before.command.command_id).statuses[0].state == 7
    found = wait_until(
        lambda: (lambda q: q if q.error_code == 0 and q.statuses[0].state == 6 else None)(
            client.query(running.command.command_id)), 15, 'its end')
    assert found.statuses[0].run_id == status.run_id
    assert len(nav2.started) == sent


@pytest.mark.parametrize('how', ['damaged', 'cut', 'read-only'])
def test_a_journal_that_can_not_be_used_ends_the_executor_with_its_path(
        how, nav2, processes, robot, tmp_path):  # noqa: F811
    if how == 'read-only':
        # No process makes a folder there, whatever its rights.
        folder = pathlib.Path('/proc/sys/journal')
        culprit = str(folder)
    else:
        client = Client(robot, EXECUTOR)
        client.forget()
        folder = tmp_path
        first = start(processes, EXECUTOR, folder)
        client.wait()
        nav2.run_for = 0.1
        assert client.run(client.goal()).status == SUCCEEDED
        first.stop()
        file = journal(folder)
        content = file.read_bytes()
        assert len(content) > 8192
        if how == 'damaged':
            file.write_bytes(content[:4096] + b'\xaa' * (len(content) - 4096))
        else:
            file.write_bytes(content[:len(content) // 2 + 100])
        for rest in folder.glob('*.sqlite-*'):
            rest.unlink()
        culprit = str(file)
    sent = len(nav2.started)
    process = start(processes, EXECUTOR, folder)
    assert process.wait() != 0, process.output()
    assert culprit in process.output(), process.output()
    assert 'panicked' not in process.output(), process.output()
    assert len(nav2.started) == sent
