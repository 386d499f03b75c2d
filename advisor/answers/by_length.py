"""The answer at other accepted lengths: what each K gives there, and what the configuration would
run.

A draw's speedup is proportional to the accepted length at its K where prompts are not charged, so
the curve is scaled instead of computed anew, K by K as one number carried to other K would move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.answers.advice import Advice
from advisor.answers.best_k import (
    MAY_LOSE,
    BetweenBatches,
    IntArray,
    KRange,
    k_running_at,
    last_batch,
)
from advisor.answers.by_batch import follows_schedule, ranges_to_serve, table_of
from advisor.answers.schedule import KValues, WholeBatches, one_k_is_enough, values_of
from advisor.answers.summary import stated_k
from advisor.physics.acceptance import parse_acceptance
from advisor.predict.curve import Curve, Odds, chance_of_gain, draft_odds, share_fastest
from advisor.prediction import Array

LENGTH_STEP = 0.1
"""Accepted lengths that are looked at are this far apart, a choice of this project. [tokens]"""
SHORTEST = 1.01
"""No accepted length is looked at below this one. [tokens]"""


@dataclass(frozen=True)
class AtLength:
    """An answer's curve and schedule, were another length accepted."""

    advice: Advice
    curve: Curve
    """Without its draws, of which many would be kept."""
    odds: Odds
    """Loss of each K among all, [nB, nK]."""
    best_share: Array
    """Share of draws in which each K is the fastest, [nB, nK]. [-]"""

    @cached_property
    def values(self) -> KValues:
        """Values of each K on the batches that decide the schedule."""
        return values_of(self.curve, self.odds).at(self.advice.on_schedule)

    @cached_property
    def table(self) -> WholeBatches:
        """Values and schedule at every whole batch."""
        return table_of(self.advice.setup, self.curve, self.values)

    @cached_property
    def enough(self) -> NDArray[np.bool_]:
        """Whether each K would be served at every batch, were it the best one, [nK]."""
        table = self.table
        fixed = self.advice.decided.fixed_k is not None
        drafts = self.curve.drafts.tolist()
        return np.array([fixed or one_k_is_enough(table.ranges, table.gain, k) for k in drafts])

    @cached_property
    def served(self) -> IntArray:
        """K that the configuration for each whole batch runs at that batch, [n]. [-]"""
        best = self.table.best
        ranges = self.table.ranges
        batches = np.arange(1, len(best) + 1)
        enough = self.enough[np.searchsorted(self.curve.drafts, best)]
        switches = follows_schedule(ranges, batches, best, enough)
        return np.where(switches, k_running_at(ranges, batches), best)

    def to_serve(self, batch: int) -> tuple[KRange, ...]:
        """Ranges of the configuration for a batch."""
        best = int(self.table.best[min(batch, len(self.table.best)) - 1])
        switches = self.advice.decided.fixed_k is None
        return ranges_to_serve(self.table.ranges, self.values, batch, best, switches)

    def k(self, batch: int) -> int:
        """K of `served` at one batch, that of the last batch beyond them."""
        return int(self.served[min(batch, len(self.served)) - 1])


@lru_cache(maxsize=4096)
def carried(length: float, n_draft: int, longest: int) -> Array:
    """Accepted length at K = 0 to `longest`, from one at `n_draft`. [tokens]"""
    stated = f"{min(max(length, 1.0 + 1e-6), n_draft + 1.0):.6f}@{n_draft}"
    return parse_acceptance(stated, longest).accepted_length


def length_now(advice: Advice) -> float:
    """Accepted length of the answer at `stated_k`. [tokens]"""
    curve = advice.curve
    return float(curve.accepted_length[curve.column(stated_k(advice))])


def length_factor(advice: Advice, length: float) -> Array:
    """Accepted tokens of each K at another accepted length (at `stated_k`) over today's, [nK]."""
    k = stated_k(advice)
    longest = int(advice.curve.drafts[-1])
    if longest == 0:
        return np.ones(1)
    ratio = carried(length, k, longest) / carried(length_now(advice), k, longest)
    return np.asarray(ratio[advice.curve.drafts])


def lengths_of(advice: Advice) -> list[float]:
    """Accepted lengths LENGTH_STEP apart at `stated_k`, today's among them. [tokens]"""
    k = stated_k(advice)
    now = length_now(advice)
    if k == 0:
        return [now]
    count = round((k + 1.0 - SHORTEST) / LENGTH_STEP) + 1
    return sorted({*np.linspace(SHORTEST, k + 1.0, count).tolist(), now})


