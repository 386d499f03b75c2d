"""What is said of measured rows: why some are refused, what they lack, and what a user is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from advisor.measured.ingest.columns import (
    COLUMNS,
    REQUIRED_CONTEXT,
    USEFUL_CONTEXT,
    Numbers,
    TableKind,
)
from advisor.measured.ingest.side_by_side import open_pairs
from advisor.measured.row_questions import copies_at_most, open_copies
from advisor.text import counted, frame_csv

AMBIGUOUS = "ambiguous: the comma may mark decimals or thousands"
"""How the reason begins for a cell like 8,310 in a file where no other cell settles it: it is asked
about."""
OPEN_UNIT = "its unit is not stated"
"""The reason for a time whose header and cell name no unit, where nothing else was measured: it is
asked about."""
COMMA = ","
TIMES = "times"
PREFER = "prefer"
ANSWERS = {
    COMMA: ("decimal", "thousands"),
    TIMES: ("ms", "s", "us"),
    PREFER: ("tpot", "step_time", "output_tok_per_s", "output_tok_per_s_per_user"),
}
"""What a user may say of a whole file where a header is mapped: what its commas mark, the unit of
its bare times, and which of several quantities that stand without and with drafts is read."""
MAX_SHOWN = 200
"""Characters of a refused cell that are kept."""


@dataclass(frozen=True)
class Reject:
    """One reason why one row was refused."""

    line: int
    column: str
    value: str
    reason: str


@dataclass(frozen=True)
class ReadNote:
    """Note on cells that reading computed, took or left out, or on what is odd in them, and its
    facts.

    Its sentence stands in show/phrases/reading.py.
    """

    kind: str
    """Of the note; a format's id is what holds of all rows of that format."""
    facts: tuple[tuple[str, Any], ...] = ()
    """Numbers, names of columns and what the file states, by the names that phrases use."""
    files: tuple[str, ...] = ()
    """Files that it is of, where it is not of all of them."""
    warns: bool = False
    """Whether the user should check the file for it."""


def noted(kind: str, **facts: Any) -> ReadNote:
    """The note of a kind."""
    return ReadNote(kind, tuple(facts.items()))


def warned(kind: str, **facts: Any) -> ReadNote:
    """The warning of a kind."""
    return ReadNote(kind, tuple(facts.items()), warns=True)


def at_lines(note: ReadNote, lines: Sequence[int], most: int) -> ReadNote:
    """A note that counts the lines that it is of and names the first `most`."""
    places = {"n": len(lines), "lines": tuple(lines[:most]), "n_more": len(lines) - most}
    return replace(note, facts=(*note.facts, *places.items()))


def rows_noted(**masks: np.ndarray) -> list[ReadNote]:
    """Notes that count rows, by kind the mask of those that it is of [rows]. None of no row."""
    return [noted(kind, n=int(rows.sum())) for kind, rows in masks.items() if rows.any()]


ON_NAMES = frozenset(
    (
        *("model_from", "name_replaced", "name_remark", "format_of_name"),
        *("own_document", "mtp_as_eagle", "specforge"),
    )
)
"""Kinds of notes on what names were taken to mean."""
SWAPS = ("misplaced", "exchanged")
"""Kinds of warnings of two columns, `first` and `second`, that look as if they had changed
places."""


@dataclass(frozen=True)
class MissingField:
    """A context field that some rows lack. `prefill` is a guess from the file, to be confirmed;
    None: no guess."""

    name: str
    unit: str
    meaning: str
    required: bool
    rows: int
    prefill: Any = None
    to_predict: bool = False
    """Whether some of the rows, complete otherwise, cannot be predicted without it."""

    @property
    def needed(self) -> bool:
        """Whether a refit wants it."""
        return self.required or self.to_predict


@dataclass(frozen=True)
class OpenQuestion:
    """Question of a file's own numbers that rows wait for: its `key` in ANSWERS, and its text."""

    key: str
    text: str

    @property
    def options(self) -> str:
        """Options that tell a command the answer."""
        return " or ".join(f"--map {self.key}={answer}" for answer in ANSWERS[self.key])


def open_questions(rejects: pd.DataFrame) -> tuple[OpenQuestion, ...]:
    """Questions what commas in a file's numbers mark and in which unit its times are, where it is
    silent."""
    out = []
    for key, reason in ((COMMA, AMBIGUOUS), (TIMES, OPEN_UNIT)):
        open_ = rejects[rejects["reason"].str.startswith(reason)] if len(rejects) else rejects
        if not len(open_):
            continue
        column = open_.iloc[0]["column"]
        cell = open_.iloc[0]["value"]
        line = open_.iloc[0]["line"]
        n_open = int(open_["line"].nunique())
        wait = "waits" if n_open == 1 else "wait"
        waiting = f"(line {line}; {counted(n_open, 'row')} {wait} for it)"
        if key == COMMA:
            meanings = (
                f"decimal ({cell.replace(',', '.', 1)}) or thousands ({cell.replace(',', '')})"
            )
            out.append(
                OpenQuestion(
                    key, f"what does the comma mark in {column} {cell!r} {waiting}: {meanings}?"
                )
            )
        else:
            names = ", ".join(open_["column"].unique())
            out.append(
                OpenQuestion(
                    key, f"in which unit is {names}, as in {cell!r} {waiting}: ms, s or us?"
                )
            )
    return tuple(out)


