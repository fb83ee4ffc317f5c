"""What the tests with real nodes share: an isolated graph, processes that always end, and waiting."""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
# Where the package is built and installed to, for the ROS 2 distribution of the loaded environment.
BUILD = pathlib.Path(
    os.environ.get('EMBODIED_HARNESS_BUILD_DIR', TOP / 'build')) / 'embodied_harness'
INSTALL = pathlib.Path(
    os.environ.get('EMBODIED_HARNESS_INSTALL_DIR', TOP / 'install')) / 'embodied_harness'
# Domains up to 101 leave the ports of Linux's ephemeral range alone.
LAST_DOMAIN = 101
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def pytest_report_header():
    """Say which ROS 2 the tests run on."""
    return 'ROS 2 {}: {}'.format(
        os.environ.get('ROS_DISTRO', 'none: load the environment by scripts/test'),
        os.environ.get('AMENT_PREFIX_PATH', ''))


# --- Waiting -----------------------------------------------------------------------------------------

def within(timeout, condition):
    """Wait until condition() is true, but no longer than timeout seconds; return its last value."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.02)


def wait_until(condition, timeout, what):
    """Wait until condition() is true and return its value; fail with `what` after timeout seconds."""
    value = within(timeout, condition)
    if not value:
        pytest.fail('not within {} s: {}'.format(timeout, what() if callable(what) else what))
    return value


def answer_of(client, request, tries=5, patience=4):
    """Call a service and return its answer.

    It is asked again when no answer comes: a request to a server that was just killed is lost, and right
    after discovery an answer can be. So this is for what does the same when it is asked twice.
    """
    for _ in range(tries):
        assert client.wait_for_service(timeout_sec=20), '{} is not there'.format(client.srv_name)
        future = client.call_async(request)
        if within(patience, future.done):
            return future.result()
        client.remove_pending_request(future)
    return pytest.fail('no answer of {}'.format(client.srv_name))


def assert_stays(condition, seconds, what):
    """Fail with `what` as soon as condition() is false within the seconds."""
    if within(seconds, lambda: not condition()):
        pytest.fail('not for {} s: {}'.format(seconds, what() if callable(what) else what))


# --- The graph ---------------------------------------------------------------------------------------

def _port_is_free(domain):
    """Whether no participant of this machine listens in the domain (RTPS 9.6.1.1)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(('', 7400 + 250 * domain + 10))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def reserved_domain():
    """Give a ROS domain that no other test run of this machine uses meanwhile."""
    folder = pathlib.Path(tempfile.gettempdir()) / 'embodied_harness_domains_{}'.format(os.getuid())
    folder.mkdir(exist_ok=True)
    start = os.getpid() % LAST_DOMAIN
    for offset in range(LAST_DOMAIN):
        domain = (start + offset) % LAST_DOMAIN + 1
        with open(folder / str(domain), 'w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            if _port_is_free(domain):
                yield domain
                return
    pytest.fail('all {} ROS domains are in use on this machine'.format(LAST_DOMAIN))


@pytest.fixture(scope='module')
def ros_domain():
    """Give the module a ROS graph of its own, in the environment of whatever it starts."""
    with reserved_domain() as domain, pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROS_DOMAIN_ID', str(domain))
        patch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
        patch.delenv('ROS_LOCALHOST_ONLY', raising=False)
        yield domain


@pytest.fixture(scope='module')
def ros_context(ros_domain):
    """Give an rclpy context in the module's graph."""
    rclpy = pytest.importorskip('rclpy')
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=ros_domain)
    yield context
    rclpy.shutdown(context=context)


@pytest.fixture(scope='module')
def ros_node(ros_context):
    """Give an rclpy node whose callbacks run on a thread of their own, several at a time."""
    import rclpy
    from rclpy.executors import MultiThreadedExecutor

    node = rclpy.create_node('test_client', context=ros_context)
    executor = MultiThreadedExecutor(num_threads=4, context=ros_context)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield node
    executor.shutdown(timeout_sec=5)
    thread.join(timeout=5)
    node.destroy_node()


def action_client(node, kind, name, group):
    """Create an action client that loses no answers while the node spins on another thread.

    rclpy notes what it has asked for only after it has sent the request, and drops an answer that is
    faster than the note.
    """
    from rclpy.action import ActionClient

    class PatientClient(ActionClient):
        def __init__(self):
            self._asking = threading.RLock()
            super().__init__(node, kind, name, callback_group=group)

        def send_goal_async(self, *arguments, **options):
            with self._asking:
                return super().send_goal_async(*arguments, **options)

        def _cancel_goal_async(self, handle):
            with self._asking:
                return super()._cancel_goal_async(handle)

        def _get_result_async(self, handle):
            with self._asking:
                return super()._get_result_async(handle)

        async def execute(self, taken):
            with self._asking:
                # Whatever was asked before is noted now.
                pass
            await super().execute(taken)
    return PatientClient()


