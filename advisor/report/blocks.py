"""The plain blocks that a report is made of, the same for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FigureKey = Literal["speedup", "components"]


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
class Table:
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
    """A chart by its key, and its finding in words."""

    key: FigureKey
    alt: str


Block = Paragraph | Listing | Table | Code | FigureBlock
