"""The draft length for each batch size: few ranges, bounded regret, no flicker; and what it gains over one static K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.runtime.costs import interpolate_batches

DEFAULT_MARGIN = 0.02
"""Choice of this project: a K within 2 % of the best counts as equal. Below the error of any step-time prediction."""
MIN_GAIN = 0.02
"""Choice of this project: where no K promises this over plain decoding, the gain is within noise and K is 0."""

OPEN_END = 10_000_000
"""Where the bucket of the longest contexts is closed: beyond any model's. [tokens]"""


@dataclass(frozen=True)
class KRange:
    """One range of the schedule: batch sizes batch_start..batch_end, both included, run k_draft drafts.

    speedup is the mean over the range's batch sizes, regret the largest loss against the best K within the range.
    meets_limit is False where no K satisfies the limit on time per output token; k_draft is then the fastest one.
    """

    batch_start: int
    batch_end: int
    k_draft: int
    speedup: float
    regret: float = 0.0
    meets_limit: bool = True


@dataclass(frozen=True)
class ContextSchedule:
    """The ranges for contexts context_start..context_end tokens, both included."""

    context_start: int
    context_end: int
    ranges: tuple[KRange, ...]

    @property
    def has_end(self) -> bool:
        """False for the last bucket, which reaches to any length."""
        return self.context_end < OPEN_END


@dataclass(frozen=True)
class ScheduleGain:
    """Speedups over plain decoding on one batch histogram. gain = schedule / best static - 1 (K = 0 is a static K)."""

    schedule_speedup: float
    best_static_k: int
    best_static_speedup: float
    static_speedup: tuple[float, ...]
    gain: float


def k_by_batch(
    batches: ArrayLike,
    drafts: ArrayLike,
    speedup: ArrayLike,
    margin: float = DEFAULT_MARGIN,
    tpot_s: ArrayLike | None = None,
    max_tpot_s: float | None = None,
    max_batch: int | None = None,
) -> tuple[KRange, ...]:
    """K for every batch size 1..max_batch, in the fewest ranges whose regret stays within `margin`.

    Parameters
    ----------
    batches : [nB] increasing from 1. drafts : [nK], must contain 0. speedup : [nB, nK], 1 at K = 0. [1]
    margin : a K is acceptable at a batch when its speedup is within this fraction of the best there. [1]
    tpot_s, max_tpot_s : time per output token [nB, nK] and its upper limit; give both or neither. [s]
    max_batch : last batch size covered; default the largest of `batches`.

    Returns
    -------
    Ranges that cover 1..max_batch without gap or overlap.

    Notes
    -----
    A K > 0 that is predicted to lose against plain decoding is never acceptable, whatever the margin; where none gains
    MIN_GAIN, only K = 0 is. Ranges grow
    from batch 1 as long as one K stays acceptable, which needs the fewest switches possible; among the K left, the
    one with the best mean speedup wins. At a fixed batch the limit on time per output token cannot prefer another K
    (tpot is proportional to 1 / speedup); it narrows what the margin may choose, and marks batches beyond any K.
    """
    grid, ks, table = _checked(batches, drafts, speedup)
    if (tpot_s is None) != (max_tpot_s is None):
        raise AdvisorError("tpot_s and max_tpot_s go together; give both or neither")
    if margin < 0:
        raise AdvisorError(f"margin={margin} must not be negative")
    last = int(grid[-1]) if max_batch is None else max_batch
    whole = np.arange(1, last + 1)
    dense = interpolate_batches(grid, table, whole)
    best = dense.max(axis=1, keepdims=True)
    plain = dense[:, ks == 0]
    near: NDArray[np.bool_] = (dense * (1 + margin) >= best) & (dense >= plain)
    allowed = np.where(best >= plain * (1 + MIN_GAIN), near, ks == 0)
    meets: NDArray[np.bool_] = np.ones(last, dtype=np.bool_)
    if tpot_s is not None and max_tpot_s is not None:
        within: NDArray[np.bool_] = np.asarray(interpolate_batches(grid, tpot_s, whole) <= max_tpot_s)
        allowed, meets = _limited(dense, allowed, within)
    return _merge(dense, allowed, meets, ks)


def buckets_by_context(contexts: Sequence[int], schedules: Sequence[tuple[KRange, ...]]) -> tuple[ContextSchedule, ...]:
    """One schedule per context bucket: contexts [nC] increasing, and the schedule at each; () for none.

    A bucket reaches up to the geometric middle between its context and the next, the last without end; neighbours
    with equal K are merged.
    """
    if len(contexts) and (np.any(np.diff(contexts) <= 0) or contexts[0] < 1):
        raise AdvisorError("contexts must be positive and increase strictly")
    middles = [int(np.sqrt(float(one) * other)) for one, other in pairwise(contexts)]
    found: list[ContextSchedule] = []
    start = 1
    for end, ranges in zip([*middles, OPEN_END][: len(contexts)], schedules, strict=True):
        if found and _same_k(found[-1].ranges, ranges):
            found[-1] = ContextSchedule(found[-1].context_start, end, found[-1].ranges)
        else:
            found.append(ContextSchedule(start, end, ranges))
        start = end + 1
    return tuple(found)


