"""Measures how often the judge is right, in the deterministic world.

Tasks run under the conditions of src/world/data/evaluator_noise.yaml: sensors err, grasps slip, drives and motions
of the arm are given up, objects are bumped away, hidden or have a twin beside them, sensors fall silent. Each
verdict is held against the simulator's own truth by a referee that sees nothing of the evidence. The intervals are
exact ones of 95 % (Clopper and Pearson). The same seeds give the same figures on every machine.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import measuring

CONDITIONS = measuring.TOP / "src" / "world" / "data" / "evaluator_noise.yaml"
# What documentation promises.
LEAST_RUNS, LEAST_FAILED = 2500, 1000
ACCURACY, FALSE_SUCCESS, UNKNOWN = 0.97, 0.005, 0.10


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench evaluator", description=__doc__)
    parser.add_argument("--runs", type=int, default=10000, help="executions (default: 10000; promises need 2500)")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED", help="first seed (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--errors", type=int, default=20, help="false verdicts that are shown (default: 20)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    options = parser.parse_args(arguments)
    for name, value, low, high in (
        ("runs", options.runs, 1, 1_000_000),
        ("from", options.first, 0, 2**53),
        ("jobs", options.jobs, 1, 256),
        ("errors", options.errors, 0, 10_000),
    ):
        if not low <= value <= high:
            parser.error(f"--{name} is {value}, it has to be between {low} and {high}")
    return options


def main(arguments):
    """Builds and runs the measuring program; the exit code tells whether the promises are kept."""
    options = parse(arguments)
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "eh_world", "--example", "verdicts", "--"]
    command += [str(CONDITIONS), "--runs", str(options.runs), "--from", str(options.first)]
    command += ["--jobs", str(options.jobs), "--errors", str(options.errors)]
    done = subprocess.run(
        command,
        cwd=measuring.TOP,
        env=measuring.plain_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    *lines, last = done.stdout.splitlines() or [""]
    print("\n".join(lines))
    if done.returncode != 0:
        return done.returncode
    figures = json.loads(last)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    every = figures["all"]
    kept = True
    for what, value, limit, good in (
        ("accuracy of decided verdicts", every["accuracy"]["value"], ACCURACY, every["accuracy"]["value"] >= ACCURACY),
        (
            "upper limit of false success among what failed",
            every["false_success"]["high"],
            FALSE_SUCCESS,
            every["false_success"]["high"] <= FALSE_SUCCESS,
        ),
        ("share of UNKNOWN", every["unknown"]["value"], UNKNOWN, every["unknown"]["value"] <= UNKNOWN),
    ):
        kept &= good
        print(f"{'kept  ' if good else 'BROKEN'} {what}: {100 * value:.2f} %, the limit is {100 * limit:.1f} %")
    failed = sum(every["failed"])
    if figures["runs"] < LEAST_RUNS or failed < LEAST_FAILED:
        print(f"too few to promise anything: {figures['runs']} executions, {failed} failed;", end=" ")
        print(f"it takes {LEAST_RUNS} and {LEAST_FAILED}")
        return 0
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
