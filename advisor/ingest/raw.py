"""What a reader hands over: raw cells by canonical column, and the typed table they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from advisor.ingest.canonical import COLUMNS, CanonicalColumn, TableKind
from advisor.ingest.cells import Cells, check_text, comma_is_decimal, strings, to_numbers
from advisor.ingest.names import drafter_name, engine_name, weight_dtype
from advisor.ingest.result import Reject, Swap, rejects_frame, shorten
from advisor.ingest.table import FileTable, Mapped
from advisor.ingest.upload import Sample

TEMPORARY = "_"
"""Columns whose names begin so are numbers that a reader needs to compute others; they are dropped afterwards."""

_TEMPORARY_COLUMN = CanonicalColumn("value", "number", "", "", low=-1e15, high=1e15)
NAME_MAPS: dict[str, Callable[[str], str | None]] = {
    "engine": engine_name,
    "weight_dtype": weight_dtype,
    "drafter": drafter_name,
}

Finish = Callable[[pd.DataFrame], list[str]]


@dataclass
class RawRows:
    """Raw cells by canonical column, as a reader found them.

    `finish` may fill canonical columns from temporary ones; it gets the coerced frame, changes it, and returns notes.
    """

    kind: TableKind
    lines: np.ndarray
    cells: dict[str, Cells]
    rejects: list[Reject] = field(default_factory=list)
    prefill: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    finish: Finish | None = None

    def constant(self, column: str, value: Any, source: str = "(format)") -> None:
        """Give every row the same value."""
        self.cells[column] = Cells(pa.repeat(pa.scalar(str(value), pa.large_string()), len(self.lines)), source)


@dataclass(frozen=True)
class Format:
    """A format that can be read: its id, the tool's name for it, how it is recognised and read.

    `detect` scores a sample from 0 to 1 by its content alone. `wants`: the fields of a JSON record that it goes by
    (`a|b`: either; dots descend), so that a near miss can be told what it lacks.
    """

    id: str
    name: str
    recognised_by: str
    detect: Callable[[Sample], float]
    read: Callable[[Sample], RawRows]
    wants: tuple[str, ...] = ()


@dataclass(frozen=True)
class FieldMap:
    """Canonical column <- the first of `sources` that a record has (dots descend), times `scale`."""

    column: str
    sources: tuple[str, ...]
    scale: float = 1.0


def field_of(record: Any, path: str) -> Any:
    """The value at a dotted path of nested objects. A key that itself holds dots wins. None when absent."""
    if isinstance(record, dict) and path in record:
        return record[path]
    for part in path.split("."):
        if not isinstance(record, dict):
            return None
        record = record.get(part)
    return record


def keep_objects(sample: Sample) -> tuple[list[dict[str, Any]], np.ndarray, list[Reject]]:
    """The records that are objects, their line numbers, and a refusal for every other one."""
    pairs = list(zip(sample.records, sample.lines, strict=True))
    records = [record for record, _ in pairs if isinstance(record, dict)]
    lines = np.array([line for record, line in pairs if isinstance(record, dict)], dtype=np.int64)
    wrong = [
        Reject(line, "", shorten(record), "expected a JSON object")
        for record, line in pairs
        if not isinstance(record, dict)
    ]
    return records, lines, [*sample.rejects, *wrong]


def from_records(records: Sequence[Mapping[str, Any]], maps: Sequence[FieldMap]) -> dict[str, Cells]:
    """Raw cells of JSON records [rows]. Columns that no record has are left out."""
    cells: dict[str, Cells] = {}
    for item in maps:
        values: list[Any] = [None] * len(records)
        sources = [item.sources[0]] * len(records)
        for row, record in enumerate(records):
            for source in item.sources:
                value = field_of(record, source)
                if value is not None:
                    values[row], sources[row] = value, source
                    break
        if any(value is not None for value in values):
            one = len(set(sources)) == 1
            cells[item.column] = Cells(values, sources[0] if one else sources, item.scale)
    return cells


def with_fields(score: float, *fields: str) -> Callable[[Sample], float]:
    """Detection: `score` for JSON whose first record has all these fields."""
    return lambda sample: score if sample.kind in ("json", "jsonl") and sample.first.keys() >= {*fields} else 0.0


def with_header(score: float, *cells: str) -> Callable[[Sample], float]:
    """Detection: `score` for text whose header has all these cells."""
    return lambda sample: score if sample.kind == "text" and {*cells} <= set(sample.header) else 0.0


def raw_points(
    sample: Sample, maps: Sequence[FieldMap], finish: Finish | None = None, **constants: str
) -> tuple[RawRows, list[dict[str, Any]]]:
    """A row for each object of a JSON sample with `constants` in every row, and those objects."""
    records, lines, rejects = keep_objects(sample)
    raw = RawRows("points", lines, from_records(records, maps), rejects, finish=finish)
    for column, value in constants.items():
        raw.constant(column, value)
    return raw, records


def from_table(table: FileTable, maps: Sequence[FieldMap]) -> dict[str, Cells]:
    """Raw cells of a CSV table by field map. The first source header that is present is taken."""
    cells: dict[str, Cells] = {}
    for item in maps:
        for source in item.sources:
            column = table.column(source)
            if column is not None:
                cells[item.column] = Cells(column, source, item.scale)
                break
    return cells


def from_mapped(table: FileTable, mapped: Mapped) -> dict[str, Cells]:
    """Raw cells of a table whose headers were matched to canonical columns."""
    return {
        name: Cells(table.columns[index], table.header[index], factor)
        for name, (index, factor) in mapped.columns.items()
    }


def floats(frame: pd.DataFrame, name: str) -> np.ndarray:
    """A column as floats with NaN for unknown [rows]. All NaN when the file had no such field."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    return frame[name].to_numpy(dtype=float, na_value=np.nan)


