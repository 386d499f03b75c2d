"""The draft length for each batch size: least expected loss with few switches, its gain over one
K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.answers.best_k import (
    BetweenBatches,
    KRange,
    idle_speedup,
    interpolate_batches,
    k_at,
    k_running_at,
)
from advisor.answers.flags import Flags
from advisor.physics.bands import PER_K_LOG_SD
from advisor.predict.curve import Curve, Odds, draft_odds, excess_loss, least_excess
from advisor.prediction import Array

SWITCH_COST = PER_K_LOG_SD
"""What a switch of K must save beyond the noise of the draws, expected loss times doublings of the
batch: as much over one doubling as speedups scatter from one K to the next, half as much over two.
[-]"""
MIN_GAIN = 0.02
"""Choice of this project: a change or a design that gains less than this is not offered as one that
helps, and a schedule loses no more beyond the noise at any batch in order to switch less. [-]"""
TIE = 1e-6
"""What a K is held to lose for each shorter one of the table, so that the smallest of equals is
taken: far below what tells two K apart. [-]"""
_SINGLE = 512
"""Up to here the schedule decides batch by batch; beyond, a batch more or less is within a quarter
of a per cent."""


@dataclass(frozen=True)
class KValues:
    """Values of each K on a grid of batches, as far as a schedule needs them."""

    batches: Array
    """[nB], increasing from 1. [-]"""
    drafts: NDArray[np.int64]
    """[nK], increasing from 0. [-]"""
    speedup: Array
    """[nB, nK]; 1 at K = 0, a server without speculation. [-]"""
    loss: Array
    """Expected loss [nB, nK], see `draft_odds`. [-]"""
    noise: Array
    """Its standard error against the least, [nB, nK]. [-]"""
    idle: Array
    """Speedup of K = 0 in a table that drafts at other batches, [nB], see `idle_speedup`. [-]"""
    tpot_s: Array
    """Time per output token, [nB, nK]. [s]"""

    def at(self, rows: NDArray[Any]) -> KValues:
        """The values at some of the batches."""
        by_batch = {name: each[rows] for name, each in vars(self).items() if name != "drafts"}
        return replace(self, **by_batch)


def values_of(curve: Curve, odds: Odds | None = None) -> KValues:
    """Values of each K of a curve by batch, as a schedule needs them.

    odds : those of its batches among all K, where they are at hand.
    """
    odds = odds or draft_odds(curve.draws)
    return KValues(
        curve.batches,
        curve.drafts,
        curve.speedup,
        odds.loss,
        odds.noise,
        idle_speedup(curve),
        curve.tpot_s,
    )


def k_by_batch(
    values: KValues, max_tpot_s: float | None = None, max_batch: int | None = None
) -> tuple[KRange, ...]:
    """K for every batch size 1..max_batch: the least expected loss, smoothed. No batch is a target:
    none moves it.

    values : what each K is worth; with a limit, its times per output token too.
    max_tpot_s : upper limit on the time per output token. [s]
    max_batch : last batch size covered; default the largest of the grid. [-]

    Ranges that cover 1..max_batch without gap or overlap.

    Each doubling of the batch counts alike. The K of all batches together have the least sum of
    what they lose beyond the noise, times the doublings it lasts, and SWITCH_COST for each switch:
    dynamic programming over the batches, without the K that lose more than MIN_GAIN at a batch.
    Losses and ties are those of `curve.recommended`, of equals the smaller K. K = 0 is a server
    without speculation: at the smallest and at the largest batches it stands wherever it is
    recommended, and has no price of a switch there. K that miss the limit are left out where
    another keeps it.

    One server cannot change between drafting and no speculation: its K = 0 keeps the drafter
    (`KValues.idle`). So the ranges of K = 0 are decided again for it, with that charge
    (`KRange.table_k`); its K is 0 throughout where a server without speculation loses no more than
    the best such table.
    """
    last = int(values.batches[-1]) if max_batch is None else max_batch
    return whole_batches(values, last, max_tpot_s).ranges


@dataclass(frozen=True)
class WholeBatches:
    """Values of each K at whole batches 1..n. Arrays [n, nK] or [n]."""

    drafts: NDArray[np.int64]
    """[nK]. [-]"""
    speedup: Array
    loss: Array
    noise: Array
    allowed: NDArray[np.bool_]
    idle: Array
    """Speedup of K = 0 with the drafter kept, [n]. [-]"""
    idle_allowed: NDArray[np.bool_]
    doublings: Array

    @cached_property
    def ranges(self) -> tuple[KRange, ...]:
        """K by batch, `k_by_batch`."""
        chosen = _smoothed(self)
        return _ranges(self, chosen, _one_server(self, chosen))

    @cached_property
    def best(self) -> NDArray[np.int64]:
        """K that is best at each batch alone, [n]: of the least expected loss, unsmoothed. [-]"""
        return np.asarray(self.drafts[self.best_columns], dtype=np.int64)

    @cached_property
    def best_columns(self) -> NDArray[np.int64]:
        """Places of `best` along the drafts, [n]."""
        return least_excess(self._beyond)

    @cached_property
    def _beyond(self) -> Array:
        return excess_loss(self.loss, self.noise, self.allowed)

    @cached_property
    def excess(self) -> Array:
        """Loss of each K beyond the noise. Of ties the smaller K is the least."""
        return self._beyond + TIE * np.arange(self.loss.shape[1])

    @cached_property
    def gain(self) -> ScheduleGain:
        """Gain of K by batch over the best single K where each doubling of the batch counts
        alike."""
        running = k_running_at(self.ranges, np.arange(1, len(self.speedup) + 1))
        kept = bool(running.any())
        return _gain(self.drafts, self.speedup, self.idle, running, self.doublings, kept)

    def cost(self, chosen: NDArray[np.int64]) -> float:
        """Loss beyond the noise over all doublings, and SWITCH_COST for each switch. [-]"""
        losses = self._beyond[np.arange(chosen.size), chosen]
        return float(losses @ self.doublings) + SWITCH_COST * float(
            np.count_nonzero(np.diff(chosen))
        )

    def charged(self) -> WholeBatches:
        """Values with K = 0 charged for a drafter that is kept."""
        speedup = self.speedup.copy()
        loss = self.loss.copy()
        allowed = self.allowed.copy()
        speedup[:, 0] = self.idle
        allowed[:, 0] = self.idle_allowed
        loss[:, 0] = 1.0 - self.idle * (1.0 - self.loss[:, 0])
        return replace(self, speedup=speedup, loss=loss, allowed=allowed)

    def plain_cost(self, charged: WholeBatches) -> float:
        """Loss of a server without speculation against one that keeps its drafter (`charged`). A
        gain beyond the noise counts against its losses. [-]"""
        choosable = charged.allowed | ~charged.allowed.any(axis=1, keepdims=True)
        above = self.loss[:, 0] - np.where(choosable, charged.loss, np.inf).min(axis=1)
        beyond = np.sign(above) * np.maximum(np.abs(above) - self.noise[:, 0], 0.0)
        missed = ~self.allowed[:, 0] & charged.allowed.any(axis=1)
        return float(np.where(missed, np.inf, beyond) @ self.doublings)


def whole_batches(values: KValues, last: int, max_tpot_s: float | None) -> WholeBatches:
    """Values of each K at every batch 1 to `last`, and whether it keeps the limit. [s]"""
    at = np.arange(1, last + 1)
    between = BetweenBatches.of(values.batches, at)
    idle = between.positive(values.idle[:, None])[:, 0]
    speedup = between.positive(values.speedup)
    within = np.ones(speedup.shape, bool)
    idle_within = np.ones(last, bool)
    if max_tpot_s is not None:
        tpot = between.positive(values.tpot_s)
        within = np.asarray(tpot <= max_tpot_s)
        idle_within = np.asarray(tpot[:, 0] / idle <= max_tpot_s)
    return WholeBatches(
        drafts=values.drafts,
        speedup=speedup,
        loss=between.linear(values.loss),
        noise=between.linear(values.noise),
        allowed=within,
        idle=idle,
        idle_allowed=idle_within,
        doublings=doublings(at),
    )


def doublings(batches: NDArray[np.int64]) -> Array:
    """Doublings of the batch that each of a run of neighbouring batches stands for, [n]. [-]"""
    return np.log2((batches + 1.0) / batches)


def _smoothed(table: WholeBatches) -> NDArray[np.int64]:
    """Columns [n] of least excess losses and switches together, and K = 0 at both ends as far as it
    is recommended.

    Up to the first batch that drafts and from the last on, K = 0 is another server and no switch of
    an engine's K; between batches that draft it has the price of one.
    """
    drafting = np.flatnonzero(table.best_columns)
    if not drafting.size:
        return np.zeros_like(table.best_columns)
    excess = table.excess
    chosen = _cheapest(np.where(excess > MIN_GAIN, np.inf, excess), table.doublings, table.allowed)
    # Below and above, speculation is another server's business: starting none is no switch of this
    # one's K.
    inside = (np.arange(chosen.size) >= drafting[0]) & (np.arange(chosen.size) <= drafting[-1])
    return np.where(inside, chosen, 0)


def _one_server(table: WholeBatches, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns [n] of one server for all batches: `chosen`, and the least loss with the drafter kept
    where that is 0."""
    if not chosen.any():
        return chosen
    # In a table the drafter runs once a step at K = 0 too, to keep its cache: vLLM and SGLang
    # charge for that.
    charged = table.charged()
    running = chosen
    if not chosen.all():
        fixed = np.where(np.arange(table.loss.shape[1]) == chosen[:, None], 0.0, np.inf)
        excess = np.where(chosen[:, None] > 0, fixed, charged.excess)
        running = _cheapest(excess, charged.doublings, charged.allowed)
    is_off = table.plain_cost(charged) <= charged.cost(running)
    return np.zeros_like(chosen) if is_off else running


