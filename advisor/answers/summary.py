"""The answer in one line and the lines below it: which K, how sure, what would change it, whether
it fits in memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.answers.advice import Advice
from advisor.catalog.adjustment import Adjustment, change_text
from advisor.catalog.hardware import drafter_name, model_name
from advisor.catalog.task_transfer import curve_on_task
from advisor.physics.acceptance import AcceptanceCurve, acceptance_curve
from advisor.physics.components import FACTORS
from advisor.physics.hardware import of_data_centre
from advisor.physics.memory import GIB
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Tier
from advisor.profiles import PROFILES, read_made
from advisor.text import counted

if TYPE_CHECKING:  # an answer needs neither pandas nor the design search
    from advisor.answers.design.space import DesignSpace
    from advisor.measured.refit_result import Errors


def stated_k(advice: Advice) -> int:
    """K at which accepted lengths are stated: that of the user's own `X@K`, else the shown one.
    [-]"""
    _, _, k_text = advice.scenario.acceptance.partition("@")
    given_k = int(k_text) if k_text.strip().isdigit() else 0
    return (
        given_k if advice.curve_k and given_k and given_k in advice.curve.drafts else advice.curve_k
    )


_MOST_GPUS = 64


@dataclass(frozen=True)
class Fit:
    """Lack of memory of a scenario, and a change that fits. Bytes are of one GPU."""

    needed_bytes: float
    usable_bytes: float
    largest_batch: int
    """The largest batch that fits as it is; 0 when not even one sequence does. [-]"""
    weights_bytes: float
    """Of the model and its drafter."""
    context_tokens: int
    scenario: Scenario | None
    """The same on as many GPUs as it takes; None where 64 do not hold it."""

    @property
    def title(self) -> str:
        """Memory needed and there, in one line."""
        return (
            f"Needs {self.needed_bytes / GIB:,.0f} GiB a GPU, {self.usable_bytes / GIB:,.0f} are "
            "usable"
        )

    @property
    def because(self) -> str:
        """Reason in one sentence."""
        if self.largest_batch:
            return (
                f"Batch {self.largest_batch:,} is the largest that fits. The numbers are "
                "hypothetical."
            )
        load = (
            "The weights alone are"
            if self.weights_fill
            else f"One sequence at context {self.context_tokens:,} is"
        )
        return f"{load} too large. The numbers are hypothetical."

    @property
    def weights_fill(self) -> bool:
        """Whether the weights alone are too large, so that no batch and no context helps."""
        return self.weights_bytes > self.usable_bytes

    @property
    def remedy(self) -> str:
        """Sentence on what makes it fit, by what does not."""
        if self.weights_fill:
            return "Choose more GPUs or a smaller weight format."
        shorter = (
            "a smaller batch, a shorter context" if self.largest_batch else "a shorter context"
        )
        return f"Choose {shorter}, more GPUs or a smaller format."


def fit_of(setup: Setup) -> Fit | None:
    """None where the scenario of a setup fits."""
    memory = setup.memory
    scenario = setup.scenario
    if memory.largest_batch >= scenario.batch_size:
        return None
    needed = memory.total_bytes(scenario.batch_size, setup.placement.attention_groups)
    return Fit(
        needed_bytes=needed,
        usable_bytes=memory.usable_bytes,
        largest_batch=memory.largest_batch,
        weights_bytes=memory.weights_bytes + memory.drafter_bytes,
        context_tokens=scenario.context_tokens,
        scenario=on_more_gpus(scenario),
    )


def on_more_gpus(scenario: Scenario) -> Scenario | None:
    """The scenario over twice its ranks, or more, on which its batch fits. None where none does."""
    gpus = scenario.n_gpus
    while (gpus := gpus * 2) <= _MOST_GPUS:
        wider = scenario.model_copy(update={"n_gpus": gpus, "tensor_parallel": gpus})
        try:
            if load_setup(wider).memory.largest_batch >= scenario.batch_size:
                return wider
        except AdvisorError:  # a placement that the model does not allow
            continue
    return None


ENOUGH_ROWS = 10
"""Choice of this project: errors of fewer published points say too little of an accelerator and
model."""
_WORDS: Mapping[Tier, str] = {
    Tier.MEASURED: "measured at this very point",
    Tier.INTERPOLATED: "read between measured kernels of {}",
    Tier.FITTED: "modelled from the measured kernels of {}",
    Tier.ROOFLINE: "from the data sheet only, no kernel of it was measured",
}


def tier_words(setup: Setup, tier: Tier) -> str:
    """Basis of the times of a tier, in words."""
    chip = setup.costs.kernels_of
    return _WORDS[tier].format(f"{chip}, the same chip" if chip else "this GPU")


def errors_text(by_group: Mapping[str, Errors]) -> str:
    """Errors of the nearest group of published points with enough rows, and of the nearer ones.
    Empty without any."""
    if not by_group:
        return ""
    near = [(name, errors) for name, errors in by_group.items() if errors.n >= ENOUGH_ROWS]
    group, errors = near[0] if near else list(by_group.items())[-1]
    if errors.median_ape is None or errors.coverage is None:
        return ""
    of = f" of {group}" if group == "this accelerator and model" else f" ({group})"
    origin = (
        f" from {counted(errors.n_sources, 'laboratory', 'laboratories')}"
        if errors.n_sources
        else ""
    )
    alike = ", each counting alike," if (errors.n_sources or 0) > 1 else ""
    return (
        f"{_few_text(by_group, group)}On {errors.n} published speedups{of}{origin}{alike} the "
        f"median error is {errors.median_ape:.0%}, {errors.coverage:.0%} lie in the likely "
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
        f"the likely range{_right_side(errors, ', ')})"
        for name, errors in list(by_group.items())[: list(by_group).index(group)]
        if errors.median_ape is not None and errors.coverage is not None
    ]
    return f"Few published speedups are near: {'; '.join(texts)}. " if texts else ""


def borrowed_from(answer: Advice | DesignSpace) -> str:
    """The checkpoint, or of the same model the drafter, whose accepted length stands in. Empty
    where none does."""
    setup = answer.setup
    curve = _stored_curve(setup.scenario)
    if curve is None or not setup.acceptance.borrowed or setup.drafter.kind == "none":
        return ""
    if curve.model_id == setup.architecture.id:
        return drafter_name(curve.drafter_id)
    return curve.checkpoint or model_name(curve.model_id)


def _stored_curve(scenario: Scenario) -> AcceptanceCurve | None:
    """The measured curve that a scenario names, on its task. None for a user's own numbers."""
    return acceptance_curve(curve_on_task(scenario.acceptance, scenario.task))


