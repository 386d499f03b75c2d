"""Our own tables: the template, the profiler's files, and measured MoE kernel times."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from advisor.measured.ingest.cells import (
    BARE_LATENCY,
    Cells,
    FileTable,
    load_table,
    map_header,
    strings,
    table_header,
    unit_hints,
)
from advisor.measured.ingest.cells import read_table as read_file_table
from advisor.measured.ingest.checks import misplaced_columns
from advisor.measured.ingest.columns import MEASURED_COLUMNS, REMARKS, header_key, match_header
from advisor.measured.ingest.result import ReadNote, Reject, noted, shorten, warned
from advisor.measured.ingest.side_by_side import SIDES, side_by_side
from advisor.measured.ingest.upload import MAX_TEXT_LOG_BYTES, MIB, Sample
from advisor.measured.readers.base import (
    FieldMap,
    Format,
    RawRows,
    from_mapped,
    from_records,
    keep_objects,
    with_header,
)
from advisor.prediction import AdvisorError
from advisor.profiling.engine.plan import FASTEST
from advisor.text import number_of

# Our own table (CSV or parquet): the downloadable template, filled in.
_MIN_COLUMNS = 3


def detect_template(sample: Sample) -> float:
    """0.9 for a header with at least three of our columns, one of them a measurement.

    That is less than any tool's own more specific header.
    """
    if sample.kind not in ("text", "parquet"):
        return 0.0
    header = table_header(sample)
    columns = _understood(header)
    exact = {header_key(cell) for cell in header} & columns
    if not _are_runs(columns):
        return 0.0
    return 0.9 if len(exact) >= _MIN_COLUMNS else 0.6


def _are_runs(columns: set[str]) -> bool:
    """Whether some canonical columns tell of runs: a measurement beside the batch, or beside two
    others."""
    enough = len(columns) >= _MIN_COLUMNS or "batch_size" in columns
    return enough and not columns.isdisjoint(MEASURED_COLUMNS["points"])


def _understood(headers: Sequence[str]) -> set[str]:
    """Canonical columns among some headers, those of a pair without and with drafts included."""
    matches = (match_header(header, "points") for header in headers)
    columns = {match[0] for match in matches if match}
    try:
        pair = side_by_side(headers)
    except AdvisorError:  # said when the table is read
        return columns | set(SIDES.values())
    return columns if pair is None else columns | set(pair.columns)


def read_template(sample: Sample, used: Collection[str] = ()) -> RawRows:
    """Every row of the table. Unknown columns are named in a warning and ignored.

    used : columns that the caller reads.
    """
    table = load_table(sample, "points")
    mapped = map_header(table, "points", sample.name, sample.shown)
    notes = [*mapped.notes, *unit_hints(mapped.unknown)]
    remarks = [name for name in mapped.unknown if header_key(name) in REMARKS]
    unknown = [name for name in mapped.unknown if name not in {*remarks, *used}]
    if unknown:
        in_file = (sample.shown.get(name, name) for name in unknown)
        notes.append(_ignored(in_file, "column"))
    cells = from_mapped(table, mapped)
    notes += misplaced_columns(table, mapped.columns, "points")
    if remarks:
        cells["notes"] = _with_remarks(table, remarks, cells.get("notes"))
    raw = RawRows("points", table.lines, cells, list(table.rejects), notes=notes)
    if mapped.pair is not None:
        headers = [sample.shown.get(header, header) for header in table.header]
        raw.note("pair", **mapped.pair.facts(headers))
        raw.prefill |= mapped.pair.said
    return raw


def _ignored(names: Iterable[str], what: str) -> ReadNote:
    """The warning of columns or fields that are not known, of which the first ten are named."""
    shortened = tuple(name[:40] for name in names)
    return warned("not_known", left=(len(shortened), what), names=shortened[:10])


def _with_remarks(table: FileTable, names: Sequence[str], notes: Cells | None) -> Cells:
    """Notes with the cells of further columns behind them, `spread=0.08; runner=V1`."""
    columns = [(header_key(name), strings(table.column(name)).to_pylist()) for name in names]
    before = [None] * len(table.lines) if notes is None else strings(notes.values).to_pylist()
    rows = zip(before, *(cells for _, cells in columns), strict=True)
    keys = [key for key, _ in columns]
    row_parts = (
        [note, *(f"{key}={cell}" for key, cell in zip(keys, row, strict=True) if cell is not None)]
        for note, *row in rows
    )
    return Cells(
        pa.array(["; ".join(filter(None, parts)) or None for parts in row_parts], pa.string()),
        "notes",
    )


# data.csv of `advisor profile --engine`: our own columns, and how each cell went.
_STEPS_NEEDED = (
    "status",
    "step_time_s",
    "touched_law",
    "tokens_in_step",
    "control_ratio",
    "n_repeats",
)
"""Columns that only a measured engine's table has."""
_CHANGED_SHARE = 0.25
"""Share of such rows above which no row is taken (`point_checks.WRONG_SHARE`). [-]"""


