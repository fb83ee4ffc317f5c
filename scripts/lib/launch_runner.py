"""Starts the nodes of a launch file, passes on their output, and ends them together."""

import argparse
import ctypes
import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

import launch_file
from launch_file import LaunchFileError

# As in `ros2 launch`: how long a node has after SIGINT, and then after SIGTERM.
INTERRUPT_TIMEOUT = 5.0
TERMINATE_TIMEOUT = 5.0


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Asks Linux to kill this process when its parent ends, in whatever way."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def command_of(node, executable, parameter_folder):
    """The command line by which launch_ros would start a node."""
    command = [str(executable), *node.arguments]
    if node.ros_arguments:
        command += ["--ros-args", *node.ros_arguments]
    command += ["--ros-args", "-r", f"__node:={node.name}", "-r", f"__ns:={node.namespace}"]
    full_name = f"{node.namespace.rstrip('/')}/{node.name}"
    for index, parameters in enumerate(node.parameters):
        if isinstance(parameters, dict):
            file = Path(parameter_folder) / f"{full_name.strip('/').replace('/', '.')}.{index}.yaml"
            file.write_text(yaml.safe_dump({full_name: {"ros__parameters": parameters}}))
            parameters = str(file)
        command += ["--params-file", parameters]
    for source, target in node.remaps:
        command += ["-r", f"{source}:={target}"]
    return command


def find_executable(node):
    """The program of a node."""
    path = launch_file.find_package_prefix(node.package) / "lib" / node.package / node.executable
    if not os.access(path, os.X_OK):
        raise LaunchFileError(f"{path} does not exist or is not executable; run scripts/setup")
    return path


class Process:
    """One node: its process, and what `ros2 launch` would call it."""

    def __init__(self, node, command, number):
        self.node = node
        self.command = command
        self.label = f"{node.executable}-{number}"
        self.popen = None
        # Output is read until its end; an end of the process is told once.
        self.output_is_open = False
        self.end_was_told = True
        self.rest = b""
        # When it is to be started again; None: not.
        self.restart_at = None

    def start(self):
        # A group of its own: a Ctrl-C in the terminal reaches only the runner, which then ends each once.
        self.popen = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        os.set_blocking(self.popen.stdout.fileno(), False)
        self.output_is_open = True
        self.end_was_told = False
        self.restart_at = None

    def is_running(self):
        return self.popen is not None and self.popen.poll() is None

    def send(self, number):
        if self.is_running():
            try:
                os.killpg(self.popen.pid, number)
            except ProcessLookupError:
                pass


