"""Measured rows of single expert shapes, as factors on the additive form; shipped under profiles/calibration/measured.

Written by `make calibrate` beside the fit records, one JSON file per measured device, read once when a model needs it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from advisor.calibration.records import RECORDS, compact, one_a_line, read_fitted, rounded, write_text
from advisor.kernel_costs import ExpertShape
from advisor.prediction import Frozen

MEASURED = RECORDS / "measured"
MAX_FACTOR = 3.0
"""Rows further than this from the form, either way, show a kernel that was not tuned for the shape: engines then run
another one. They are reported, not used. [-]"""


class ShapeRows(Frozen):
    """One measured shape: measured over additive time at `MeasuredTable.tokens`. None where there is no row. [-]"""

    shape: ExpertShape
    factor: tuple[float | None, ...]


class MeasuredTable(Frozen):
    """The shapes of one kernel table, as factors on one fit. Errors are relative, on rows no factor saw. [-]"""

    fit_id: str
    tokens: tuple[int, ...]
    """Tokens of the whole step. [-]"""
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
    """Write one device's tables, sorted by fit, one shape per line."""
    texts = []
    for table in sorted(tables, key=lambda table: table.fit_id):
        entry = rounded(table.model_dump(mode="json", exclude={"shapes"}, exclude_defaults=True))
        shapes = [_line(shape) for shape in sorted(table.shapes, key=lambda one: one.shape)]
        texts.append(f'{compact(entry)[:-1]},"shapes":{one_a_line(shapes)}}}')
    path = folder / f"{device}.json"
    write_text(path, one_a_line(texts))
    return path


def _line(rows: ShapeRows) -> str:
    """Four digits of a factor are enough: the rows themselves scatter by one to two per cent."""
    factor = [None if value is None else float(f"{value:.4g}") for value in rows.factor]
    return compact({"shape": rounded(list(rows.shape)), "factor": factor})


@lru_cache(maxsize=32)
def load_measured(device: str, folder: Path = MEASURED) -> tuple[MeasuredTable, ...]:
    """The tables of one device, read once. Empty where there are none. Raises AdvisorError for a damaged file."""
    parse = TypeAdapter(tuple[MeasuredTable, ...]).validate_json
    return read_fitted(folder / f"{device}.json", parse, "measured shapes") or ()
