"""`make bench`: every benchmark of this folder, one printed table each. Wall times are printed,
never asserted."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Run all benchmarks, or those whose names are given
    (`python -m tools.benchmarks model app`)."""
    wanted = sys.argv[1:]
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        name = path.stem.removeprefix("bench_")
        if not wanted or name in wanted:
            print(f"\n== {name} ==", flush=True)
            importlib.import_module(f"tools.benchmarks.{path.stem}").main()


if __name__ == "__main__":
    main()
