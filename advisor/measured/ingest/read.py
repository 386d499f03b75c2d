"""read_upload: which reader fits the content, and one road for everything that can go wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from advisor.measured.ingest.cells import (
    FileTable,
    bare_times,
    map_header,
    one_table,
    outside_range,
    read_table,
    table_header,
)
from advisor.measured.ingest.checks import check_rows
from advisor.measured.ingest.columns import (
    COLUMNS,
    MEASURED_COLUMNS,
    Numbers,
    TableKind,
    header_key,
    match_header,
)
from advisor.measured.ingest.remap import (
    IGNORE,
    UnreadColumnsError,
    UnrecognizedFileError,
    fill_mapped,
    near_miss,
    rename_headers,
    scalar_paths,
    unfolded,
)
from advisor.measured.ingest.result import (
    ANSWERS,
    COMMA,
    PREFER,
    SWAPS,
    TIMES,
    ReadNote,
    Reject,
    noted,
    rejects_frame,
    shorten,
    warned,
)
from advisor.measured.ingest.rows import Measured, RowSource
from advisor.measured.ingest.several_k import one_row_a_k, with_k
from advisor.measured.ingest.side_by_side import (
    RATE,
    SIDES,
    drafts_said,
    own_header,
    said_by,
    side_of,
)
from advisor.measured.ingest.upload import Sample, one_sentence, open_upload
from advisor.measured.readers import FORMATS
from advisor.measured.readers.base import Format, RawRows, coerce, from_mapped
from advisor.measured.readers.ours import RECORDS, TEMPLATE
from advisor.prediction import AdvisorError
from advisor.text import NOT_STATED, number_of

DETECTED = 0.5
"""A reader that scores less does not claim the file."""
_OURS = (TEMPLATE, RECORDS)


def read_upload(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> Measured:
    """Read a benchmark result of any known format, recognized by its content alone.

    Parameters: `name` is used in messages only; `data` the bytes as uploaded (plain, gzip, or a zip
    of one file); `columns` renames headers of a CSV, {theirs: ours}; what COMMA and TIMES are
    mapped to says what commas in numbers mark, and the unit of times that name none.
    Raises AdvisorError, and nothing else, when the file is not recognized, exceeds a limit, or
    carries nothing that can be used.
    """
    file_name = shorten(name) or "the upload"
    with one_sentence(file_name):
        return read_unguarded(file_name, data, columns)


def read_unguarded(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> Measured:
    """Read an upload without the last guard of `read_upload`, so that tests see a reader's own
    faults."""
    sample = open_upload(name, data)
    claimed = sample.kind != "json" or any(
        candidate.detect(sample) >= DETECTED for candidate in FORMATS
    )
    if not claimed and why_unusable(sample) is None:
        sample = unfolded(sample)
    columns, answers, decimal_comma = _answers(columns or {})
    theirs = any(
        candidate.detect(sample) >= DETECTED for candidate in FORMATS if candidate not in _OURS
    )
    if not theirs:
        sample = _as_named(one_table(sample), columns)
    elif columns:
        sample = rename_headers(sample, columns)
    sample = _preferring(sample, answers[PREFER]) if PREFER in answers else sample
    bare = {} if theirs else _bare(sample, TIMES in answers)
    if bare:
        unit = answers.get(TIMES, "ms")
        sample = rename_headers(sample, {header: f"{header_key(header)}_{unit}" for header in bare})
    reader = detect(sample)
    raw = reader.read(sample)
    for header, column in bare.items():
        if TIMES not in answers and column in raw.cells:
            raw.cells[column] = replace(raw.cells[column], source=header, scale=float("nan"))
    raw.decimal_comma = decimal_comma
    if columns:
        fill_mapped(raw, sample, columns)
        for header, ours in columns.items():
            raw.prefill |= drafts_said(header) if own_header(ours) == SIDES["sd"] else {}
    raw.notes = [*sample.notes, *raw.notes]
    return _as_in_file(typed_rows(raw, reader, name, hashlib.sha256(data).hexdigest()), sample)


def _as_in_file(rows: Measured, sample: Sample) -> Measured:
    """Rows whose headers, and whose refusals' lines and columns, are those of the file itself."""
    if not sample.shown and not sample.origin:
        return rows
    rejects = rows.rejects
    (source,) = rows.sources
    if len(rejects):
        columns = [sample.shown.get(column, column) for column in rejects["column"]]
        places = [sample.origin.get(line, (line, {})) for line in rejects["line"].tolist()]
        at = [of_k.get(column, column) for (_, of_k), column in zip(places, columns, strict=True)]
        rejects = rejects.assign(line=[line for line, _ in places], column=at)
    headers = {
        name: (sample.shown.get(header, header), scale)
        for name, (header, scale) in source.headers.items()
    }
    lines = {line: file_line for line, (file_line, _) in sample.origin.items()}
    source = replace(source, headers=headers, lines=lines)
    return replace(rows, rejects=rejects.drop_duplicates(ignore_index=True), sources=(source,))


