"""What a refit on the user's own points did to an answer: which constants moved, where the band went and why."""

from __future__ import annotations

from math import log

from advisor.advice import Advice
from advisor.calibration import Adjustment, change_text
from advisor.components import FACTORS
from advisor.explain import BandPart, band_parts
from advisor.points import LEAST_MOVE

_NAMED = 2
"""Constants that a sentence names, those that moved most."""
_SAME = 0.005
"""A band whose half width moves by less is called the same. [-]"""


def refitted_times_text(adjustment: Adjustment) -> str:
    """Basis of the times of a refitted answer, with the constants that the points moved most.

    Constants that the points do not determine are not named.
    """
    rests_on = f"refitted on {adjustment.n_points} points of yours"
    if adjustment.learnt is None:
        return rests_on
    learnt = {name: adjustment.factors[name] for name in adjustment.learnt}
    moves = sorted(learnt.items(), key=lambda item: -abs(log(item[1])))
    named = [f"{FACTORS[name]} {change_text(factor)}" for name, factor in moves if abs(factor - 1.0) >= LEAST_MOVE]
    moved = ", ".join(named[:_NAMED]) or "no constant that they determine moved by 1% or more"
    return f"{rests_on} ({moved})"


def refit_text(refitted: Advice, shipped: Advice) -> str:
    """Effect of a refit on the speedup and its band, in two sentences.

    They name the uncertainty that made the difference.

    refitted, shipped : answers to one scenario with the refit and without it. Empty where there is no refit, or nothing
    is drafted.
    """
    adjustment, k = refitted.setup.adjustment, refitted.curve_k
    if adjustment is None or k == 0:
        return ""
    (was, before), (now, after) = (_speedup_and_half_width(answer, k) for answer in (shipped, refitted))
    moved = "stays" if abs(after - before) < _SAME else "narrows" if after < before else "widens"
    band = f"stays ±{after:.0%}" if moved == "stays" else f"{moved} from ±{before:.0%} to ±{after:.0%}"
    points = f"Your {adjustment.n_points} points move the speedup at K = {k} from {was:.2f}× to {now:.2f}×"
    return f"{points}; the band {band}. {_why(refitted, shipped, k, moved)}"


def _why(refitted: Advice, shipped: Advice, k: int, moved: str) -> str:
    """The kind of uncertainty that moved most the band's own way. Where the band stays, the largest that is left."""
    batch = float(refitted.scenario.batch_size)
    parts = [
        (new.what, _half_width(old), _half_width(new))
        for old, new in zip(band_parts(shipped.setup, batch, k), band_parts(refitted.setup, batch, k), strict=True)
    ]
    if moved == "stays":
        what, _, most = max(parts, key=lambda part: part[2])
        return f"Most of it is: {_in_words(what)}, alone ±{most:.0%}."
    sign = 1.0 if moved == "widens" else -1.0
    what, old, new = max(parts, key=lambda part: sign * (part[2] ** 2 - part[1] ** 2))
    return f"Most of that: {_in_words(what)}, alone ±{old:.0%} before and ±{new:.0%} now."


def _in_words(what: str) -> str:
    return what[0].lower() + what[1:]


def _half_width(part: BandPart) -> float:
    """Half of a band over its middle, from the ratio of its ends. [-]"""
    return (part.high - part.low) / (part.high + part.low)


def _speedup_and_half_width(answer: Advice, k: int) -> tuple[float, float]:
    at = answer.batch_index, answer.curve.column(k)
    value = float(answer.curve.speedup[at])
    return value, float(answer.curve.high[at] - answer.curve.low[at]) / (2.0 * value)
