"""A run of `advisor profile --engine` put to use: its rows, and the refit that they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from advisor.catalog.adjustment import write_adjustment
from advisor.measured.ingest.own import own_document, own_rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import Measured, resolve_names
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.own_points import with_rounds
from advisor.measured.points import Point
from advisor.measured.refit import BeforeAfter, adjustment_of, curves_of, refit_chosen, select_points
from advisor.measured.refit_result import RefitResult
from advisor.physics.acceptance import Acceptance
from advisor.prediction import AdvisorError
from advisor.profiles import read_file
from advisor.text import counted

_BESIDE = {"model_id": "config.json", "hardware_id": "hardware.json"}
"""Files of a run's folder that its rows name, by column."""


@dataclass(frozen=True)
class RunUse:
    """Changes that a run makes. `before_after` of `refit` draws the curves of `points` with and without it."""

    points: list[Point]
    result: RefitResult
    refit: str | None
    """The setting `refit` of a scenario that uses it; None where the rows speak against it (`reasons_against`)."""
    rows: pd.DataFrame
    """Canonical rows, index: line."""


def speedup_curves(use: RunUse, n_draft: int, acceptance: Acceptance) -> BeforeAfter:
    """The design's speedup with the K of some rounds at an accepted length, with and without the refit.

    Its points are T_plain / T_round as measured, times that length. K is at most that of the acceptance.
    """
    rounds = [point for point in use.points if point.n_draft == n_draft]
    usable = use.rows[use.rows.index.isin([point.line for point in use.points])]
    timed = with_rounds(usable, acceptance.accepted_length)
    timed = timed[timed["draft_tokens_k"] == n_draft].dropna(subset=["speedup"])
    timed = timed.assign(measured=timed["speedup"], line=timed.index, used=True)
    # The rows' own name of the drafter: `random` is predicted as n-grams.
    group = (rounds[0].scenario.model_id, str(rounds[0].row["drafter"]), n_draft, "speedup")
    return curves_of(replace(rounds[0].setup, acceptance=acceptance), use.result, group, timed)


def rows_of_run(folder: Path) -> Measured:
    """The rows of a run's folder, its own model and accelerator filled in. Raises AdvisorError for a damaged file."""
    rows = read_upload("data.csv", read_file(folder / "data.csv", MAX_BYTES, "a run's data.csv"))
    documents = [
        own_document(column, folder.resolve().name if column == "model_id" else "", text.decode(), (name,))
        for column, name in _BESIDE.items()
        if (folder / name).exists()
        for text in [read_file(folder / name, MAX_BYTES, f"a run's {name}")]
    ]
    return resolve_names(own_rows(rows, documents))


def use_of_run(folder: Path) -> RunUse:
    """Refit on the rows of one run. Raises AdvisorError where too few of them can be used, with why."""
    read = rows_of_run(folder).result
    try:
        points, refused = select_points(read.frame)
    except AdvisorError as error:
        why = [f"; {counted(read.rows_refused, 'row')} refused, {reason}" for reason in read.rejects["reason"][:1]]
        raise AdvisorError("".join((str(error), *why))) from error
    result = refit_chosen(points, refused)
    refit = None if result.reasons_against else write_adjustment(adjustment_of(result))
    return RunUse(points, result, refit, read.frame)