def _as_named(sample: Sample, columns: Mapping[str, str]) -> Sample:
    """A sample with its own headers as they are named, made long, and those named that it then
    has."""
    headers = (
        scalar_paths(sample.first)
        if sample.kind != "text"
        else [cell.strip() for cell in sample.header]
    )
    renamed_before = with_k(
        {theirs: ours for theirs, ours in columns.items() if theirs.strip() in headers}
    )
    renamed_after = {
        theirs: ours for theirs, ours in columns.items() if theirs not in renamed_before
    }
    sample = one_row_a_k(
        rename_headers(sample, renamed_before) if renamed_before else sample, renamed_after
    )
    present_columns = {
        renamed_after[cell.strip()] for cell in sample.header if cell.strip() in renamed_after
    }  # the others' K went into those
    renamed_after = {
        theirs: ours
        for theirs, ours in renamed_after.items()
        if theirs in map(str.strip, sample.header) or ours not in present_columns
    }
    return rename_headers(sample, renamed_after) if renamed_after else sample


def _answers(columns: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], bool | None]:
    """The renamed headers, what is said of the whole file (ANSWERS), and whether its commas are
    decimal points.

    Raises AdvisorError for another word.
    """
    renamed = {theirs: ours for theirs, ours in columns.items() if theirs.strip() not in ANSWERS}
    answers = {
        theirs.strip(): ours.strip()
        for theirs, ours in columns.items()
        if theirs.strip() in ANSWERS
    }
    for key, answer in answers.items():
        if answer not in ANSWERS[key]:
            what = {COMMA: "a comma marks", TIMES: "times are in", PREFER: "what is preferred is"}
            allowed = " or ".join(ANSWERS[key])
            raise AdvisorError(f"{what[key]} {allowed}, not {shorten(answer)!r}")
    return renamed, answers, None if COMMA not in answers else answers[COMMA] == "decimal"


def _preferring(sample: Sample, quantity: str) -> Sample:
    """A table whose only columns with a side, without or with drafts, are those of one quantity.

    Raises AdvisorError where none is.
    """
    sided = [cell.strip() for cell in sample.header if side_of(cell)]
    rate = {"rate"} if quantity == RATE else set[str]()
    others = [header for header in sided if said_by(header) not in {quantity} | rate]
    if len(others) == len(sided):
        raise AdvisorError(f"{sample.name}: no column holds {quantity} without or with drafts")
    return rename_headers(sample, dict.fromkeys(others, IGNORE)) if others else sample


def _bare(sample: Sample, unit_stated: bool) -> dict[str, str]:
    """Headers of times without a unit, each with its column: where it is said, or the file measures
    nothing else."""
    if sample.kind == "parquet":
        return {}
    headers = (
        [cell.strip() for cell in sample.header]
        if sample.kind == "text"
        else scalar_paths(sample.first)
    )
    matches = [match_header(header, "points") for header in headers]
    known = {match[0] for match in matches if match}
    if not unit_stated and known & set(MEASURED_COLUMNS["points"]) - {"accepted_length"}:
        return {}
    out: dict[str, str] = {}
    for header in bare_times(headers):
        match = match_header(f"{header}_ms", "points")
        if match and match[0] not in {*known, *out.values()} and headers.count(header) == 1:
            out[header] = match[0]
    return out


def typed_rows(raw: RawRows, reader: Format, name: str, sha256: str) -> Measured:
    """Rows that a reader found, as a table. Raises AdvisorError when there is no row, not even a
    refused one."""
    refused_before = np.unique(np.array([reject.line for reject in raw.rejects], dtype=np.int64))
    rows_read = len(raw.lines) + int((~np.isin(refused_before, raw.lines)).sum())
    headers = {
        name: (cells.source, cells.scale)
        for name, cells in raw.cells.items()
        if isinstance(cells.source, str)
    }
    frame, rejects = coerce(raw)
    if raw.finish is not None:
        raw.finish(frame, raw)
        frame, rejects = _within_range(raw.kind, frame, rejects)
    if not len(frame) and not len(rejects):
        raise AdvisorError(f"{name} has a header but no rows; add at least one measurement")
    lines = np.concatenate([frame.index, rejects["line"]])
    source = RowSource(
        format_id=reader.id,
        format_name=reader.name,
        file_name=name,
        sha256=sha256,
        rows_read=rows_read,
        last_line=int(lines.max()),
        notes=(noted(reader.id), *dict.fromkeys(raw.notes)),
        prefill=raw.prefill,
        headers=headers,
    )
    return Measured(raw.kind, frame[list(COLUMNS[raw.kind])], rejects, (source,))


