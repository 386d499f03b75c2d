"""Attention layers measured as a whole, thinned; shipped under profiles/calibration/modules.

Written by `make calibrate` beside the fit records, one JSON file per measured device, read once when a model needs it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from advisor.calibration.records import RECORDS, compact, one_a_line, read_fitted, write_text
from advisor.prediction import Frozen

MODULES = RECORDS / "modules"
_DIGITS = 3


class ModuleTable(Frozen):
    """One attention layer by sequences and context, holes filled and rising in both. What was measured is said."""

    op: str
    engine: str
    version: str
    model: str
    """The checkpoint whose dimensions the layer has, as the package's table names it."""
    kv_dtype: str
    gemm_dtype: str
    n_heads: int
    """Query heads of this rank. [-]"""
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    """The new token included. [-]"""
    time_us: tuple[tuple[float, ...], ...]
    """[batches, contexts]. [us]"""
    measured_to: tuple[int, ...]
    """Largest batch that was measured at each context, 0 where none was: the rest is carried on. [-]"""
    n_rows: int
    n_spikes: int = 0
    """Rows left out because a doubling of the batch took more than three times as long. [-]"""
    log_sd: float
    """As in FitRecord, of measured rows over what the thinned table gives for them, and of rows between neighbours."""

    @property
    def id(self) -> str:
        """Name of the table, readable: engine, version, layer and format."""
        parts = (self.op, self.engine, self.version, self.model, f"kv-{self.kv_dtype}", self.gemm_dtype)
        return "/".join((*parts, f"{self.n_heads} heads"))


def write_modules(device: str, tables: list[ModuleTable], folder: Path = MODULES) -> Path:
    """Write one device's tables, sorted by id, one per line. Times with three digits."""
    lines = []
    for table in sorted(tables, key=lambda table: table.id):
        entry = table.model_dump(mode="json", exclude_defaults=True)
        entry["time_us"] = [[_short(each) for each in row] for row in table.time_us]
        entry["log_sd"] = _short(table.log_sd)
        lines.append(compact(entry))
    path = folder / f"{device}.json"
    write_text(path, one_a_line(lines))
    return path


def _short(value: float) -> float:
    """Three digits: the rows scatter by more than half a per cent."""
    number = float(f"{value:.{_DIGITS}g}")
    return int(number) if number == int(number) else number


@lru_cache(maxsize=32)
def load_modules(device: str, folder: Path = MODULES) -> tuple[ModuleTable, ...]:
    """The tables of one device, read once. Empty where there are none. Raises AdvisorError for a damaged file."""
    parse = TypeAdapter(tuple[ModuleTable, ...]).validate_json
    return read_fitted(folder / f"{device}.json", parse, "measured attention layers") or ()
