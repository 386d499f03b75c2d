"""Which K: the best under uncertainty, its chance of being best, and what a wrong choice costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_GAIN = 0.02
"""Speculation that promises less than this over plain decode is within noise: K = 0 is recommended. [1]"""


@dataclass(frozen=True)
class BestDraft:
    """The recommended K and how sure it is. `index` points into the drafts axis."""

    index: int
    p_best: float
    regret: float
    within_noise: bool
    """True when some K looked better than plain decode, but by less than MIN_GAIN."""


def best_draft(speedup: Array, draws: Array, allowed: NDArray[np.bool_] | None = None) -> BestDraft:
    """Best K at one batch.

    Parameters
    ----------
    speedup : central estimate by K, [drafts]; entry 0 is plain decode and equals 1. [1]
    draws : the same under each draw, [draws, drafts]. [1]
    allowed : K that meet the user's limits, [drafts]; default all. If none does, all are considered.

    Returns
    -------
    BestDraft. p_best: share of draws in which this K is the fastest allowed one. regret: mean over draws of the loss
    against the fastest allowed K, relative to it.
    """
    allowed = np.ones(len(speedup), bool) if allowed is None or not allowed.any() else allowed
    candidates = np.where(allowed, speedup, -np.inf)
    index = int(np.argmax(candidates))
    within_noise = bool(index != 0 and allowed[0] and candidates[index] < 1.0 + MIN_GAIN)
    if within_noise:
        index = 0
    permitted = np.where(allowed, draws, -np.inf)
    best = permitted.max(axis=1)
    p_best = float(np.mean(permitted[:, index] >= best - 1e-12))
    regret = float(np.mean(1.0 - permitted[:, index] / best))
    return BestDraft(index, p_best, regret, within_noise)


def sweet_spot(batches: Array, speedup: Array) -> float:
    """Batch size with the highest speedup. [1]"""
    return float(batches[int(np.argmax(speedup))])


def break_even_batch(batches: Array, speedup: Array) -> float | None:
    """Smallest batch above the sweet spot at which the speedup falls to 1, interpolated on log batch; None if never."""
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