def shorten(value: object) -> str:
    """A cell as text, at most MAX_SHOWN characters, without control characters."""
    if value is None:
        return ""
    if isinstance(value, str | int | float | bool):
        text = (
            str(value)
            if not isinstance(value, int) or abs(value) < 10**40
            else "a very long integer"
        )
    else:
        text = repr(value)[: MAX_SHOWN * 2]
    text = text[: MAX_SHOWN * 2]
    text = "".join(ch if ch.isprintable() else " " for ch in text)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def rejects_frame(rejects: Iterable[Reject]) -> pd.DataFrame:
    """The rejects as a table with columns line (integer), column, value, reason."""
    rows = list(rejects)
    kinds = {"line": "int64", "column": "str", "value": "str", "reason": "str"}
    return pd.DataFrame(
        {
            name: pd.Series([getattr(reject, name) for reject in rows], dtype=kind)
            for name, kind in kinds.items()
        }
    )


def measured_length(points: pd.DataFrame) -> str | None:
    """Accepted length that runs counted themselves, as a scenario takes it (`1.8@1,2.6@3`).

    The median at each K; None where no run states one. Runs that accept no draft, as with random
    weights, time rounds and say nothing of acceptance.
    """
    here = points["accepted_length_same_run"].fillna(1).eq(1) & points["draft_tokens_k"].fillna(
        0
    ).gt(0)
    runs = points[(here & points["accepted_length"].gt(1).fillna(False)).to_numpy(dtype=bool)]
    if not len(runs):
        return None
    lengths = (
        runs.astype({"accepted_length": float})
        .groupby("draft_tokens_k")["accepted_length"]
        .median()
    )
    return ",".join(f"{length:.4g}@{int(k)}" for k, length in lengths.items())


def csv_of(table: pd.DataFrame) -> bytes:
    """Read, refused or kept rows as UTF-8 CSV. Cells that a spreadsheet could run as formulas are
    quoted."""
    return frame_csv(table).encode("utf-8", errors="replace")


OF_ONE_RUN = frozenset({"batch_size", "draft_tokens_k"})
"""What runs of a sweep differ in: other rows tell nothing of it, and several files may be given one
value each."""


def missing_fields(
    frame: pd.DataFrame, kind: TableKind, prefills: Sequence[Mapping[str, Any]]
) -> tuple[MissingField, ...]:
    """Context fields that at least one row lacks, required ones first.

    prefills : what each file suggests, by column. The guess is the one that all files agree on,
        else the one value that
    the other rows state.
    """
    out = []
    for name in (*REQUIRED_CONTEXT[kind], *USEFUL_CONTEXT[kind]):
        empty = _lacking(frame, name)
        if not empty.any():
            continue
        column = COLUMNS[kind][name]
        guesses = [prefill.get(name) for prefill in prefills]
        guess = guesses[0] if all(other_guess == guesses[0] for other_guess in guesses) else None
        stated = (
            []
            if guess is not None or name in OF_ONE_RUN
            else frame[name].dropna().unique().tolist()
        )
        if len(stated) == 1:
            guess = _plain(stated[0])
        if name == "data_parallel" and guess is None:
            guess = _one_value(copies_at_most(frame)[empty])
        if name == "metric" and "_per_s" in str(guess):
            guess = None  # of one request or of all: no header tells
        if name == "draft_tokens_k" and guess is None and _count_no_drafts(frame, empty):
            guess = 0
        required = name in REQUIRED_CONTEXT[kind]
        needs = bool((empty & _needs(frame, name)).any())
        out.append(
            MissingField(
                name, column.unit, column.meaning, required, int(empty.sum()), guess, needs
            )
        )
    return tuple(out)


def _count_no_drafts(frame: pd.DataFrame, rows: np.ndarray) -> bool:
    """Whether some rows count no drafts beside others, of the same benchmark, that count theirs."""
    counted = frame["accepted_length"].notna() | frame["acceptance_by_position"].notna()
    others = frame["draft_tokens_k"].gt(0)
    return bool(others.any() and counted[others].all() and not counted[rows].any())


def _lacking(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Rows that lack a field and have something that it speaks of, [rows]."""
    empty = frame[name].isna().to_numpy()
    if name == "drafter":  # without drafting there is no drafter to name
        empty = empty & (Numbers(frame)["draft_tokens_k"] != 0)
    if name == "accepted_length_same_run":
        empty = empty & frame["accepted_length"].notna().to_numpy()
    if name in ("input_tokens", "output_tokens"):  # no prompt lies in a step's time
        empty = empty & ~(Numbers(frame)["prompts_cached"] == 1)
    if name == "metric":
        empty = open_pairs(frame)
    if name == "data_parallel":
        empty = empty & open_copies(frame)
    return np.asarray(empty)


def _needs(frame: pd.DataFrame, name: str) -> np.ndarray | bool:
    """Rows that cannot be predicted without a field that other rows can do without, [rows]."""
    either = ["gpu_count", "tensor_parallel"]  # one of the two says where the model lies
    if name in either:
        return np.asarray(frame[either].isna().all(axis=1))
    return name in ("drafter", "metric", "data_parallel")


def _one_value(numbers: np.ndarray) -> int | None:
    """The number that all agree on, as a whole one. None where they do not."""
    unique_values = np.unique(numbers)
    return int(unique_values[0]) if len(unique_values) == 1 else None


def _plain(value: Any) -> Any:
    """A cell as a form takes it: a whole number without its point."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)
