"""The launch files stay within what scripts/launch understands, and the runner does what it says.

Needs no ROS: `pytest test/test_launch_files.py`.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from conftest import wait_until
import pytest
import yaml

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "scripts" / "lib"))

import launch_file  # noqa: E402
import launch_runner  # noqa: E402
from launch_file import LaunchFileError  # noqa: E402

ADAPTERS = ["navigation_skills_node", "manipulation_skills_node"]
BRINGUP = ["protection_node", "scene_graph_node", "evaluator_node", *ADAPTERS, "harness_node"]
ARGUMENTS = ["namespace", "use_sim_time", "params_file", "log_level"]


def share(package):
    assert package == "embodied_harness"
    return TOP


def read(name, **values):
    return launch_file.read(TOP / "launch" / name, values, share)


def write(tmp_path, text):
    path = tmp_path / "x.launch.xml"
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize("name", sorted(p.name for p in (TOP / "launch").iterdir()))
def test_every_launch_file_is_understood(name):
    assert read(name)


def test_bringup_starts_the_nodes_for_an_existing_robot():
    assert [node.executable for node in read("bringup.launch.xml")] == BRINGUP


def test_demo_is_bringup_and_the_simulated_robot():
    assert [node.executable for node in read("demo.launch.xml")] == ["sim_robot_node", *BRINGUP]


@pytest.mark.parametrize("name", ["bringup.launch.xml", "demo.launch.xml"])
def test_the_promised_arguments_exist_and_reach_every_node(name, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("/**: {ros__parameters: {robot_id: r2}}\n")
    declared = [a.name for a in launch_file.declared_arguments(TOP / "launch" / name)]
    assert set(ARGUMENTS) <= set(declared)
    for node in read(name, namespace="r2", use_sim_time="true", params_file=str(mine), log_level="debug"):
        assert node.namespace == "/r2"
        assert {"use_sim_time": True} in node.parameters
        assert node.ros_arguments == ["--log-level", "debug"]
        # The own file comes last, so it wins.
        assert node.parameters[-1] == str(mine)
        own = str(TOP / "params" / f"{node.name}.yaml")
        files = [p for p in node.parameters if isinstance(p, str)]
        # The body's file may come first; the node's own file wins over it.
        assert files[:-1] in ([own], [str(TOP / "params" / "embodiment.yaml"), own])


def test_without_a_namespace_nodes_are_at_the_root():
    assert {node.namespace for node in read("demo.launch.xml")} == {"/"}


def test_every_node_has_its_parameter_file_and_every_file_its_node():
    nodes = {node.name for node in read("demo.launch.xml")}
    files = {path.stem for path in (TOP / "params").glob("*.yaml")}
    # These two are for every node.
    assert files == nodes | {"robot", "embodiment"}


def leaves(parameters, prefix=""):
    for key, value in parameters.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@pytest.mark.parametrize("node", ["sim_robot_node", *BRINGUP])
def test_a_parameter_file_is_for_its_node_and_rclrs_can_read_it(node):
    # That the node has these parameters is tested on the node, in test_parameter_files.py.
    document = yaml.safe_load((TOP / "params" / f"{node}.yaml").read_text())
    assert list(document) == [f"/**/{node}"]
    for name, value in leaves(document[f"/**/{node}"]["ros__parameters"]):
        # A list that is empty ends rclrs 0.8; null is no parameter.
        assert value not in ([], None), name


def test_remaps_carry_the_velocities_of_an_existing_robot():
    protection = read("bringup.launch.xml", cmd_vel_in="nav/cmd", cmd_vel_out="base/cmd")[0]
    assert protection.remaps[-2:] == [("cmd_vel_nav", "nav/cmd"), ("cmd_vel", "base/cmd")]


@pytest.mark.parametrize("name", ["bringup.launch.xml", "demo.launch.xml"])
def test_transforms_are_in_the_namespace_unless_asked_otherwise(name):
    for node in read(name, namespace="a"):
        assert node.remaps[:2] == [("/tf", "tf"), ("/tf_static", "tf_static")], node.name
    for node in read(name, tf="/tf", tf_static="/tf_static"):
        assert node.remaps[:2] == [("/tf", "/tf"), ("/tf_static", "/tf_static")], node.name


def test_the_command_is_the_one_of_launch_ros(tmp_path):
    node = launch_file.Node(
        "p", "x", "n", "/a", ["--flag"], ["--log-level", "info"], ["/f.yaml", {"k": "v w"}], [("b", "c")]
    )
    command = launch_runner.command_of(node, "/bin/x", tmp_path)
    written = tmp_path / "a.n.1.yaml"
    assert command == [
        "/bin/x", "--flag", "--ros-args", "--log-level", "info", "--ros-args", "-r", "__node:=n", "-r", "__ns:=/a",
        "--params-file", "/f.yaml", "--params-file", str(written), "-r", "b:=c",
    ]  # fmt: skip
    assert yaml.safe_load(written.read_text()) == {"/a/n": {"ros__parameters": {"k": "v w"}}}


@pytest.mark.parametrize(
    "text, value",
    [("true", True), ("3", 3), ("0.5", 0.5), ("", ""), ("a b", "a b"), ("[1, 2]", [1, 2]), ("[]", "[]"), ("{a: 1}", "{a: 1}")],
)
def test_values_get_the_types_of_launch(text, value):
    got = launch_file.typed(text)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "body, says",
    [
        ("<executable cmd='ls'/>", "<executable>"),
        ("<node pkg='p' exec='x'/>", "'name'"),
        ("<node pkg='p' exec='x' name='n' launch-prefix='gdb'/>", "'launch-prefix'"),
        ("<node pkg='p' exec='x' name='n'><env name='A' value='b'/></node>", "<env>"),
        ("<node pkg='p' exec='x' name='n'><param name='a'/></node>", "'from'"),
        ("<node pkg='p' exec='x' name='n'><param from='/nowhere.yaml'/></node>", "/nowhere.yaml"),
        ("<node pkg='p' exec='x' name='n' respawn='maybe'/>", "maybe"),
        ("<node pkg='p' exec='x' name='n m'/>", "'n m'"),
        ("<node pkg='$(var nothing)' exec='x' name='n'/>", "nothing"),
        ("<node pkg='$(eval 1)' exec='x' name='n'/>", "eval"),
        ("<node pkg='$(var $(env A))' exec='x' name='n'/>", "within"),
        ("<node pkg='$(env NOT_SET_ANYWHERE)' exec='x' name='n'/>", "NOT_SET_ANYWHERE"),
        ("<arg name='a'/>", "a:="),
        ("<group><arg name='a' default='b'/></group>", "<arg>"),
        ("<group if='perhaps'><push_ros_namespace namespace='a'/></group>", "perhaps"),
        ("<push_ros_namespace namespace='1a'/>", "1a"),
        ("<include file='/nowhere.launch.xml'/>", "/nowhere.launch.xml"),
        ("words", "words"),
        ("<node", "XML"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path, body, says):
    path = write(tmp_path, f"<launch>{body}</launch>")
    with pytest.raises(LaunchFileError, match=re.escape(says)):
        launch_file.read(path, {}, share)


def test_unknown_arguments_are_refused(tmp_path):
    with pytest.raises(LaunchFileError, match="nonsense"):
        read("demo.launch.xml", nonsense="1")


def test_groups_conditions_and_namespaces(tmp_path):
    path = write(
        tmp_path,
        """
        <launch>
          <arg name="extra" default="false"/>
          <group>
            <push_ros_namespace namespace="a"/>
            <group if="$(var extra)"><node pkg="p" exec="x" name="one"/></group>
            <node pkg="p" exec="x" name="two" unless="$(var extra)"/>
            <group>
              <push_ros_namespace namespace="b"/>
              <set_remap from="c" to="d"/>
              <node pkg="p" exec="x" name="three"><remap from="e" to="f"/></node>
            </group>
          </group>
          <node pkg="p" exec="$(env NOT_SET_ANYWHERE y)" name="four"/>
        </launch>
        """,
    )
    names = lambda **v: [(n.namespace, n.name) for n in launch_file.read(path, v, share)]  # noqa: E731
    assert names() == [("/a", "two"), ("/a/b", "three"), ("/", "four")]
    assert [n.remaps for n in launch_file.read(path, {}, share)] == [[], [("c", "d"), ("e", "f")], []]
    assert names(extra="true") == [("/a", "one"), ("/a/b", "three"), ("/", "four")]


# --- The runner, with small programs in place of nodes ---------------------------------------------


def prefix_with(tmp_path, **programs):
    """An installation of a package `p` with these shell programs; each is a node of a launch file."""
    (tmp_path / "share/p").mkdir(parents=True)
    (tmp_path / "share/p/package.xml").write_text("<package/>")
    (tmp_path / "lib/p").mkdir(parents=True)
    nodes = ""
    for name, (body, attributes) in programs.items():
        program = tmp_path / "lib/p" / name
        program.write_text(f"#!/bin/bash\n{body}\n")
        program.chmod(0o755)
        nodes += f'<node pkg="p" exec="{name}" name="{name}" {attributes}/>'
    return write(tmp_path, f"<launch>{nodes}</launch>")


def start(tmp_path, path, *options):
    environment = {**os.environ, "AMENT_PREFIX_PATH": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, str(TOP / "scripts/launch"), str(path), *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines_until(process, wanted, timeout=20.0):
    """Reads lines up to the one that contains `wanted`."""
    seen = []
    deadline = time.monotonic() + timeout
    for line in process.stdout:
        seen.append(line.rstrip("\n"))
        if wanted in line:
            return seen
        assert time.monotonic() < deadline, seen
    raise AssertionError(f"'{wanted}' never came: {seen}")


WAITS = "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.05; done"


def test_output_has_the_name_of_the_node_and_goes_to_the_log(tmp_path):
    path = prefix_with(tmp_path, one=("echo hello; printf tail", ""))
    process = start(tmp_path, path, "--log", str(tmp_path / "log"))
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "[one-1] hello\n" in output and "[one-1] tail\n" in output
    assert "process has finished cleanly" in output
    assert (tmp_path / "log").read_text() == output


def test_ctrl_c_ends_every_node_gently(tmp_path):
    path = prefix_with(tmp_path, one=(WAITS, ""), two=(WAITS, 'respawn="true"'))
    process = start(tmp_path, path)
    seen = lines_until(process, "ready")
    seen += lines_until(process, "ready")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, output
    assert "[one-1] bye" in output and "[two-2] bye" in output


def test_a_node_that_dies_is_named_and_the_exit_status_tells(tmp_path):
    path = prefix_with(tmp_path, one=("exit 3", ""))
    process = start(tmp_path, path)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert re.search(r"\[ERROR\] \[one-1\]: process has died \[pid \d+, exit code 3, cmd '", output)


def test_respawn_starts_it_again(tmp_path):
    marker = tmp_path / "marker"
    body = f"[ -e {marker} ] || {{ touch {marker}; exit 1; }}; {WAITS}"
    path = prefix_with(tmp_path, one=(body, 'respawn="true" respawn_delay="0.1"'))
    process = start(tmp_path, path)
    seen = lines_until(process, "ready")
    assert sum("process started" in line for line in seen) == 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_node_that_does_not_listen_is_ended_all_the_same(tmp_path, monkeypatch):
    path = prefix_with(tmp_path, deaf=("trap '' INT TERM; echo ready; while :; do sleep 0.05; done", ""))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import launch_runner as r;"
        "r.INTERRUPT_TIMEOUT = r.TERMINATE_TIMEOUT = 0.3; sys.exit(r.main(sys.argv[2:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(TOP / "scripts/lib"), str(path)],
        env={**os.environ, "AMENT_PREFIX_PATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen = lines_until(process, "process started")
    lines_until(process, "ready")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "SIGTERM" in output and "SIGKILL" in output
    pid = int(re.search(r"pid \[(\d+)\]", "\n".join(seen)).group(1))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_runner_leaves_nothing_behind(tmp_path):
    path = prefix_with(tmp_path, one=("echo ready $$; exec sleep 1000", ""))
    process = start(tmp_path, path)
    pid = int(lines_until(process, "ready")[-1].split()[-1])
    process.kill()
    process.wait()

    def has_ended():
        try:
            return "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
        except OSError:
            return True

    wait_until(has_ended, 10, "the end of the node")


def test_a_missing_program_starts_nothing(tmp_path):
    path = prefix_with(tmp_path, one=(WAITS, ""))
    (tmp_path / "lib/p/one").unlink()
    process = start(tmp_path, path)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "scripts/setup" in output and "process started" not in output
