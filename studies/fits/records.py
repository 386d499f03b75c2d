"""Writing what fits and checks found: JSON, one record a line and six digits, so that a new run
gives a small diff."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from advisor.catalog.fit_records import (
    HELD_OUT_FILE,
    MEASURED,
    MODULES,
    OVERHEADS_FILE,
    RECORDS,
    FitRecord,
    HeldOutFit,
    MeasuredTable,
    ModuleTable,
    OverheadFit,
    ShapeRows,
    load_held_out,
    load_overheads,
    load_records,
)
from advisor.catalog.kernel_choice import SMALL_LAUNCHES_FILE, SmallLaunch
from advisor.measured.validation import GATES, JUDGED
from advisor.predict.ratios import RATIOS, RatioRecord
from advisor.profiles import write_whole

SIGNIFICANT_DIGITS = 6


def recorded_devices(folder: Path = RECORDS) -> list[str]:
    """Devices that have fit records, sorted. Names are those of `Hardware.kernel_table_device`."""
    return sorted(path.stem for path in folder.glob("*.json"))


def rounded(value: Any) -> Any:
    """Value with floats cut to SIGNIFICANT_DIGITS and non-finite ones to None. Through lists and
    mappings."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return value


def _compact(entry: object) -> str:
    return json.dumps(entry, separators=(",", ":"))


def _lines(entries: Iterable[str]) -> str:
    return "[\n" + ",\n".join(entries) + "\n]"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{text}\n".encode())
    return path


def write_records(device: str, records: Iterable[FitRecord], folder: Path = RECORDS) -> Path:
    """Write one device's records, sorted by id."""
    ordered = sorted(records, key=lambda record: record.id)
    path = _write(
        folder / f"{device}.json", _lines(_compact(rounded(_stored(record))) for record in ordered)
    )
    load_records.cache_clear()
    return path


def _stored(record: FitRecord) -> dict[str, Any]:
    """What differs from the defaults, and always the versions and each parameter's bounds: a
    default may change."""
    bounds = {
        name: {"low": parameter.low, "high": parameter.high}
        for name, parameter in record.parameters.items()
    }
    entry = record.model_dump(mode="json", exclude_defaults=True)
    parameters = {name: {**entry["parameters"][name], **both} for name, both in bounds.items()}
    versions = {"form_version": record.form_version, "code_version": record.code_version}
    return {**entry, "parameters": parameters, **versions}


def write_measured(device: str, tables: Iterable[MeasuredTable], folder: Path = MEASURED) -> Path:
    """Write one device's tables, sorted by fit, one shape a line."""
    texts = []
    for table in sorted(tables, key=lambda table: table.fit_id):
        entry = rounded(table.model_dump(mode="json", exclude={"shapes"}, exclude_defaults=True))
        shapes = _lines(
            _shape_line(shape) for shape in sorted(table.shapes, key=lambda rows: rows.shape)
        )
        texts.append(f'{_compact(entry)[:-1]},"shapes":{shapes}}}')
    return _write(folder / f"{device}.json", _lines(texts))


def _shape_line(rows: ShapeRows) -> str:
    # Four digits of a factor are enough: the rows themselves scatter by one to two per cent.
    factor = [None if value is None else float(f"{value:.4g}") for value in rows.factor]
    return _compact({"shape": rounded(list(rows.shape)), "factor": factor})


def write_modules(device: str, tables: Iterable[ModuleTable], folder: Path = MODULES) -> Path:
    """Write one device's tables, sorted by id; none where none of its layers was measured whole."""
    entries = []
    for table in sorted(tables, key=lambda table: table.id):
        entry = table.model_dump(mode="json", exclude_defaults=True)
        entry["time_us"] = [[_short(time) for time in row] for row in table.time_us]
        entries.append(entry | {"log_sd": _short(table.log_sd)})
    return _write(folder / f"{device}.json", _lines(map(_compact, entries)))


def _short(value: float) -> float:
    """Value with three digits: the rows scatter by more than half a per cent."""
    number = float(f"{value:.3g}")
    return int(number) if number == int(number) else number


def write_overheads(
    fit: OverheadFit, held_out: Sequence[HeldOutFit], path: Path = OVERHEADS_FILE
) -> None:
    """Write the fit and the fits without each laboratory beside it, one number a line."""
    _write(path, json.dumps(rounded(fit.model_dump(mode="json")), indent=1))
    entries = [rounded(without.model_dump(mode="json")) for without in held_out]
    _write(path.with_name(HELD_OUT_FILE.name), json.dumps(entries, indent=1))
    load_overheads.cache_clear()
    load_held_out.cache_clear()


def write_small_launches(records: Iterable[SmallLaunch], path: Path = SMALL_LAUNCHES_FILE) -> None:
    """Write the launches that no kernel table holds."""
    _write(path, _lines(_compact(rounded(record.model_dump(mode="json"))) for record in records))


def write_ratios(records: Iterable[RatioRecord], source: str, path: Path = RATIOS) -> Path:
    """Write the records of pairs, with what they were measured on."""
    lines = _lines(_compact(rounded(asdict(record))) for record in records)
    return _write(path, f'{{"source":{json.dumps(source)},"records":{lines}}}')


def write_judged(
    judged: pd.DataFrame,
    data_and_fits: str,
    prospective: Mapping[str, float],
    path: Path = JUDGED,
) -> None:
    """Write judged speedups, with the hash of the data and fits behind them and the prospective
    figures of `studies.score.pooled`."""
    rows = _lines(_compact(rounded(row)) for row in judged.to_dict("records"))
    opening = f'"data_and_fits":"{data_and_fits}","prospective":{_compact(rounded(prospective))}'
    _write(path, f'{{{opening},"rows":{rows}}}')


def write_gates(gates: Sequence[Mapping[str, Any]], data_and_fits: str, path: Path = GATES) -> None:
    """Write the gates as `GateLine.shipped` has them, with the hash of the data and fits behind
    them."""
    lines = _lines(_compact(rounded(gate)) for gate in gates)
    _write(path, f'{{"data_and_fits":"{data_and_fits}","gates":{lines}}}')
