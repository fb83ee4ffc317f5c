"""Starts the demo's graph, sends one task, and ends everything. Called by scripts/demo."""

import argparse
import contextlib
import ctypes
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
INSTRUCTION = "go to the kitchen and bring the cup"

# The servers that a task needs, in the robot's namespace; each is a service of the graph.
NEEDED = {
    "harness_node": "execute_task/_action/send_goal",
    "evaluator_node": "evaluate_run/_action/send_goal",
    "scene_graph_node": "query_scene",
    "protection_node": "manage_lease",
    "navigation_skills_node": "navigation_skills_node/execute_skill/_action/send_goal",
    "manipulation_skills_node": "manipulation_skills_node/execute_skill/_action/send_goal",
    "sim_robot_node": "navigate_to_pose/_action/send_goal",
}
READY_TIMEOUT = 60.0
# ros2 launch and scripts/launch need up to 10 s for nodes that do not listen.
END_TIMEOUT = 15.0
# Domains up to 101 leave the ports of Linux's ephemeral range alone.
LAST_DOMAIN = 101
DIED = re.compile(r"\[(?P<name>[^\]]+)-\d+\]: process has died \[pid \d+, exit code (?P<code>-?\d+)")

# Exit statuses besides those of the task.
NOT_READY = 20
NODE_DIED = 21
TIMED_OUT = 22


class DemoError(Exception):
    """The demo can't go on; with the exit status."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def say(text):
    """Prints one line about the demo itself."""
    print(f"[demo] {text}", flush=True)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--instruction", default=INSTRUCTION)
    parser.add_argument("--world")
    parser.add_argument("--fault")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--domain", type=int)
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warn", "error", "fatal"])
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("--check-only", action="store_true")
    options = parser.parse_args(arguments)
    if not options.instruction.strip():
        parser.error("--instruction is empty: say what the robot is to do")
    if options.domain is not None and not 0 <= options.domain <= 232:
        parser.error(f"--domain is {options.domain}, it has to be between 0 and 232")
    if not 0 < options.timeout <= 86400:
        parser.error(f"--timeout is {options.timeout}, it has to be between 0 and 86400 s")
    if options.world:
        for candidate in (Path(options.world), TOP / "worlds" / options.world, TOP / "worlds" / f"{options.world}.yaml"):
            if candidate.is_file():
                options.world = str(candidate.resolve())
                break
        else:
            known = ", ".join(sorted(p.stem for p in (TOP / "worlds").glob("*.yaml")))
            parser.error(f"--world {options.world} is neither a file nor one of {known}")
    return options


# --- A graph of its own ------------------------------------------------------------------------------


@contextlib.contextmanager
def domain_of(options):
    """A ROS domain: the one asked for, else one that nobody on this machine uses."""
    asked = options.domain if options.domain is not None else os.environ.get("ROS_DOMAIN_ID")
    if asked is not None:
        yield str(asked)
        return
    folder = Path(tempfile.gettempdir()) / f"embodied_harness_domains_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for offset in range(LAST_DOMAIN):
        domain = (os.getpid() + offset) % LAST_DOMAIN + 1
        with open(folder / str(domain), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            if port_is_free(domain):
                yield str(domain)
                return
    raise DemoError(f"all {LAST_DOMAIN} ROS domains of this machine are in use: end some, or give --domain")


def port_is_free(domain):
    """Whether no participant of this machine listens in the domain (RTPS 9.6.1.1)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", 7400 + 250 * domain + 10))
        except OSError:
            return False
    return True


# --- The nodes ---------------------------------------------------------------------------------------


def end_with_parent():
    """Asks Linux to end this process when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Graph:
    """The launched nodes and their log."""

    def __init__(self, folder, environment, log_level="warn", world=None, respawn=False, more=()):
        """Launches; `folder` gets the state and the log. `more`: further launch arguments."""
        self.log = folder / "nodes.log"
        arguments = [
            f"state_directory:={folder / 'state'}",
            f"log_level:={log_level}",
            f"respawn:={str(respawn).lower()}",
            *more,
        ]
        if world:
            arguments.append(f"world:={world}")
        if shutil.which("ros2") and has_ros2_launch():
            command = ["ros2", "launch", "embodied_harness", "demo.launch.xml", *arguments]
        else:
            command = [sys.executable, str(TOP / "scripts/launch"), "demo.launch.xml", *arguments]
        say(f"starting: {shlex.join(command)}")
        say(f"log: {self.log}")
        with open(self.log, "wb") as output:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def check(self):
        """Raises when a node, or the launch itself, has ended."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        died = DIED.search(text)
        if died:
            name = died["name"]
            lines = [line for line in text.splitlines() if f"[{name}-" in line][-15:]
            raise DemoError(f"{name} has died (exit code {died['code']}). Its last lines:\n" + "\n".join(lines), NODE_DIED)
        self.check_launch(text)

    def check_launch(self, text):
        """Raises when the launch itself has ended."""
        if self.popen.poll() is not None:
            lines = text.splitlines()[-15:]
            raise DemoError(f"the launch ended with status {self.popen.returncode}:\n" + "\n".join(lines), NODE_DIED)

    def deaths(self):
        """The nodes that have died so far, each with its exit code; raises when the launch has ended."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        self.check_launch(text)
        return [(died["name"], died["code"]) for died in DIED.finditer(text)]

    def end(self):
        """Ends every node."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGINT)
            try:
                self.popen.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                say("the nodes do not end: killing them")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()


