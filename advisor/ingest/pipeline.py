"""From a reader's draft to the result: coerce, complete, derive, check, ask for what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from advisor.ingest.canonical import COLUMNS, REQUIRED_CONTEXT, USEFUL_CONTEXT, Column, TableKind
from advisor.ingest.cells import check_text, strings, to_numbers
from advisor.ingest.checks import check_rows
from advisor.ingest.derived import derive_rows, match_baselines
from advisor.ingest.draft import NAME_MAPS, Draft, coerce
from advisor.ingest.limits import MAX_REJECTS
from advisor.ingest.names import match_hardware, match_model, named_format
from advisor.ingest.result import IngestResult, MissingField, rejects_frame, shorten
from advisor.prediction import AdvisorError
from advisor.text import counted

_LINES_NAMED = 5
READER_VERSION = "1"
"""Raised whenever a reader changes what it makes of the same bytes; stored with every dataset."""


def finalise(draft: Draft, format_id: str, format_name: str, name: str, sha256: str) -> IngestResult:
    """The result of a draft. Raises AdvisorError when no row at all could be read."""
    refused_before = np.unique(np.array([item.line for item in draft.rejects], dtype=np.int64))
    rows_read = len(draft.lines) + int((~np.isin(refused_before, draft.lines)).sum())
    frame, parse_rejects = coerce(draft)
    notes = list(draft.notes)
    if draft.finish is not None:
        notes += draft.finish(frame)
    measured = frame[list(COLUMNS[draft.kind])]
    result = IngestResult(
        format_id=format_id,
        format_name=format_name,
        kind=draft.kind,
        frame=measured,
        rejects=parse_rejects,
        missing=(),
        derived=(),
        warnings=(),
        rows_read=rows_read,
        file_name=name,
        sha256=sha256,
        reader_version=READER_VERSION,
        metadata=draft.metadata,
        measured=measured,
        parse_rejects=parse_rejects,
        prefill=draft.prefill,
        reader_notes=tuple(notes),
        reader_warnings=tuple(draft.warnings),
        reader_swaps=tuple(draft.swaps),
    )
    return evaluate(result)


def complete(result: IngestResult, values: Mapping[str, Any], override: bool = False) -> IngestResult:
    """The result with context filled in: each value goes into the empty cells of its column.

    With `override`, it replaces what the file says in that column as well (a hardware name by a profile's id, say).

    Everything that was computed is computed again and every rule checked again. Raises AdvisorError when a name is no
    context column of this kind of table or a value is not allowed in it; blank values are skipped.
    """
    spec = COLUMNS[result.kind]
    frame = result.measured.copy(deep=False)
    for name, value in values.items():
        column = spec.get(name)
        if column is None or not column.context:
            allowed = ", ".join(item.name for item in spec.values() if item.context)
            raise AdvisorError(f"{name!r} cannot be filled in; choose among {allowed}")
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        typed = _one_value(column, value)
        if typed is not None:
            frame[name] = _filled(frame[name], typed, column, override)
    return evaluate(replace(result, measured=frame))


def resolve_names(result: IngestResult, hardware_ids: Iterable[str], model_ids: Iterable[str] = ()) -> IngestResult:
    """The result with plain hardware and model names replaced by the one id each of them means, where there is one.

    Names that fit no id, or several, stay as they are and are named in a warning. A weight format that a model's name
    says fills empty cells, and is said.
    """
    wanted = (
        ("hardware_id" if result.kind == "points" else "hardware", match_hardware, tuple(hardware_ids)),
        *((("model_id", match_model, tuple(model_ids)),) if result.kind == "points" and model_ids else ()),
    )
    frame, warnings = result.measured.copy(deep=False), list(result.reader_warnings)
    if len(wanted) > 1:
        ids = wanted[1][2]
        names = [text for text in frame["model_id"].dropna().unique() if text not in ids and match_model(text, ids)]
        notes = [*result.reader_notes, *_fill_named_formats(frame, names)]
    else:
        notes = list(result.reader_notes)
    for name, match, ids in wanted:
        renamed: dict[str, str] = {}
        for text in frame[name].dropna().unique():
            found = text if text in ids else match(text, ids)
            if found is None:
                warnings.append(_unknown_name(result, name, text))
            else:
                renamed[text] = found
        frame[name] = frame[name].replace(renamed)
    warned, noted = tuple(dict.fromkeys(warnings)), tuple(dict.fromkeys(notes))
    return evaluate(replace(result, measured=frame, reader_warnings=warned, reader_notes=noted))


def _fill_named_formats(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Fill empty weight formats of `frame` from names of known models; what to say of them."""
    notes = []
    for text in names:
        found, note = named_format(text)
        empty = (frame["model_id"] == text) & frame["weight_dtype"].isna()
        if found is not None and empty.any():
            frame["weight_dtype"] = frame["weight_dtype"].mask(empty, found)
            concluded = f" ({note})" if note else ""
            notes.append(f"weight_dtype {found} read from the name {shorten(text)!r} where none is given{concluded}")
        elif note:
            notes.append(f"model_id {shorten(text)!r}: {note}")
    return notes


def _unknown_name(result: IngestResult, name: str, text: str) -> str:
    """Says of each usable row with a name of no profile where it is: it is kept, since its name can still be given."""
    lines = result.frame.index[result.frame[name] == text]
    shown = ", ".join(map(str, lines[:_LINES_NAMED])) + (", ..." if len(lines) > _LINES_NAMED else "")
    where = f"{counted(len(lines), 'row')} (line {shown})" if len(lines) else "no usable row"
    return f"{name} {shorten(text)!r} fits no single known id: {where} kept, but not predicted until you choose one"


def _one_value(column: Column, value: Any) -> Any:
    """One context value in the column's type. Raises AdvisorError naming the field."""
    text = strings([value])
    if column.numeric:
        numbers, bad = to_numbers(text, column, 1.0, None)
    else:
        bad = check_text(text, column)
    if bad.rows:
        raise AdvisorError(f"{column.name}={bad.values[0]!r}: {bad.reasons[0]}")
    if text[0].as_py() is None:
        return None
    if not column.numeric:
        word = text[0].as_py()
        rename = NAME_MAPS.get(column.name)
        return rename(word) if rename else word
    return int(numbers[0]) if column.type == "integer" else float(numbers[0])


def _filled(series: pd.Series, value: Any, column: Column, override: bool) -> pd.Series:
    if not override and series.notna().any():
        return series.fillna(value)
    if column.numeric:
        return pd.Series(value, index=series.index, dtype=series.dtype)
    text = pa.repeat(pa.scalar(value, pa.large_string()), len(series))
    return pd.Series(text.to_pandas(), dtype="str").set_axis(series.index)


def evaluate(result: IngestResult) -> IngestResult:
    """The result with everything computed and checked anew from its rows as read. Raises AdvisorError without rows."""
    frame, notes, warnings = result.measured, list(result.reader_notes), list(result.reader_warnings)
    computed: list[str] = []
    if result.kind == "points":
        frame, computed = derive_rows(frame)
    keep, rejects, swaps = check_rows(frame, result.kind)
    if rejects and result.kind == "points":
        _, computed = derive_rows(result.measured[keep])  # what is said to be computed counts usable rows alone
    notes += computed
    swaps = [*result.reader_swaps, *swaps]
    warnings += [swap.reason for swap in swaps]
    missing_from = frame if not keep.any() else None
    frame = frame if keep.all() else frame[keep]
    if result.kind == "points" and len(frame):
        frame, matching = match_baselines(frame)
        notes.append(matching.note)
    table = result.parse_rejects
    if rejects:
        table = pd.concat([table, rejects_frame(rejects)], ignore_index=True)
    if len(table) > 1:
        table = table.sort_values("line", kind="stable", ignore_index=True)
    if len(table) > MAX_REJECTS:
        warnings.append(f"only the first {MAX_REJECTS:,} of {len(table):,} reasons are listed")
        table = table.head(MAX_REJECTS)
    if not len(frame) and not len(table):
        raise AdvisorError(f"{result.file_name} has a header but no rows; add at least one measurement")
    missing = _missing(frame if missing_from is None else missing_from, result.kind, result.prefill)
    return replace(
        result,
        frame=frame,
        rejects=table,
        missing=missing,
        derived=tuple(notes),
        warnings=tuple(dict.fromkeys(warnings)),
        swapped=tuple(swap.columns for swap in swaps),
    )


def _missing(frame: pd.DataFrame, kind: TableKind, prefill: Mapping[str, Any]) -> tuple[MissingField, ...]:
    """Context fields that at least one row lacks, required ones first."""
    out = []
    for name in (*REQUIRED_CONTEXT[kind], *USEFUL_CONTEXT[kind]):
        empty = frame[name].isna().to_numpy()
        if name == "drafter":  # without drafting there is no drafter to name
            empty = empty & (frame["draft_tokens_k"].to_numpy(dtype=float, na_value=np.nan) != 0)
        if not empty.any():
            continue
        column = COLUMNS[kind][name]
        required = name in REQUIRED_CONTEXT[kind]
        out.append(MissingField(name, column.unit, column.meaning, required, int(empty.sum()), prefill.get(name)))
    return tuple(out)
