"""A table of points as its owner wrote it, beside what its cells mean: for commands that hand it back with more."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from advisor.ingest.checks import check_rows
from advisor.ingest.raw import RawRows, from_mapped
from advisor.ingest.read import typed_rows
from advisor.ingest.readers.ours import TEMPLATE
from advisor.ingest.result import rejects_frame, shorten
from advisor.ingest.table import FileTable, map_header, read_table
from advisor.ingest.upload import one_sentence, open_upload
from advisor.prediction import AdvisorError
from advisor.text import counted

NOT_STATED = ("not-stated", "not stated", "nan", "none")
"""Words that tables write for an empty cell."""
MAX_GIVEN_ROWS = 20_000
"""Each row is predicted by itself, some hundreds a second. [-]"""


@dataclass(frozen=True)
class GivenRows:
    """Rows of one CSV, index `line`: as they stand, as canonical text, and why some cannot be read.

    `given` has the file's own headers; `asked` the canonical columns among them, numbers in SI units, empty in the
    rows of `refused` (reason by line). `warnings` names rows that do not fit the header and what is odd.
    """

    given: pd.DataFrame
    asked: pd.DataFrame
    refused: dict[int, str]
    warnings: tuple[str, ...]


def read_given(name: str, data: bytes) -> GivenRows:
    """Read a CSV of points, plain or in one gzip or zip, under every limit and rule of an upload.

    Rows need not measure anything. Raises AdvisorError, and nothing else, when it is no such table.
    """
    shown = shorten(name) or "the file"
    with one_sentence(shown):
        sample = open_upload(shown, data)
        if sample.kind != "text":
            raise AdvisorError(f"{shown} is not a CSV file with a header line; expected a table of measured points")
        return _read(shown, read_table(sample), sample.warnings, data)


def _read(name: str, table: FileTable, warnings: tuple[str, ...], data: bytes) -> GivenRows:
    twice = [header for header in dict.fromkeys(table.header) if table.header.count(header) > 1]
    if twice:
        raise AdvisorError(f"{name} has several columns named {shorten(twice[0])!r}; keep one of them")
    if not len(table.lines):
        raise AdvisorError(f"{name} has a header but no rows that fit it; add at least one measurement")
    if len(table.lines) > MAX_GIVEN_ROWS:
        raise AdvisorError(f"{name} has {len(table.lines):,} rows; at most {MAX_GIVEN_ROWS:,} are predicted, split it")
    given = {header: column.to_pandas() for header, column in zip(table.header, table.columns, strict=True)}
    table = FileTable(table.header, tuple(map(_stated, table.columns)), table.lines, table.rejects)
    mapped = map_header(table, "points", name)
    raw = RawRows("points", table.lines, from_mapped(table, mapped))
    rows = typed_rows(raw, TEMPLATE, name, hashlib.sha256(data).hexdigest())
    checked = check_rows(rows.frame, "points", measured=False)
    frame = rows.frame.loc[checked.keep, list(mapped.columns)]
    rejects = pd.concat([rows.rejects, rejects_frame(checked.rejects)], ignore_index=True)
    index = pd.Index(table.lines, name="line")
    said = [*warnings, *raw.warnings, *mapped.warnings, *checked.warnings, *_unfit(table)]
    return GivenRows(
        pd.DataFrame(given).set_axis(index).fillna(""),
        frame.astype(object).where(frame.notna(), "").map(str).reindex(index, fill_value=""),
        {int(line): _reason(reasons) for line, reasons in rejects.groupby("line")},
        tuple(said),
    )


def _stated(column: pa.Array) -> pa.Array:
    """A column with the words for an unknown value emptied."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    return pc.if_else(pc.fill_null(pc.is_in(words, pa.array(NOT_STATED, words.type)), False), "", column)


def _reason(reasons: pd.DataFrame) -> str:
    parts = reasons[["column", "value", "reason"]].itertuples(index=False)
    return "; ".join(f"{column} {value!r}: {reason}" for column, value, reason in parts)


def _unfit(table: FileTable) -> list[str]:
    """Rows with more or fewer cells than the header, the first five one by one."""
    told = [f"line {item.line} is left out: {item.reason}" for item in table.rejects[:5]]
    more = len(table.rejects) - len(told)
    return [*told, f"{counted(more, 'more row')} left out for the same reasons"] if more else told
