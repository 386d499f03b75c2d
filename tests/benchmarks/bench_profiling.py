"""Live run of the profiler on this machine's CPU: a held-out-k fit of the sweep, printed as a table.

Fits  time = t0 + a tokens x k + b touched experts  (non-negative, relative error) on all k but one and predicts the
verification ratio T(4 n) / T(n) of the k left out. `python tests/benchmarks/bench_profiling.py [SWEEP]` uses a
shipped or earlier sweep; without an argument it measures the MoE blocks of the quick preset first.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

Row = dict[str, str]


def moe_rows(folder: Path, block: str) -> list[Row]:
    """Measured rows of a block's main kernel, the one most rows have."""
    with (folder / "data.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["block"] == block and row["status"] == "ok"]
    kernels = [row["kernel"] for row in rows]
    return [row for row in rows if row["kernel"] == max(set(kernels), key=kernels.count)]


def features(rows: list[Row]) -> np.ndarray:
    """[rows, 3]: one, token-expert pairs, touched experts."""
    pairs = [float(row["n_tokens"]) * float(row["n_active"]) for row in rows]
    return np.column_stack([np.ones(len(rows)), pairs, [float(row["touched_experts"]) for row in rows]])


def fit(rows: list[Row], column: str) -> np.ndarray:
    """Non-negative coefficients [3] of least relative error. [s]"""
    from scipy.optimize import nnls

    times = np.array([float(row[column]) for row in rows])
    return nnls(features(rows) / times[:, None], np.ones(len(times)))[0]


def ratio_errors(rows: list[Row], held_out: int, column: str) -> list[float]:
    """|predicted / measured - 1| of T(4 n) / T(n) for the k left out of the fit."""
    rest = [row for row in rows if int(row["n_active"]) != held_out]
    coefficients = fit(rest, column)
    mine = {int(r["n_tokens"]): r for r in rows if int(r["n_active"]) == held_out and r["routing"] == "independent"}
    errors = []
    for tokens, row in mine.items():
        if 4 * tokens in mine:
            pair = [mine[4 * tokens], row]
            predicted = features(pair) @ coefficients
            measured = [float(item[column]) for item in pair]
            errors.append(abs((predicted[0] / predicted[1]) / (measured[0] / measured[1]) - 1))
    return errors


def main(arguments: list[str]) -> int:
    """Print the table; returns 1 when the sweep cannot be made."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments[0]) if arguments else Path(scratch) / "sweep"
        if not arguments:
            from advisor.profiling import main as profile

            options = ["--preset", "quick", "--device", "cpu", "--only", "bandwidth", "--only", "moe_layer"]
            if profile([*options, "--out", str(folder)]) != 0:
                return 1
        with (folder / "data.csv").open(newline="") as stream:
            blocks = sorted({r["block"] for r in csv.DictReader(stream) if r["op"] == "moe_layer"})
        print(f"{'block':<22} {'held-out k':>10} {'n':>3} {'mean ratio error':>17} {'worst':>7}")
        for block in blocks:
            rows = moe_rows(folder, block)
            for k in sorted({int(row["n_active"]) for row in rows}):
                errors = ratio_errors(rows, k, "time_p20_s") if len({r["n_active"] for r in rows}) > 1 else []
                if errors:
                    print(f"{block:<22} {k:>10} {len(errors):>3} {np.mean(errors):>16.1%} {np.max(errors):>7.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