def read_engine_steps(sample: Sample) -> RawRows:
    """Rows whose status is ok, others refused as they state. Raises AdvisorError where many step
    times were changed."""
    raw = read_template(sample, ("status",))
    table = load_table(sample, "points")
    status = _words(table, "status")
    ok = status == "ok"
    rescaled = _rescaled(table)
    usable = ok & ~rescaled
    raw.rejects += [
        Reject(
            int(table.lines[row]),
            "status",
            shorten(status[row]),
            f"not to be fitted: {_word(table, 'notes', row)}",
        )
        for row in np.flatnonzero(~ok)
    ]
    raw.rejects += [
        Reject(
            *(int(table.lines[row]), "step_time_s", _word(table, "step_time_s", row)),
            "not to be fitted: time_p10_s is no fastest tenth of steady steps",
        )
        for row in np.flatnonzero(ok & rescaled)
    ]
    mask = pa.array(usable)
    cells = {
        name: Cells(cell.values.filter(mask), cell.source, cell.scale)
        for name, cell in raw.cells.items()
    }
    if (ok & rescaled).sum() > _CHANGED_SHARE * ok.sum():
        raise AdvisorError(
            f"{sample.name}: {(ok & rescaled).sum()} step_time_s of {ok.sum()} do not go with "
            "their time_p10_s, the fastest tenth; give the run's data.csv as it was written"
        )
    raw.cells = cells
    raw.lines = table.lines[usable]
    return raw


def _rescaled(table: FileTable) -> NDArray[np.bool_]:
    """Rows whose step time is not the median of steps with that fastest tenth."""
    if "time_p10_s" not in table.header:
        return np.zeros(len(table.lines), bool)
    fastest_s = np.array([number_of(cell) or np.nan for cell in _words(table, "time_p10_s")])
    step_s = np.array([number_of(cell) or np.nan for cell in _words(table, "step_time_s")])
    ratio = fastest_s / step_s
    return np.asarray((ratio < FASTEST[0]) | (ratio > FASTEST[1]))


# The same columns as JSON: one record per run, by our names, as a script writes them or `--map`
# makes them.
def detect_records(sample: Sample) -> float:
    """0.5 for records with at least three of our columns, one of them a measurement.

    That is less than any tool's own.
    """
    if not sample.is_json:
        return 0.0
    return 0.5 if _are_runs(_understood([str(name) for name in sample.first])) else 0.0


def read_records(sample: Sample) -> RawRows:
    """Every record, unknown fields named in a warning. Raises AdvisorError for two fields of one
    column."""
    records, lines, rejects = keep_objects(sample)
    names = list(dict.fromkeys(str(name) for record in records for name in record))
    pair = side_by_side(names)
    paired = {} if pair is None else pair.columns
    maps = {
        column: FieldMap(column, (names[place],), factor)
        for column, (place, factor) in paired.items()
    }
    taken = {names[place] for place, _ in paired.values()}
    for name in names:
        match = match_header(name, "points")
        if match is None or name in taken:
            continue
        column, factor = match
        if column in maps:
            raise AdvisorError(
                f"{sample.name}: fields {maps[column].sources[0]!r} and {name!r} both give "
                f"{column}; keep one of them"
            )
        maps[column] = FieldMap(column, (name,), factor)
    unknown = [name for name in names if match_header(name, "points") is None and name not in taken]
    notes = unit_hints(unknown)
    if unknown:
        notes.append(_ignored(map(shorten, unknown), "field"))
    raw = RawRows("points", lines, from_records(records, list(maps.values())), rejects, notes=notes)
    if pair is not None:
        raw.note("pair", **pair.facts(names))
        raw.prefill |= pair.said
        if pair.metric is not None and "metric" not in raw.cells:
            raw.constant("metric", pair.metric, "(fields)")
    return raw


