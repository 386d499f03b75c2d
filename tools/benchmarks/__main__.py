"""`make bench`: every benchmark of this folder, one printed table each. Wall times are printed,
never asserted."""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
FIRST = "bars"


def main(wanted: list[str]) -> int:
    """Run all benchmarks, or those whose names are given
    (`python -m tools.benchmarks model app`); 1 where one failed."""
    names = sorted(
        (path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py")),
        key=lambda name: (name != FIRST, name),
    )
    failed = False
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a row stands there as soon as it is measured
    for name in names:
        if wanted and name not in wanted:
            continue
        print(f"\n== {name} ==")
        try:
            failed |= bool(importlib.import_module(f"tools.benchmarks.bench_{name}").main())
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
