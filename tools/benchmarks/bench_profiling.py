"""Live run of the profiler on this machine's CPU, fitted and judged on held-out k, printed as a
table.

`python -m tools.benchmarks.bench_profiling [SWEEP]` uses a shipped or earlier sweep; without an
argument, and in `make bench`, it measures the bandwidth and MoE blocks of the quick preset first
(about 50 s; a busy machine spoils it).
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

from advisor.measured.measurements import read_sweep
from advisor.measured.sweep_fit import SweepFit, fit_sweep
from advisor.prediction import AdvisorError

GOAL = 0.08
"""Mean error of the held-out verification ratio in bf16. [1]"""


def print_fit(fit: SweepFit) -> None:
    """One line per held-out k, then the mean of all."""
    record = fit.record
    for row in fit.by_k().itertuples():
        print(
            f"{record.dtype:<6} {record.kernel_source:<14} {row.n_active:>10} {row.n_ratios:>4} "
            f"{row.mean_error:>17.1%} {row.worst_error:>7.1%}"
        )
    mean = fit.mean_ratio_error
    if mean is not None:
        goal = (
            f"  (goal {GOAL:.0%}: {'met' if mean <= GOAL else 'NOT met'})"
            if record.dtype == "bf16"
            else ""
        )
        print(
            f"{record.dtype:<6} {record.kernel_source:<14} {'all':>10} {len(fit.ratios):>4} "
            f"{mean:>17.1%}{goal}"
        )
        latency = (
            ""
            if record.loso_median is None
            else f"; latency of held-out k, median error {record.loso_median:.1%}"
        )
        print(f"       {record.n_rows} rows, {record.n_shapes} shapes{latency}; {record.message}")


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns 1 when there is no sweep to judge."""
    given = arguments or []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given[0]) if given else Path(scratch) / "sweep"
        if not given:
            if importlib.util.find_spec("torch") is None:
                print("torch is not installed here: nothing is measured; give a sweep to judge one")
                return 1
            from advisor.profiling.command import main as profile

            options = [
                "--preset",
                "quick",
                "--device",
                "cpu",
                "--only",
                "bandwidth",
                "--only",
                "moe_layer",
            ]
            if profile([*options, "--output", str(folder)]) != 0:
                return 1
        try:
            sweep = read_sweep(folder)
            fits = fit_sweep(sweep)
        except AdvisorError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(f"{sweep.meta.device.name}, {sweep.meta.status}")
        for finding in sweep.meta.findings:
            print(f"  {finding}")
        print(
            f"{'format':<6} {'kernel':<14} {'held-out k':>10} {'n':>4} {'mean ratio error':>17} "
            f"{'worst':>7}"
        )
        for fit in fits:
            print_fit(fit)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
