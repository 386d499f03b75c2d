"""Measured rows of single expert shapes, as factors on the additive form; shipped under profiles/calibration/measured.

Written by `make calibrate` beside the fit records, one JSON file per measured device, read once when a model needs it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from advisor.calibration.records import RECORDS, rounded
from advisor.kernel_costs import ExpertShape
from advisor.prediction import AdvisorError, Frozen

MEASURED = RECORDS / "measured"


class ShapeRows(Frozen):
    """One measured shape: measured over additive time at `MeasuredTable.tokens`; None where there is no row. [1]"""

    shape: ExpertShape
    factor: tuple[float | None, ...]


class MeasuredTable(Frozen):
    """The shapes of one kernel table, as factors on one fit. Errors are relative, on rows no factor saw. [1]"""

    fit_id: str
    tokens: tuple[int, ...]
    """Tokens of the whole step. [1]"""
    loads: tuple[str, ...]
    """Loads whose rows were averaged."""
    n_rows: int
    shapes: tuple[ShapeRows, ...]
    carry_median: float | None = None
    carry_p90: float | None = None
    """Another load at the same tokens, so at another number of touched experts."""
    between_median: float | None = None
    between_p90: float | None = None
    """Another load at tokens between those used."""
    log_sd: float
    """As in FitRecord, of the errors between tokens."""


def write_measured(device: str, tables: list[MeasuredTable], folder: Path = MEASURED) -> Path:
    """Write one device's tables, sorted by fit, one shape per line, so that a new run gives a small diff."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = []
    for table in sorted(tables, key=lambda table: table.fit_id):
        entry = rounded(table.model_dump(mode="json", exclude={"shapes"}, exclude_defaults=True))
        shapes = [_line(shape) for shape in sorted(table.shapes, key=lambda one: one.shape)]
        texts.append(_dump(entry)[:-1] + ',"shapes":[\n' + ",\n".join(shapes) + "\n]}")
    path = folder / f"{device}.json"
    path.write_text("[\n" + ",\n".join(texts) + "\n]\n", encoding="utf-8")
    return path


def _line(rows: ShapeRows) -> str:
    """Four digits of a factor are enough: the rows themselves scatter by one to two per cent."""
    factor = [None if value is None else float(f"{value:.4g}") for value in rows.factor]
    return _dump({"shape": rounded(list(rows.shape)), "factor": factor})


def _dump(entry: object) -> str:
    return json.dumps(entry, separators=(",", ":"))


@lru_cache(maxsize=32)
def load_measured(device: str, folder: Path = MEASURED) -> tuple[MeasuredTable, ...]:
    """The tables of one device, read once; empty where there are none. Raises AdvisorError for a damaged file."""
    path = folder / f"{device}.json"
    if not path.is_file():
        return ()
    try:
        return tuple(MeasuredTable.model_validate(entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AdvisorError(
            f"profiles/calibration/measured/{path.name}: not measured shapes ({reason}); restore it or run "
            "`make calibrate`"
        ) from error
