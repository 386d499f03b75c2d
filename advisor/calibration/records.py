"""What one fit found, as storable data: parameters with bounds and errors, what was dropped, what held-out rows say.

Shipped under profiles/calibration, one JSON file per measured device, written by `calibrate`, only read at run time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES

FORM_VERSION = "4"
"""Raised whenever a functional form, a drop rule or an error definition changes."""

RECORDS = PROFILES / "calibration"
SIGNIFICANT_DIGITS = 6

Operation = Literal["moe", "gemm", "attention", "mla", "all_reduce", "all_to_all"]
IDENTITY = ["hardware_id", "engine", "version", "dtype", "kernel_source"]
"""What names a kernel table."""

_Read = TypeVar("_Read")


class FitParameter(Frozen):
    """One fitted number. `stderr` is None where the parameter sits at a bound; `high` None means unbounded."""

    value: float
    unit: str
    stderr: float | None = None
    low: float = 0.0
    high: float | None = None
    at_bound: bool = False


class Dropped(Frozen):
    """Rows of the table that took no part in the fit."""

    reason: str
    n_rows: int


class FitRecord(Frozen):
    """One fit of one kernel table. Errors are relative, on rows of shapes that the fit did not see. [-]"""

    id: str
    op: Operation
    hardware_id: str
    engine: str
    version: str
    dtype: str
    kernel_source: str
    form: str
    parameters: dict[str, FitParameter]
    curve: tuple[tuple[float, float], ...] = ()
    """Knots of the factor on the form: (rows per touched expert, factor) of experts, (bytes, factor) of an all-reduce;
    empty where the form has none."""
    correlation_names: tuple[str, ...] = ()
    correlation: tuple[tuple[float, ...], ...] = ()
    ungated_matrices: int | None = None
    """Matrices per expert with which the kernel ran the shapes of ungated models (2, or 3 when it gated them); None
    where the table has no such shape. MoE only."""
    n_ranks: int | None = None
    n_rows: int = Field(ge=0)
    n_shapes: int = Field(ge=0)
    n_widths: int | None = None
    """Distinct (input width, width of a shard) among the fitted rows. MoE only."""
    n_lowered: int = 0
    """Fitted rows that took clearly longer than a step of more tokens and were lowered to it. MoE only."""
    dropped: tuple[Dropped, ...] = ()
    data_sha256: str
    form_version: str = FORM_VERSION
    code_version: str = ""
    """Version of this project that fitted it."""
    loso_median: float | None = None
    loso_p90: float | None = None
    ratio_median: float | None = None
    ratio_p90: float | None = None
    """Errors of T(4 t) / T(t), where the table has both token counts."""
    ep_median: float | None = None
    ep_p90: float | None = None
    """Errors on expert-parallel rows (2 to 8 ranks), none of which was fitted; U of the slowest rank by
    `routing.local_experts`. MoE only."""
    log_sd: float
    """Standard deviation of log(measured / predicted) whose normal band of 80 % holds 80 % of held-out rows. [-]"""
    success: bool
    message: str

    def value(self, name: str) -> float:
        """The value of one parameter. Raises AdvisorError when the form has none of that name."""
        if name not in self.parameters:
            raise AdvisorError(f"fit {self.id} has no parameter {name!r}; it has {', '.join(sorted(self.parameters))}")
        return self.parameters[name].value


def rounded(value: Any) -> Any:
    """Value with floats cut to six significant digits and non-finite ones to None. Through lists and mappings."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return value


def record_id(op: Operation, identity: Mapping[str, str], n_ranks: int | None = None) -> str:
    """Name of the fit of one table, from its IDENTITY."""
    return "/".join([op, *(identity[key] for key in IDENTITY), *([f"{n_ranks} ranks"] if n_ranks else [])])


def compact(entry: object) -> str:
    """Entry as JSON without spaces."""
    return json.dumps(entry, separators=(",", ":"))


def one_a_line(entries: Iterable[str]) -> str:
    """List of JSON entries, one a line, so that a new run gives a small diff."""
    return "[\n" + ",\n".join(entries) + "\n]"


def write_text(path: Path, text: str) -> None:
    """Write `text` and a last line break. Makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def read_fitted(path: Path, parse: Callable[[str], _Read], what: str) -> _Read | None:
    """Contents of a written file as `parse` reads them.

    None where there is none. Raises AdvisorError when it is not `what`.
    """
    if not path.is_file():
        return None
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AdvisorError(
            f"{path.parent.name}/{path.name}: not {what} ({reason}); restore it or run `make calibrate`"
        ) from error


def write_records(device: str, records: list[FitRecord], folder: Path = RECORDS) -> Path:
    """Write one device's records, sorted by id."""
    found = sorted(records, key=lambda record: record.id)
    path = folder / f"{device}.json"
    write_text(path, one_a_line(compact(rounded(_stored(record))) for record in found))
    load_records.cache_clear()
    return path


def _stored(record: FitRecord) -> dict[str, Any]:
    """What differs from the defaults, and always the versions and each parameter's bounds: a default may change."""
    bounds = {name: {"low": one.low, "high": one.high} for name, one in record.parameters.items()}
    entry = record.model_dump(mode="json", exclude_defaults=True)
    parameters = {name: {**entry["parameters"][name], **both} for name, both in bounds.items()}
    versions = {"form_version": record.form_version, "code_version": record.code_version}
    return {**entry, "parameters": parameters, **versions}


def recorded_devices(folder: Path = RECORDS) -> list[str]:
    """Devices that have fit records, sorted. Names are those of `Hardware.kernel_table_device`."""
    return sorted(path.stem for path in folder.glob("*.json"))


@lru_cache(maxsize=32)
def load_records(device: str, folder: Path = RECORDS) -> tuple[FitRecord, ...]:
    """The records of one device, read once. Empty where the device was never measured.

    Raises AdvisorError when the file is damaged.
    """
    parse = TypeAdapter(tuple[FitRecord, ...]).validate_json
    return read_fitted(folder / f"{device}.json", parse, "fit records") or ()
