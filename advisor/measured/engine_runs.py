"""A run of `advisor profile --engine` put to use: its rows, and the refit that they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.adjustment import write_adjustment
from advisor.catalog.models import model_ids
from advisor.measured.ingest.own import own_document, own_rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import Measured, resolve_names
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.points import Point
from advisor.measured.refit import adjustment_of, refit_chosen, select_points
from advisor.measured.refit_result import RefitResult
from advisor.physics.hardware import hardware_ids
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


def rows_of_run(folder: Path) -> Measured:
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
    points, refused = select_points(rows_of_run(folder).result.frame)
    result = refit_chosen(points, refused, ask=False)
    return RunUse(points, result, None if result.reasons_against else write_adjustment(adjustment_of(result)))
