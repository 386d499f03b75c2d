"""The plain blocks and sections that a report is made of, the same for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from advisor.show.table import Table, capital
from advisor.text import printable, typeset

FigureKey = Literal["speedup", "components"]
Format = Literal["md", "html", "pdf", "json", "csv"]
"""`html`: the answer as a file that lives (show/live_file.py); the others: a report."""
FORMATS: tuple[Format, ...] = get_args(Format)
_LENGTH = 4000
"""Longest text printed, in characters."""


@dataclass(frozen=True)
class Paragraph:
    """One paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Bulleted plain text, or numbered from 1."""

    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True)
class TableBlock:
    """Cells as text. `align` has one letter for each column: l for words, r for numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: str
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """Text to copy as it stands."""

    text: str
    caption: str


@dataclass(frozen=True)
class FigureBlock:
    """A chart of the report's answer by its key, and its finding in words."""

    key: FigureKey
    alt: str


Block = Paragraph | Listing | TableBlock | Code | FigureBlock


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]
    reference: bool = False
    """True for what is looked up rather than read: set smaller on paper."""


def table_block(table: Table[Any], caption: str = "") -> TableBlock:
    """A table on paper, headings with a capital."""
    header = tuple(printable(capital(label)) for label in table.header)
    rows = tuple(tuple(map(printable, row)) for row in table.cells)
    return TableBlock(header, rows, table.align, caption)


def typeset_block(block: Block) -> Block:
    """A block with its prose and cells as a reader sees them, code and drawings as they are."""
    match block:
        case Paragraph(text):
            return Paragraph(typeset(text))
        case Listing(items, numbered):
            return Listing(tuple(map(typeset, items)), numbered)
        case TableBlock(columns, rows, align, caption):
            cells = tuple(tuple(map(typeset, row)) for row in rows)
            return TableBlock(tuple(map(typeset, columns)), cells, align, typeset(caption))
    return block


def said(text: str) -> str:
    """A text of ours as it is printed, which names that a user gave may be part of."""
    return printable(text, _LENGTH)


def paragraph(text: str) -> Paragraph:
    """One printed paragraph of a text that names of a user's may be part of."""
    return Paragraph(said(text))
