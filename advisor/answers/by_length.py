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
    IntArray,
    KRange,
    interpolate_batches,
    k_running_at,
    last_batch,
    within_limit,
)
from advisor.answers.by_batch import ranges_of, schedule_values, served_ranges
from advisor.answers.schedule import (
    KValues,
    ScheduleGain,
    best_by_batch,
    gain_over_doublings,
    one_k_is_enough,
)
from advisor.answers.summary import stated_k
from advisor.physics.acceptance import parse_acceptance
from advisor.predict.curve import Curve, Odds, draft_odds
from advisor.prediction import Array

SHORTEST = 1.01
"""No accepted length is looked at below this one. [tokens]"""


@dataclass(frozen=True)
class AtLength:
    """An answer's curve and schedule, were another length accepted."""

    advice: Advice
    curve: Curve

    @cached_property
    def values(self) -> KValues:
        """Values of each K on the batches that decide the schedule."""
        return schedule_values(self.advice.setup, self.curve)

    @cached_property
    def ranges(self) -> tuple[KRange, ...]:
        """K by batch."""
        return ranges_of(self.advice.setup, self.curve, self.values)

    @cached_property
    def gain(self) -> ScheduleGain:
        """Gain of K by batch over one K."""
        return gain_over_doublings(self.ranges, self.values)

    @cached_property
    def best(self) -> IntArray:
        """K that is best at each batch alone, [n]."""
        limit_ms = self.advice.scenario.max_tpot_ms
        limit_s = None if limit_ms is None else limit_ms / 1e3
        return best_by_batch(self.values, limit_s, self.ranges[-1].batch_end)

    @cached_property
    def enough(self) -> NDArray[np.bool_]:
        """Whether each K would be served at every batch, were it the best one, [nK]."""
        drafts = self.curve.drafts.tolist()
        return np.array([one_k_is_enough(self.ranges, self.gain, k) for k in drafts])

    @cached_property
    def odds(self) -> Odds:
        """Loss and chances of each K, [nB, nK]."""
        return draft_odds(self.curve.draws, within_limit(self.advice.setup, self.curve))

    def served(self, batch: int) -> tuple[KRange, ...]:
        """What the configuration for a batch runs."""
        end = self.ranges[-1].batch_end
        best = int(self.best[min(batch, end) - 1])
        return served_ranges(self.ranges, self.values, batch, best, bool(self.enough[best]))

    def k(self, batch: int) -> int:
        """K that this configuration runs at that batch."""
        return int(k_running_at(self.served(batch), batch))


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
    ratio = carried(length, k, longest) / carried(length_now(advice), k, longest)
    return np.asarray(ratio[advice.curve.drafts])


def at_length(advice: Advice, length: float) -> AtLength:
    """The answer, were `length` tokens accepted at `stated_k`."""
    curve = advice.curve
    factor = length_factor(advice, length)
    scaled = replace(
        curve,
        speedup=curve.speedup * factor,
        low=curve.low * factor,
        high=curve.high * factor,
        draws=curve.draws * factor,
        tpot_s=curve.tpot_s / factor,
    )
    return AtLength(advice, scaled)


@dataclass(frozen=True)
class ByBatch:
    """Where a configuration drafts, gains and may lose. None: nowhere, or to the end."""

    end: int
    """Last batch looked at: of the memory, or of the curve. [sequences]"""
    pays_to: int | None
    """Last batch at which it gains, where that is not `end`; 0: at none."""
    loses_from: int | None
    """Batch from which on the low end of the range lies below 1, as far as it drafts."""
    drafts_from: int | None
    drafts_to: int | None
    peak: float
    """Largest speedup, of `Advice.curve_k` where it never drafts. [-]"""
    peak_batch: int


def served_columns(curve: Curve, ranges: tuple[KRange, ...], k_off: int) -> IntArray:
    """Places along the drafts of what a configuration runs at each batch of the curve, [nB]; of
    `k_off` throughout where it never drafts."""
    served = np.asarray(k_running_at(ranges, curve.batches))
    if not served.any():
        served = np.full_like(served, k_off)
    return np.searchsorted(curve.drafts, served)


def by_batch(advice: Advice, curve: Curve, ranges: tuple[KRange, ...]) -> ByBatch:
    """Where a configuration of some ranges drafts, gains and may lose, over every batch that
    fits."""
    end = last_batch(advice.setup, curve)
    batches = np.arange(1, end + 1)
    served = np.asarray(k_running_at(ranges, batches))
    place = batches - 1, np.searchsorted(curve.drafts, served)
    is_drafting = served > 0
    speedup = interpolate_batches(curve.batches, curve.speedup, batches)[place]
    low = interpolate_batches(curve.batches, curve.low, batches)[place]
    drafting = batches[is_drafting]
    gaining = batches[is_drafting & (speedup > 1.0)]
    pays_to = int(gaining[-1]) if gaining.size else 0
    losing = low[is_drafting] < 1.0
    at_the_end = int(losing[::-1].cumprod().sum())
    in_curve = curve.batches <= end
    columns = served_columns(curve, ranges, advice.curve_k)[in_curve]
    on_curve = curve.speedup[in_curve][np.arange(columns.size), columns]
    top = int(on_curve.argmax())
    return ByBatch(
        end=end,
        pays_to=None if pays_to == end else pays_to,
        loses_from=int(drafting[losing.size - at_the_end]) if at_the_end else None,
        drafts_from=int(drafting[0]) if drafting.size else None,
        drafts_to=int(drafting[-1]) if drafting.size else None,
        peak=float(on_curve[top]),
        peak_batch=int(curve.batches[in_curve][top]),
    )
