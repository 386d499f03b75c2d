"""Cells to numbers, whole columns at a time: empty, decimal comma, NaN, infinity, formula, out of range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.ingest.canonical import FREE_TEXT, CanonicalColumn
from advisor.ingest.result import shorten

EMPTY = frozenset({"", "na", "n/a", "null", "none", "-", "--", "\u2014"})
_EMPTY_SET = pa.array(
    sorted({form for word in EMPTY for form in (word, word.upper(), word.title())}), pa.large_string()
)
_PLAIN = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?$"
_THOUSANDS = r"^[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?$"
_DECIMAL_COMMA = r"^[+-]?[0-9]*(?:\.[0-9]{3})*,[0-9]*(?:[eE][+-]?[0-9]{1,6})?$"
_FORMULA = r"^(?:[=@\t\r]|[+-][^0-9. +-])"

_TRUE_FALSE = {"true": "1", "false": "0", "yes": "1", "no": "0"}


@dataclass
class Cells:
    """Column as read: Python values or an Arrow string array, their origin, and the factor to our unit."""

    values: Any
    source: str | list[str]
    scale: float = 1.0

    def source_of(self, row: int) -> str:
        """Name of the field that this row's value was read from."""
        return self.source if isinstance(self.source, str) else self.source[row]


@dataclass
class Bad:
    """Rows of one column that were refused: row numbers, the raw cells, one reason each."""

    rows: list[int]
    values: list[str]
    reasons: list[str]


def strings(values: Any) -> pa.Array:
    """Values as one Arrow string array, trimmed, with null for empty cells. Lists become their text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        values = pa.array([None if item is None else _as_text(item) for item in values], pa.large_string())
    if not pa.types.is_large_string(values.type):
        values = values.cast(pa.large_string())
    if pc.any(pc.match_substring_regex(values, r"^\s|\s$")).as_py():
        values = pc.utf8_trim_whitespace(values)
    empty = pc.is_in(values, _EMPTY_SET)
    if not pc.any(empty).as_py():
        return values
    return pc.if_else(empty, pa.scalar(None, pa.large_string()), values)


def _as_text(item: Any) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int) and abs(item) >= 10**300:  # str() of a huge integer is refused by Python itself
        return "inf"
    if isinstance(item, str):
        return item.encode("utf-8", errors="replace").decode()
    if isinstance(item, int | float):
        return repr(item)
    return shorten(item)


def comma_is_decimal(columns: list[Any]) -> bool | None:
    """Whether commas in the numeric cells of a file mean a decimal point.

    True or False where at least one cell proves it (`3,14` or `1,234.5`); None when no cell has a comma or all are
    ambiguous, like `1,234`.
    """
    for values in columns:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            cells = values
        else:
            cells = pa.array([item for item in values if isinstance(item, str)], pa.large_string())
        with_comma = pc.utf8_trim_whitespace(cells.filter(pc.fill_null(pc.match_substring(cells, ","), False)))
        if not len(with_comma):
            continue
        thousands = pc.match_substring_regex(with_comma, _THOUSANDS)
        decimal = pc.match_substring_regex(with_comma, _DECIMAL_COMMA)
        if pc.any(pc.and_(decimal, pc.invert(thousands))).as_py():
            return True
        if pc.any(pc.and_(thousands, pc.invert(decimal))).as_py():
            return False
    return None


def to_numbers(
    text: pa.Array, column: CanonicalColumn, scale: float, decimal_comma: bool | None
) -> tuple[np.ndarray, Bad]:
    """Numbers in our unit, NaN for empty cells and for refused ones, which are listed.

    Parameters: `text` from `strings` [rows]; `scale` the factor to `column`'s unit; `decimal_comma` from
    `comma_is_decimal`. Refused: not a number, not finite, not whole where a count is due, outside the column's range.
    """
    numbers, unreadable = _parse(_flags(text) if column.type == "flag" else text, decimal_comma)
    empty = text.is_null().to_numpy(zero_copy_only=False)
    values = numbers * scale if scale != 1.0 else numbers
    infinite = ~empty & ~unreadable & ~np.isfinite(values)
    bad = unreadable | infinite
    with np.errstate(invalid="ignore"):
        fractional = ~bad & ~empty & (values != np.floor(values)) if column.type in ("integer", "flag") else None
        outside = ~bad & ~empty & _outside(values, column)
    any_bad = bad | outside if fractional is None else bad | outside | fractional
    rows = np.flatnonzero(any_bad)
    raw = text.take(pa.array(rows)).to_pylist() if len(rows) else []
    reasons = [
        _reason(cell, bool(unreadable[row]), bool(infinite[row]), bool(outside[row]), column, decimal_comma)
        for cell, row in zip(raw, rows, strict=True)
    ]
    out = np.where(any_bad, np.nan, values)
    return out, Bad(rows.tolist(), [shorten(cell) for cell in raw], reasons)


def _outside(values: np.ndarray, column: CanonicalColumn) -> np.ndarray:
    if column.type == "flag":
        return (values != 0) & (values != 1)
    low = values <= 0 if column.positive else values < (column.low if column.low is not None else -np.inf)
    high = values > (column.high if column.high is not None else np.inf)
    return np.asarray(low | high)


def _flags(text: pa.Array) -> pa.Array:
    """Words for yes and no as 1 and 0. Anywhere but in a flag they are no numbers."""
    lowered = pc.utf8_lower(text)
    for word, digit in _TRUE_FALSE.items():
        text = pc.if_else(pc.fill_null(pc.equal(lowered, word), False), digit, text)
    return text


def _parse(text: pa.Array, decimal_comma: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (NaN where empty or unreadable) and the mask of unreadable cells. The usual clean column in one cast."""
    try:
        numbers = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
        # Arrow reads the words nan and inf as numbers; both then count as not finite.
        return numbers, np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        pass
    candidate = text
    if decimal_comma is True:
        is_comma = pc.fill_null(pc.match_substring_regex(text, _DECIMAL_COMMA), False)
        changed = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
        candidate = pc.if_else(is_comma, changed, text)
    elif decimal_comma is False:
        is_thousands = pc.fill_null(pc.match_substring_regex(text, _THOUSANDS), False)
        candidate = pc.if_else(is_thousands, pc.replace_substring(text, ",", ""), text)
    lowered = pc.utf8_lower(candidate)
    special = pc.fill_null(pc.match_substring_regex(lowered, r"^[+-]?(?:nan|inf|infinity)$"), False)
    plain = pc.fill_null(pc.match_substring_regex(candidate, _PLAIN), False)
    null = pa.scalar(None, pa.large_string())
    numbers = pc.cast(pc.if_else(plain, candidate, null), pa.float64()).to_numpy(zero_copy_only=False)
    readable = plain.to_numpy(zero_copy_only=False) | special.to_numpy(zero_copy_only=False)
    empty = text.is_null().to_numpy(zero_copy_only=False)
    return numbers, ~readable & ~empty


