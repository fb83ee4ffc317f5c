"""Measures how well the tracker tells what is where, against the ground truth of simulated homes.

A robot drives past everything in the apartment twice and looks around at each stop, once for each seed and each kind
of noise: the world's own, drift of the localisation, and two that no threshold was chosen on. Objects hide behind
furniture, walls and each other. Shares are of the real objects, those of relations of the objects that stand on
something; the intervals are exact ones of 95 % (Clopper and Pearson), as if every object were for itself. The same
seeds give the same figures on every machine.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench_evaluator import interval
import measuring

TEXTS = {
    "renamed": "changed their name",
    "merges": "share a name with another",
    "misses": "are not known",
    "false_objects": "are known and not there",
    "relations": "stand on what they stand on",
}
# For the kinds of noise in their order: most of each share in percent, least for relations.
LIMITS = (
    {"renamed": 1, "merges": 1, "misses": 1, "false_objects": 1, "relations": 99},
    {"renamed": 1, "merges": 1, "misses": 1, "false_objects": 1, "relations": 99},
    {"renamed": 3, "merges": 1, "misses": 6, "false_objects": 3, "relations": 93},
    # What is left of it is printed and promised to nobody.
    {},
)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench tracker", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="drives for each kind of noise (default: 50)")
    parser.add_argument("--from", dest="first", type=int, default=1000, metavar="SEED", help="first seed (default: 1000)")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there as well")
    options = parser.parse_args(arguments)
    for name, value, low, high in (("seeds", options.seeds, 1, 10_000), ("from", options.first, 0, 2**53)):
        if not low <= value <= high:
            parser.error(f"--{name} is {value}, it has to be between {low} and {high}")
    return options


def measure(options):
    """The figures: noise: name: number and of how many."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "eh_scene", "--example", "tracker_figures"]
    done = subprocess.run(
        [*command, "--", str(options.seeds), str(options.first)],
        cwd=measuring.TOP,
        env=measuring.plain_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures = {}
    for line in done.stdout.splitlines():
        noise, name, number, of = line.split("\t")
        figures.setdefault(noise, {})[name] = (int(number), int(of))
    return figures


def report(figures, seeds):
    """Prints the figures; returns whether every limit was kept."""
    kept = True
    for (noise, row), limits in zip(figures.items(), LIMITS):
        of = row["renamed"][1]
        print(f"\n{noise}\n  {seeds} drives, {row['frames'][0]} frames, {of} objects; {row['switches'][0]} identity switches")
        for name, text in TEXTS.items():
            number, of = row[name]
            share, (low, high) = 100 * number / max(of, 1), interval(min(number, of), of)
            limit = limits.get(name)
            least = name == "relations"
            good = limit is None or (share >= limit if least else share <= limit)
            kept &= good
            told = "" if limit is None else f"  {'at least' if least else 'at most'} {limit} %: {'ok' if good else 'MISS'}"
            print(f"  {text:30} {number:5} of {of:5}: {share:6.2f} % [{100 * low:.2f}, {100 * high:.2f}]{told}")
    return kept


def main(arguments):
    """Measures and prints; exit status 1 when a limit was not kept."""
    options = parse(arguments)
    figures = measure(options)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if report(figures, options.seeds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
