"""The draft length for each batch size: least expected loss, and few switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.bands import PER_K_LOG_SD
from advisor.curve import draft_odds, excess_loss
from advisor.prediction import AdvisorError
from advisor.runtime.costs import interpolate_batches, interpolate_losses

SWITCH_COST = PER_K_LOG_SD
"""What a switch of K must save beyond the noise of the draws, expected loss times doublings of the batch: as much over
one doubling as speedups scatter from one K to the next, half as much over two. [1]"""
MIN_GAIN = 0.02
"""Choice of this project: a change or a design that gains less than this is not offered as one that helps. [1]"""

_SINGLE = 512
"""Up to here the schedule decides batch by batch; beyond, a batch more or less is within a quarter of a per cent."""

OPEN_END = 10_000_000
"""Where the bucket of the longest contexts is closed: beyond any model's. [tokens]"""


@dataclass(frozen=True)
class KRange:
    """One range of the schedule: batch sizes batch_start..batch_end, both included, run k_draft drafts.

    speedup is the mean over the range's batch sizes, regret the largest expected loss within the range.
    meets_limit is False where no K satisfies the limit on time per output token.
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
class KValues:
    """What each K is worth on a grid of batches, as far as a schedule needs to know; `k_values` makes and checks it."""

    batches: Array
    """[nB], increasing from 1. [1]"""
    drafts: NDArray[np.int64]
    """[nK], increasing from 0. [1]"""
    speedup: Array
    """[nB, nK]; 1 at K = 0, a server without speculation. [1]"""
    loss: Array
    """Expected loss [nB, nK], see `draft_odds`. [1]"""
    noise: Array
    """Its standard error against the least, [nB, nK]. [1]"""
    idle: Array
    """Speedup of K = 0 in a table that drafts at other batches, [nB], see `idle_speedup`. [1]"""
    tpot_s: Array | None = None
    """Time per output token, [nB, nK]. [s]"""


def k_values(
    batches: ArrayLike,
    drafts: ArrayLike,
    speedup: ArrayLike,
    *,
    draws: ArrayLike | None = None,
    idle: ArrayLike = 1.0,
    tpot_s: ArrayLike | None = None,
) -> KValues:
    """`KValues` from speedups [nB, nK] and the same under each draw [draws, nB, nK]; without draws they are certain.

    Raises AdvisorError naming what was found and what is expected.
    """
    grid, ks, table = _checked(batches, drafts, speedup)
    odds = draft_odds(table[None] if draws is None else draws)
    waiting = np.broadcast_to(np.asarray(idle, float), grid.shape)
    return KValues(grid, ks, table, odds.loss, odds.noise, waiting, None if tpot_s is None else np.asarray(tpot_s))


def k_by_batch(
    values: KValues,
    max_tpot_s: float | None = None,
    max_batch: int | None = None,
    pinned: tuple[int, int] | None = None,
) -> tuple[KRange, ...]:
    """K for every batch size 1..max_batch: the least expected loss, smoothed.

    Parameters
    ----------
    values : what each K is worth; with a limit, its times per output token too.
    max_tpot_s : upper limit on the time per output token. [s]
    max_batch : last batch size covered; default the largest of the grid. [1]
    pinned : a batch and the K that it runs: the recommended K of the target batch. [1]

    Returns
    -------
    Ranges that cover 1..max_batch without gap or overlap.

    Notes
    -----
    Each doubling of the batch counts alike. The K of all batches together have the least sum of what they lose beyond
    the noise, times the doublings it lasts, and SWITCH_COST for each switch: dynamic programming over the batches.
    K = 0 beside a K > 0 is charged as engines run it, with the drafter kept (`KValues.idle`); where a server without
    speculation loses no more than the best such table, K is 0 throughout, uncharged. K that miss the limit are left
    out where another keeps it.
    """
    last = int(values.batches[-1]) if max_batch is None else max_batch
    table = _whole(values, last, max_tpot_s)
    chosen = _cheapest(_with_pin(table, values.drafts, pinned), table.doublings, table.allowed)
    if not chosen.any() or (_pins_nothing(pinned) and table.plain_cost() <= table.cost(chosen)):
        return _ranges(table.plain(), np.zeros(last, np.int64), values.drafts)
    return _ranges(table, chosen, values.drafts)


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
    columns = ("Batch", "K", "Mean speedup", "Largest expected loss", "Meets the limit")
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


def schedule_rule(max_tpot_ms: float | None = None) -> str:
    """How the ranges of K by batch were chosen, in words that hold under this limit on time per output token."""
    rule = (
        f"The K of least expected loss, smoothed: a switch must save {SWITCH_COST:.0%} over a doubling of the batch, "
        "beyond the noise."
    )
    if max_tpot_ms is None:
        return rule
    return f"{rule} K that miss {max_tpot_ms:g} ms per output token are left out, unless all do ('no')."


def k_at(ranges: Sequence[KRange], batch: ArrayLike) -> NDArray[np.int64]:
    """The scheduled K at each batch size (beyond the last range: the last range's K, as vLLM does)."""
    starts = np.array([r.batch_start for r in ranges])
    ks = np.array([r.k_draft for r in ranges], dtype=np.int64)
    return ks[np.clip(np.searchsorted(starts, np.asarray(batch), side="right") - 1, 0, None)]


@dataclass(frozen=True)
class _Whole:
    """`KValues` at whole batches 1..n, K = 0 charged for the drafter that is kept; arrays [n, nK] or [n]."""

    speedup: Array
    loss: Array
    noise: Array
    allowed: NDArray[np.bool_]
    plain_loss: Array
    """Expected loss of a server without speculation, [n]. [1]"""
    plain_allowed: NDArray[np.bool_]
    doublings: Array

    @property
    def excess(self) -> Array:
        """What each K loses beyond the noise; a thousandth of its whole excess breaks ties."""
        losing = excess_loss(self.loss, self.noise, self.allowed)
        return losing + 1e-3 * np.maximum(self.loss - self.loss.min(axis=1, keepdims=True), 0.0)

    def cost(self, chosen: NDArray[np.int64]) -> float:
        """Loss beyond the noise over all doublings, and SWITCH_COST for each switch. [1]"""
        own = excess_loss(self.loss, self.noise, self.allowed)[np.arange(chosen.size), chosen]
        return float(own @ self.doublings) + SWITCH_COST * float(np.count_nonzero(np.diff(chosen)))

    def plain_cost(self) -> float:
        """The same for a server without speculation, a gain beyond the noise counting against its losses. [1]"""
        choosable = self.allowed | ~self.allowed.any(axis=1, keepdims=True)
        above = self.plain_loss - np.where(choosable, self.loss, np.inf).min(axis=1)
        beyond = np.sign(above) * np.maximum(np.abs(above) - self.noise[:, 0], 0.0)
        missed = ~self.plain_allowed & self.allowed.any(axis=1)
        return float(np.where(missed, np.inf, beyond) @ self.doublings)

    def plain(self) -> _Whole:
        """The table of a server without speculation: K = 0 alone, uncharged."""
        only = np.ones((self.plain_loss.size, 1))
        return _Whole(
            only,
            self.plain_loss[:, None],
            0.0 * only,
            self.plain_allowed[:, None],
            self.plain_loss,
            self.plain_allowed,
            self.doublings,
        )


def _whole(values: KValues, last: int, max_tpot_s: float | None) -> _Whole:
    if max_tpot_s is not None and values.tpot_s is None:
        raise AdvisorError("a limit on the time per output token needs those times; give tpot_s")
    at = np.arange(1, last + 1)
    grid, first = values.batches, values.drafts == 0
    idle = interpolate_batches(grid, values.idle[:, None], at)
    speedup = interpolate_batches(grid, values.speedup, at)
    plain_loss = interpolate_losses(grid, values.loss, at)
    within = np.ones(speedup.shape, bool)
    plain_within = np.ones(last, bool)
    if max_tpot_s is not None:
        tpot = interpolate_batches(grid, np.asarray(values.tpot_s), at)
        within = np.asarray(np.where(first, tpot / idle, tpot) <= max_tpot_s)
        plain_within = tpot[:, 0] <= max_tpot_s
    return _Whole(
        speedup=np.where(first, idle, speedup),
        loss=np.where(first, 1.0 - idle * (1.0 - plain_loss), plain_loss),
        noise=interpolate_losses(grid, values.noise, at),
        allowed=within,
        plain_loss=plain_loss[:, 0],
        plain_allowed=plain_within,
        doublings=doublings(at),
    )


def doublings(batches: NDArray[np.int64]) -> Array:
    """Doublings of the batch that each of a run of neighbouring batches stands for, [n]. [1]"""
    return np.log2((batches + 1.0) / batches)


def _pins_nothing(pinned: tuple[int, int] | None) -> bool:
    return pinned is None or pinned[1] == 0


def _with_pin(table: _Whole, ks: NDArray[np.int64], pinned: tuple[int, int] | None) -> Array:
    """Excess losses [n, nK], with every K but the pinned one ruled out at its batch."""
    excess = table.excess
    if pinned is not None and pinned[0] <= len(excess):
        excess[pinned[0] - 1] = np.where(ks == pinned[1], 0.0, np.inf)
    return excess


def _cheapest(excess: Array, weight: Array, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Columns [n] with the least sum of excess losses, times `weight`, and switches: the shortest path."""
    blocks = _blocks(excess, allowed)
    lost, length = excess[blocks], np.add.reduceat(weight, blocks)
    n, columns = lost.shape
    came = np.empty((n, columns), dtype=np.int64)
    total, own = length[0] * lost[0], np.arange(columns)
    for i in range(1, n):
        best = int(total.argmin())
        jump = total[best] + SWITCH_COST
        came[i] = np.where(jump < total, best, own)
        total = np.minimum(jump, total) + length[i] * lost[i]
    path = np.empty(n, dtype=np.int64)
    path[-1] = total.argmin()
    for i in range(n - 1, 0, -1):
        path[i - 1] = came[i, path[i]]
    return np.repeat(path, np.diff([*blocks, len(excess)]))


def _blocks(excess: Array, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where blocks of batches that share one K start: single batches up to _SINGLE, then 256 to a doubling, and none
    across a change of what is allowed or ruled out."""
    n = len(excess)
    ruled = np.concatenate([allowed, np.isinf(excess)], axis=1).astype(np.int8)
    changes = 1 + np.flatnonzero(np.abs(np.diff(ruled, axis=0)).any(axis=1))
    wide = _SINGLE * 2.0 ** (np.arange(256 * max(0, int(np.ceil(np.log2(n / _SINGLE))))) / 256)
    starts = np.unique(np.concatenate([np.arange(min(n, _SINGLE)), wide.astype(np.int64), changes]))
    return starts[starts < n]


def _ranges(table: _Whole, chosen: NDArray[np.int64], ks: NDArray[np.int64]) -> tuple[KRange, ...]:
    """Neighbouring batches of one K that all meet the limit, or all miss it, as ranges."""
    meets: NDArray[np.bool_] = np.asarray(table.allowed.any(axis=1), dtype=np.bool_)
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(chosen) != 0) | (np.diff(meets.astype(int)) != 0)]))
    found = []
    for start, end in pairwise([*starts.tolist(), chosen.size]):
        column = int(chosen[start])
        part = slice(start, end)
        speedup, regret = float(table.speedup[part, column].mean()), float(table.loss[part, column].max())
        found.append(KRange(start + 1, end, int(ks[column]), speedup, regret, bool(meets[start])))
    return tuple(found)


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
    if ks[0] != 0 or np.any(np.diff(ks) <= 0):
        raise AdvisorError("drafts must increase strictly and start at K = 0")
    return grid, ks, table


def _same_k(a: Sequence[KRange], b: Sequence[KRange]) -> bool:
    return [(r.batch_start, r.batch_end, r.k_draft, r.meets_limit) for r in a] == [
        (r.batch_start, r.batch_end, r.k_draft, r.meets_limit) for r in b
    ]
