"""A sheet: a headline, its reason, and rows of plates, tables, notes and texts to copy, as plain
values that every page draws alike (ui/browser/sheet.js).

Texts are plain, without markup. A color is a token of ui/browser/tokens.css, such as `schedule` or
`pin-1`. `advisor.text.json_values` makes JSON of a sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from advisor.prediction import Array

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""First digits of the ticks of an axis. [-]"""
_ROOM = 0.04
"""Room that a linear axis leaves beyond its values, of their span. [-]"""


def _kind(name: str) -> Any:
    return field(default=name, init=False)


@dataclass(frozen=True)
class Axis:
    """The scale of a plate along one side, from `low` to `high`."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    """Places and their texts, the weightiest first: one that has no room beside those is left
    out."""
    log: bool = False


def linear_axis(title: str, values: Array, text: Callable[[float], str], most: int = 6) -> Axis:
    """A linear axis around finite values, with at most `most` ticks at round numbers."""
    low = float(np.min(values))
    high = float(np.max(values))
    span = (high - low) or abs(high) or 1.0
    low -= _ROOM * span
    high += _ROOM * span
    size = 10.0 ** np.floor(np.log10((high - low) / most))
    step = next(size * digit for digit in _STEPS if (high - low) / (size * digit) <= most)
    places = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1.0)
    return Axis(title, low, high, tuple((float(place), text(place)) for place in places))


@dataclass(frozen=True)
class PlateZone:
    """A part of the x axis with its color and the longest of its names that fits.

    color : `few`, `new`, `sweet` or `arithmetic`.
    """

    start: float
    end: float
    color: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A line with its name at its end. NaN breaks nothing: give finite points only."""

    points: tuple[tuple[float, float], ...]
    color: str
    name: str = ""
    width: float = 2.4
    """Width. [px]"""
    dash: str = ""
    """Lengths of dashes and gaps, `7 4`; empty: solid. [px]"""
    bold: bool = False
    rings: tuple[tuple[float, float], ...] = ()
    """Points that are ringed."""


@dataclass(frozen=True)
class Corridor:
    """The area between two lines, as (x, low, high)."""

    points: tuple[tuple[float, float, float], ...]
    color: str


@dataclass(frozen=True)
class Dot:
    """A point: `title` says under the pointer what it is, `name` stands beside it."""

    x: float
    y: float
    color: str
    title: str
    shape: Literal["dot", "speck", "ring"] = "dot"
    """A speck is one of hundreds."""
    name: str = ""


@dataclass(frozen=True)
class Mark:
    """A dotted vertical line with a text at its foot."""

    x: float
    text: str


@dataclass(frozen=True)
class Stretch:
    """A part of the x axis, drawn as a bar below it."""

    start: float
    end: float
    color: str
    name: str = ""
    """Stands in the bar; stretches with names share one row."""


@dataclass(frozen=True)
class Plate:
    """A chart."""

    title: str
    label: str
    """What the chart shows in a sentence or two, for those who do not see it."""
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    dots: tuple[Dot, ...] = ()
    bands: tuple[Corridor, ...] = ()
    zones: tuple[PlateZone, ...] = ()
    marks: tuple[Mark, ...] = ()
    level: float | None = None
    """Value of a dotted horizontal line."""
    stretches: tuple[Stretch, ...] = ()
    """Each on a row of its own below the axis."""
    stretches_name: str = ""
    height: int = 262
    """Height between the axes. [px]"""
    kind: str = _kind("plate")


@dataclass(frozen=True)
class Scale:
    """Ends of a column's bars and ticks."""

    low: float
    high: float
    mark: float | None = None
    """Value of a dashed line."""


@dataclass(frozen=True)
class Head:
    """Head of a column: words stand to the left, numbers to the right."""

    label: str
    words: bool = False
    scale: Scale | None = None
    hint: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell: a text, a grey second line, a range or ticks on the column's scale."""

    text: str = ""
    grey: str = ""
    bold: bool = False
    range: tuple[float, float, float] | None = None
    """Low, middle and high of a bar with a dot."""
    ticks: tuple[float, ...] = ()
    color: str = ""


@dataclass(frozen=True)
class Row:
    """Cells under the heads of a table."""

    cells: tuple[Cell, ...]
    chosen: bool = False


@dataclass(frozen=True)
class SheetTable:
    """A table whose first column names its rows."""

    title: str
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    kind: str = _kind("table")


@dataclass(frozen=True)
class GreyLine:
    """A grey line."""

    text: str
    kind: str = _kind("note")


@dataclass(frozen=True)
class Copy:
    """A text to copy, with its button."""

    title: str
    text: str
    note: str = ""
    kind: str = _kind("copy")


Block = Plate | SheetTable | GreyLine | Copy


@dataclass(frozen=True)
class Sheet:
    """Answer of a page."""

    headline: str = ""
    """Empty in a part of a page that has a headline of its own."""
    emphasis: str = ""
    """Part of the headline that is colored."""
    reason: str = ""
    amber: str = ""
    rows: Sequence[tuple[Block, ...]] = ()
    """Blocks that stand side by side where there is room."""
