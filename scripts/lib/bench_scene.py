"""Measures the scene graph: changes, queries, bytes, the disk; and the Python package emem beside it.

The graph holds as many objects as are asked for, a metre apart on average, and is measured as the node uses it:
every change keeps versions, history and all indices, a query returns copies of what it found. emem 0.3.0 gets its
own environment and runs in turn with the same number of things at the same density, without embeddings, in
memory and with the durability that it has: write-ahead log and synchronous=NORMAL. Its durable batches are compared
with batches of the scene that are set so, too; the node's own are FULL, which is printed beside.
Its bytes are the growth of the process, the scene's are counted by its allocator.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import measuring

OTHER = "emem==0.3.0"
# name: (text, factor and unit for print, limit, sense); checked at every size.
LIMITS = {
    "insert_rate": ("new objects in memory [1/s]", 1, 100_000, "at least"),
    "move_rate": ("moves in memory [1/s]", 1, 100_000, "at least"),
    "sighting_rate": ("sightings in place, in memory [1/s]", 1, 100_000, "at least"),
    "nearest_s": ("the five nearest [µs]", 1e6, 100, "at most"),
    "region_s": ("ten within 2 m [µs]", 1e6, 100, "at most"),
    "brief_s": ("brief of 1000 tokens [ms]", 1e3, 2, "at most"),
}
FIGURES = {
    "class_s": ("ten of a class [µs]", 1e6),
    "text_s": ("ten by text [µs]", 1e6),
    "time_range_s": ("ten seen within a minute [µs]", 1e6),
    "changes_s": ("ten changes since a version [µs]", 1e6),
    "frame_s": ("a frame of the camera [ms]", 1e3),
    "frame_detections": ("detections of such a frame", 1),
    "durable_rate": ("new objects written, synchronous=NORMAL [1/s]", 1),
    "durable_full_rate": ("new objects written, synchronous=FULL [1/s]", 1),
    "durable_move_rate": ("moves written durably [1/s]", 1),
    "reload_s": ("reload [s]", 1),
    "bytes_per_object": ("bytes per object", 1),
}
# name: (text, wanted ratio): how much better than emem, at the largest size.
RATIOS = {
    "nearest_s": ("nearest", 20),
    "region_s": ("region", 15),
    "time_range_s": ("time range", 10),
    "move_rate": ("moves in memory", 100),
    "durable_rate": ("durable batches", 8),
    "reload_s": ("reload", 15),
    "bytes_per_object": ("bytes per object", 1),
}


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench scene", description=__doc__)
    parser.add_argument(
        "--objects", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="sizes (default: 1000 10000 100000)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each figure is measured (default: 1)")
    parser.add_argument("--no-emem", action="store_true", help="without emem, which has to be fetched once")
    parser.add_argument("--directory", help="where the files are made (default: build/)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    options = parser.parse_args(arguments)
    if not all(1_000 <= n <= 1_000_000 for n in options.objects):
        parser.error(f"--objects is {options.objects}: give numbers between 1000 and 1000000")
    if not 0.05 <= options.seconds <= 60:
        parser.error(f"--seconds is {options.seconds}, it has to be between 0.05 and 60")
    return options


def lines_of(command, environment=None):
    """Runs a measuring program; returns its figures."""
    done = subprocess.run(command, cwd=measuring.TOP, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with exit status {done.returncode}; its words are above")
    figures = {}
    for line in done.stdout.splitlines():
        count, name, value = line.split("\t")
        figures.setdefault(int(count), {})[name] = float(value)
    return figures


def program():
    """Builds the measuring program; returns its path."""
    command = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "eh_store", "--example", "scene_time"]
    subprocess.run(command, cwd=measuring.TOP, env=measuring.plain_environment(), check=True)
    return measuring.PLAIN / "release" / "examples" / "scene_time"


def other_python():
    """The interpreter of the environment that has the other package."""
    folder = measuring.BUILD / "bench_emem"
    python = folder / "bin" / "python3"
    done = folder / OTHER
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", OTHER]
        subprocess.run(install, check=True)
        done.touch()
    return python


def measure(options, directory):
    """Both packages at every size, in turn."""
    ours, theirs = {}, {}
    binary = program()
    python = None if options.no_emem else other_python()
    # Nothing of the robot's environment is needed, and its Python packages are not for that interpreter.
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    for count in options.objects:
        print(f"{count} objects …", file=sys.stderr)
        ours.update(lines_of([str(binary), str(directory), str(options.seconds), str(count)]))
        if python:
            script = str(measuring.TOP / "scripts" / "lib" / "emem_beside_scene.py")
            theirs.update(lines_of([str(python), script, str(directory), str(options.seconds), str(count)], clean))
    return ours, theirs


def holds(value, limit, sense):
    """Whether a limit is kept."""
    return value >= limit if sense == "at least" else value <= limit


def report(ours, theirs, options):
    """Prints the figures; returns whether every limit was kept."""
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; each figure for {options.seconds:g} s")
    for title, figures in (("scene graph", ours), (OTHER, theirs)):
        if not figures:
            continue
        print(f"\n{title:40}" + "".join(f"{n:>12}" for n in figures))
        for name, (text, factor, *_) in {**LIMITS, **FIGURES}.items():
            values = [row.get(name) for row in figures.values()]
            if any(v is not None for v in values):
                print(f"{text:40}" + "".join(f"{'':>12}" if v is None else f"{v * factor:12,.1f}" for v in values))
    print()
    kept = True
    for name, (text, factor, limit, sense) in LIMITS.items():
        for count, row in ours.items():
            value = row[name] * factor
            good = holds(value, limit, sense)
            kept &= good
            print(f"{'ok  ' if good else 'MISS'} {text}, {count} objects: {value:,.1f}, {sense} {limit:,}")
    largest = max(ours)
    for name, (text, wanted) in RATIOS.items():
        if largest not in theirs or name not in theirs[largest]:
            continue
        mine, other = ours[largest][name], theirs[largest][name]
        ratio = mine / other if name.endswith("_rate") else other / mine
        good = ratio >= wanted
        kept &= good
        mark = "ok  " if good else "MISS"
        print(f"{mark} {text}, {largest} objects: {ratio:,.1f} times better than emem, wanted {wanted}")
    if options.json:
        Path(options.json).write_text(json.dumps({"scene": ours, "emem": theirs}, indent=2) + "\n")
    return kept


def main(arguments):
    """Measures and prints; exit status 1 when a limit was not kept."""
    options = parse(arguments)

    def run(directory):
        return report(*measure(options, directory), options)

    return measuring.in_directory("scene", options.directory, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
