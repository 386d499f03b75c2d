"""What an answer rests on, in words: tier of its times, errors nearby, accepted length, correction,
refit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from advisor.answers.advice import Advice
from advisor.answers.summary import borrowed_from, nearest_errors, stored_curve
from advisor.catalog.hardware import model_name
from advisor.catalog.task_transfer import curve_on_task
from advisor.predict.setup import Setup
from advisor.prediction import Tier
from advisor.text import counted

if TYPE_CHECKING:  # an answer needs no pandas
    from advisor.measured.refit_result import Errors

_WORDS: Mapping[Tier, str] = {
    Tier.MEASURED: "measured at this very point",
    Tier.INTERPOLATED: "read between measured kernels of {}",
    Tier.FITTED: "modelled from the measured kernels of {}",
    Tier.ROOFLINE: "from the data sheet only, no kernel of it was measured",
}


TIER_NAMES = {
    "measured": "measured here",
    "interpolated": "between measured kernels",
    "fitted": "modelled from measured kernels",
    "roofline": "data sheet only",
}


def tier_words(setup: Setup, tier: Tier) -> str:
    """Basis of the times of a tier, in words."""
    chip = setup.costs.kernels_of
    return _WORDS[tier].format(f"{chip}, the same chip" if chip else "this GPU")


def errors_text(by_group: Mapping[str, Errors]) -> str:
    """Errors of the nearest group of published points with enough rows, and of the nearer ones.
    Empty without any."""
    nearest = nearest_errors(by_group)
    if nearest is None:
        return ""
    group, errors = nearest
    of = f" of {group}" if group == "this accelerator and model" else f" ({group})"
    origin = (
        f" from {counted(errors.n_sources, 'laboratory', 'laboratories')}"
        if errors.n_sources
        else ""
    )
    alike = ", each counting alike," if (errors.n_sources or 0) > 1 else ""
    return (
        f"{_few_text(by_group, group)}On {errors.n} published speedups{of}{origin}{alike} the "
        f"median error is {errors.median_ape:.0%}, {errors.coverage:.0%} lie in the 80% "
        f"range{_right_side(errors, ' and ')}."
    )


_LEAST_SHARE = 0.01
"""Of a round: a smaller correction is not told. [-]"""


def correction_text(advice: Advice) -> str:
    """Share of the recommended K's round that is a correction, in one sentence. Empty where it
    hardly counts."""
    curve = advice.curve
    n_draft = advice.recommendation.n_draft
    parts = curve.components_at(advice.batch_index, curve.column(n_draft))[1]
    share = parts.get("verified", 0.0) / sum(parts.values())
    if share < _LEAST_SHARE:
        return ""
    return (
        f"{share:.0%} of the round is a correction for verified tokens, fitted on published "
        "speedups."
    )


def _right_side(errors: Errors, before: str) -> str:
    return (
        ""
        if errors.sign_accuracy is None
        else f"{before}{errors.sign_accuracy:.0%} on the right side of 1×"
    )


def _few_text(by_group: Mapping[str, Errors], group: str) -> str:
    """The groups nearer than `group`, which have too few rows, in one sentence with a space
    behind."""
    texts = [
        f"{errors.n} of {name} (median error {errors.median_ape:.0%}, {errors.coverage:.0%} in "
        f"the 80% range{_right_side(errors, ', ')})"
        for name, errors in list(by_group.items())[: list(by_group).index(group)]
        if errors.median_ape is not None and errors.coverage is not None
    ]
    return f"Few published speedups are near: {'; '.join(texts)}. " if texts else ""


def accepted_text(advice: Advice) -> str:
    """Accepted length that the answer rests on, and its origin."""
    scenario = advice.scenario
    curve = stored_curve(advice.scenario)
    k = advice.curve_k
    length = float(advice.curve.accepted_length[advice.curve.column(k)])
    accepted = f"Accepted length {length:.2f} at K = {k}"
    carried = bool(advice.setup.acceptance.extrapolated[k])
    if curve is None:
        yours = curve_on_task(scenario.acceptance, scenario.task)
        return (
            f"{accepted}: carried there from yours ({yours})." if carried else f"{accepted}: yours."
        )
    source = borrowed_from(advice)
    ran = re.sub("[^a-z0-9]", "", curve.checkpoint.lower())
    model = re.sub("[^a-z0-9]", "", model_name(curve.model_id).lower())
    other = (
        f", by {curve.checkpoint}" if ran not in ("", model) else ""
    )  # another than whose dimensions it has
    other = f", borrowed from {source}: fill in yours at Accepted length" if source else other
    first = curve.n_draft[0]
    last = curve.n_draft[-1]
    drafts = f"{first}" if first == last else f"{first} to {last}"
    how = f"carried there, measured at K = {drafts}" if carried else "measured"
    if advice.setup.acceptance.carried_from:
        task = str(scenario.task).replace("_", " ")
        how = f"carried from {advice.setup.acceptance.carried_from} to {task}, measured on"
        return f"{accepted}: {how} {curve.dataset}{other}."
    return f"{accepted}: {how}, {curve.dataset}{other}."


_SAME = 0.005
"""A band whose half width moves by less is called the same. [-]"""


def refit_text(refitted: Advice, shipped: Advice, n_draft: int) -> str:
    """Effect of a refit on the speedup of a K and its band, with the uncertainty behind it.

    refitted, shipped : answers to one scenario with the refit and without it. Empty where there is
        no refit, or nothing
    is drafted.
    """
    k = min(n_draft, len(refitted.drafts) - 1)
    if refitted.setup.adjustment is None or k == 0:
        return ""
    row_before = shipped.drafts[k]
    row_after = refitted.drafts[k]
    before = (row_before.speedup_high - row_before.speedup_low) / (2.0 * row_before.speedup)
    after = (row_after.speedup_high - row_after.speedup_low) / (2.0 * row_after.speedup)
    trend = "narrows" if after < before else "widens"
    moved = f"{trend} from ±{before:.0%} to ±{after:.0%}"
    band = f"stays ±{after:.0%}" if abs(after - before) < _SAME else moved
    at = (
        f"predicted for K = {k} at batch {refitted.scenario.batch_size:,} from "
        f"{row_before.speedup:.2f}× to {row_after.speedup:.2f}×"
    )
    return f"Your rows move the speedup {at}; the 80% range {band}."
