"""A run of `advisor profile --engine` put to use: its rows, and the refit that they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.adjustment import write_adjustment
from advisor.catalog.models import model_ids
from advisor.measured.ingest.own import own_document, own_rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import Rows, resolve_names
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.own_points import with_rounds
from advisor.measured.points import Point
from advisor.measured.refit import BeforeAfter, adjustment_of, drafter_of, refit_chosen, refitted, select_points
from advisor.measured.refit_result import RefitResult
from advisor.physics.acceptance import Acceptance
from advisor.physics.hardware import hardware_ids
from advisor.predict.curve import DEFAULT_BATCHES, curve_for
from advisor.profiles import read_file

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
    setup = replace(rounds[0].setup, acceptance=acceptance)
    batches = np.unique([*DEFAULT_BATCHES, *timed["batch_size"].astype(float)])
    batches = batches[batches <= max(4 * float(timed["batch_size"].max()), 64)]
    before, after = (curve_for(one, batches, [n_draft]) for one in (setup, refitted(setup, use.result)))
    at = np.searchsorted(batches, timed["batch_size"].astype(float))
    points = {"batch_size": timed["batch_size"], "measured": timed["speedup"], "line": timed.index, "used": True}
    on = {"before": before.speedup[at, 0], "after": after.speedup[at, 0]}
    curves = (before.speedup[:, 0], after.speedup[:, 0], after.low[:, 0], after.high[:, 0])
    name, drafter = rounds[0].scenario.model_id, drafter_of(rounds[0])
    return BeforeAfter("speedup", name, drafter, n_draft, batches, *curves, pd.DataFrame({**points, **on}))


def rows_of_run(folder: Path) -> Rows:
    """The rows of a run's folder, its own model and accelerator filled in. Raises AdvisorError for a damaged file."""
    rows = read_upload("data.csv", read_file(folder / "data.csv", MAX_BYTES, "a run's data.csv"))
    documents = [
        own_document(column, folder.resolve().name if column == "model_id" else "", text.decode(), (name,))
        for column, name in _BESIDE.items()
        if (folder / name).exists()
        for text in [read_file(folder / name, MAX_BYTES, f"a run's {name}")]
    ]
    return resolve_names(own_rows(rows, documents), hardware_ids(), model_ids())


def use_of_run(folder: Path) -> RunUse:
    """Refit on the rows of one run. Raises AdvisorError where too few of them can be used."""
    rows = rows_of_run(folder).result.frame
    points, refused = select_points(rows)
    result = refit_chosen(points, refused, ask=False)
    return RunUse(points, result, None if result.reasons_against else write_adjustment(adjustment_of(result)), rows)
