"""Processor time and memory of `advise` and `curve` as whole processes, beside version 0.2's.

Both are run in turn, and the ratio is the median of the pairs.
`BEFORE=/path/to/checkout make bench` takes that checkout in place of version 0.2, which is read
from the history; without a history there is no ratio.
"""

from __future__ import annotations

import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION_0_2 = "ad01ff99~1"
"""Its last commit: the next one moves every file."""
RUNS = 5
LIMIT_S = 120.0
SCENARIO = (
    "--hardware",
    "h200-sxm",
    "--model",
    "qwen3-30b-a3b",
    "--drafter",
    "eagle3",
    "--accepted-length",
    "2.4@3",
)
# The child's own children: what the command took, without this process.
_CHILD = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def cost(words: Sequence[str], folder: Path = ROOT) -> tuple[float, float]:
    """Processor time [s] and largest memory [MiB] of Python with some words in a checkout. Raises
    RuntimeError where it fails."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    status, seconds, memory = map(float, done.stdout.split())
    if status:
        raise RuntimeError(f"`python {' '.join(words)}` in {folder} ended with {status:.0f}")
    return seconds, memory


def of_command(name: str) -> tuple[str, ...]:
    """Words of a command on SCENARIO."""
    return "-m", "advisor", name, *SCENARIO


def earlier(folder: Path) -> Path | None:
    """Another checkout to compare with: BEFORE, else version 0.2 written into `folder`. None
    without a history."""
    if named := os.environ.get("BEFORE"):
        return Path(named)
    asked = ["git", "archive", VERSION_0_2, "advisor", "profiles", "measurements"]
    packed = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        compare(earlier(Path(folder)))


def compare(before: Path | None) -> None:
    """Print the table, beside another checkout where there is one."""
    folders = [ROOT, *([before] if before else [])]
    print(
        f"{'command':<12}{'CPU':>10}{'memory':>12}"
        + (f"{'before':>10}{'memory':>12}{'ratio':>8}" if before else "")
    )
    for command in ("advise", "curve"):
        for folder in folders:
            cost(of_command(command), folder)  # compiles what was not compiled
        pairs = [[cost(of_command(command), folder) for folder in folders] for _ in range(RUNS)]
        line = f"{command:<12}"
        for column in zip(*pairs, strict=True):
            seconds, memory = (statistics.median(values) for values in zip(*column, strict=True))
            line += f"{seconds:>8.2f} s{memory:>8.0f} MiB"
        if before:
            line += f"{statistics.median(now[0] / then[0] for now, then in pairs):>8.2f}"
        print(line)


if __name__ == "__main__":
    main()
