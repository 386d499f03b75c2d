"""What would flip the answer: the accepted lengths at which another K is recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from advisor.acceptance import parse_acceptance
from advisor.advice import Advice
from advisor.arrays import Array
from advisor.runtime import recommended_draft

_STEP = 0.06
"""Accepted lengths that are looked at are this far apart. [tokens]"""
_LEAST = 1.01
"""No accepted length is looked at below this one. [tokens]"""


@dataclass(frozen=True)
class Flip:
    """Accepted length from which on, away from today's, another K is recommended."""

    accepted_length: float
    """At `n_draft` of today's answer. [tokens]"""
    k_before: int
    k_after: int
    is_below: bool
    """Whether it takes fewer accepted tokens than today."""


def accepted_length_flips(advice: Advice) -> tuple[Flip, ...]:
    """The nearest flip on each side of today's accepted length, and the one to no drafting at all.

    A draw's speedup is proportional to the accepted length at its K where prompts are not charged, so the curve is
    scaled instead of computed anew, K by K as one number carried to other K would move (`parse_acceptance`). Shown with
    one decimal, which is what that is good for.
    """
    k = advice.curve_k
    today = float(advice.curve.accepted_length[advice.curve.column(k)])
    if k == 0 or today <= _LEAST:
        return ()
    found = []
    for end in (_LEAST, k + 1.0):
        lengths = np.linspace(today, end, max(2, round(abs(end - today) / _STEP)))
        first = _first_other(advice, today, lengths)
        if first is not None:
            found.append(first)
    lower = [flip for flip in found if flip.is_below and flip.k_after]
    if lower and _recommended(advice, today, _LEAST) == 0:
        found.insert(1, _to_none(advice, today, lower[0].accepted_length))
    return tuple(found)


def _first_other(advice: Advice, today: float, lengths: Array) -> Flip | None:
    """The first of these lengths, going away from today's, at which another K is recommended."""
    before = _recommended(advice, today, float(lengths[0]))
    for last, length in pairwise(lengths.tolist()):
        after = _recommended(advice, today, length)
        if after != before:
            return Flip((last + length) / 2.0, before, after, length < today)
    return None


def _to_none(advice: Advice, today: float, high: float) -> Flip:
    """Where no drafting becomes the recommendation, between the least length and `high`, by bisection."""
    low, k_before = _LEAST, 0
    while high - low > _STEP / 2.0:
        middle = (low + high) / 2.0
        k = _recommended(advice, today, middle)
        low, high, k_before = (middle, high, k_before) if k == 0 else (low, middle, k)
    return Flip((low + high) / 2.0, k_before, 0, True)


def flip_texts(flips: Sequence[Flip], n_draft: int, today: float) -> tuple[str, ...]:
    """One line for each flip, `Accepted length below 1.9 at K = 3 (now 2.7): K = 2`."""
    return tuple(
        f"Accepted length {'below' if flip.is_below else 'above'} {flip.accepted_length:.1f} at K = {n_draft} "
        f"(now {today:.1f}): {f'K = {flip.k_after}' if flip.k_after else 'do not speculate'}"
        for flip in flips
        if f"{flip.accepted_length:.1f}" != f"{today:.1f}"
    )


def _recommended(advice: Advice, today: float, length: float) -> int:
    """K that the library recommends where `length` tokens are accepted in place of `today`'s."""
    curve = advice.curve
    longest = int(curve.drafts[-1])
    factor = (_carried(length, advice.curve_k, longest) / _carried(today, advice.curve_k, longest))[curve.drafts]
    scaled = replace(curve, speedup=curve.speedup * factor, draws=curve.draws * factor, tpot_s=curve.tpot_s / factor)
    return int(scaled.drafts[recommended_draft(advice.setup, scaled, advice.batch_index)])


@lru_cache(maxsize=4096)
def _carried(length: float, n_draft: int, longest: int) -> Array:
    """Accepted length at K = 0 to `longest`, from one at `n_draft`. The batch plays no part. [tokens]"""
    return parse_acceptance(f"{min(length, n_draft + 1.0):.6f}@{n_draft}", longest).accepted_length
