"""What the benchmarks share: the machine they ran on, and a folder on the disk that is measured."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("EMBODIED_HARNESS_BUILD_DIR", TOP / "build")) / "embodied_harness"
# What needs no ROS is built here, as by scripts/test: with other settings than the nodes, whose build is left alone.
PLAIN = BUILD / "cargo_plain"


def disk_of(directory):
    """Device and file system on which the directory lies."""
    found = subprocess.run(
        ["df", "--output=source,fstype", str(directory)], stdout=subprocess.PIPE, text=True, check=False
    )
    return " ".join(found.stdout.splitlines()[-1].split()) if found.returncode == 0 and found.stdout else "unknown"


def processor():
    """Its name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def machine():
    """Processor, cores and load, in one line."""
    return f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def in_directory(name, parent, run):
    """Gives run(directory) a folder of its own below `parent`, by default build/; the exit status.

    It is 0 when run() says that every limit was kept, 1 when it does not, and 2 when nothing could be measured.
    """
    parent = Path(parent) if parent else BUILD
    try:
        parent.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix=f"bench_{name}_", dir=parent))
    except OSError as error:
        print(f"[bench] error: {parent} can't be written ({error}); give another --directory", file=sys.stderr)
        return 2
    try:
        return 0 if run(directory) else 1
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"[bench] error: {error}", file=sys.stderr, flush=True)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def plain_environment():
    """The environment for Cargo where no ROS is needed."""
    return {**os.environ, "CARGO_TARGET_DIR": str(PLAIN)}
