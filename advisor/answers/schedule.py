"""The draft length for each batch size: least expected loss with few switches, its gain over one K,
its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.answers.best_k import (
    KRange,
    idle_speedup,
    interpolate_batches,
    interpolate_losses,
    k_at,
    k_running_at,
)
from advisor.physics.bands import PER_K_LOG_SD
from advisor.predict.curve import Curve, draft_odds, excess_loss, recommended
from advisor.predict.scenario import carried_text
from advisor.predict.setup import Setup
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


def values_of(curve: Curve, kept: NDArray[np.bool_] | None = None) -> KValues:
    """Values of each K of a curve by batch, as a schedule needs them. kept : which of its batches,
    [nB]; None: all."""
    rows = np.ones(curve.batches.shape, bool) if kept is None else kept
    odds = draft_odds(curve.draws[:, rows])
    speedup = curve.speedup[rows]
    idle = idle_speedup(curve)[rows]
    return KValues(
        curve.batches[rows], curve.drafts, speedup, odds.loss, odds.noise, idle, curve.tpot_s[rows]
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
    table = _whole(values, int(values.batches[-1]) if max_batch is None else max_batch, max_tpot_s)
    chosen = _smoothed(table)
    return _ranges(table, chosen, _one_server(table, chosen), values.drafts)


def best_by_batch(
    values: KValues, max_tpot_s: float | None = None, max_batch: int | None = None
) -> NDArray[np.int64]:
    """K that is best at each batch 1..max_batch alone, [n]: of the least expected loss, unsmoothed.

    Arguments as for `k_by_batch`.
    """
    table = _whole(values, int(values.batches[-1]) if max_batch is None else max_batch, max_tpot_s)
    best = recommended(table.loss, table.noise, table.allowed)
    return np.asarray(values.drafts[best], dtype=np.int64)


def schedule_rule(max_tpot_ms: float | None = None) -> str:
    """Rule that chose the ranges of K by batch, in words, under a limit on time per output token
    [ms]."""
    rule = (
        f"K of least expected loss by batch; it changes only where that saves {SWITCH_COST:.0%} "
        "over a doubling of the batch."
    )
    if max_tpot_ms is None:
        return rule
    return (
        f"{rule} K that miss {max_tpot_ms:g} ms per output token are left out, unless all do "
        "('no')."
    )


@dataclass(frozen=True)
class _Whole:
    """`KValues` at whole batches 1..n. Arrays [n, nK] or [n]."""

    speedup: Array
    loss: Array
    noise: Array
    allowed: NDArray[np.bool_]
    idle: Array
    """Speedup of K = 0 with the drafter kept, [n]. [-]"""
    idle_allowed: NDArray[np.bool_]
    doublings: Array

    @property
    def excess(self) -> Array:
        """What each K loses beyond the noise. Of ties the smaller K is the least."""
        return excess_loss(self.loss, self.noise, self.allowed) + TIE * np.arange(
            self.loss.shape[1]
        )

    def cost(self, chosen: NDArray[np.int64]) -> float:
        """Loss beyond the noise over all doublings, and SWITCH_COST for each switch. [-]"""
        losses = excess_loss(self.loss, self.noise, self.allowed)[np.arange(chosen.size), chosen]
        return float(losses @ self.doublings) + SWITCH_COST * float(
            np.count_nonzero(np.diff(chosen))
        )

    def charged(self) -> _Whole:
        """The same with K = 0 charged for a drafter that is kept."""
        speedup = self.speedup.copy()
        loss = self.loss.copy()
        allowed = self.allowed.copy()
        speedup[:, 0] = self.idle
        allowed[:, 0] = self.idle_allowed
        loss[:, 0] = 1.0 - self.idle * (1.0 - self.loss[:, 0])
        return replace(self, speedup=speedup, loss=loss, allowed=allowed)

    def plain_cost(self) -> float:
        """Loss of a server without speculation against one that keeps its drafter. A gain beyond
        the noise counts against its losses. [-]"""
        charged = self.charged()
        choosable = charged.allowed | ~charged.allowed.any(axis=1, keepdims=True)
        above = self.loss[:, 0] - np.where(choosable, charged.loss, np.inf).min(axis=1)
        beyond = np.sign(above) * np.maximum(np.abs(above) - self.noise[:, 0], 0.0)
        missed = ~self.allowed[:, 0] & charged.allowed.any(axis=1)
        return float(np.where(missed, np.inf, beyond) @ self.doublings)


def _whole(values: KValues, last: int, max_tpot_s: float | None) -> _Whole:
    at = np.arange(1, last + 1)
    grid = values.batches
    idle = interpolate_batches(grid, values.idle[:, None], at)[:, 0]
    speedup = interpolate_batches(grid, values.speedup, at)
    within = np.ones(speedup.shape, bool)
    idle_within = np.ones(last, bool)
    if max_tpot_s is not None:
        tpot = interpolate_batches(grid, values.tpot_s, at)
        within = np.asarray(tpot <= max_tpot_s)
        idle_within = np.asarray(tpot[:, 0] / idle <= max_tpot_s)
    return _Whole(
        speedup=speedup,
        loss=interpolate_losses(grid, values.loss, at),
        noise=interpolate_losses(grid, values.noise, at),
        allowed=within,
        idle=idle,
        idle_allowed=idle_within,
        doublings=doublings(at),
    )


def doublings(batches: NDArray[np.int64]) -> Array:
    """Doublings of the batch that each of a run of neighbouring batches stands for, [n]. [-]"""
    return np.log2((batches + 1.0) / batches)


def _smoothed(table: _Whole) -> NDArray[np.int64]:
    """Columns [n] of least excess losses and switches together, and K = 0 at both ends as far as it
    is recommended.

    Up to the first batch that drafts and from the last on, K = 0 is another server and no switch of
    an engine's K; between batches that draft it has the price of one.
    """
    excess = table.excess
    chosen = _cheapest(np.where(excess > MIN_GAIN, np.inf, excess), table.doublings, table.allowed)
    drafting = np.flatnonzero(recommended(table.loss, table.noise, table.allowed))
    if not drafting.size:
        return np.zeros_like(chosen)
    # Below and above, speculation is another server's business: starting none is no switch of this
    # one's K.
    inside = (np.arange(chosen.size) >= drafting[0]) & (np.arange(chosen.size) <= drafting[-1])
    return np.where(inside, chosen, 0)


def _one_server(table: _Whole, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns [n] of one server for all batches: `chosen`, and the least loss with the drafter kept
    where that is 0."""
    if not chosen.any():
        return chosen
    # In a table the drafter runs once a step at K = 0 too, to keep its cache: vLLM and SGLang
    # charge for that.
    charged = table.charged()
    fixed = np.where(np.arange(table.loss.shape[1]) == chosen[:, None], 0.0, np.inf)
    running = _cheapest(
        np.where(chosen[:, None] > 0, fixed, charged.excess), charged.doublings, charged.allowed
    )
    return np.zeros_like(chosen) if table.plain_cost() <= charged.cost(running) else running