def _reason(
    cell: str, unreadable: bool, infinite: bool, outside: bool, column: CanonicalColumn, decimal_comma: bool | None
) -> str:
    if unreadable:
        if cell[:1] in "=@" or (cell[:1] in "+-" and cell[1:2].isalpha()):
            return "a formula, not a number; save the file with values instead of formulas"
        if "," in cell and decimal_comma is None:
            return "ambiguous: the comma may mark decimals or thousands; write a decimal point and no separators"
        return "not a number; write digits with a decimal point, and the unit in the column's header"
    if infinite:
        if cell.lower().lstrip("+-") == "nan":
            return "not a number (NaN); leave the cell empty if the value is unknown"
        return "infinite or too large for a number; leave the cell empty if the value is unknown"
    if outside:
        return f"outside the range of {column.name} ({column.range_text}{' ' + column.unit if column.unit else ''})"
    return f"{column.name} counts whole things; expected an integer"


def check_text(text: pa.Array, column: CanonicalColumn) -> Bad:
    """Text cells that a spreadsheet would run as a formula. Free text such as notes is exempt."""
    if column.name in FREE_TEXT:
        return Bad([], [], [])
    mask = pc.fill_null(pc.match_substring_regex(text, _FORMULA), False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(mask)
    raw = text.take(pa.array(rows)).to_pylist() if len(rows) else []
    reason = "starts like a spreadsheet formula; write plain text"
    return Bad(rows.tolist(), [shorten(cell) for cell in raw], [reason] * len(raw))
