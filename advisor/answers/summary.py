"""The answer in one line and the lines below it: which K, how sure, what would change it, whether
it fits in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.answers.advice import Advice
from advisor.catalog.hardware import drafter_name, model_name
from advisor.catalog.task_transfer import curve_on_task
from advisor.physics.acceptance import AcceptanceCurve, acceptance_curve
from advisor.physics.hardware import of_data_centre
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES, read_made

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


def borrowed_from(answer: Advice | DesignSpace) -> str:
    """The checkpoint, or of the same model the drafter, whose accepted length stands in. Empty
    where none does."""
    setup = answer.setup
    curve = stored_curve(setup.scenario)
    if curve is None or not setup.acceptance.borrowed or setup.drafter.kind == "none":
        return ""
    if curve.model_id == setup.architecture.id:
        return drafter_name(curve.drafter_id)
    return curve.checkpoint or model_name(curve.model_id)


def stored_curve(scenario: Scenario) -> AcceptanceCurve | None:
    """The measured curve that a scenario names, on its task. None for a user's own numbers."""
    return acceptance_curve(curve_on_task(scenario.acceptance, scenario.task))


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


def own_half_widths(advice: Advice) -> tuple[float, float] | None:
    """Half the range's width over the speedup: now, and what a refit to OWN_ROWS own runs gave.
    None with a refit, without drafts or shipped figures. [-]"""
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
    now = float((curve.high[at] - curve.low[at]) / (2.0 * curve.speedup[at]))
    return now, study.width_after / 2.0


ENOUGH_ROWS = 10
"""Choice of this project: errors of fewer published points say too little of an accelerator and
model."""


def nearest_errors(near: Mapping[str, Errors]) -> tuple[str, Errors] | None:
    """The first group with enough runs and its errors, else the last one's.

    near : groups by name, the nearest first. None without one that was judged.
    """
    groups = list(near.items())
    enough = [each for each in groups if each[1].n >= ENOUGH_ROWS]
    chosen = next(iter(enough or groups[-1:]), None)
    return None if chosen is None or chosen[1].median_ape is None else chosen
