"""Published rows that a study may take: as points, and those that shipped constants are fitted
on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import OVERHEAD_NAMES
from advisor.catalog.kernel_costs import ROOFLINE_LOG_SD
from advisor.measured.measurements import read_dataset
from advisor.measured.observations import (
    LABORATORIES,
    laboratories,
    laboratories_of,
    laboratory_of_row,
    part_of,
)
from advisor.measured.points import Point, judged_rows, measured_times, points_at
from advisor.measured.published import FITTED_COLLECTIONS
from advisor.measured.row_questions import question_of
from advisor.measured.run import AskedRun
from advisor.physics.acceptance import BORROWED_LOG_SD, SAME_RUN_LOG_SD
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS

COLLECTION_FILES = tuple(MEASUREMENTS / name / "data.csv" for name in FITTED_COLLECTIONS)

ACCEPTANCE_LOG_SD = {"same_run": SAME_RUN_LOG_SD, "borrowed": BORROWED_LOG_SD, "other_model": 0.25}
"""Spread of log accepted length: same run and same model from docs/model.md; of another model, the
spread of heads of one kind between models and prompt sets in the shipped rows (0.2) with the
difference between runs. [-]"""
READING_LOG_SD = {"A": 0.03, "B": 0.06, "C": 0.10}
"""Assumed spread of the published figure itself: table or label, pixel or running text, incomplete
row. [-]"""
KERNEL_LOG_SD = {
    "measured": 0.08,
    "interpolated": 0.08,
    "fitted": 0.10,
    "roofline": ROOFLINE_LOG_SD,
}
"""Assumed spread of the kernels' part of a ratio of two steps, by tier; the roofline's is that of
its records. [-]"""
MAX_PLAIN_FACTOR = 1.5
"""A published row whose own plain step is further than this from ours, either way, says nothing of
rounds: its ratio is one of two wrong steps. It informs no constant of rounds and is listed as a
step to repair (docs/validation.md). [-]"""
_NOT_MODELLED = re.compile(
    "beyond captured graphs|decode context parallel [2-9]|verification at long context is slow "
    "there"
)
"""What the notes of a row say where something decides that is not modelled: launches without a
graph, ranks that hold parts of every context, and a release of SGLang whose Triton kernel verifies
by walking a cache from end to end."""


@dataclass(frozen=True)
class PublishedPoint(Point):
    """A published row as a point, with what a fit asks of it."""

    @property
    def source(self) -> str:
        """The publication that holds the row."""
        return str(self.facts.get("source_title", "")) or "not stated"

    @property
    def laboratory(self) -> str:
        """Whose publication that is. The publication itself where nobody is listed for it."""
        return laboratory_of_row(self.facts)

    @property
    def immature(self) -> bool:
        """Whether somebody calls that laboratory's serving stack immature."""
        return is_immature(self.laboratory)

    @property
    def overheads(self) -> tuple[float, ...]:
        """Constants behind the observations, in the order of OVERHEAD_NAMES. [s or 1]"""
        return tuple(float(getattr(self.setup.costs, name)) for name in OVERHEAD_NAMES)

    @property
    def log_sd(self) -> float:
        """Spread that reading, accepted length and kernels leave in the log speedup. [-]"""
        reading = READING_LOG_SD.get(str(self.facts.get("tier", "")), READING_LOG_SD["C"])
        return float(
            np.sqrt(np.sum(np.square((self.length_log_sd, reading, KERNEL_LOG_SD[self.tier]))))
        )

    @property
    def plain_over_measured(self) -> float:
        """Plain step predicted over the one that the row prints, prefill in both. NaN where it
        prints none. [-]"""
        return float(self.observations.upper[0].sum()) / measured_times(self.facts)[0]

    @property
    def informs(self) -> bool:
        """Whether constants of rounds may be fitted on the row. All rows are judged.

        Not where its plain step is off by MAX_PLAIN_FACTOR, where random tokens were drafted for
        and nobody counted what was accepted, nor where its notes name what is not modelled.
        """
        unknown = self.facts.get("task") == "random" and self.question.borrowed
        other = _NOT_MODELLED.search(str(self.facts.get("notes"))) is not None
        return not (
            unknown or other or abs(math.log(self.plain_over_measured)) > math.log(MAX_PLAIN_FACTOR)
        )


P = TypeVar("P", bound=Point)


def seen_by(point: P, setup: Setup) -> P:
    """A row predicted by another setup. Its tier, and so its weight in a fit, stays."""
    (read,) = points_at([point], setup, [(point.accepted_length, point.length_log_sd)])
    return replace(point, setup=setup, observations=read.observations)


def point_of(
    row: Mapping[str, Any], assume: Mapping[str, str] | None = None, other_models: bool = False
) -> PublishedPoint:
    """One published row. Raises AdvisorError with the reason when it cannot be predicted or has no
    positive speedup."""
    try:
        measured = float(row["speedup"])
    except (KeyError, ValueError) as error:
        raise AdvisorError("no speedup to compare with") from error
    if not 0 < measured < math.inf:
        raise AdvisorError(f"speedup={measured} is not above 0")
    question = question_of(row, assume, other_models)
    setup = question.setup()
    length = float(setup.acceptance.accepted_length[question.n_draft])
    spread = ACCEPTANCE_LOG_SD[question.acceptance_source]
    if setup.acceptance.carried_from:
        spread = max(spread, setup.acceptance.log_sd(question.n_draft))
    (point,) = points_at([AskedRun(row, question=question)], setup, [(length, spread)])
    return PublishedPoint(**vars(point))


def laboratory_of(title: str) -> str:
    """The laboratory that published a source. Raises AdvisorError where the file does not list its
    title."""
    for laboratory in laboratories().values():
        if title in laboratory.titles:
            return laboratory.name
    raise AdvisorError(
        f"no laboratory is known for the source {title[:120]!r}; "
        f"add its title to profiles/validation/{LABORATORIES.name}"
    )


def is_immature(laboratory: str) -> bool:
    """Whether a laboratory's serving stack is called immature: its rows are judged, and inform no
    constant."""
    return laboratory in laboratories() and bool(laboratories()[laboratory].immature)


def points_of(
    frame: pd.DataFrame, assume: Mapping[str, str] | None = None, other_models: bool = False
) -> tuple[list[PublishedPoint], dict[str, int]]:
    """Points of the published rows that can be predicted, carry a speedup and no defect.

    The others come as reasons with counts.
    """
    points: list[PublishedPoint] = []
    refused: Counter[str] = Counter()
    for row in frame.to_dict("records"):
        try:
            if row.get("defect"):
                raise AdvisorError(f"set aside for a defect: {row['defect']}")
            points.append(
                point_of({str(name): cell for name, cell in row.items()}, assume, other_models)
            )
        except AdvisorError as error:
            refused[str(error)] += 1
    return points, refused


def fitted_rows() -> pd.DataFrame:
    """The rows that the shipped overheads are fitted on: of laboratories seen or of the part `fit`,
    without stacks called immature."""
    rows = judged_rows()
    names = laboratories_of(rows)
    informs = [part_of(name) != "choose" and not is_immature(name) for name in names]
    return rows[informs].reset_index(drop=True)


def read_numbers(folder: Path) -> pd.DataFrame:
    """A dataset as `read_dataset` checks it, columns of numbers as such, empty cells missing.
    AdvisorError as there."""
    _, text = read_dataset(folder)
    for name, cells in text.items():
        filled = cells.where(cells != "")
        numbers = pd.to_numeric(filled, errors="coerce")
        text[name] = (
            numbers if filled.notna().any() and numbers.notna().eq(filled.notna()).all() else filled
        )
    return text
