"""Our own table and our own profiler."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from advisor.ingest.canonical import MEASURED_COLUMNS, header_key, match_header
from advisor.ingest.cells import Cells
from advisor.ingest.checks import misplaced_columns
from advisor.ingest.raw import FieldMap, Format, RawRows, from_mapped, from_records, keep_objects, with_header
from advisor.ingest.result import Reject, shorten
from advisor.ingest.table import FileTable, load_table, map_header, read_table, table_header, unit_hints
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError
from advisor.text import counted

# Our own table (CSV or parquet): the downloadable template, filled in.

_MIN_COLUMNS = 3


def detect_template(sample: Sample) -> float:
    """0.9 for a header with our measured columns, less than any tool's own more specific header."""
    if sample.kind not in ("text", "parquet"):
        return 0.0
    header = table_header(sample)
    found = {match[0] for cell in header if (match := match_header(cell, "points"))}
    exact = {header_key(cell) for cell in header} & found
    if len(found) < _MIN_COLUMNS or not found & set(MEASURED_COLUMNS["points"]):
        return 0.0
    return 0.9 if len(exact) >= _MIN_COLUMNS else 0.6


def read_template(sample: Sample) -> RawRows:
    """Every row of the table. Unknown columns are named in a warning and ignored."""
    table = load_table(sample, "points")
    mapped = map_header(table, "points", sample.name)
    warnings = [*mapped.warnings, *unit_hints(mapped.unknown, "points")]
    if mapped.unknown:
        shown = ", ".join(name[:40] for name in mapped.unknown[:10])
        warnings.append(f"{counted(len(mapped.unknown), 'column')} not known and ignored: {shown}")
    cells, swaps = from_mapped(table, mapped), misplaced_columns(table, mapped.columns, "points")
    return RawRows("points", table.lines, cells, list(table.rejects), warnings=warnings, swaps=swaps)


TEMPLATE = Format(
    "canonical_csv",
    "our own CSV template",
    "a header with at least three of our columns, one of them a measurement",
    detect_template,
    read_template,
)


# The same columns as JSON: one record per run, by our names, as a script writes them or `--map` makes them.


def detect_records(sample: Sample) -> float:
    """0.5 for a record with our measured columns, less than any tool's own."""
    if sample.kind not in ("json", "jsonl"):
        return 0.0
    found = {match[0] for name in sample.first if (match := match_header(str(name), "points"))}
    return 0.5 if len(found) >= _MIN_COLUMNS and found & set(MEASURED_COLUMNS["points"]) else 0.0


def read_records(sample: Sample) -> RawRows:
    """Read every record.

    Fields that are not known are named in a warning and ignored. Raises AdvisorError for two fields of one column.
    """
    records, lines, rejects = keep_objects(sample)
    names = list(dict.fromkeys(str(name) for record in records for name in record))
    maps: dict[str, FieldMap] = {}
    for name in names:
        found = match_header(name, "points")
        if found is None:
            continue
        column, factor = found
        if column in maps:
            raise AdvisorError(
                f"{sample.name}: fields {maps[column].sources[0]!r} and {name!r} both give {column}; keep one of them"
            )
        maps[column] = FieldMap(column, (name,), factor)
    unknown = [name for name in names if match_header(name, "points") is None]
    warnings = unit_hints(tuple(unknown), "points")
    if unknown:
        shown = ", ".join(shorten(name)[:40] for name in unknown[:10])
        warnings.append(f"{counted(len(unknown), 'field')} not known and ignored: {shown}")
    return RawRows("points", lines, from_records(records, list(maps.values())), rejects, warnings=warnings)


RECORDS = Format(
    "canonical_json",
    "our own columns as JSON",
    "records with at least three of our columns, one of them a measurement",
    detect_records,
    read_records,
)


# data.csv of `python -m advisor profile`: its MoE layers become kernel rows; its other operations stay behind.

_NEEDED = ("op", "status", "touched_experts", "expert_width", "time_s", "time_p20_s", "checked_error", "control_ratio")
"""Columns that only the profiler writes."""
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}
_COLUMNS = {
    "n_tokens": "num_tokens",
    "hidden_size": "hidden_size",
    "expert_width": "inter_size",
    "n_active": "topk",
    "n_experts": "num_experts",
    "routing": "distribution",
    "kernel": "kernel_source",
    "time_s": "latency_s",
}


def read_sweep(sample: Sample) -> RawRows:
    """One kernel row per measured MoE layer, its time the median over rounds.

    Rows that failed, and layers timed together with a shared expert, are refused with the reason. Raises AdvisorError
    when the sweep measured no MoE layer.
    """
    table = read_table(sample)
    absent = [name for name in (*_COLUMNS, "dtype", "shared_width", "notes") if name not in table.header]
    if absent:
        raise AdvisorError(
            f"{sample.name} lacks the columns {', '.join(absent)}; send data.csv as the profiler wrote it"
        )
    layers = _words(table, "op") == "moe_layer"
    if not layers.any():
        raise AdvisorError(f"{sample.name} holds no MoE layer; profile with a block named moe-...")
    status = _words(table, "status")
    measured = status == "ok"
    shared = ~np.isin(_words(table, "shared_width"), ["", "0", "0.0"])
    rejects = [
        Reject(int(table.lines[row]), "status", shorten(status[row]), f"not measured: {_word(table, 'notes', row)}")
        for row in np.flatnonzero(layers & ~measured)
    ]
    rejects += [
        Reject(int(table.lines[row]), "shared_width", _word(table, "shared_width", row), "timed with a shared expert")
        for row in np.flatnonzero(layers & measured & shared)
    ]
    kept = layers & measured & ~shared
    mask = pa.array(kept)
    cells = {ours: Cells(_column(table, theirs).filter(mask), theirs) for theirs, ours in _COLUMNS.items()}
    formats = [_DTYPES.get(word, word) for word in _words(table, "dtype")[kept]]
    cells["dtype"] = Cells(formats, "dtype")
    raw = RawRows("kernels", table.lines[kept], cells, rejects)
    for name, value in (("op", "moe"), ("engine", "advisor.profiling"), ("tp", 1), ("ep", 1)):
        raw.constant(name, value)
    others = int((~layers).sum())
    raw.notes.append("latency is the median over rounds; the device is named in the meta.yaml beside the file")
    if others:
        raw.notes.append(f"{others} rows of other operations were left out: only MoE layers become kernel rows")
    return raw


def _column(table: FileTable, name: str) -> pa.Array:
    column = table.column(name)
    assert column is not None  # `read_sweep` has checked the header
    return column


def _words(table: FileTable, name: str) -> np.ndarray:
    return np.array([cell or "" for cell in _column(table, name).to_pylist()], dtype=object)


def _word(table: FileTable, name: str, row: int | np.integer) -> str:
    return shorten(_column(table, name)[int(row)].as_py() or "no reason given")


SWEEP = Format(
    "profiler_sweep",
    "a sweep of `advisor profile` (data.csv)",
    "columns op, touched_experts, expert_width, time_p20_s, checked_error and control_ratio",
    with_header(0.98, *_NEEDED),
    read_sweep,
)