def at_length(advice: Advice, length: float) -> AtLength:
    """The answer, were `length` tokens accepted at `stated_k`. Looked at once for each answer."""
    # Sessions share an answer, and another may clear what is kept at any time.
    answer: AtLength = advice.at_lengths.get(length) or _at_length(advice, length)
    advice.at_lengths[length] = answer
    return answer


def _at_length(advice: Advice, length: float) -> AtLength:
    curve = advice.curve
    factor = length_factor(advice, length)
    speedup = curve.speedup * factor
    draws = curve.draws * factor
    scaled = replace(
        curve,
        speedup=speedup,
        low=curve.low * factor,
        high=curve.high * factor,
        p_gain=chance_of_gain(advice.setup, speedup, draws, curve.drafts),
        draws=curve.draws[:0],
        tpot_s=curve.tpot_s / factor,
    )
    return AtLength(advice, scaled, draft_odds(draws), share_fastest(draws))


@dataclass(frozen=True)
class ByBatch:
    """Batches at which a configuration drafts, gains and may lose. None: nowhere, or to the end."""

    end_batch: int
    """Last batch looked at: of the memory, or of the curve. [sequences]"""
    pays_to: int | None
    """Last batch at which it gains, where that is not `end_batch`; 0: at none."""
    loses_from: int | None
    """Batch from which on it may lose (MAY_LOSE), as far as it drafts."""
    drafts_from: int | None
    drafts_to: int | None
    peak: float
    """Largest speedup, of `Advice.curve_k` where it never drafts. [-]"""
    peak_batch: int


def served_columns(curve: Curve, ranges: tuple[KRange, ...], k_off: int) -> IntArray:
    """Places along the drafts of the K that a configuration runs at each batch of the curve, [nB].

    k_off : K that stands in throughout where it never drafts. [-]
    """
    served = np.asarray(k_running_at(ranges, curve.batches))
    if not served.any():
        served = np.full_like(served, k_off)
    return np.searchsorted(curve.drafts, served)


def by_batch(advice: Advice, curve: Curve, ranges: tuple[KRange, ...]) -> ByBatch:
    """Batches at which a configuration drafts, gains and may lose, of all that fit."""
    batches = np.arange(1, last_batch(advice.setup, curve) + 1)
    (places,) = by_batch_each(advice, curve, k_running_at(ranges, batches)[:, None])
    return places


def by_batch_each(advice: Advice, curve: Curve, served: IntArray) -> list[ByBatch]:
    """Batches of `by_batch` for several configurations at once.

    served : K that each runs at every batch that fits, [n, configurations]. [-]
    """
    end = len(served)
    batches = np.arange(1, end + 1)
    column = np.searchsorted(curve.drafts, served)
    between = BetweenBatches.of(curve.batches, batches)
    speedup = np.take_along_axis(between.positive(curve.speedup), column, axis=1)
    chance = np.take_along_axis(between.linear(curve.p_gain), column, axis=1)
    drafting = served > 0
    pays_to = _last(drafting & (speedup > 1.0))
    # From the batch after the last that is likely to gain, as far as it drafts.
    loses_from = _first(drafting & (batches[:, None] > _last(drafting & (chance >= MAY_LOSE))))
    in_curve = curve.batches[curve.batches <= end].astype(int)
    shown = np.where(drafting.any(axis=0), column, curve.column(advice.curve_k))[in_curve - 1]
    on_curve = np.take_along_axis(curve.speedup[: in_curve.size], shown, axis=1)
    top = on_curve.argmax(axis=0)
    peaks = zip(on_curve.max(axis=0).tolist(), in_curve[top].tolist(), strict=True)
    ends = np.column_stack([loses_from, _first(drafting), _last(drafting)]).tolist()
    gaining = [None if last == end else last for last in pays_to.tolist()]
    return [
        ByBatch(end, pays, loses or None, first or None, last or None, *peak)
        for pays, (loses, first, last), peak in zip(gaining, ends, peaks, strict=True)
    ]


def _first(holds: NDArray[np.bool_]) -> IntArray:
    """First batch at which something holds, of each column of [n, m]; 0 for none."""
    return np.asarray(np.where(holds.any(axis=0), holds.argmax(axis=0) + 1, 0))


def _last(holds: NDArray[np.bool_]) -> IntArray:
    """Last batch at which something holds, likewise."""
    return np.asarray(np.where(holds.any(axis=0), len(holds) - holds[::-1].argmax(axis=0), 0))
