"""Measures what the nodes cost: memory, processor time at idle, time from start to ready.

The simulated robot runs beside them and is listed apart: on a real robot its place is taken by what the robot
has. PSS is the memory of a process with each shared page divided among those that share it
(/proc/PID/smaps_rollup); processor time is user and system time (/proc/PID/stat).
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import demo

SIMULATION = "sim_robot_node"
NODES = [*(name for name in demo.NEEDED if name != SIMULATION), SIMULATION]
# What design and documentation promise for all nodes together, without the simulated robot.
LIMITS = {"pss_mb": 150.0, "idle_cores": 0.05, "ready_s": 5.0}


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench footprint", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how often the graph is started (default: 3)")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds over which idle is measured (default: 20)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    options = parser.parse_args(arguments)
    if not 1 <= options.runs <= 100:
        parser.error(f"--runs is {options.runs}, it has to be between 1 and 100")
    if not 1 <= options.idle <= 3600:
        parser.error(f"--idle is {options.idle}, it has to be between 1 and 3600 s")
    return options


def processes_of(launch_pid):
    """The process of each node below the launch, by name."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name of the program, in brackets, may hold spaces.
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                program = os.readlink(entry / "exe").rpartition("/")[2]
            except OSError:
                continue
            parents[int(entry.name)] = (int(after_name[1]), program)
    found = {}
    for pid, (parent, program) in parents.items():
        while parent not in (0, 1, launch_pid) and parent in parents:
            parent = parents[parent][0]
        if parent == launch_pid and program in NODES:
            found[program] = pid
    return found


def pss_mb(pid):
    """Proportional set size, 10^6 bytes."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise demo.DemoError(f"/proc/{pid}/smaps_rollup has no Pss: this kernel does not count it")


def processor_seconds(pid):
    """User and system time since the process began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_cores():
    """Processor time that the whole machine has used so far, core seconds."""
    fields = [int(f) for f in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK")


def wait_for_catalog(names):
    """Waits until each executor has told its skills."""
    import rclpy
    from embodied_harness.msg import SkillCatalog
    from rclpy.qos import DurabilityPolicy, QoSProfile

    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        node = rclpy.create_node("bench", context=context, start_parameter_services=False, enable_rosout=False)
        executor = rclpy.executors.SingleThreadedExecutor(context=context)
        executor.add_node(node)
        heard = set()
        profile = QoSProfile(depth=32, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(
            SkillCatalog, "skill_catalog", lambda m: heard.add(m.executor.rpartition("/")[2]), profile
        )
        deadline = time.monotonic() + demo.READY_TIMEOUT
        while not names <= heard:
            if time.monotonic() > deadline:
                raise demo.DemoError(f"no skills were told by {', '.join(sorted(names - heard))}", demo.NOT_READY)
            executor.spin_once(timeout_sec=0.1)
    finally:
        rclpy.shutdown(context=context)


def measure(options, domain):
    """One start of the graph: figures by node, and the time until it was ready."""
    environment = {**os.environ, "ROS_DOMAIN_ID": domain, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    os.environ.update(environment)
    folder = Path(tempfile.mkdtemp(prefix="embodied_harness_bench_"))
    began = time.monotonic()
    graph = demo.Graph(folder, environment)
    try:
        demo.wait_until_ready(graph)
        wait_for_catalog({"navigation_skills_node", "manipulation_skills_node"})
        ready = time.monotonic() - began
        found = processes_of(graph.popen.pid)
        missing = [name for name in NODES if name not in found]
        if missing:
            raise demo.DemoError(f"no process of {', '.join(missing)} was found below the launch")
        # The caches of the start, such as the discovery of this program's own node, are to be over.
        time.sleep(3.0)
        before = {name: processor_seconds(pid) for name, pid in found.items()}
        machine, since = busy_cores(), time.monotonic()
        time.sleep(options.idle)
        graph.check()
        elapsed = time.monotonic() - since
        nodes = {
            name: {"pss_mb": pss_mb(pid), "idle_cores": (processor_seconds(pid) - before[name]) / elapsed}
            for name, pid in found.items()
        }
        return nodes, ready, (busy_cores() - machine) / elapsed
    finally:
        graph.end()
        shutil.rmtree(folder, ignore_errors=True)


def report(runs, options):
    """Prints medians over the runs; returns whether every limit was kept."""
    median = lambda values: statistics.median(list(values))  # noqa: E731
    rows = {
        name: {key: median(nodes[name][key] for nodes, _, _ in runs) for key in ("pss_mb", "idle_cores")}
        for name in NODES
    }
    print(f"\nmedian of {len(runs)} runs, idle over {options.idle:.0f} s, {os.cpu_count()} cores")
    print(f"{'node':28}{'PSS [MB]':>10}{'idle [% of a core]':>20}")
    for name, row in rows.items():
        print(f"{name:28}{row['pss_mb']:10.1f}{100 * row['idle_cores']:20.2f}")
    ours = [row for name, row in rows.items() if name != SIMULATION]
    totals = {
        "pss_mb": sum(row["pss_mb"] for row in ours),
        "idle_cores": sum(row["idle_cores"] for row in ours),
        "ready_s": median(ready for _, ready, _ in runs),
    }
    machine = median(busy for _, _, busy in runs)
    print(f"{'all but ' + SIMULATION:28}{totals['pss_mb']:10.1f}{100 * totals['idle_cores']:20.2f}")
    print(f"start to ready: {totals['ready_s']:.2f} s; the whole machine used {machine:.2f} cores meanwhile")
    kept = True
    for key, (text, scale) in {
        "pss_mb": ("memory [MB]", 1.0),
        "idle_cores": ("idle [% of a core]", 100.0),
        "ready_s": ("start to ready [s]", 1.0),
    }.items():
        good = totals[key] < LIMITS[key]
        kept &= good
        print(f"{'ok  ' if good else 'MISS'} {text}: {scale * totals[key]:.2f}, limit {scale * LIMITS[key]:.0f}")
    if options.json:
        figures = {"nodes": rows, "totals": totals, "limits": LIMITS, "machine_cores": machine, "runs": len(runs)}
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n")
    return kept


def main(arguments):
    """Runs the benchmark; exit status 1 when a limit was not kept."""
    options = parse(arguments)
    try:
        with demo.domain_of(argparse.Namespace(domain=None)) as domain:
            runs = [measure(options, domain) for _ in range(options.runs)]
    except demo.DemoError as error:
        print(f"[bench] error: {error}", file=sys.stderr, flush=True)
        return error.status
    return 0 if report(runs, options) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
