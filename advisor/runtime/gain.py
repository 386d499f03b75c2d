"""What a schedule of K by batch gains over one K: on a batch histogram, or with each doubling of the batch alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from advisor.prediction import AdvisorError
from advisor.runtime.costs import interpolate_batches
from advisor.runtime.ranges import KRange, k_running_at
from advisor.runtime.schedule import KValues, doublings


@dataclass(frozen=True)
class ScheduleGain:
    """Speedups over plain decoding on one batch histogram. gain = schedule / best static - 1 (K = 0 is a static K)."""

    schedule_speedup: float
    best_static_k: int
    best_static_speedup: float
    static_speedup: tuple[float, ...]
    gain: float


def drafts_anywhere(ranges: Sequence[KRange]) -> bool:
    """Whether some range drafts: then the engine runs with a drafter, at K = 0 too."""
    return any(item.k_running for item in ranges)


def schedule_gain(
    ranges: Sequence[KRange], values: KValues, histogram_batches: ArrayLike, histogram_weights: ArrayLike
) -> ScheduleGain:
    """Gain of the schedule over the best single K on the user's own batch histogram.

    Raises AdvisorError for a histogram whose weights are too few or negative, or all 0.

    histogram_weights: share of plain decoding *time* spent at each batch size, as a gauge of running requests sampled
    at fixed intervals gives it; any positive scale. Speedups combine as a weighted harmonic mean, since times add.
    K = 0 in a schedule that drafts elsewhere is charged for its drafter; a single K = 0 is not.
    """
    at = np.asarray(histogram_batches, dtype=float)
    weight = np.asarray(histogram_weights, dtype=float)
    if at.shape != weight.shape or at.ndim != 1 or not at.size:
        raise AdvisorError("the batch histogram needs as many weights as batch sizes, and at least one")
    if np.any(weight < 0) or weight.sum() <= 0:
        raise AdvisorError("histogram weights must not be negative, and one must be positive")
    weight = weight / weight.sum()
    dense = interpolate_batches(values.batches, values.speedup, at)
    static = 1 / (weight[:, None] / dense).sum(axis=0)
    column = np.searchsorted(values.drafts, k_running_at(ranges, at))
    run = dense[np.arange(at.size), column]
    if drafts_anywhere(ranges):
        run = np.where(column == 0, interpolate_batches(values.batches, values.idle[:, None], at)[:, 0], run)
    scheduled = 1 / float((weight / run).sum())
    best = int(static.argmax())
    return ScheduleGain(
        scheduled,
        int(values.drafts[best]),
        float(static[best]),
        tuple(float(s) for s in static),
        scheduled / float(static[best]) - 1,
    )


def gain_over_doublings(ranges: Sequence[KRange], values: KValues) -> ScheduleGain:
    """Gain of the schedule over the best single K where each doubling of the batch counts alike."""
    whole = np.arange(1, min(ranges[-1].batch_end, int(values.batches[-1])) + 1)
    return schedule_gain(ranges, values, whole, doublings(whole))


ENOUGH = 0.01
"""Choice of this project: a schedule that gains less than this over one K is called not worth having. [-]"""


def one_k_is_enough(ranges: Sequence[KRange], gain: ScheduleGain, n_draft: int) -> bool:
    """Whether the recommended K everywhere comes within ENOUGH of the schedule. Never where it does not draft.

    gain : over the doublings of the batches that the ranges cover. n_draft : the K recommended at the target batch.
    """
    same = {item.k_running for item in ranges} == {n_draft}
    return same or (n_draft > 0 and gain.schedule_speedup / gain.static_speedup[n_draft] - 1.0 < ENOUGH)