def _cheapest(excess: Array, weight: Array, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Columns [n] with the least sum of excess losses, times `weight`, and switches: the shortest
    path."""
    blocks = _blocks(excess, allowed)
    cost = np.add.reduceat(weight, blocks)[:, None] * excess[blocks]
    columns = _undominated(cost)
    if columns.size == 1:
        return np.full(len(excess), columns[0])
    cost = cost[:, columns]
    turns = _turns(cost)
    cost = np.add.reduceat(cost, turns, axis=0)
    total = cost[0].tolist()
    totals = [total]
    # Few numbers a step: lists are quicker than arrays.
    for losses in cost[1:].tolist():
        # A switch comes from the cheapest of all K so far: where it came from does not change its
        # price.
        jump = min(total) + SWITCH_COST
        total = [
            (jump if jump < before else before) + lost
            for before, lost in zip(total, losses, strict=True)
        ]
        totals.append(total)
    path = columns[_path(np.array(totals))]
    return np.repeat(path, np.diff([*blocks[turns], len(excess)]))


def _turns(cost: Array) -> NDArray[np.int64]:
    """Where the order of the columns of [n, nK] changes, from 0 on. The cheapest path switches
    nowhere else: moving a switch along rows of one order only gains until the order changes."""
    by_column = cost.T
    below: NDArray[np.bool_] = by_column[:, None] < by_column
    changes = np.any(below[..., 1:] != below[..., :-1], axis=(0, 1))
    return np.concatenate([[0], 1 + np.flatnonzero(changes)])


def _undominated(cost: Array) -> NDArray[np.int64]:
    """Columns of [n, nK] that no other is as cheap as everywhere: no shortest path takes the
    rest."""
    columns = np.ascontiguousarray(cost.T)
    at_most: NDArray[np.bool_] = np.all(columns[:, None] <= columns, axis=2)
    # Of columns that are alike everywhere the first stays.
    place = np.arange(cost.shape[1])
    beaten: NDArray[np.bool_] = at_most & (~at_most.T | (place[:, None] < place))
    return np.flatnonzero(~np.any(beaten, axis=0))


def _path(totals: Array) -> NDArray[np.int64]:
    """Columns [n] of the cheapest path, from its end back to each switch, by the cost of reaching
    each, [n, columns]."""
    best = totals.argmin(axis=1)
    switched = totals.min(axis=1, keepdims=True) + SWITCH_COST < totals
    path = np.empty_like(best)
    end = len(best)
    column = best[-1]
    while end:
        switches = np.flatnonzero(switched[: end - 1, column])
        start = int(switches[-1]) + 1 if switches.size else 0
        path[start:end] = column
        end = start
        column = best[start - 1]
    return path


def _blocks(excess: Array, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where blocks of batches that share one K start: single batches up to _SINGLE, then 256 to a
    doubling, and none across a change of what is allowed or ruled out."""
    n = len(excess)
    is_start = np.zeros(n, bool)
    is_start[:_SINGLE] = True
    # A block across a border would give a K to batches that the limit forbids it.
    ruled = np.concatenate([allowed, np.isinf(excess)], axis=1)
    is_start[1:] |= (ruled[1:] != ruled[:-1]).any(axis=1)
    # Neighbouring large batches hardly differ: 256 blocks to a doubling keep the path exact enough
    # and short.
    wide = _SINGLE * 2.0 ** (np.arange(256 * max(0, int(np.ceil(np.log2(n / _SINGLE))))) / 256)
    is_start[wide[wide < n].astype(np.int64)] = True
    return np.flatnonzero(is_start)


def _ranges(
    table: WholeBatches, chosen: NDArray[np.int64], running: NDArray[np.int64]
) -> tuple[KRange, ...]:
    """Neighbouring batches of one K, in the schedule and in one server, that all meet the limit or
    all miss it."""
    meets: NDArray[np.bool_] = np.asarray(table.allowed.any(axis=1), dtype=np.bool_)
    states = np.column_stack([chosen, running, meets])
    starts = 1 + np.flatnonzero(np.diff(states, axis=0).any(axis=1))
    out = []
    for start, end in pairwise([0, *starts.tolist(), chosen.size]):
        column = int(chosen[start])
        part = slice(start, end)
        n_draft = int(table.drafts[column])
        running_k = int(table.drafts[running[start]])
        out.append(
            KRange(
                batch_start=start + 1,
                batch_end=end,
                n_draft=n_draft,
                speedup=float(table.speedup[part, column].mean()),
                regret=float(table.loss[part, column].max()),
                meets_limit=bool(meets[start]),
                table_k=None if running_k == n_draft else running_k,
            )
        )
    return tuple(out)


@dataclass(frozen=True)
class ScheduleGain:
    """Speedups over plain decoding on one batch histogram. gain = schedule / best static - 1 (K = 0
    is a static K)."""

    schedule_speedup: float
    best_static_k: int
    best_static_speedup: float
    static_speedup: tuple[float, ...]
    gain: float


def schedule_gain(
    ranges: Sequence[KRange],
    values: KValues,
    histogram_batches: ArrayLike,
    histogram_weights: ArrayLike,
) -> ScheduleGain:
    """Gain of the schedule over the best single K on the user's own batch histogram.

    histogram_weights: share of plain decoding *time* spent at each batch size, as a gauge of
    running requests sampled at fixed intervals gives it; any positive scale. Speedups combine as a
    weighted harmonic mean, since times add. K = 0 in a schedule that drafts elsewhere is charged
    for its drafter; a single K = 0 is not.
    """
    at = np.asarray(histogram_batches, dtype=float)
    weight = np.asarray(histogram_weights, dtype=float)
    between = BetweenBatches.of(values.batches, at)
    return _gain(
        values.drafts,
        between.positive(values.speedup),
        between.positive(values.idle[:, None])[:, 0],
        k_running_at(ranges, at),
        weight,
        kept=any(item.k_running for item in ranges),
    )


def _gain(
    drafts: NDArray[np.int64],
    speedup: Array,
    idle: Array,
    running: NDArray[np.int64],
    weight: Array,
    kept: bool,
) -> ScheduleGain:
    """Gain of K `running` at some batches [n], from speedups there, [n, nK], and with the drafter
    `kept` at K = 0, [n]."""
    weight = weight / weight.sum()
    static = 1 / (weight[:, None] / speedup).sum(axis=0)
    column = np.searchsorted(drafts, running)
    run = speedup[np.arange(column.size), column]
    if kept:  # the engine runs with a drafter, at K = 0 too
        run = np.where(column == 0, idle, run)
    scheduled = 1 / float((weight / run).sum())
    best = int(static.argmax())
    return ScheduleGain(
        scheduled,
        int(drafts[best]),
        float(static[best]),
        tuple(static.tolist()),
        scheduled / float(static[best]) - 1,
    )


def gain_over_doublings(ranges: Sequence[KRange], values: KValues) -> ScheduleGain:
    """Gain of the schedule over the best single K where each doubling of the batch counts alike."""
    batches = np.arange(1, min(ranges[-1].batch_end, int(values.batches[-1])) + 1)
    return schedule_gain(ranges, values, batches, doublings(batches))


def one_k_is_enough(ranges: Sequence[KRange], gain: ScheduleGain, n_draft: int) -> bool:
    """Whether the recommended K is run at every batch.

    It is where it comes within MIN_GAIN of the schedule, and where that loses to no speculation,
    since it keeps its drafter at K = 0. Never where the target batch does not draft.

    gain : over the doublings of the batches that the ranges cover. n_draft : the K recommended at
        the target batch.
    """
    same = {item.k_running for item in ranges} == {n_draft}
    near = gain.schedule_speedup / gain.static_speedup[n_draft] - 1.0 < MIN_GAIN
    return same or (n_draft > 0 and (near or (gain.gain <= 0.0 and gain.best_static_k == 0)))


@dataclass(frozen=True)
class ScheduleFacts:
    """Facts of K by batch beside one K. None where it does not apply."""

    batch: int
    """Batch asked about. [sequences]"""
    last: int
    """Last batch that the schedule covers. [sequences]"""
    best_alone: int
    """K that is best at the batch asked about alone."""
    scheduled: int | None
    """K of the schedule there; None beyond its last batch."""
    drafts: bool
    """Whether it drafts at any batch."""
    serves_drafts: bool
    """Whether one server for all batches drafts at any batch."""
    single_k: int | None
    """K that one server runs at every batch; None where it switches."""
    one_is_enough: bool
    """Whether `best_alone` would be served at every batch."""
    cost: float
    """Speedup that `best_alone` throughout gives away against the schedule, mean over batch
    doublings. [-]"""
    gain: float
    """Gain of the schedule over the best single K. [-]"""
    best_static_k: int
    zero_ranges: tuple[tuple[int, int], ...]
    """First and last batches of K = 0 in a schedule that drafts elsewhere and whose drafter is not
    free."""
    zero_here: bool
    """Whether the batch asked about is one of them."""
    zero_running: int | None
    """K that one server for all batches runs there."""
    zero_slower: float
    """What the kept drafter costs at the batch asked about. [0 to 1]"""
    limit_ms: float | None
    """Limit on the time per output token. [ms]"""
    switch_cost: float = SWITCH_COST
    """What a switch of K must save over a doubling of the batch. [-]"""

    @property
    def facts(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)


_TRUE = ("drafts", "serves_drafts", "one_is_enough", "zero_here")
SCHEDULE_FLAGS: Flags = {
    **{name: (name, "==", True) for name in _TRUE},
    "single": ("single_k", "known", None),
    "costs_much": ("cost", ">=", MIN_GAIN),
    "costs": ("cost", ">", 0.0),
    "kept": ("best_alone", "!=", "scheduled"),
    "off": ("best_alone", "==", 0),
    "zero": ("zero_running", "known", None),
    "zero_drafts": ("zero_running", ">", 0),
    "limited": ("limit_ms", "known", None),
}


def schedule_facts(
    ranges: Sequence[KRange],
    values: KValues,
    batch_size: int,
    n_draft: int,
    limit_ms: float | None = None,
) -> ScheduleFacts:
    """Facts of a schedule, on its K = 0, and on a target batch with a K of its own.

    values : of each K, on which the schedule was decided. batch_size, n_draft : the target batch
        and the K that is best there alone. [-]
    """
    gain = gain_over_doublings(ranges, values)
    running = {item.k_running for item in ranges}
    last = ranges[-1].batch_end
    zero = [item for item in ranges if not item.n_draft]
    at = np.array([batch_size])
    idle = float(interpolate_batches(values.batches, values.idle[:, None], at)[0, 0])
    has_zero = 0 < len(zero) < len(ranges) and idle < 1.0 and running != {0}
    zero_here = has_zero and not int(k_at(ranges, batch_size))
    zero_running = None
    if has_zero:
        zero_running = int(k_running_at(ranges, batch_size if zero_here else zero[-1].batch_start))
    return ScheduleFacts(
        batch=batch_size,
        last=last,
        best_alone=n_draft,
        scheduled=int(k_at(ranges, batch_size)) if batch_size <= last else None,
        drafts=any(item.n_draft for item in ranges),
        serves_drafts=running != {0},
        single_k=next(iter(running)) if len(running) == 1 else None,
        one_is_enough=one_k_is_enough(ranges, gain, n_draft),
        cost=1.0 - gain.static_speedup[n_draft] / gain.schedule_speedup,
        gain=gain.gain,
        best_static_k=gain.best_static_k,
        zero_ranges=_joined(zero) if has_zero else (),
        zero_here=zero_here,
        zero_running=zero_running,
        zero_slower=1.0 - idle,
        limit_ms=limit_ms,
    )


def _joined(ranges: Sequence[KRange]) -> tuple[tuple[int, int], ...]:
    """First and last batch of neighbouring ranges together."""
    runs: list[tuple[int, int]] = []
    for item in ranges:
        if runs and runs[-1][1] + 1 == item.batch_start:
            runs[-1] = (runs[-1][0], item.batch_end)
        else:
            runs.append((item.batch_start, item.batch_end))
    return tuple(runs)
