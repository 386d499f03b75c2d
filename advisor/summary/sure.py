"""How sure an answer is: what its times rest on, and how often published speedups agreed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.acceptance import AcceptanceCurve, acceptance_curves
from advisor.advice import Advice
from advisor.catalog import drafter_name, model_name
from advisor.design import DesignSpace
from advisor.points import Errors
from advisor.prediction import Tier
from advisor.setup import Setup
from advisor.task_transfer import curve_on_task
from advisor.text import counted

ENOUGH_ROWS = 10
"""Choice of this project: errors of fewer published points say too little of an accelerator and model."""
_WORDS: Mapping[Tier, str] = {
    Tier.MEASURED: "measured at this very point",
    Tier.INTERPOLATED: "read between measured kernels of {}",
    Tier.FITTED: "modelled from the measured kernels of {}",
    Tier.ROOFLINE: "from the data sheet only, no kernel of it was measured",
}


def tier_words(setup: Setup, tier: Tier) -> str:
    """Basis of the times of a tier, in words."""
    whose = setup.costs.kernels_of
    return _WORDS[tier].format(f"{whose}, the same chip" if whose else "this GPU")


def nearest_errors(found: Mapping[str, Errors]) -> tuple[str, Errors] | None:
    """The nearest group of published points that has enough rows, else all of them. None where there are none."""
    if not found:
        return None
    near = [(name, errors) for name, errors in found.items() if errors.n >= ENOUGH_ROWS]
    return near[0] if near else list(found.items())[-1]


def errors_text(found: Mapping[str, Errors]) -> str:
    """The nearest errors, few as they may be, and those of the nearest group with enough rows. Empty without any."""
    nearest = nearest_errors(found)
    if nearest is None or nearest[1].median_ape is None or nearest[1].coverage is None:
        return ""
    group, errors = nearest
    of = {"this accelerator and model": " of this accelerator and model"}.get(group, f" ({group})")
    whose = f" from {counted(errors.n_sources, 'laboratory', 'laboratories')}" if errors.n_sources else ""
    alike = ", each counting alike," if (errors.n_sources or 0) > 1 else ""
    return (
        f"{_few_text(found, group)}On {errors.n} published speedups{of}{whose}{alike} the median error is "
        f"{errors.median_ape:.0%}, {errors.coverage:.0%} lie in the band{_right_side(errors, ' and ')}."
    )


def _right_side(errors: Errors, before: str) -> str:
    """How many rows were placed on the right side of 1, where that was judged."""
    return "" if errors.sign_accuracy is None else f"{before}{errors.sign_accuracy:.0%} on the right side of 1×"


def _few_text(found: Mapping[str, Errors], judged: str) -> str:
    """The groups nearer than the judged one, which have too few rows, in one sentence with a space behind."""
    near = list(found.items())[: list(found).index(judged)]
    said = [
        f"{one.n} of {group} (median error {one.median_ape:.0%}, {one.coverage:.0%} in the band"
        f"{_right_side(one, ', ')})"
        for group, one in near
        if one.median_ape is not None and one.coverage is not None
    ]
    return f"Few published speedups are near: {'; '.join(said)}. " if said else ""


def borrowed_from(answer: Advice | DesignSpace) -> str:
    """The checkpoint, or of the same model the drafter, whose accepted length stands in. Empty where none does."""
    setup = answer.setup
    given = curve_on_task(setup.scenario.acceptance, setup.scenario.task)
    curve = next((one for one in acceptance_curves() if one.id == given), None)
    if curve is None or not setup.acceptance.borrowed or setup.drafter.kind == "none":
        return ""
    if curve.model_id == setup.scenario.model_id:
        return drafter_name(curve.drafter_id)
    return curve.checkpoint or model_name(curve.model_id)


def accepted_text(advice: Advice) -> str:
    """Accepted length that the answer rests on, and its origin."""
    given = curve_on_task(advice.scenario.acceptance, advice.scenario.task)
    curve = next((one for one in acceptance_curves() if one.id == given), None)
    k = advice.curve_k
    length = float(advice.curve.accepted_length[advice.curve.column(k)])
    accepted, carried = f"Accepted length {length:.2f} at K = {k}", bool(advice.setup.acceptance.extrapolated[k])
    if curve is None:
        return f"{accepted}: carried there from yours ({given})." if carried else f"{accepted}: yours."
    whose = borrowed_from(advice)
    other = f", borrowed from {whose}: fill in yours at Accepted" if whose else _checkpoint(curve)
    how = f"carried there, measured at K = {_span(curve.n_draft)}" if carried else "measured"
    if advice.setup.acceptance.carried_from:
        task = str(advice.scenario.task).replace("_", " ")
        how = f"carried from {advice.setup.acceptance.carried_from} to {task}, measured on"
        return f"{accepted}: {how} {curve.dataset}{other}."
    return f"{accepted}: {how}, {curve.dataset}{other}."


def _checkpoint(curve: AcceptanceCurve) -> str:
    """The checkpoint that ran, where it is another than the model whose dimensions it has."""
    ran, model = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (curve.checkpoint, model_name(curve.model_id)))
    return f", by {curve.checkpoint}" if ran not in ("", model) else ""


def _span(drafts: Sequence[int]) -> str:
    return str(drafts[0]) if len(drafts) == 1 else f"{drafts[0]} to {drafts[-1]}"
