"""Time of one user's fits, 21 to 228 SYNTHETIC points: the refit of the shipped constants, and
MoESD's small model."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from advisor.measured.validation import fit_moesd, moesd_speedup
from tests.measured.refit_synthetic import refit, synthetic_points
from tests.measured.test_validation import FLOORS, grid, pick, truth

ASKED_S = 0.5
RUNS = 5
BATCHES = np.round(np.linspace(1, 1000, 76))


def main() -> None:
    """Print the median of RUNS by fit and number of points."""
    print(f"{'fit':<24}{'points':>8}{'median s':>10}{'worst s':>10}   (asked: {ASKED_S} s)")
    for batches in (BATCHES[:: len(BATCHES) // 7][:7], BATCHES):
        frame = synthetic_points(batches, truth={"launch": 2.0, "round_host": 2.0}, noise=0.02)
        _timed("refit", len(frame), lambda frame=frame: refit(frame))  # type: ignore[misc]
    rng = np.random.default_rng(5)
    points = grid()
    speedups = moesd_speedup(truth(rng), FLOORS.ridge_tokens, points)
    speedups = speedups * np.exp(0.02 * rng.standard_normal(speedups.shape))
    for rows in (np.arange(0, len(speedups), 11), np.arange(len(speedups))):
        some = pick(points, rows)
        _timed(
            "MoESD, Algorithm 1",
            len(rows),
            lambda some=some, rows=rows: fit_moesd(speedups[rows], FLOORS, some),  # type: ignore[misc]
        )


def _timed(name: str, n_points: int, fit: Callable[[], object]) -> None:
    fit()
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        fit()
        seconds.append(time.perf_counter() - start)
    print(f"{name:<24}{n_points:>8}{np.median(seconds):>10.2f}{max(seconds):>10.2f}")


if __name__ == "__main__":
    main()