def has_ros2_launch():
    """Whether `ros2 launch` exists."""
    done = subprocess.run(
        ["ros2", "launch", "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def wait_until_ready(graph):
    """Waits until every server that a task needs is in the graph."""
    import rclpy

    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        node = rclpy.create_node("demo", context=context, start_parameter_services=False, enable_rosout=False)
        deadline = time.monotonic() + READY_TIMEOUT
        while True:
            graph.check()
            seen = {name.lstrip("/") for name, _ in node.get_service_names_and_types()}
            missing = [name for name, service in NEEDED.items() if service not in seen]
            if not missing:
                return
            if time.monotonic() > deadline:
                raise DemoError(
                    f"not ready within {READY_TIMEOUT:.0f} s; still missing: {', '.join(missing)}; see {graph.log}",
                    NOT_READY,
                )
            time.sleep(0.1)
    finally:
        rclpy.shutdown(context=context)


# --- The task ----------------------------------------------------------------------------------------


def command_line_tool(graph, arguments, environment, timeout):
    """Runs the command line tool beside a graph that is watched; returns its exit status."""
    process = subprocess.Popen(
        ["harness", *arguments], stdin=subprocess.DEVNULL, env=environment, preexec_fn=end_with_parent
    )
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                return process.wait(timeout=0.3)
            except subprocess.TimeoutExpired:
                pass
            graph.check()
            if time.monotonic() > deadline:
                raise DemoError(f"the task took longer than {timeout:.0f} s; see {graph.log}", TIMED_OUT)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


def run(options):
    """The whole demo; returns its exit status."""
    with domain_of(options) as domain:
        environment = {
            **os.environ,
            "ROS_DOMAIN_ID": domain,
            # Lines must come when they are written, not when a buffer is full.
            "RCUTILS_LOGGING_BUFFERED_STREAM": "0",
            "PYTHONUNBUFFERED": "1",
        }
        environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        # For wait_until_ready, which runs in this process.
        os.environ.update(environment)
        if not shutil.which("harness"):
            raise DemoError("the command line tool 'harness' is not installed: run scripts/setup")
        folder = Path(tempfile.mkdtemp(prefix="embodied_harness_demo_"))
        began = time.monotonic()
        status = None
        # A node that dies during the task is to be told, not hidden; whoever stays may want to kill one.
        graph = Graph(folder, environment, options.log_level, options.world, respawn=options.keep)
        try:
            wait_until_ready(graph)
            say(f"ready after {time.monotonic() - began:.1f} s, in ROS domain {domain}")
            if options.fault:
                status = command_line_tool(graph, ["fault", options.fault], environment, 30.0)
                if status != 0:
                    raise DemoError(f"the fault {options.fault} could not be injected (status {status})", status)
            say(f"task: {options.instruction}")
            began = time.monotonic()
            status = command_line_tool(graph, ["run", "--", options.instruction], environment, options.timeout)
            say(f"the task took {time.monotonic() - began:.1f} s; exit status {status}")
            if options.keep:
                keep(graph, domain, environment)
            return status
        finally:
            graph.end()
            leave(folder, status)


def leave(folder, status):
    """Takes away what the demo made; the log stays where it can tell why something went wrong."""
    if status == 0:
        shutil.rmtree(folder, ignore_errors=True)
        return
    shutil.rmtree(folder / "state", ignore_errors=True)
    say(f"the log stays in {folder}")


def keep(graph, domain, environment):
    """Stays until Ctrl-C; a node that dies is started again."""
    say("it goes on running until Ctrl-C. In another terminal:")
    lines = [
        f"cd {shlex.quote(str(TOP))} && . .ros_env/env.sh",
        f"export ROS_DOMAIN_ID={domain}"
        f" ROS_AUTOMATIC_DISCOVERY_RANGE={environment['ROS_AUTOMATIC_DISCOVERY_RANGE']}",
        'harness run "bring the apple"',
    ]
    for line in lines:
        print(f"    {line}", flush=True)
    told = 0
    try:
        while True:
            time.sleep(0.3)
            deaths = graph.deaths()
            for name, code in deaths[told:]:
                say(f"{name} has died (exit code {code}) and is started again")
            told = len(deaths)
    except KeyboardInterrupt:
        say("ending")


def main(arguments):
    """Runs the demo; Ctrl-C and SIGTERM end it and everything that it started."""
    options = parse(arguments)
    if options.check_only:
        return 0

    def interrupt(_number, _frame):
        # Once: a second Ctrl-C must not cut the ending short.
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        signal.signal(number, interrupt)
    try:
        return run(options)
    except KeyboardInterrupt:
        say("interrupted: everything is ended")
        return 128 + signal.SIGINT
    except DemoError as error:
        print(f"[demo] error: {error}", file=sys.stderr, flush=True)
        return error.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