# --- Processes ---------------------------------------------------------------------------------------

def _die_with_parent():
    """Ask the kernel to end this process when the tests' own process ends, in whatever way."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _with_end_of_parent(command):
    """Return the command, and options of Popen, so that it ends with the tests in whatever way they end.

    Code of Python's that runs after a fork can crash where there are threads, so setpriv does it.
    """
    if shutil.which('setpriv'):
        return ['setpriv', '--pdeathsig', 'KILL', *command], {}
    return command, {'preexec_fn': _die_with_parent}


class Process:
    """A program under test, in a process group of its own, with its output in a file."""

    def __init__(self, command, log, environment):
        """Start the program."""
        self.command = [str(part) for part in command]
        self.log = log
        with open(log, 'wb') as output:
            mortal, options = _with_end_of_parent(self.command)
            self.popen = subprocess.Popen(
                mortal, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **environment}, start_new_session=True, **options)

    @property
    def pid(self):
        """The process's number."""
        return self.popen.pid

    def output(self):
        """Return what the program has written so far."""
        return self.log.read_text(encoding='utf-8', errors='replace')

    def is_running(self):
        """Whether the program has not ended."""
        return self.popen.poll() is None

    def wait_for_output(self, text, timeout=20):
        """Wait until the program has written the text; return all that it has written."""
        def found():
            content = self.output()
            if text not in content and not self.is_running():
                # What came between the two looks counts as well.
                content = self.output()
                if text not in content:
                    pytest.fail('{} ended with status {} before it wrote "{}":\n{}'.format(
                        self.command[0], self.popen.returncode, text, content))
            return content if text in content else None
        return wait_until(
            found, timeout, lambda: '"{}" from {}, only:\n{}'.format(
                text, self.command[0], self.output()))

    def wait(self, timeout=20):
        """Wait until the program ends; return its exit status."""
        wait_until(
            lambda: not self.is_running(), timeout,
            lambda: 'the end of {}:\n{}'.format(self.command[0], self.output()))
        return self.popen.returncode

    def signal(self, number):
        """Send a signal to the program and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, number)

    def stop(self, timeout=5):
        """End the program and what it started, politely first; return its exit status."""
        for number, patience in (
                (signal.SIGINT, timeout), (signal.SIGTERM, 2), (signal.SIGKILL, 5)):
            if self.is_running():
                self.signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.popen.wait(patience)
        # Children that outlived it.
        self.signal(signal.SIGKILL)
        return self.popen.returncode


class Processes:
    """Starts programs and ends them all."""

    def __init__(self, folder):
        """Create it; output goes to files in the folder."""
        self._folder = folder
        self._started = []

    def start(self, command, name=None, environment=None):
        """Start a program."""
        name = name or pathlib.Path(str(command[0])).name
        log = self._folder / '{}_{}.log'.format(len(self._started), name)
        process = Process(command, log, environment or {})
        self._started.append(process)
        return process

    def stop_all(self):
        """End all programs, the last one first."""
        for process in reversed(self._started):
            process.stop()
        self._started.clear()


@pytest.fixture
def processes(ros_domain, tmp_path):
    """Give a starter of programs in the module's graph; all end with the test."""
    starter = Processes(tmp_path)
    yield starter
    starter.stop_all()


@pytest.fixture(scope='module')
def module_processes(ros_domain, tmp_path_factory):
    """Give a starter of programs in the module's graph; all end with the module."""
    starter = Processes(tmp_path_factory.mktemp('processes'))
    yield starter
    starter.stop_all()


@pytest.fixture(scope='module')
def client(graph, ros_node):
    """Give a client of execute_task when everything in the module's own `graph` is ready."""
    from task_graph import Client

    client = Client(ros_node)
    client.wait_until_ready()
    return client


# --- Programs ----------------------------------------------------------------------------------------

def node_program(name):
    """Return the path of an installed node, or of one in $EMBODIED_HARNESS_PROGRAMS."""
    folder = os.environ.get('EMBODIED_HARNESS_PROGRAMS')
    folder = pathlib.Path(folder) if folder else INSTALL / 'lib' / 'embodied_harness'
    program = folder / name
    if not program.is_file():
        pytest.fail('{} is not built: run scripts/setup'.format(name))
    return program


def cargo_example(package, name):
    """Build an example of a crate, if need be, and return its path."""
    subprocess.run(
        [TOP / 'scripts' / 'dev', 'cargo', 'build', '--quiet', '--locked', '--package', package,
         '--example', name],
        check=True, cwd=TOP, stdin=subprocess.DEVNULL)
    return BUILD / 'cargo' / 'debug' / 'examples' / name
