"""Measures what the ledger on both sides adds to sending a goal: from a committed command to the acceptance of its
goal by a foreign server, beside a bare goal of rclrs to the same server.

A command is made durable once more by its issuer as dispatched, and twice by the executor: when it is accepted, and
when the goal for the server gets its UUID. So it can't take less than a bare goal, three durable writes, and the way
to another process. Everything runs in processes of its own; the kinds take turns, goal by goal.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import measuring

# Beside three durable writes [ms].
ALLOWED = 2.0
KINDS = {
    "sync": "4 KiB + fdatasync",
    "answer": "bare goal to acknowledgement",
    "bare": "bare goal to acceptance",
    "ours": "committed command to acceptance",
}


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench dispatch", description=__doc__)
    parser.add_argument("--goals", type=int, default=300, help="goals of each kind (default: 300)")
    parser.add_argument("--directory", help="where the files are made: the disk that is measured (default: build/)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    options = parser.parse_args(arguments)
    if not 10 <= options.goals <= 100_000:
        parser.error(f"--goals is {options.goals}, it has to be between 10 and 100000")
    return options


def build():
    """Builds, optimised, the measuring program and the node; returns the folder of the programs."""
    command = [measuring.TOP / "scripts" / "dev", "cargo", "build", "--release", "--locked"]
    command += ["--package", "eh_skill_nodes", "--bin", "navigation_skills_node", "--example", "dispatch_time"]
    subprocess.run(command, cwd=measuring.TOP, check=True)
    return measuring.BUILD / "cargo" / "release"


def measure(options, programs, directory):
    """Runs everything; returns the times of each kind [ms]."""
    # The robot around the executor is that of the tests.
    sys.path.insert(0, str(measuring.TOP / "test"))
    import rclpy
    from executor_surroundings import Robot
    from rclpy.executors import MultiThreadedExecutor

    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ["ROS_DOMAIN_ID"] = str(os.getpid() % 100 + 1)
    rclpy.init()
    node = rclpy.create_node("surroundings")
    robot = Robot(node, period=0.1)
    spinning = MultiThreadedExecutor(2)
    spinning.add_node(node)
    thread = threading.Thread(target=spinning.spin, daemon=True)
    thread.start()
    examples = programs / "examples" / "dispatch_time"
    running = []
    try:
        running.append(subprocess.Popen([examples, "serve"]))
        running.append(
            subprocess.Popen(
                [programs / "navigation_skills_node", "--ros-args", "-p", f"state_directory:={directory}"]
                + ["--log-level", "warn"]
            )
        )
        deadline = time.monotonic() + 30
        while "/navigation_skills_node" not in robot.beacons:
            if time.monotonic() > deadline:
                raise RuntimeError("navigation_skills_node sent no beacon within 30 s; its words are above")
            time.sleep(0.05)
        done = subprocess.run(
            [examples, "measure", str(directory), str(options.goals)], stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"the measuring program failed with exit status {done.returncode}; its words are above")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(20)
        robot.close()
        spinning.shutdown()
        thread.join(5)
    times = {kind: [] for kind in KINDS}
    for line in done.stdout.splitlines():
        kind, nanoseconds = line.split("\t")
        times[kind].append(int(nanoseconds) / 1e6)
    return times


def report(times, options, directory):
    """Prints the figures; returns whether the limit was kept."""
    figures = {}
    print(f"\n{measuring.machine()}; {measuring.disk_of(directory)}")
    print(f"{'':36}{'goals':>8}{'p50 [ms]':>12}{'p99 [ms]':>12}{'max [ms]':>12}")
    for kind, text in KINDS.items():
        values = sorted(times[kind])
        figures[kind] = {
            "p50_ms": statistics.median(values),
            "p99_ms": values[min(len(values) - 1, int(0.99 * len(values)))],
            "max_ms": values[-1],
        }
        p50, p99, most = figures[kind].values()
        print(f"{text:36}{len(values):8}{p50:12.3f}{p99:12.3f}{most:12.3f}")
    limit = figures["bare"]["p50_ms"] + 3 * figures["sync"]["p50_ms"] + ALLOWED
    figures["limit_ms"] = limit
    kept = figures["ours"]["p50_ms"] <= limit
    print(
        f"{'ok  ' if kept else 'MISS'} p50 of a command: {figures['ours']['p50_ms']:.3f} ms, at most {limit:.3f} ms "
        f"(bare goal + 3 durable writes + {ALLOWED:g} ms)"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return kept


def main(arguments):
    """Measures and prints; exit status 1 when the limit was not kept."""
    options = parse(arguments)

    def run(directory):
        return report(measure(options, build(), directory), options, directory)

    return measuring.in_directory("dispatch", options.directory, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
