"""When speculation pays: the least accepted length, the sweet spot, and the batches where it stops paying."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from advisor.arrays import Array
from advisor.prediction import AdvisorError


def break_even_accepted_length(round_time_s: ArrayLike) -> Array:
    """Least accepted length at which a round pays for itself.

    Raises AdvisorError for anything but a table of positive times.

    Parameters
    ----------
    round_time_s : [nB, nK], whole round; column 0 is the plain decode step. [s]

    Returns
    -------
    [nB, nK] tokens per round, bonus token included. Above K + 1 no acceptance, however good, makes it pay. [-]

    Notes
    -----
    speedup = AL T(B, 0) / T(B, K) = 1, so AL = T(B, K) / T(B, 0): the cost term of the utility in arXiv:2506.20675.
    """
    time = np.asarray(round_time_s, dtype=float)
    if time.ndim != 2 or np.any(time <= 0):
        raise AdvisorError("round_time_s must be a table [batch, K] of positive times")
    return time / time[:, :1]


def can_pay(round_time_s: ArrayLike) -> np.ndarray:
    """True [nB, nK] where an accepted length of at most K + 1 reaches break-even. Column 0 is True."""
    least = break_even_accepted_length(round_time_s)
    return least <= np.arange(least.shape[1]) + 1


def paying_intervals(batches: ArrayLike, speedup: ArrayLike) -> tuple[tuple[float, float], ...]:
    """Batch intervals in which one K pays (speedup >= 1): batches [nB], speedup [nB]. Ends interpolated in log batch.

    An MoE may stop paying at middle batches and pay again: all intervals are returned, the last open end as inf.
    """
    grid = np.log(np.asarray(batches, dtype=float))
    gain = np.log(np.asarray(speedup, dtype=float))
    pays = gain >= 0
    found: list[tuple[float, float]] = []
    start = float(np.exp(grid[0])) if pays[0] else None
    for i in range(1, grid.size):
        if pays[i] == pays[i - 1]:
            continue
        share = gain[i - 1] / (gain[i - 1] - gain[i])
        crossing = float(np.exp(grid[i - 1] + share * (grid[i] - grid[i - 1])))
        if pays[i]:
            start = crossing
        elif start is not None:
            found.append((start, crossing))
            start = None
    if start is not None:
        found.append((start, float("inf")))
    return tuple(found)


def sweet_spot(batches: Array, speedup: Array) -> float:
    """Batch size with the highest speedup. [-]"""
    return float(batches[int(np.argmax(speedup))])


def break_even_batch(batches: Array, speedup: Array) -> float | None:
    """Smallest batch above the sweet spot at which the speedup falls to 1, interpolated on log batch. None if never."""
    peak = int(np.argmax(speedup))
    if speedup[peak] <= 1.0:
        return None
    below = np.flatnonzero(speedup[peak:] < 1.0)
    if below.size == 0:
        return None
    after = peak + int(below[0])
    x = np.log(batches[after - 1 : after + 1])
    y = speedup[after - 1 : after + 1]
    return float(np.exp(x[0] + (1.0 - y[0]) * (x[1] - x[0]) / (y[1] - y[0])))
