"""Measures how often the judge is right, in the deterministic world.

Tasks run under the conditions of src/world/data/evaluator_noise.yaml: sensors err, grasps slip, drives and motions
of the arm are given up, objects are bumped away, hidden or have a twin beside them, sensors fall silent. Each
verdict is held against the simulator's own truth by a referee that sees nothing of the evidence. The intervals are
exact ones of 95 % (Clopper and Pearson). The same seeds give the same figures on every machine.

With --dds a sample of the seeds is run on the real nodes over DDS, in real time and with the same worlds, tasks and
faults of the robot; what the network and the evaluator alone suffer from in the deterministic world (lost messages of
sensors, cuts) is what DDS does there. The truth is the simulated robot's own.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import measuring

CONDITIONS = measuring.TOP / "src" / "world" / "data" / "evaluator_noise.yaml"
# What documentation promises.
LEAST_RUNS, LEAST_FAILED = 2500, 1000
ACCURACY, FALSE_SUCCESS, UNKNOWN = 0.97, 0.005, 0.10
# In truth, and as it was judged.
WRONG = ((True, "FAILURE"), (False, "SUCCESS"))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench evaluator", description=__doc__)
    parser.add_argument("--runs", type=int, default=10000, help="executions (default: 10000; promises need 2500)")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED", help="first seed (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--errors", type=int, default=20, help="false verdicts that are shown (default: 20)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    parser.add_argument(
        "--dds", type=int, nargs="?", const=40, metavar="N", help="N executions on real nodes instead (default: 40)"
    )
    options = parser.parse_args(arguments)
    if options.dds is not None and not 1 <= options.dds <= 100_000:
        parser.error(f"--dds is {options.dds}, it has to be between 1 and 100000")
    for name, value, low, high in (
        ("runs", options.runs, 1, 1_000_000),
        ("from", options.first, 0, 2**53),
        ("jobs", options.jobs, 1, 256),
        ("errors", options.errors, 0, 10_000),
    ):
        if not low <= value <= high:
            parser.error(f"--{name} is {value}, it has to be between {low} and {high}")
    return options


# --- Over DDS ----------------------------------------------------------------------------------------


def interval(hits, of):
    """The exact interval of 95 % of a share (Clopper and Pearson)."""

    def tail(p, low, high):
        return sum(math.comb(of, k) * p**k * (1 - p) ** (of - k) for k in range(low, high + 1))

    def solve(grows):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if grows(middle) > 0.025 else (middle, high)
        return low

    if of == 0:
        return 0.0, 1.0
    least = 0.0 if hits == 0 else solve(lambda p: tail(p, hits, of))
    most = 1.0 if hits == of else 1 - solve(lambda q: tail(1 - q, 0, hits))
    return least, most


def matrix(verdicts):
    """Prints the confusion matrix of each skill and of all."""
    skills = sorted({v[0] for v in verdicts})
    for name in [*skills, "all"]:
        cell = {(truth, said): 0 for truth in (True, False) for said in ("SUCCESS", "FAILURE", "UNKNOWN")}
        for skill, truth, said, _, _ in verdicts:
            if name in (skill, "all"):
                cell[truth, said] += 1
        for truth, label in ((True, name), (False, "")):
            row = "  ".join(f"{said} {cell[truth, said]:6}" for said in ("SUCCESS", "FAILURE", "UNKNOWN"))
            print(f"{label:14} {'holds ' if truth else 'failed'} {row}")
        right = cell[True, "SUCCESS"] + cell[False, "FAILURE"]
        unknown = cell[True, "UNKNOWN"] + cell[False, "UNKNOWN"]
        total = sum(cell.values())
        failed = sum(v for (truth, _), v in cell.items() if not truth)
        shares = []
        for what, hits, of in (
            ("accuracy", right, total - unknown),
            ("false success", cell[False, "SUCCESS"], failed),
            ("unknown", unknown, total),
        ):
            low, high = interval(hits, of)
            shares.append(f"{what} {100 * hits / max(of, 1):6.2f} % [{100 * low:.2f}, {100 * high:.2f}]")
        print(f"{'':14} {'  '.join(shares)}")


def over_dds(options, command):
    """Runs a sample on real nodes and prints its matrix beside that of the deterministic world; the exit status."""
    import demo
    import evaluator_over_dds

    def scenario_of(seed):
        done = subprocess.run(
            [*command, "--scenario", str(seed)],
            cwd=measuring.TOP,
            env=measuring.plain_environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def tell(seed, found):
        for skill, truth, said, changed, why in found:
            mark = "changed" if changed else "WRONG  " if (truth, said) in WRONG else "       "
            print(f"  seed {seed} {skill:12} in truth {'holds ' if truth else 'failed'} {mark} {why[:140]}", flush=True)

    try:
        verdicts, seeds, missed = evaluator_over_dds.sample(scenario_of, options.first, options.dds, tell)
    except demo.DemoError as error:
        print(f"[bench] error: {error}", file=sys.stderr, flush=True)
        return 2
    print(f"\nreal nodes over DDS: {measuring.machine()}")
    matrix(verdicts)
    failed = sum(not v[1] for v in verdicts)
    print(
        f"{len(verdicts)} executions of {len(seeds)} seeds from {options.first}, in truth {failed} of them failed; "
        f"{missed} verdicts whose truth is not known here"
    )
    print(f"\nthe deterministic world, as many executions from seed {options.first}:", flush=True)
    beside = [*command, "--runs", str(len(verdicts)), "--from", str(options.first), "--jobs", str(options.jobs)]
    done = subprocess.run(
        beside, cwd=measuring.TOP, env=measuring.plain_environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    print("\n".join(done.stdout.splitlines()[:-1]))
    return done.returncode or int(any((v[1], v[2]) == (False, "SUCCESS") for v in verdicts))


def main(arguments):
    """Builds and runs the measuring program; the exit code tells whether the promises are kept."""
    options = parse(arguments)
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "eh_world", "--example", "verdicts", "--"]
    command += [str(CONDITIONS)]
    if options.dds is not None:
        return over_dds(options, command)
    command += ["--runs", str(options.runs), "--from", str(options.first)]
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