def _cheapest(excess: Array, weight: Array, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Columns [n] with the least sum of excess losses, times `weight`, and switches: the shortest
    path."""
    blocks = _blocks(excess, allowed)
    lost = excess[blocks]
    length = np.add.reduceat(weight, blocks)
    n, columns = lost.shape
    came = np.empty((n, columns), dtype=np.int64)
    total = length[0] * lost[0]
    same_column = np.arange(columns)
    for i in range(1, n):
        best = int(total.argmin())
        # A switch comes from the cheapest of all K so far: where it came from does not change its
        # price.
        jump = total[best] + SWITCH_COST
        came[i] = np.where(jump < total, best, same_column)
        total = np.minimum(jump, total) + length[i] * lost[i]
    path = np.empty(n, dtype=np.int64)
    path[-1] = total.argmin()
    for i in range(n - 1, 0, -1):
        path[i - 1] = came[i, path[i]]
    return np.repeat(path, np.diff([*blocks, len(excess)]))


def _blocks(excess: Array, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where blocks of batches that share one K start: single batches up to _SINGLE, then 256 to a
    doubling, and none across a change of what is allowed or ruled out."""
    n = len(excess)
    ruled = np.concatenate([allowed, np.isinf(excess)], axis=1).astype(np.int8)
    # A block across a border would give a K to batches that the limit forbids it.
    changes = 1 + np.flatnonzero(np.abs(np.diff(ruled, axis=0)).any(axis=1))
    # Neighbouring large batches hardly differ: 256 blocks to a doubling keep the path exact enough
    # and short.
    wide = _SINGLE * 2.0 ** (np.arange(256 * max(0, int(np.ceil(np.log2(n / _SINGLE))))) / 256)
    starts = np.unique(np.concatenate([np.arange(min(n, _SINGLE)), wide.astype(np.int64), changes]))
    return starts[starts < n]


def _ranges(
    table: _Whole, chosen: NDArray[np.int64], running: NDArray[np.int64], ks: NDArray[np.int64]
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
        n_draft = int(ks[column])
        running_k = int(ks[running[start]])
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
    weight = weight / weight.sum()
    dense = interpolate_batches(values.batches, values.speedup, at)
    static = 1 / (weight[:, None] / dense).sum(axis=0)
    column = np.searchsorted(values.drafts, k_running_at(ranges, at))
    run = dense[np.arange(at.size), column]
    if any(item.k_running for item in ranges):  # then the engine runs with a drafter, at K = 0 too
        run = np.where(
            column == 0, interpolate_batches(values.batches, values.idle[:, None], at)[:, 0], run
        )
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


_EQUALLY = "(mean over batch doublings)"


def schedule_texts(
    ranges: Sequence[KRange], values: KValues, batch_size: int, n_draft: int
) -> tuple[str, ...]:
    """Sentences on the gain of a schedule, on its K = 0, and on a target batch with a K of its own.

    values : of each K, on which the schedule was decided. batch_size, n_draft : the target batch
        and its K. [-]
    """
    idle = float(
        interpolate_batches(values.batches, values.idle[:, None], np.array([batch_size]))[0, 0]
    )
    gain = gain_over_doublings(ranges, values)
    texts = [one_k_text(ranges, gain, n_draft), _zero_text(ranges, batch_size, idle)]
    if (
        batch_size <= ranges[-1].batch_end
        and (scheduled := int(k_at(ranges, batch_size))) != n_draft
    ):
        texts.append(
            f"At batch {batch_size:,} alone K = {n_draft} is best; with its neighbours the "
            f"schedule has K = {scheduled} there."
        )
    return tuple(text for text in texts if text)


def plain_text(ranges: Sequence[KRange], batch_size: int, n_draft: int) -> str:
    """Reason to start without speculation though the schedule drafts elsewhere. Empty where it is
    not so."""
    if n_draft or not any(item.k_running for item in ranges):
        return ""
    return (
        f"At batch {batch_size:,} no drafting is recommended: the engine is started without "
        "speculation; export --by-batch writes the schedule."
    )


def one_k_text(ranges: Sequence[KRange], gain: ScheduleGain, n_draft: int) -> str:
    """Whether one K, that of the target batch, is enough for a server at all batches, in a
    sentence."""
    last = ranges[-1].batch_end
    best = gain.best_static_k
    if not any(item.n_draft for item in ranges):
        return "Speculation pays at no batch: K = 0."
    running = {item.k_running for item in ranges}
    if running == {0}:
        return (
            "One K is enough: 0, a server without speculation, loses least over all batches "
            f"{_EQUALLY}."
        )
    if len(running) == 1:
        return f"One K is enough: {running.pop()} at every batch up to {last:,}."
    if one_k_is_enough(ranges, gain, n_draft):
        cost = 1.0 - gain.static_speedup[n_draft] / gain.schedule_speedup
        if cost >= MIN_GAIN:
            return (
                f"A schedule is not worth its drafter: over all batches up to {last:,} no "
                f"speculation is quicker {_EQUALLY}."
            )
        if cost <= 0.0:
            return f"One K is enough: {n_draft} at every batch up to {last:,}, at no cost."
        return (
            f"One K is enough: {n_draft} at every batch up to {last:,} costs {cost:.1%} {_EQUALLY}."
        )
    return (
        f"The schedule gains {gain.gain:.1%} over the best single K, {best}, up to batch {last:,} "
        f"{_EQUALLY}."
    )


def accepted_length_text(setup: Setup) -> str:
    """Origin of a scenario's accepted lengths, and the K at which they are carried rather than
    known."""
    origin = f"Accepted length: {setup.acceptance.source.rstrip('.')}."
    carried = carried_text(
        setup.acceptance.extrapolated, np.arange(setup.acceptance.accepted_length.size)
    )
    return f"{origin} {carried}".rstrip()


def _zero_text(ranges: Sequence[KRange], batch_size: int, idle: float) -> str:
    """What K = 0 means in a schedule that drafts at other batches. Empty where it has none or its
    drafter is free."""
    zero = [item for item in ranges if not item.n_draft]
    if (
        not zero
        or len(zero) == len(ranges)
        or idle >= 1.0
        or not any(item.k_running for item in ranges)
    ):
        return ""
    at_zero = not int(k_at(ranges, batch_size))
    running = int(k_running_at(ranges, batch_size if at_zero else zero[-1].batch_start))
    slower = f", {1.0 - idle:.1%} slower" if at_zero else ""
    server = "One server for all batches "
    server += (
        f"runs K = {running} there: at K = 0 its"
        if running
        else "drafts nothing there either, but its"
    )
    batches = f"at batch {batch_size:,}" if at_zero else _batches(zero)
    return (
        f"K = 0 is a server without speculation; start one where it mostly runs {batches}. "
        f"{server} drafter would still run once a step{slower}."
    )


def _batches(ranges: Sequence[KRange]) -> str:
    """`at batch 8 to 23 and 512 to 1,024`."""
    runs: list[tuple[int, int]] = []
    for item in ranges:
        if runs and runs[-1][1] + 1 == item.batch_start:
            runs[-1] = (runs[-1][0], item.batch_end)
        else:
            runs.append((item.batch_start, item.batch_end))
    return "at batch " + " and ".join(f"{first:,} to {last:,}" for first, last in runs)
