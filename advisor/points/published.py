"""Measured rows as points of the cost model: every part of a speedup that does not depend on the overheads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.bands import Draws
from advisor.curve import Curve, curve_for, prefill_per_token_s
from advisor.kernel_costs import KernelCosts
from advisor.points.question import RowQuestion, question_of
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from advisor.setup import Setup, load_setup

Array = NDArray[np.float64]

ACCEPTANCE_LOG_SD = {"same_run": 0.04, "borrowed": 0.13, "other_model": 0.25}
"""Spread of log accepted length: same run and same model from docs/model.md; of another model, the spread of heads of
one kind between models and prompt sets in the shipped rows (0.2) with the difference between runs. [1]"""
READING_LOG_SD = {"A": 0.03, "B": 0.06, "C": 0.10}
"""Assumed spread of the published figure itself: table or label, pixel or running text, incomplete row. [1]"""
KERNEL_LOG_SD = {"measured": 0.08, "interpolated": 0.08, "fitted": 0.10, "roofline": 0.32}
"""Assumed spread of the kernels' part of a ratio of two steps, by tier; the roofline's is that of its records. [1]"""


ROWS = MEASUREMENTS / "published_speedups" / "data.csv"


def published_rows() -> pd.DataFrame:
    """The shipped published speedups, every cell as text."""
    return pd.read_csv(ROWS, dtype=str, keep_default_na=False)


@dataclass(frozen=True)
class Point:
    """One measured row that the model can express. Times in seconds, rest dimensionless."""

    row: Mapping[str, Any]
    question: RowQuestion
    setup: Setup
    source: str
    engine_class: str
    tier: str
    measured: float
    accepted_length: float
    plain_s: float
    """Plain step without launch overhead."""
    round_s: float
    """Whole round without launch, draft-pass and round overhead."""
    layers: float
    draft_layers: float
    passes: float
    prefill_s: float
    log_sd: float
    """What reading, accepted length and kernels leave unknown of log speedup."""

    @property
    def acceptance(self) -> str:
        """same_run, borrowed or other_model."""
        return self.question.acceptance_source

    def curve(self, setup: Setup | None = None, draws: Draws | None = None) -> Curve:
        """Prediction at this row's batch and K, for another setup or draws if given."""
        question = self.question
        batches, drafts = [question.scenario.batch_size], [question.n_draft]
        return curve_for(setup or self.setup, batches, drafts, question.verify_tokens, draws)


def points_of(
    frame: pd.DataFrame, assume: Mapping[str, str] | None = None, other_models: bool = False
) -> tuple[list[Point], dict[str, int]]:
    """Points of the rows of `frame` that can be predicted and carry a speedup; reasons of the others with counts."""
    points: list[Point] = []
    refused: dict[str, int] = {}
    for row in frame.to_dict("records"):
        try:
            points.append(point_of({str(name): cell for name, cell in row.items()}, assume, other_models))
        except AdvisorError as error:
            reason = str(error)
            refused[reason] = refused.get(reason, 0) + 1
    return points, refused


def point_of(row: Mapping[str, Any], assume: Mapping[str, str] | None = None, other_models: bool = False) -> Point:
    """One row. Raises AdvisorError with the reason when it cannot be predicted or has no positive speedup."""
    try:
        measured = float(row["speedup"])
    except (KeyError, ValueError) as error:
        raise AdvisorError("no speedup to compare with") from error
    if not measured > 0:
        raise AdvisorError(f"speedup={measured} is not above 0")
    question = question_of(row, assume, other_models)
    setup = load_setup(question.scenario, borrowed_acceptance=question.acceptance_source != "same_run")
    return _point(row, question, setup, measured)


def _point(row: Mapping[str, Any], question: RowQuestion, setup: Setup, measured: float) -> Point:
    axes = [question.scenario.batch_size], [question.n_draft], question.verify_tokens
    bare = curve_for(with_costs(setup, launch_per_layer_s=0.0, host_per_draft_pass_s=0.0, host_per_round_s=0.0), *axes)
    unit = curve_for(with_costs(setup, launch_per_layer_s=1.0, host_per_draft_pass_s=0.0, host_per_round_s=0.0), *axes)
    launches = float(unit.plain_components["launch"][0])
    passes = curve_for(with_costs(setup, launch_per_layer_s=0.0, host_per_draft_pass_s=1.0), *axes)
    tier = str(curve_for(setup, *axes).tier[0, 0])
    spread = (
        ACCEPTANCE_LOG_SD[question.acceptance_source],
        READING_LOG_SD.get(str(row.get("tier", "")), READING_LOG_SD["C"]),
        KERNEL_LOG_SD[tier],
    )
    return Point(
        row=row,
        question=question,
        setup=setup,
        source=str(row.get("source_title", "")) or "not stated",
        engine_class=question.engine_class,
        tier=tier,
        measured=measured,
        accepted_length=float(bare.accepted_length[0]),
        plain_s=float(bare.plain_step_s[0]),
        round_s=float(bare.round_s[0, 0]),
        layers=launches,
        draft_layers=float(unit.round_s[0, 0] - bare.round_s[0, 0]) - launches,
        passes=float(passes.round_components["draft_host"][0, 0]),
        prefill_s=float(prefill_per_token_s(setup, np.array([float(question.scenario.batch_size)]))[0]),
        log_sd=float(np.sqrt(np.sum(np.square(spread)))),
    )


def with_costs(setup: Setup, **changes: Any) -> Setup:
    """`setup` with constants of its kernel costs replaced, in target and drafter alike."""

    def changed(costs: KernelCosts) -> KernelCosts:
        return replace(costs, **changes)

    return replace(setup, costs=changed(setup.costs), draft_costs=changed(setup.draft_costs))