# data.csv of `python -m advisor profile`: its MoE layers become kernel rows; its other operations
# stay behind.
_NEEDED = (
    "op",
    "status",
    "touched_experts",
    "expert_width",
    "time_s",
    "time_p20_s",
    "checked_error",
    "control_ratio",
)
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

    Rows that failed, and layers timed together with a shared expert, are refused with the reason.
    Raises AdvisorError when the sweep measured no MoE layer.
    """
    table = read_file_table(sample)
    absent = [
        name for name in (*_COLUMNS, "dtype", "shared_width", "notes") if name not in table.header
    ]
    if absent:
        raise AdvisorError(
            f"{sample.name} lacks the columns {', '.join(absent)}; send data.csv as the profiler "
            "wrote it"
        )
    layers = _words(table, "op") == "moe_layer"
    if not layers.any():
        raise AdvisorError(f"{sample.name} holds no MoE layer; profile with a block named moe-...")
    status = _words(table, "status")
    measured = status == "ok"
    shared = ~np.isin(_words(table, "shared_width"), ["", "0", "0.0"])
    rejects = [
        Reject(
            int(table.lines[row]),
            "status",
            shorten(status[row]),
            f"not measured: {_word(table, 'notes', row)}",
        )
        for row in np.flatnonzero(layers & ~measured)
    ]
    rejects += [
        Reject(
            int(table.lines[row]),
            "shared_width",
            _word(table, "shared_width", row),
            "timed with a shared expert",
        )
        for row in np.flatnonzero(layers & measured & shared)
    ]
    usable = layers & measured & ~shared
    mask = pa.array(usable)
    cells = {
        ours: Cells(_column(table, theirs).filter(mask), theirs)
        for theirs, ours in _COLUMNS.items()
    }
    formats = [_DTYPES.get(word, word) for word in _words(table, "dtype")[usable]]
    cells["dtype"] = Cells(formats, "dtype")
    raw = RawRows("kernels", table.lines[usable], cells, rejects)
    for name, value in (("op", "moe"), ("engine", "advisor.profiling"), ("tp", 1), ("ep", 1)):
        raw.constant(name, value)
    others = int((~layers).sum())
    if others:
        raw.note("other_operations", n=others)
    return raw


def _column(table: FileTable, name: str) -> pa.Array:
    return table.columns[table.header.index(name)]


def _words(table: FileTable, name: str) -> np.ndarray:
    return np.array([cell or "" for cell in _column(table, name).to_pylist()], dtype=object)


def _word(table: FileTable, name: str, row: int | np.integer) -> str:
    return shorten(_column(table, name)[int(row)].as_py() or "no reason given")


# Measured MoE kernel tables, one row per timed shape (CSV or parquet): framework, version, device,
# ..., latency.
_SHAPE = {"num_tokens", "hidden_size", "topk", "num_experts"}
_MS = 1e-3


def detect_table(sample: Sample) -> float:
    """0.95 for a header with num_tokens, hidden_size, topk, num_experts and a latency."""
    if sample.kind not in ("text", "parquet"):
        return 0.0
    header = table_header(sample)
    matches = (match_header(cell, "kernels") for cell in header)
    columns = {match[0] for match in matches if match}
    timed = "latency_s" in columns or bool({header_key(cell) for cell in header} & BARE_LATENCY)
    return 0.95 if columns >= _SHAPE and timed else 0.0


def read_table(sample: Sample) -> RawRows:
    """Every row. A latency column without a unit is in milliseconds, as these tables define it."""
    table = load_table(sample, "kernels")
    mapped = map_header(table, "kernels", sample.name)
    cells = from_mapped(table, mapped)
    notes = [*mapped.notes, *misplaced_columns(table, mapped.columns, "kernels")]
    bare = next(
        (index for index, cell in enumerate(table.header) if header_key(cell) in BARE_LATENCY), None
    )
    if "latency_s" not in cells and bare is not None:
        cells["latency_s"] = Cells(table.columns[bare], table.header[bare], _MS)
        notes.append(noted("latency_in_ms"))
    raw = RawRows("kernels", table.lines, cells, list(table.rejects), notes=notes)
    if "op" not in cells:
        raw.constant("op", "moe")
    return raw


# Log of vLLM's or SGLang's benchmark_moe without --tune: kernel times by batch size. The shape is
# not printed.
_BATCH = re.compile(r"Batch size:\s*([0-9]{1,9})\b")
_TIME = re.compile(r"Kernel time:\s*(\S{1,40})\s*us\b")
_ARGUMENT = re.compile(r"\b(model|tp_size|tp|ep_size|dtype)=('([^']{0,200})'|[0-9]{1,6})")


def detect_log(sample: Sample) -> float:
    """0.95 for lines `Batch size: N, config: ...` followed by `Kernel time: X us`."""
    return (
        0.95
        if sample.kind == "text" and _BATCH.search(sample.head) and _TIME.search(sample.head)
        else 0.0
    )


def read_log(sample: Sample) -> RawRows:
    """One kernel row per batch size with a time, others refused. Raises AdvisorError for a log that
    is too long."""
    if len(sample.data) > MAX_TEXT_LOG_BYTES:
        raise AdvisorError(
            f"{sample.name} is more than {MAX_TEXT_LOG_BYTES // MIB} MiB of log; cut it to the "
            "results"
        )
    lines: list[int] = []
    tokens: list[str] = []
    times: list[str] = []
    rejects: list[Reject] = []
    pending: tuple[int, str] | None = None
    for number, line in enumerate(sample.data.decode("utf-8").split("\n"), start=1):
        batch = _BATCH.search(line)
        time = _TIME.search(line)
        if batch:
            if pending:
                rejects.append(_untimed(pending))
            pending = (number, batch[1])
        if time and pending:
            lines.append(number)
            tokens.append(pending[1])
            times.append(time[1])
            pending = None
        elif time:
            rejects.append(
                Reject(
                    number,
                    "Kernel time",
                    shorten(line.strip()),
                    "no batch size was printed before this time",
                )
            )
    if pending:
        rejects.append(_untimed(pending))
    cells = {
        "num_tokens": Cells(tokens, "Batch size"),
        "latency_s": Cells(times, "Kernel time", 1e-6),
    }
    raw = RawRows("kernels", np.array(lines, dtype=np.int64), cells, rejects)
    raw.constant("op", "moe")
    arguments = {match[1]: match[3] or match[2] for match in _ARGUMENT.finditer(sample.head)}
    tensor_parallel = arguments.get("tp_size") or arguments.get("tp")
    if tensor_parallel and tensor_parallel.isdigit():
        raw.prefill["tp"] = int(tensor_parallel)
    if arguments.get("dtype") not in (None, "auto"):
        raw.prefill["dtype"] = arguments["dtype"]
    return raw


def _untimed(pending: tuple[int, str]) -> Reject:
    return Reject(pending[0], "Batch size", pending[1], "no kernel time follows this batch size")


TEMPLATE = Format("canonical_csv", "CSV in our columns", detect_template, read_template)
RECORDS = Format("canonical_json", "our own columns as JSON", detect_records, read_records)
FORMATS = (TEMPLATE, RECORDS)
KERNELS = (
    Format("kernel_table", "a measured MoE kernel table", detect_table, read_table),
    Format("benchmark_moe", "a benchmark_moe log", detect_log, read_log),
)
PROFILED = (
    Format(
        "profiler_sweep",
        "a sweep of `advisor profile` (data.csv)",
        with_header(0.98, *_NEEDED),
        read_sweep,
    ),
    Format(
        "engine_steps",
        "steps of `advisor profile --engine` (data.csv)",
        with_header(0.98, *_STEPS_NEEDED),
        read_engine_steps,
    ),
)
