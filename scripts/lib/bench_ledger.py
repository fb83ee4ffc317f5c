"""Measures what durability costs: commits of the executor's journal, and opening it.

Single commits of the journal stand beside bare commits of SQLite with the same durability and beside a bare
write of 4 KiB with fdatasync into a file whose pages are there already; the three take turns, commit by commit,
so that whatever else the disk has to do meets all of them. Then many writers share the journal by group commit,
and the journal is opened with 1,000 live commands over the number of its events, with its pages in memory.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import measuring

# What documentation promises. Rates are in commits a second; times are compared as quotients.
LIMITS = {
    "rate_to_sqlite": (0.8, "rate of single commits to that of bare SQLite", "at least"),
    "rate_to_bare": (0.65, "rate of single commits to that of bare writes", "at least"),
    "p50_to_bare": (1.5, "p50 of a commit to that of a bare write", "at most"),
    "p99_to_bare": (2.5, "p99 of a commit to that of a bare write", "at most"),
    "group_to_bare": (3.0, "rate of group commit to that of bare writes", "at least"),
    "slowest_opening_ms": (10.0, "slowest median opening [ms]", "at most"),
}


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench ledger", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="rounds, each with figures of its own (default: 10)")
    parser.add_argument("--commits", type=int, default=500, help="single commits of each kind a round (default: 500)")
    parser.add_argument("--writers", type=int, default=16, help="writers that share the journal (default: 16)")
    parser.add_argument(
        "--events",
        type=int,
        nargs="*",
        default=[10_000, 100_000, 1_000_000],
        help="sizes at which opening is measured, growing (default: 10000 100000 1000000; needs 1 GB)",
    )
    parser.add_argument("--directory", help="where the files are made: the disk that is measured (default: build/)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    options = parser.parse_args(arguments)
    for name, low, high in (("rounds", 1, 1000), ("commits", 100, 100_000), ("writers", 1, 128)):
        value = getattr(options, name)
        if not low <= value <= high:
            parser.error(f"--{name} is {value}, it has to be between {low} and {high}")
    if sorted(options.events) != options.events or any(not 10_000 <= n <= 10_000_000 for n in options.events):
        parser.error(f"--events is {options.events}: give growing numbers between 10000 and 10000000")
    return options


def measure(options, directory):
    """Builds and runs the measuring program; returns its lines."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "eh_store", "--example", "commit_time", "--"]
    command += [str(directory), str(options.rounds), str(options.commits), str(options.writers)]
    command += [str(n) for n in options.events]
    done = subprocess.run(
        command,
        cwd=measuring.TOP,
        env=measuring.plain_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the measuring program failed with exit status {done.returncode}; its words are above")
    return [line.split("\t") for line in done.stdout.splitlines()]


def figures_of(lines):
    """Medians over the rounds of absolute figures, and of their quotients within each round."""
    rounds = {}
    group, openings = [], []
    for name, *fields in lines:
        if name in ("bare", "sqlite", "ours"):
            number, count, total, p50, p99, most = fields
            rounds.setdefault(int(number), {})[name] = {
                "rate": int(count) / float(total),
                "p50_ms": 1e3 * float(p50),
                "p99_ms": 1e3 * float(p99),
                "max_ms": 1e3 * float(most),
            }
        elif name == "group":
            group.append(int(fields[1]) / float(fields[2]))
        elif name == "open":
            keys = ("bytes", "median_ms", "max_ms", "with_live_ms", "verify_ms")
            values = [int(fields[1]), *(1e3 * float(f) for f in fields[2:])]
            openings.append({"events": int(fields[0]), **dict(zip(keys, values))})
    rounds = [rounds[n] for n in sorted(rounds)]
    median = lambda values: statistics.median(list(values))  # noqa: E731
    kinds = {
        kind: {key: median(r[kind][key] for r in rounds) for key in ("rate", "p50_ms", "p99_ms", "max_ms")}
        for kind in ("bare", "sqlite", "ours")
    }
    quotients = {
        "rate_to_sqlite": median(r["ours"]["rate"] / r["sqlite"]["rate"] for r in rounds),
        "rate_to_bare": median(r["ours"]["rate"] / r["bare"]["rate"] for r in rounds),
        "p50_to_bare": median(r["ours"]["p50_ms"] / r["bare"]["p50_ms"] for r in rounds),
        "p99_to_bare": median(r["ours"]["p99_ms"] / r["bare"]["p99_ms"] for r in rounds),
        "group_to_bare": median(g / r["bare"]["rate"] for g, r in zip(group, rounds)),
    }
    if openings:
        quotients["slowest_opening_ms"] = max(o["median_ms"] for o in openings)
    return {"commits": kinds, "group_rate": median(group), "openings": openings, "quotients": quotients}


def report(figures, options, directory):
    """Prints the figures; returns whether every limit was kept."""
    print(f"\n{measuring.machine()}; {measuring.disk_of(directory)}")
    print(f"median of {options.rounds} rounds of {options.commits} single commits of each kind")
    print(f"{'':24}{'commits/s':>12}{'p50 [ms]':>12}{'p99 [ms]':>12}{'max [ms]':>12}")
    for kind, text in (("bare", "4 KiB + fdatasync"), ("sqlite", "bare SQLite"), ("ours", "journal")):
        row = figures["commits"][kind]
        print(f"{text:24}{row['rate']:12.0f}{row['p50_ms']:12.3f}{row['p99_ms']:12.3f}{row['max_ms']:12.3f}")
    print(f"{f'journal, {options.writers} writers':24}{figures['group_rate']:12.0f}")
    if figures["openings"]:
        print("\nopening with 1,000 live commands")
        columns = ("events", "MB", "open [ms]", "max [ms]", "and read live [ms]", "verify all [ms]")
        print(f"{columns[0]:>10}{columns[1]:>8}{columns[2]:>12}{columns[3]:>12}{columns[4]:>20}{columns[5]:>18}")
    for row in figures["openings"]:
        print(
            f"{row['events']:10}{row['bytes'] / 1e6:8.0f}{row['median_ms']:12.2f}{row['max_ms']:12.2f}"
            f"{row['with_live_ms']:20.2f}{row['verify_ms']:18.0f}"
        )
    print()
    kept = True
    for key, value in figures["quotients"].items():
        limit, text, sense = LIMITS[key]
        good = value >= limit if sense == "at least" else value <= limit
        kept &= good
        print(f"{'ok  ' if good else 'MISS'} {text}: {value:.2f}, {sense} {limit:g}")
    if options.json:
        limits = {key: limit for key, (limit, _, _) in LIMITS.items()}
        Path(options.json).write_text(json.dumps({**figures, "limits": limits}, indent=2) + "\n")
    return kept


def main(arguments):
    """Runs the benchmark; exit status 1 when a limit was not kept."""
    options = parse(arguments)

    def run(directory):
        return report(figures_of(measure(options, directory)), options, directory)

    return measuring.in_directory("ledger", options.directory, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