def coerce(raw: RawRows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Typed frame of the good rows, and the rejects of the others. Index `line`, canonical and temporary columns."""
    spec = COLUMNS[raw.kind]
    numeric = {name for name in raw.cells if name.startswith(TEMPORARY) or spec[name].numeric}
    decimal_comma = comma_is_decimal([raw.cells[name].values for name in raw.cells if name in numeric])
    good = np.ones(len(raw.lines), dtype=bool)
    rejects = list(raw.rejects)
    series: dict[str, Any] = {}
    for name, cells in raw.cells.items():
        column = spec.get(name, _TEMPORARY_COLUMN)
        text = strings(cells.values)
        cells.values = None  # column by column, so that a million raw cells are not kept twice
        if name in numeric:
            series[name], bad = to_numbers(text, column, cells.scale, decimal_comma)
        else:
            series[name], bad = text, check_text(text, column)
        good[bad.rows] = False
        rejects += [
            Reject(int(raw.lines[row]), cells.source_of(row), value, reason)
            for row, value, reason in zip(bad.rows, bad.values, bad.reasons, strict=True)
        ]
    pa.default_memory_pool().release_unused()
    index = pd.Index(raw.lines[good], name="line", dtype="int64")
    keep = None if good.all() else pa.array(good)
    data = {}
    for name in (*spec, *(name for name in series if name not in spec)):
        data[name] = _typed(series.pop(name, None), spec.get(name, _TEMPORARY_COLUMN), good, keep, index)
    if decimal_comma:
        raw.warnings.append("commas in numbers were read as decimal points")
    frame = pd.DataFrame(data, index=index)
    return frame, rejects_frame(rejects)


def _typed(values: Any, column: CanonicalColumn, good: np.ndarray, keep: pa.Array | None, index: pd.Index) -> pd.Series:
    if column.numeric:
        numbers = np.full(len(index), np.nan) if values is None else values[good]
        whole = column.type in ("integer", "flag")
        result = pd.Series(numbers, index=index, dtype="float64")
        return result.astype("Int64") if whole else result
    if values is None:
        return pd.Series(pd.NA, index=index, dtype="str")
    kept = values if keep is None else values.filter(keep)
    rename = NAME_MAPS.get(column.name)
    if rename is not None:
        encoded = kept.dictionary_encode()
        words = [None if word is None else rename(word) for word in encoded.dictionary.to_pylist()]
        kept = pa.array(words, pa.large_string()).take(encoded.indices)
    return pd.Series(kept.to_pandas(), dtype="str").set_axis(index)