def accepted_text(advice: Advice) -> str:
    """Accepted length that the answer rests on, and its origin."""
    scenario = advice.scenario
    curve = _stored_curve(advice.scenario)
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


_NAMED = 2
"""Constants that a sentence names, those that moved most."""
_SAME = 0.005
"""A band whose half width moves by less is called the same. [-]"""


def refitted_times_text(adjustment: Adjustment) -> str:
    """Basis of the times of a refitted answer, with the determined constants that the points moved
    most."""
    from advisor.measured.refit_result import LEAST_MOVE

    rests_on = f"refitted on {adjustment.n_points} points of yours"
    if adjustment.learnt is None:
        return rests_on
    learnt = {name: adjustment.factors[name] for name in adjustment.learnt}
    moves = sorted(learnt.items(), key=lambda item: -abs(log(item[1])))
    changes = [
        f"{FACTORS[name]} {change_text(factor)}"
        for name, factor in moves
        if abs(factor - 1.0) >= LEAST_MOVE
    ]
    moved = ", ".join(changes[:_NAMED]) or "no constant that they determine moved by 1% or more"
    return f"{rests_on} ({moved})"


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
    return f"Your rows move the speedup {at}; the likely range {band}."


OWN_RUNS = PROFILES / "validation" / "own_runs.json"
OWN_ROWS = 4
"""Runs of one's own that a refit is judged after: from here on it takes the scatter of the user's
own rows. [-]"""


@dataclass(frozen=True)
class OwnRuns:
    """Figures before and after a refit on OWN_ROWS rows of a configuration, on its other rows.
    Shares. [-]

    Means over laboratories; widths are medians of (high - low) / predicted; slopes are log error on
    log2 batch.
    """

    kind: str
    """Which rows: data centre, workstation, all, or one laboratory."""
    n_rows: int
    n_laboratories: int
    error_before: float
    error_after: float
    coverage_before: float
    coverage_after: float
    width_before: float
    width_after: float
    slope_before: float
    slope_after: float


@lru_cache(maxsize=1)
def read_own_runs(path: Path = OWN_RUNS) -> tuple[str, dict[str, OwnRuns]]:
    """(hash of data and fits, figures by kind). Raises AdvisorError when the file is missing or
    damaged."""

    def runs(kind: str, figures: dict[str, Any]) -> OwnRuns:
        # A slope without three batches is no number.
        numbers: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in figures.items()
        }
        return OwnRuns(kind=kind, **numbers)

    return read_made(
        path,
        lambda found: (
            str(found["data_and_fits"]),
            {kind: runs(kind, row) for kind, row in found["kinds"].items()},
        ),
    )


def half_width_after(low: float, value: float, high: float, study: OwnRuns) -> tuple[float, float]:
    """Half the band's width over its value, now and after OWN_ROWS runs of one's own. [-] Narrower
    as in the study."""
    now = (high - low) / (2.0 * value)
    return now, now * min(study.width_after / study.width_before, 1.0)


def own_half_widths(advice: Advice) -> tuple[float, float] | None:
    """Half the range's width now and after OWN_ROWS own runs. None with a refit, without drafts or
    shipped figures. [-]"""
    if advice.scenario.refit or not advice.curve_k:
        return None
    try:
        _, kinds = read_own_runs()
    except AdvisorError:
        return None
    kind = "data centre" if of_data_centre(advice.setup.hardware) else "workstation"
    study = kinds.get(kind) or kinds["all"]
    at = advice.batch_index, advice.curve_column
    curve = advice.curve
    return half_width_after(
        float(curve.low[at]), float(curve.speedup[at]), float(curve.high[at]), study
    )