def _within_range(
    kind: TableKind, frame: pd.DataFrame, rejects: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows whose computed numbers are possible, and the refusals with the others: `coerce` saw what
    files state."""
    keep = np.ones(len(frame), dtype=bool)
    more = []
    numbers = Numbers(frame)
    for column in COLUMNS[kind].values():
        if not column.numeric or frame[column.name].isna().all():
            continue
        values = numbers[column.name]
        broken = outside_range(values, column)
        reason = (
            f"computed from this row, and outside the range of {column.name} ({column.range_text} "
            f"{column.unit})"
        )
        for row in np.flatnonzero(broken):
            more.append(Reject(int(frame.index[row]), column.name, f"{values[row]:.6g}", reason))
        keep &= ~broken
    return (
        (frame, rejects)
        if not more
        else (frame[keep], pd.concat([rejects, rejects_frame(more)], ignore_index=True))
    )


def detect(sample: Sample) -> Format:
    """The reader with the highest score, the first of equals. Raises AdvisorError: an
    UnrecognizedFileError when none claims the file, UnreadColumnsError where some of its columns
    are understood."""
    scores = [(reader.detect(sample), reader) for reader in FORMATS]
    score, best = max(scores, key=lambda pair: pair[0])
    if score >= DETECTED:
        return best
    reason = why_unusable(sample)
    if reason:
        raise AdvisorError(f"{sample.name} cannot be used: {reason}")
    if sample.kind == "text" and not _is_table(sample):
        raise UnrecognizedFileError(
            f"{sample.name} is not recognized: {_seen(sample)}; expected what a benchmark or a "
            "server wrote, its launch line, or a table. Two numbers of your own go in by `advisor "
            "diagnose --without 52ms --with 61ms --k 3 --batch 64`, or Two numbers on page Measure"
        )
    near = near_miss(sample)
    if near:
        reason, maps = near
        raise UnreadColumnsError(f"{sample.name} is not recognized: {reason}", maps)
    raise UnrecognizedFileError(
        f"{sample.name} is not recognized: {_seen(sample)}; expected a benchmark's own result "
        "file (docs/formats.md lists them) or a table with a line of headers, or say --map "
        "theirs=ours"
    )


def _is_table(sample: Sample) -> bool:
    """Whether a number stands in a row of several cells below the first line of a text."""
    rows = (re.split(r"[,;\t|]", line) for line in sample.head.strip().splitlines()[1:])
    return any(len(row) > 1 and any(number_of(cell) is not None for cell in row) for row in rows)


def _seen(sample: Sample) -> str:
    if sample.is_json:
        keys = ", ".join(shorten(key)[:40] for key in list(sample.first)[:6])
        return f"JSON with the fields {keys}" if keys else "JSON without fields"
    if sample.kind == "parquet":
        return "a parquet file without the columns of a kernel table or of the template"
    return f"text that begins with {shorten(sample.first_line)[:80]!r}"


def why_unusable(sample: Sample) -> str | None:
    """Reason why a known kind of file holds nothing usable. None when the file is of no known
    kind."""
    first = sample.first
    keys = {str(key) for key in first}
    bodies = [
        value
        for key, value in first.items()
        if re.fullmatch(r"[0-9]+", str(key)) and isinstance(value, dict)
    ]
    if bodies and all("BLOCK_SIZE_M" in body for body in bodies):
        return (
            "it is a tuned kernel configuration, which holds block sizes and no latency; send the "
            "log of benchmark_moe run without --tune, which prints kernel times"
        )
    if {"benchmark", "model", "metric"} <= keys:
        return (
            "it is the PyTorch benchmark database copy of a vLLM result; send the result JSON "
            "written beside it"
        )
    if {"sample_batch_tokens", "sample_steps_per_sec"} <= keys or {
        "bias_seconds",
        "theta_seconds",
    } <= keys:
        return "it is a step-rate table for the engine's scheduler; send the benchmark it came from"
    if "report" in keys and "config" in keys:
        return (
            "it is an optimum-benchmark report, whose latencies have no batch of drafts; send a "
            "serving benchmark"
        )
    if "expert_activation" in keys or "forward_mode" in keys:
        return (
            "it counts activated experts and does not say which; send a trace of their ids "
            "(`trace`)"
        )
    if {"error", "returncode"} & keys and not {"metrics"} & keys:
        return "it records a run that failed; send the result of a run that finished"
    header = {header_key(cell) for cell in table_header(sample)}
    if {"tokens_s_gpu", "num_total_gpus"} <= header:
        return (
            "it is a sweep of predicted configurations; predictions are not taken as measurements"
        )
    if {"up_proj_us", "down_proj_us"} <= header or {"latency_us", "mfu"} <= header:
        return (
            "it is a kernel table in a layout that is not read; use the columns of the kernel "
            "template"
        )
    kernel = {"latency", "kernel_source"} <= header or {"latency", "op_name"} <= header
    if kernel and "num_experts" not in header:
        return "it is a kernel table of another operation; only MoE tables (num_tokens, hidden_size, inter_size, topk, num_experts, latency) are read"  # noqa: E501
    return None


MAX_GIVEN_ROWS = 20_000
"""Each row is predicted by itself, some hundreds a second. [-]"""


@dataclass(frozen=True)
class GivenRows:
    """Rows of one CSV, index `line`: as they stand, as canonical text, and why some cannot be read.

    `given` has the file's own headers; `asked` the canonical columns among them, numbers in SI
    units, empty in the rows of `refused` (reason by line). `warnings` names rows that do not fit
    the header and what is odd.
    """

    given: pd.DataFrame
    asked: pd.DataFrame
    refused: dict[int, str]
    warnings: tuple[ReadNote, ...]


def read_given(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> GivenRows:
    """Read a CSV of points, plain or in one gzip or zip, under every limit and rule of an upload.

    Rows need not measure anything. `columns` as for `read_upload`; what is given keeps its own
    headers. Raises AdvisorError, and nothing else, when it is no such table.
    """
    file_name = shorten(name) or "the file"
    with one_sentence(file_name):
        sample = open_upload(file_name, data)
        if sample.kind != "text":
            raise AdvisorError(
                f"{file_name} is not a CSV file with a header line; expected a table of measured "
                "points"
            )
        renamed, answers, decimal_comma = _answers(columns or {})
        sample = one_table(sample)
        headers = tuple(cell.strip() for cell in one_row_a_k(sample).header)
        sample = _as_named(sample, renamed)
        sample = _preferring(sample, answers[PREFER]) if PREFER in answers else sample
        read = _read(file_name, read_table(sample), sample.notes, data, decimal_comma)
        return replace(read, given=read.given.set_axis(headers, axis=1)) if renamed else read


def _read(
    name: str,
    table: FileTable,
    notes: tuple[ReadNote, ...],
    data: bytes,
    decimal_comma: bool | None,
) -> GivenRows:
    twice = [header for header in dict.fromkeys(table.header) if table.header.count(header) > 1]
    if twice:
        raise AdvisorError(
            f"{name} has several columns named {shorten(twice[0])!r}; keep one of them"
        )
    if not len(table.lines):
        raise AdvisorError(
            f"{name} has a header but no rows that fit it; add at least one measurement"
        )
    if len(table.lines) > MAX_GIVEN_ROWS:
        raise AdvisorError(
            f"{name} has {len(table.lines):,} rows; at most {MAX_GIVEN_ROWS:,} are predicted, "
            "split it"
        )
    original_columns = {
        header: column.to_pandas()
        for header, column in zip(table.header, table.columns, strict=True)
    }
    table = replace(table, columns=tuple(map(_stated, table.columns)))
    mapped = map_header(table, "points", name)
    raw = RawRows("points", table.lines, from_mapped(table, mapped))
    raw.decimal_comma = decimal_comma
    columns = list(raw.cells)
    rows = typed_rows(raw, TEMPLATE, name, hashlib.sha256(data).hexdigest())
    checked = check_rows(rows.frame, "points", measured=False)
    frame = rows.frame.loc[checked.keep, columns]
    rejects = pd.concat([rows.rejects, rejects_frame(checked.rejects)], ignore_index=True)
    index = pd.Index(table.lines, name="line")
    odd = (note for note in checked.notes if note.kind not in SWAPS)  # which refusals name
    warnings = (*notes, *raw.notes, *mapped.notes, *odd, *_unfit(table))
    return GivenRows(
        pd.DataFrame(original_columns).set_axis(index).fillna(""),
        frame.astype(object).where(frame.notna(), "").map(str).reindex(index, fill_value=""),
        {int(line): _reason(reasons) for line, reasons in rejects.groupby("line")},
        warnings,
    )


def _stated(column: pa.Array) -> pa.Array:
    """A column with the words for an unknown value emptied."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    return pc.if_else(
        pc.fill_null(pc.is_in(words, pa.array(sorted(NOT_STATED), words.type)), False), "", column
    )


def _reason(reasons: pd.DataFrame) -> str:
    parts = reasons[["column", "value", "reason"]].itertuples(index=False)
    return "; ".join(f"{column} {value!r}: {reason}" for column, value, reason in parts)


def _unfit(table: FileTable) -> list[ReadNote]:
    """Rows with more or fewer cells than the header, the first five one by one."""
    notes = [
        warned("left_out", line=reject.line, reason=reject.reason) for reject in table.rejects[:5]
    ]
    if n_more := len(table.rejects) - len(notes):
        notes.append(warned("more_left_out", left=(n_more, "more row")))
    return notes
