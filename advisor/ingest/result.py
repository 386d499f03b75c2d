"""What reading an upload gives back: usable rows, refused rows, what is still missing, and what was computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from advisor.ingest.canonical import TableKind
from advisor.text import frame_csv

MAX_SHOWN = 200
"""Characters of a refused cell that are kept."""

REJECT_COLUMNS = ("line", "column", "value", "reason")


@dataclass(frozen=True)
class Reject:
    """One reason why one row was refused."""

    line: int
    column: str
    value: str
    reason: str


@dataclass(frozen=True)
class Swap:
    """Two columns that look exchanged, and the sentence that says why."""

    columns: tuple[str, str]
    reason: str


@dataclass(frozen=True)
class MissingField:
    """A context field that some rows lack. `prefill` is a guess from the file, to be confirmed; None: no guess."""

    name: str
    unit: str
    meaning: str
    required: bool
    rows: int
    prefill: Any = None


@dataclass(frozen=True)
class IngestResult:
    """A read upload.

    `frame` has every canonical column of its kind; its index, named `line`, is the line in the file (for one JSON
    document, the number of the record in it). `rejects` has the columns line, column, value, reason; a refused row
    appears once per reason and is not in `frame`.
    """

    format_id: str
    format_name: str
    kind: TableKind
    frame: pd.DataFrame
    rejects: pd.DataFrame
    missing: tuple[MissingField, ...]
    derived: tuple[str, ...]
    warnings: tuple[str, ...]
    rows_read: int
    file_name: str
    sha256: str
    reader_version: str
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the file said about its run that has no canonical column."""
    measured: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    """The rows as read, before anything was computed or checked across columns; `complete` starts from it."""
    parse_rejects: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    prefill: dict[str, Any] = field(default_factory=dict, repr=False)
    reader_notes: tuple[str, ...] = field(default=(), repr=False)
    reader_warnings: tuple[str, ...] = field(default=(), repr=False)
    reader_swaps: tuple[Swap, ...] = field(default=(), repr=False)
    swapped: tuple[tuple[str, str], ...] = ()
    """Pairs of columns that look as if they had changed places."""

    @property
    def rows_kept(self) -> int:
        """Rows in `frame`. [1]"""
        return len(self.frame)

    @property
    def rows_refused(self) -> int:
        """Rows of the file that are not in `frame`. [1]"""
        return int(self.rejects["line"].nunique()) if len(self.rejects) else 0

    @property
    def ready(self) -> bool:
        """Whether no required context is missing, so that the rows can be held against predictions."""
        return not any(item.required for item in self.missing)


def shorten(value: object) -> str:
    """A cell as text, at most MAX_SHOWN characters, without control characters."""
    if value is None:
        return ""
    if isinstance(value, str | int | float | bool):
        text = str(value) if not isinstance(value, int) or abs(value) < 10**40 else "a very long integer"
    else:
        text = repr(value)[: MAX_SHOWN * 2]
    text = text[: MAX_SHOWN * 2]
    text = "".join(ch if ch.isprintable() else " " for ch in text)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def rejects_frame(rejects: Iterable[Reject]) -> pd.DataFrame:
    """The rejects as a table with columns line (integer), column, value, reason."""
    rows = list(rejects)
    return pd.DataFrame(
        {
            "line": pd.Series([item.line for item in rows], dtype="int64"),
            "column": pd.Series([item.column for item in rows], dtype="str"),
            "value": pd.Series([item.value for item in rows], dtype="str"),
            "reason": pd.Series([item.reason for item in rows], dtype="str"),
        }
    )


def rejects_csv(result: IngestResult) -> bytes:
    """The refused rows as a UTF-8 CSV for download; cells that a spreadsheet could run as formulas are quoted."""
    return frame_csv(result.rejects).encode("utf-8", errors="replace")