class Runner:
    """Runs processes until it is told to end or nothing is left to run."""

    def __init__(self, processes, log=None):
        self.processes = processes
        self.log = log
        self.selector = selectors.DefaultSelector()
        self.asked_to_end = False
        self.failed = False
        self.ending_since = None
        self.stages = []

    def run(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        try:
            for process in self.processes:
                self.start(process)
            while self.turn():
                pass
        finally:
            # Whatever went wrong above: nothing is left running.
            for process in self.processes:
                process.send(signal.SIGKILL)
        return 1 if self.failed else 0

    def on_signal(self, _number, _frame):
        self.asked_to_end = True

    def turn(self):
        """One round; false: everything has ended."""
        for key, _ in self.selector.select(timeout=0.1):
            self.read(key.data)
        now = time.monotonic()
        if self.asked_to_end:
            self.end(now)
        for process in self.processes:
            self.look_at(process, now)
        return any(p.is_running() or p.restart_at is not None or not p.end_was_told for p in self.processes)

    def end(self, now):
        """Sends each node the next signal when it is due."""
        if self.ending_since is None:
            self.ending_since = now
            self.stages = [
                (0.0, signal.SIGINT),
                (INTERRUPT_TIMEOUT, signal.SIGTERM),
                (INTERRUPT_TIMEOUT + TERMINATE_TIMEOUT, signal.SIGKILL),
            ]
            self.say("INFO", "launch", "ending all nodes")
        while self.stages and now - self.ending_since >= self.stages[0][0]:
            after, number = self.stages.pop(0)
            for process in self.processes:
                process.restart_at = None
                if process.is_running():
                    if number != signal.SIGINT:
                        self.failed = True
                        self.say(
                            "ERROR", process.label, f"did not end within {after:.0f} s: sending {number.name}"
                        )
                    process.send(number)

    def start(self, process):
        try:
            process.start()
        except OSError as error:
            self.failed = True
            self.asked_to_end = True
            process.restart_at = None
            self.say("ERROR", process.label, f"could not be started: {error}")
            return
        self.selector.register(process.popen.stdout, selectors.EVENT_READ, process)
        self.say("INFO", process.label, f"process started with pid [{process.popen.pid}]")

    def look_at(self, process, now):
        """Tells an end, and starts again what is due."""
        if process.restart_at is not None and now >= process.restart_at:
            self.start(process)
        if process.end_was_told or process.is_running():
            return
        self.read(process)
        # A child of the node may hold its output open: what it writes is of no interest any more.
        self.close(process)
        process.end_was_told = True
        pid, code = process.popen.pid, process.popen.returncode
        if code == 0:
            self.say("INFO", process.label, f"process has finished cleanly [pid {pid}]")
        else:
            command = " ".join(shlex.quote(word) for word in process.command)
            self.say("ERROR", process.label, f"process has died [pid {pid}, exit code {code}, cmd '{command}'].")
        if self.ending_since is not None:
            self.failed = self.failed or code not in (0, -signal.SIGINT, 128 + signal.SIGINT)
        elif process.node.respawn:
            process.restart_at = now + process.node.respawn_delay
        else:
            self.failed = self.failed or code != 0

    def read(self, process):
        """Passes on what a node has written."""
        while process.output_is_open:
            try:
                data = os.read(process.popen.stdout.fileno(), 65536)
            except BlockingIOError:
                return
            if not data:
                self.close(process)
                return
            lines = (process.rest + data).split(b"\n")
            process.rest = lines.pop()
            for line in lines:
                self.write(f"[{process.label}] {line.decode(errors='replace')}")

    def close(self, process):
        if not process.output_is_open:
            return
        process.output_is_open = False
        self.selector.unregister(process.popen.stdout)
        process.popen.stdout.close()
        if process.rest:
            self.write(f"[{process.label}] {process.rest.decode(errors='replace')}")
            process.rest = b""

    def say(self, level, label, text):
        self.write(f"[{level}] [{label}]: {text}")

    def write(self, line):
        try:
            print(line, flush=True)
        except BrokenPipeError:
            # Whoever read along has gone; the nodes are ended properly all the same.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")
            self.asked_to_end = True
        if self.log:
            print(line, file=self.log, flush=True)


def parse_arguments(words):
    """Launch arguments from words `name:=value`."""
    values = {}
    for word in words:
        name, separator, value = word.partition(":=")
        if not separator or not name:
            raise LaunchFileError(f"'{word}' is no launch argument: write name:=value")
        values[name] = value
    return values


def resolve_file(name):
    """A launch file by its path, or by its name in the installed or the source package."""
    if Path(name).is_file():
        return Path(name)
    places = [Path(__file__).resolve().parents[2] / "launch"]
    try:
        places.insert(0, launch_file.find_package_share("embodied_harness") / "launch")
    except LaunchFileError:
        pass
    for place in places:
        if (place / name).is_file():
            return place / name
    raise LaunchFileError(f"{name} is neither a file nor in {', '.join(map(str, places))}")


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/launch", description="Starts what a launch file says, where 'ros2 launch' does not exist."
    )
    parser.add_argument("file", help="a launch file, or its name in launch/")
    parser.add_argument("arguments", nargs="*", metavar="name:=value", help="launch arguments")
    parser.add_argument("--log", metavar="FILE", help="write every line to this file as well")
    parser.add_argument("--show", action="store_true", help="print the commands and start nothing")
    parser.add_argument("--show-args", action="store_true", help="list the launch arguments")
    options = parser.parse_args(arguments)
    try:
        file = resolve_file(options.file)
        if options.show_args:
            for argument in launch_file.declared_arguments(file):
                default = "required" if argument.default is None else f"default '{argument.default}'"
                print(f"{argument.name}: {argument.description} ({default})")
            return 0
        nodes = launch_file.read(file, parse_arguments(options.arguments))
        with tempfile.TemporaryDirectory(prefix="embodied_harness_launch_") as folder:
            processes = [
                Process(node, command_of(node, find_executable(node), folder), number)
                for number, node in enumerate(nodes, start=1)
            ]
            if options.show:
                for process in processes:
                    print(" ".join(shlex.quote(word) for word in process.command))
                return 0
            log = open(options.log, "a", encoding="utf-8") if options.log else None
            return Runner(processes, log).run()
    except (LaunchFileError, OSError) as error:
        print(f"[scripts/launch] error: {error}", file=sys.stderr)
        return 2