def k_by_batch_table(ranges: Sequence[KRange], limited: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Heading and rows of K by batch as text; `limited` adds whether the limit on time per output token is kept."""
    columns = ("Batch", "K", "Mean speedup", "Largest loss", "Meets the limit")
    rows = (
        (
            f"{item.batch_start:,} to {item.batch_end:,}",
            str(item.k_draft),
            f"{item.speedup:.2f}x",
            f"{item.regret:.1%}",
            "yes" if item.meets_limit else "no",
        )
        for item in ranges
    )
    shown = len(columns) if limited else len(columns) - 1
    return columns[:shown], tuple(row[:shown] for row in rows)


def k_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """The scheduled K at each batch size (beyond the last range: the last range's K, as vLLM does)."""
    starts = np.array([r.batch_start for r in ranges])
    ks = np.array([r.k_draft for r in ranges], dtype=np.int64)
    return ks[np.clip(np.searchsorted(starts, np.asarray(batch), side="right") - 1, 0, None)]


def schedule_gain(
    ranges: Sequence[KRange],
    batches: ArrayLike,
    drafts: ArrayLike,
    speedup: ArrayLike,
    histogram_batches: ArrayLike,
    histogram_weights: ArrayLike,
) -> ScheduleGain:
    """What the schedule gains over the best single K on the user's own batch histogram.

    histogram_weights: share of plain decoding *time* spent at each batch size, as a gauge of running requests sampled
    at fixed intervals gives it; any positive scale. Speedups combine as a weighted harmonic mean, since times add.
    """
    grid, ks, table = _checked(batches, drafts, speedup)
    at = np.asarray(histogram_batches, dtype=float)
    weight = np.asarray(histogram_weights, dtype=float)
    if at.shape != weight.shape or at.ndim != 1 or not at.size:
        raise AdvisorError("the batch histogram needs as many weights as batch sizes, and at least one")
    if np.any(weight < 0) or weight.sum() <= 0:
        raise AdvisorError("histogram weights must not be negative, and one must be positive")
    weight = weight / weight.sum()
    dense = interpolate_batches(grid, table, at)
    static = 1 / (weight[:, None] / dense).sum(axis=0)
    column = np.array([int(np.flatnonzero(ks == k)[0]) for k in k_at(ranges, at)])
    scheduled = 1 / float((weight / dense[np.arange(at.size), column]).sum())
    best = int(static.argmax())
    return ScheduleGain(
        scheduled,
        int(ks[best]),
        float(static[best]),
        tuple(float(s) for s in static),
        scheduled / float(static[best]) - 1,
    )


def _limited(
    dense: Array, allowed: NDArray[np.bool_], within: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Acceptable K under the limit [n, nK] and where any K meets it [n]; never an empty row.

    Where the margin and the limit exclude each other the fastest K within the limit is taken, where no K meets the
    limit the fastest of all.
    """
    meets: NDArray[np.bool_] = np.asarray(within.any(axis=1), dtype=np.bool_)
    eligible = within | ~meets[:, None]
    fastest = np.zeros_like(allowed)
    fastest[np.arange(len(dense)), np.where(eligible, dense, -np.inf).argmax(axis=1)] = True
    both = allowed & within
    return np.asarray(np.where(both.any(axis=1, keepdims=True), both, fastest), dtype=np.bool_), meets


def _merge(
    dense: Array, allowed: NDArray[np.bool_], meets: NDArray[np.bool_], ks: NDArray[np.int64]
) -> tuple[KRange, ...]:
    """Greedy cover: extend each range while some K is allowed throughout and the limit is met (or not) throughout."""
    bits = (allowed.astype(np.int64) << np.arange(ks.size)).sum(axis=1).tolist()
    met = meets.tolist()
    ranges: list[KRange] = []
    start, common = 0, bits[0]
    for i in range(1, len(bits) + 1):
        if i < len(bits) and common & bits[i] and met[i] == met[start]:
            common &= bits[i]
            continue
        candidates = [j for j in range(ks.size) if common >> j & 1]
        part = dense[start:i]
        j = max(candidates, key=lambda c: float(part[:, c].mean()))
        regret = float((1 - part[:, j] / part.max(axis=1)).max())
        k = int(ks[j])
        ranges.append(KRange(start + 1, i, k, float(part[:, j].mean()), regret, met[start]))
        if i < len(bits):
            start, common = i, bits[i]
    return tuple(ranges)


def _checked(batches: ArrayLike, drafts: ArrayLike, speedup: ArrayLike) -> tuple[Array, NDArray[np.int64], Array]:
    grid = np.asarray(batches, dtype=float)
    ks = np.asarray(drafts, dtype=np.int64)
    table = np.asarray(speedup, dtype=float)
    if grid.ndim != 1 or not grid.size or grid[0] != 1 or np.any(np.diff(grid) <= 0):
        raise AdvisorError("batches must increase strictly and start at 1")
    if table.shape != (grid.size, ks.size):
        raise AdvisorError(
            f"speedup has shape {table.shape}; expected {(grid.size, ks.size)}: one row per batch, one column per K"
        )
    if not np.all(np.isfinite(table)) or np.any(table <= 0):
        raise AdvisorError("speedup must be finite and positive everywhere")
    if not np.any(ks == 0) or np.any(ks < 0) or np.unique(ks).size != ks.size or ks.size > 62:
        raise AdvisorError("drafts must be distinct, not negative, at most 62, and contain K = 0")
    return grid, ks, table


def _same_k(a: Sequence[KRange], b: Sequence[KRange]) -> bool:
    return [(r.batch_start, r.batch_end, r.k_draft, r.meets_limit) for r in a] == [
        (r.batch_start, r.batch_end, r.k_draft, r.meets_limit) for r in b
    ]
