"""One table for terminal, page, paper, CSV and JSON: what a column shows, in which words, and which
media have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from advisor.text import csv_text

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row", contravariant=True)
"""What a row of a table is made of."""


def cell_text(value: Any) -> str:
    """A value as it stands, nothing for None."""
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of a table.

    label : heading for readers; None for a column that only files have.
    value : the row's value in SI units, None where it has none.
    text  : the value as a reader sees it.
    key   : name in files, with its unit; empty for a column that only readers see.
    words : True where the cells are words, which stand to the left.
    paper : True where the column fits the width of a page; the others are the first to go on a
        narrow terminal.
    band  : True where the value is a Prediction or None.
    """

    label: str | None
    value: Callable[[Row], Any]
    text: Callable[[Any], str] = cell_text
    key: str = ""
    words: bool = False
    paper: bool = True
    band: bool = False

    def record(self, row: Row) -> dict[str, Any]:
        """Values of a row for files: the value, and both ends of a prediction's band."""
        value = self.value(row)
        if not self.band:
            return {self.key: value}
        cells = (None,) * 3 if value is None else (value.value, value.low, value.high)
        names = (f"{self.key}{end}" for end in ("", "_low", "_high"))
        return {
            name: None if cell is None else float(f"{cell:.6g}")
            for name, cell in zip(names, cells, strict=True)
        }


@dataclass(frozen=True)
class Table(Generic[Row]):
    """Rows under their columns."""

    columns: tuple[Column[Row], ...]
    rows: Sequence[Row]

    def on_paper(self) -> Table[Row]:
        """The table with the columns that fit a page."""
        return replace(self, columns=tuple(column for column in self.columns if column.paper))

    def only(self, *labels: str) -> Table[Row]:
        """The table with the columns of these labels alone, in the table's own order."""
        return replace(
            self, columns=tuple(column for column in self.columns if column.label in labels)
        )

    @property
    def header(self) -> tuple[str, ...]:
        """Labels of the columns that readers see."""
        return tuple(column.label or "" for column in self._read)

    @property
    def align(self) -> str:
        """One letter for each column that readers see: l for words, r for numbers."""
        return "".join("l" if column.words else "r" for column in self._read)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """Texts of the columns that readers see, row by row."""
        return [tuple(column.text(column.value(row)) for column in self._read) for row in self.rows]

    def lines(self) -> list[str]:
        """The table as aligned text."""
        rows = [self.header, *self.cells]
        widths = self.widths()
        return [
            (" " * GAP)
            .join(
                text.ljust(width) if letter == "l" else text.rjust(width)
                for text, width, letter in zip(row, widths, self.align, strict=True)
            )
            .rstrip()
            for row in rows
        ]

    def widths(self, room: int | None = None) -> list[int]:
        """Characters of each column. In a `room`, headings give way first, then words; numbers
        never. [characters]"""
        columns = list(zip(self.header, *self.cells, strict=True))
        widths = [max(map(len, column)) for column in columns]
        for least in (self._least_heading, self._least) if room is not None else ():
            bounds = list(map(least, self._read, columns))
            while sum(widths) + GAP * (len(widths) - 1) > (room or 0):
                spare, at = max(
                    (have - bound, at)
                    for at, (have, bound) in enumerate(zip(widths, bounds, strict=True))
                )
                if spare <= 0:
                    break
                widths[at] -= 1
        return widths

    def within(self, width: int) -> tuple[Table[Row], list[str]]:
        """The table with the columns that a width has room for, and the labels of those left out.

        The first column and the first of words stay. Of the others those go first that are not for
        paper, and each time the last one.
        """
        columns = list(zip(self.header, *self.cells, strict=True))
        room = {at: self._least(column, columns[at]) for at, column in enumerate(self._read)}
        first_of_words = next((at for at, column in enumerate(self._read) if column.words), 0)
        spare = sorted(
            room.keys() - {0, first_of_words}, key=lambda at: (self._read[at].paper, -at)
        )
        while spare and sum(room.values()) + GAP * (len(room) - 1) > width:
            del room[spare.pop(0)]
        fitting = tuple(column for at, column in enumerate(self._read) if at in room)
        return replace(self, columns=fitting), [
            text for at, text in enumerate(self.header) if at not in room
        ]

    @staticmethod
    def _least_heading(_: Column[Any], texts: Sequence[str]) -> int:
        return max([*map(len, texts[1:]), *map(len, texts[0].split())], default=0)

    @classmethod
    def _least(cls, column: Column[Any], texts: Sequence[str]) -> int:
        """Characters that a column needs at least: its longest number, or its words wrapped."""
        whole = cls._least_heading(column, texts)
        words = [len(word) for text in texts for word in text.split()]
        return min(whole, max([_NARROW, *words])) if column.words else whole

    @property
    def frame(self) -> pd.DataFrame:
        """Texts under their labels, headings with a capital, for a page."""
        import pandas as pd  # a terminal's answer must not wait for it

        return pd.DataFrame(self.cells, columns=[capital(label) for label in self.header])

    def records(self) -> list[dict[str, Any]]:
        """Values of the columns that files have, by key."""
        file_columns = [column for column in self.columns if column.key]
        return [
            {name: cell for column in file_columns for name, cell in column.record(row).items()}
            for row in self.rows
        ]

    def csv(self) -> str:
        """The values as CSV, safe to open in a spreadsheet."""
        records = self.records()
        return csv_text(
            list(records[0]) if records else [column.key for column in self.columns if column.key],
            records,
        )

    @property
    def _read(self) -> list[Column[Row]]:
        return [column for column in self.columns if column.label is not None]


GAP = 2
"""Spaces between columns. [-]"""
_NARROW = 20
"""What words are wrapped to at the narrowest. Own choice. [characters]"""


def matrix(
    header: Sequence[str], rows: Sequence[Sequence[Any]], align: str = ""
) -> Table[Sequence[Any]]:
    """A table whose columns are data. align : letters as in `Table.align`, by default words in the
    first alone."""
    letters = align or "l" + "r" * (len(header) - 1)
    columns = (
        Column(label, itemgetter(at), words=letter == "l")
        for at, (label, letter) in enumerate(zip(header, letters, strict=True))
    )
    return Table(tuple(columns), rows)


def capital(label: str) -> str:
    """Heading with a capital, but for milliseconds and names such as h100-sxm:8."""
    return label if re.match(r"ms\b|\S*[\d:]", label) else f"{label[:1].upper()}{label[1:]}"
