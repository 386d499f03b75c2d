"""Delimited text to columns of numbers and words, whole columns at a time, with the rows that do
not fit."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from advisor.measured.ingest.columns import (
    COLUMNS,
    FREE_TEXT,
    UNIT_FACTORS,
    CanonicalColumn,
    TableKind,
    header_key,
    match_header,
)
from advisor.measured.ingest.result import AMBIGUOUS, OPEN_UNIT, ReadNote, Reject, shorten, warned
from advisor.measured.ingest.side_by_side import SideBySide, metrics_in_unit, side_by_side
from advisor.measured.ingest.upload import (
    MAX_BYTES,
    MAX_COLUMNS,
    MAX_LINE_BYTES,
    MAX_REJECTS,
    MAX_ROWS,
    MIB,
    Sample,
)
from advisor.prediction import AdvisorError
from advisor.text import EMPTY, NO, YES, names_of_today, number_of

_EMPTY_SET = pa.array(
    sorted({form for word in EMPTY for form in (word, word.upper(), word.title())}),
    pa.large_string(),
)
_PLAIN = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?$"
_THOUSANDS = r"^[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?$"
_DECIMAL_COMMA = r"^[+-]?[0-9]*(?:\.[0-9]{3})*,[0-9]*(?:[eE][+-]?[0-9]{1,6})?$"
_WITH_UNIT = rf"^[0-9.,+eE-]+ ?(?:{'|'.join(UNIT_FACTORS)})$"
_RATE = r"^([0-9.,+eE-]+) ?(?:tok(?:en)?s?(?:/| per )s(?:ec(?:ond)?)?|tps|t/s)$"
_NO_BREAK = "[\u00a0\u2007\u2009\u202f]"
_SPREAD = "^([0-9.,]+) ?(?:\u00b1|[+]/?-) ?[0-9.,]+( ?[A-Za-z\u00b5\u03bc/]*)$"
_TIMES_OVER = "^([0-9.,]+) ?[x\u00d7]$"
_EMBELLISHED = f"{_NO_BREAK}|{_SPREAD}|{_TIMES_OVER}"
_FORMULA = r"^(?:[=@\t\r]|[+-][^0-9. +-])"


@dataclass
class Cells:
    """Column as read: values, origin, and the factor to our unit. -1 for a flag that says the
    contrary of ours."""

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
    """Values as one Arrow string array, trimmed, with null for empty cells. Lists become their
    text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        values = pa.array(
            [None if cell is None else _as_text(cell) for cell in values], pa.large_string()
        )
    if not pa.types.is_large_string(values.type):
        values = values.cast(pa.large_string())
    if pc.any(pc.match_substring_regex(values, r"^\s|\s$")).as_py():
        values = pc.utf8_trim_whitespace(values)
    empty = pc.is_in(values, _EMPTY_SET)
    if not pc.any(empty).as_py():
        return values
    return pc.if_else(empty, pa.scalar(None, pa.large_string()), values)


def _as_text(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    # str() of a huge integer is refused by Python itself
    if isinstance(cell, int) and abs(cell) >= 10**300:
        return "inf"
    if isinstance(cell, str):
        return cell.encode("utf-8", errors="replace").decode()
    if isinstance(cell, int | float):
        return repr(cell)
    return shorten(cell)


def comma_is_decimal(columns: list[Any]) -> bool | None:
    """Whether commas in the numeric cells of a file mean a decimal point.

    True or False where at least one cell proves it (`3,14` or `1,234.5`); None when no cell has a
    comma or all are ambiguous, like `1,234`.
    """
    for values in columns:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            cells = values
        else:
            cells = pa.array([cell for cell in values if isinstance(cell, str)], pa.large_string())
        with_comma = pc.utf8_trim_whitespace(
            cells.filter(pc.fill_null(pc.match_substring(cells, ","), False))
        )
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

    Parameters: `text` from `strings` [rows]; `scale` the factor to `column`'s unit; `decimal_comma`
    from `comma_is_decimal`. Refused: not a number, not finite, not whole where a count is due,
    outside the column's range, and every cell where `scale` is NaN: a time of unknown unit, unless
    its cells name theirs.
    """
    if pc.any(pc.match_substring_regex(text, _EMBELLISHED)).as_py():
        text = _plainly(text, column)
    if column.unit == "s":
        text, scale = _own_units(text, scale)
    if np.isnan(scale):
        rows = np.flatnonzero(text.is_valid().to_numpy(zero_copy_only=False))
        waiting = Bad(rows.tolist(), text.drop_null().to_pylist(), [OPEN_UNIT] * len(rows))
        return np.full(len(text), np.nan), waiting
    numbers, unreadable = _parse(_flags(text) if column.type == "flag" else text, decimal_comma)
    empty = text.is_null().to_numpy(zero_copy_only=False)
    values = (
        1.0 - numbers
        if column.type == "flag" and scale < 0
        else numbers * scale
        if scale != 1.0
        else numbers
    )
    infinite = ~empty & ~unreadable & ~np.isfinite(values)
    bad = unreadable | infinite
    with np.errstate(invalid="ignore"):
        fractional = (
            ~bad & ~empty & (values != np.floor(values))
            if column.type in ("integer", "flag")
            else None
        )
        outside = ~bad & ~empty & _outside(values, column)
    any_bad = bad | outside if fractional is None else bad | outside | fractional
    rows = np.flatnonzero(any_bad)
    raw = text.take(pa.array(rows)).to_pylist() if len(rows) else []
    reasons = [
        _reason(
            cell,
            bool(unreadable[row]),
            bool(infinite[row]),
            bool(outside[row]),
            column,
            decimal_comma,
        )
        for cell, row in zip(raw, rows, strict=True)
    ]
    out = np.where(any_bad, np.nan, values)
    return out, Bad(rows.tolist(), [shorten(cell) for cell in raw], reasons)


def _plainly(text: pa.Array, column: CanonicalColumn) -> pa.Array:
    """Cells such as `8.31 \u00b1 0.25`, `1.64x` of a ratio, and numbers with spaces that do not
    break as numbers."""
    text = pc.replace_substring_regex(text, _SPREAD, r"\1\2")
    text = pc.replace_substring_regex(text, _NO_BREAK, " ")
    while pc.any(pc.match_substring_regex(text, r"^[+-]?\d{1,3} \d{3}\b")).as_py():
        text = pc.replace_substring_regex(text, r"^([+-]?\d{1,3}) (\d{3})\b", r"\1\2")
    if column.unit in ("1", "as metric"):
        text = pc.replace_substring_regex(text, _TIMES_OVER, r"\1")
    return text


def _own_units(text: pa.Array, scale: float) -> tuple[pa.Array, float]:
    """Cells such as `4.1 ms` as numbers in the column's unit, and that unit: seconds where no
    header names one."""
    has_unit = pc.fill_null(pc.match_substring_regex(text, _WITH_UNIT), False)
    if not pc.any(has_unit).as_py():
        return text, scale
    if np.isnan(scale) and pc.all(pc.or_(has_unit, text.is_null())).as_py():
        scale = 1.0
    cells = text.to_pylist()
    for row in np.flatnonzero(has_unit.to_numpy(zero_copy_only=False)):
        digits = re.match(r"[0-9.,+eE-]+", cells[row])
        number = number_of(digits[0]) if digits else None
        if number is not None and digits is not None:
            cells[row] = repr(number * UNIT_FACTORS[cells[row][digits.end() :].strip()] / scale)
    return pa.array(cells, pa.large_string()), scale


def without_rate(text: pa.Array, column: CanonicalColumn, header: str | list[str]) -> pa.Array:
    """Cells such as `2350 tok/s` as numbers, where the column or its header says tokens/s."""
    metrics = column.unit == "as metric" and isinstance(header, str) and metrics_in_unit(header)
    is_rate = column.unit == "tokens/s" or (
        metrics and all("per_s" in metric for metric in metrics)
    )
    return pc.replace_substring_regex(text, _RATE, r"\1") if is_rate else text


def _outside(values: np.ndarray, column: CanonicalColumn) -> np.ndarray:
    if column.type == "flag":
        return (values != 0) & (values != 1)
    low = (
        values <= 0
        if column.positive
        else values < (column.low if column.low is not None else -np.inf)
    )
    high = values > (column.high if column.high is not None else np.inf)
    return np.asarray(low | high)


def outside_range(values: np.ndarray, column: CanonicalColumn) -> np.ndarray:
    """Rows whose number lies outside the column's range: a time that is not above 0, say. [rows];
    False for NaN."""
    with np.errstate(invalid="ignore"):
        return ~np.isnan(values) & _outside(values, column)


def _flags(text: pa.Array) -> pa.Array:
    """Words for yes and no as 1 and 0. Anywhere but in a flag they are no numbers."""
    lowered = pc.utf8_lower(text)
    for words, digit in ((YES, "1"), (NO, "0")):
        is_word = pc.is_in(lowered, pa.array(sorted(words), pa.large_string()))
        text = pc.if_else(pc.fill_null(is_word, False), digit, text)
    return text


def _parse(text: pa.Array, decimal_comma: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (NaN where empty or unreadable) and the mask of unreadable cells. The usual clean
    column in one cast."""
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
    numbers = pc.cast(pc.if_else(plain, candidate, null), pa.float64()).to_numpy(
        zero_copy_only=False
    )
    readable = plain.to_numpy(zero_copy_only=False) | special.to_numpy(zero_copy_only=False)
    empty = text.is_null().to_numpy(zero_copy_only=False)
    return numbers, ~readable & ~empty


def _reason(
    cell: str,
    unreadable: bool,
    infinite: bool,
    outside: bool,
    column: CanonicalColumn,
    decimal_comma: bool | None,
) -> str:
    if unreadable:
        if cell[:1] in "=@" or (cell[:1] in "+-" and cell[1:2].isalpha()):
            return "a formula, not a number; save the file with values instead of formulas"
        if "," in cell and decimal_comma is None:
            return f"{AMBIGUOUS}; say which, or write a decimal point and no separators"
        return (
            "not a number; write digits with a decimal point, and the unit in the column's header"
        )
    if infinite:
        if cell.lower().lstrip("+-") == "nan":
            return "not a number (NaN); leave the cell empty if the value is unknown"
        return "infinite or too large for a number; leave the cell empty if the value is unknown"
    if outside:
        unit = f" {column.unit}" if column.unit else ""
        return f"outside the range of {column.name} ({column.range_text}{unit})"
    return f"{column.name} counts whole things; expected an integer"


def check_text(text: pa.Array, column: CanonicalColumn) -> Bad:
    """Text cells that a spreadsheet would run as a formula. Free text such as notes is exempt."""
    if column.name in FREE_TEXT:
        return Bad([], [], [])
    mask = pc.fill_null(pc.match_substring_regex(text, _FORMULA), False).to_numpy(
        zero_copy_only=False
    )
    rows = np.flatnonzero(mask)
    raw = text.take(pa.array(rows)).to_pylist() if len(rows) else []
    reason = "starts like a spreadsheet formula; write plain text"
    return Bad(rows.tolist(), [shorten(cell) for cell in raw], [reason] * len(raw))


BARE_LATENCY = frozenset({"latency"})
"""Headers without a unit that kernel tables define to be milliseconds."""


@dataclass(frozen=True)
class FileTable:
    """A delimited file: header cells, one string column each, the line number of each row, refused
    rows."""

    header: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    lines: np.ndarray
    rejects: tuple[Reject, ...]

    def column(self, name: str) -> pa.Array | None:
        """The column under exactly this header, or None."""
        return self.columns[self.header.index(name)] if name in self.header else None


def read_table(sample: Sample) -> FileTable:
    """Parse the whole file. Raises AdvisorError when it is no table or exceeds a limit."""
    data, skipped_lines = _from_header(sample.data)
    skipped: list[tuple[int, int, str]] = []

    def refuse(row: pacsv.InvalidRow) -> str:
        if len(skipped) >= MAX_REJECTS:
            return "error"
        skipped.append((row.number, row.actual_columns, row.text[:400]))
        return "skip"

    width = len(sample.header)
    if width == 0:
        raise AdvisorError(
            f"{sample.name} has no header line; start the table with the names of its columns"
        )
    table = _parse_file(sample, data, width, refuse)
    if table.num_rows - 1 + len(skipped) > MAX_ROWS:
        raise AdvisorError(
            f"{sample.name} has {table.num_rows - 1:,} rows, more than the {MAX_ROWS:,} allowed; "
            "split it"
        )
    n_rows = table.num_rows
    chunked = list(reversed(table.columns))
    # each column is joined and its pieces freed in turn, so that the table is never held twice
    del table
    columns = [chunked.pop().combine_chunks() for _ in range(width)]
    if not n_rows or (skipped and skipped[0][0] == 1):
        raise AdvisorError(
            f"{sample.name} has a header line that cannot be read; remove line breaks and quotes "
            "from it"
        )
    header = tuple((column[0].as_py() or "").strip() for column in columns)
    # Numbers in the file, the header being 1, without those of refused rows.
    numbers = np.delete(
        np.arange(1, n_rows + len(skipped) + 1), [number - 1 for number, _, _ in skipped]
    )
    lines = numbers + skipped_lines + _extra_lines(columns, numbers)
    reason = f"cells where the header has {width}; check delimiters and quotes"
    # The line of a refused row is that of the last kept one before it plus the rows between.
    before = np.searchsorted(numbers, [number for number, _, _ in skipped]) - 1
    rejects = [
        Reject(
            number if at < 0 else int(lines[at] + number - numbers[at]),
            "",
            shorten(text),
            f"{n_cells} {reason}",
        )
        for at, (number, n_cells, text) in zip(before, skipped, strict=True)
    ]
    columns = [column[1:] for column in columns]
    # the dashes below a Markdown table's header are no row of it
    if sample.delimiter == "|" and len(columns[0]):
        dashes = all(
            re.fullmatch(r"\s*(:?-+:?)?\s*", column[0].as_py() or "") for column in columns
        )
        columns = [column[dashes:] for column in columns]
        lines = np.delete(lines, [1] if dashes else [])
    columns, lines = _drop_blank_rows(columns, lines[1:])
    columns, lines, unclosed = _drop_unclosed_quote(data, columns, lines)
    return FileTable(header, tuple(columns), lines, tuple(rejects + unclosed))


_WORDS_ALONE = re.compile(
    rb"(?m)^(?![^\n]*(?:^|[,;\t|])[ \"]*[+-]?[0-9][0-9.,]*[ \"]*(?:[,;\t|]|$))[^\n]*[A-Za-z][^\n]*$"
)
"""A line without a number in a cell of its own, as no row of measurements is."""
_HEADERS = 2
"""Cells of a line that name columns of ours and make it a header. [-]"""


def one_table(sample: Sample) -> Sample:
    """A table with repeats of its header line emptied. Raises AdvisorError for another header below
    the first: its rows would be read by the wrong names."""
    if sample.kind != "text" or _named_columns(sample.header) < _HEADERS:
        return sample
    first = [cell.strip() for cell in sample.header]
    data, n_before = _from_header(sample.data)
    start = len(sample.data) - len(data)
    pieces: list[bytes] = []
    kept_to = 0
    for match in _WORDS_ALONE.finditer(data, len(sample.first_line.encode())):
        cells = [cell.strip(' "') for cell in match[0].decode().split(sample.delimiter)]
        if cells == first:
            pieces.append(data[kept_to : match.start()])
            kept_to = match.end()
        elif _named_columns(cells) >= max(_HEADERS, len([*filter(None, cells)]) / 2):
            line = n_before + data.count(b"\n", 0, match.start()) + 1
            raise AdvisorError(
                f"{sample.name}: line {line} is another header ({shorten(', '.join(cells))}), and "
                f"the rows below it would be read by the first one; split the file there"
            )
    if not pieces:
        return sample
    return replace(sample, data=sample.data[:start] + b"".join([*pieces, data[kept_to:]]))


def _named_columns(cells: Iterable[str]) -> int:
    """Cells that name different columns of ours. [-]"""
    matches = (match_header(cell, "points") for cell in cells)
    return len({match[0] for match in matches if match})


def _from_header(data: bytes) -> tuple[bytes, int]:
    """The data from its first line that says something and is no `#` comment, and how many lines
    came before."""
    preamble = re.match(rb"(?:(?:#[^\n]*|[^\n0-9A-Za-z\x80-\xff]*)\n)*+", data)
    start = preamble.end() if preamble else 0
    return data[start:], data.count(b"\n", 0, start)


def _parse_file(sample: Sample, data: bytes, width: int, refuse: object) -> pa.Table:
    names = [f"c{index}" for index in range(width)]
    try:
        return pacsv.read_csv(
            io.BytesIO(data),
            # One thread: only then does the parser number the rows it refuses.
            read_options=pacsv.ReadOptions(
                use_threads=False, column_names=names, block_size=MAX_LINE_BYTES
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=sample.delimiter,
                newlines_in_values=b'"' in data,
                ignore_empty_lines=False,
                invalid_row_handler=refuse,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
            ),
        )
    except MemoryError:
        raise
    except pa.ArrowException as error:
        if "straddl" in str(error) or "block" in str(error):
            limit = MAX_LINE_BYTES // MIB
            raise AdvisorError(
                f"{sample.name} has a line longer than {limit} MiB; check its quotes"
            ) from error
        raise AdvisorError(
            f"{sample.name} is not a readable table: {shorten(str(error))[:120]}"
        ) from error


def _extra_lines(columns: list[pa.Array], numbers: np.ndarray) -> np.ndarray:
    """Line breaks inside quoted cells before each row, so that row numbers become line numbers."""
    breaks = np.zeros(len(numbers), dtype=np.int64)
    for column in columns:
        if pc.any(pc.match_substring(column, "\n")).as_py():
            breaks += (
                pc.count_substring(column, "\n").to_numpy(zero_copy_only=False).astype(np.int64)
            )
    return np.concatenate(([0], np.cumsum(breaks)[:-1])) if len(breaks) else breaks


def _drop_blank_rows(
    columns: list[pa.Array], lines: np.ndarray
) -> tuple[list[pa.Array], np.ndarray]:
    filled = np.zeros(len(lines), dtype=bool)
    for column in columns:
        filled |= pc.fill_null(pc.not_equal(column, ""), False).to_numpy(zero_copy_only=False)
        if filled.all():
            return columns, lines
    mask = pa.array(filled)
    return [column.filter(mask) for column in columns], lines[filled]


def _drop_unclosed_quote(
    data: bytes, columns: list[pa.Array], lines: np.ndarray
) -> tuple[list[pa.Array], np.ndarray, list[Reject]]:
    """A quote that never closes swallows the rest of the file into one cell. That row is refused,
    with the reason."""
    if not len(lines) or data.count(b'"') % 2 == 0:
        return columns, lines, []
    last = [column[-1].as_py() or "" for column in columns]
    swallowed = [cell for cell in last if "\n" in cell]
    if not swallowed:
        return columns, lines, []
    n_lost = swallowed[0].count("\n")
    reason = (
        f"a quote opened here is never closed, so the {n_lost} lines after it were not read; "
        "close it"
    )
    reject = Reject(int(lines[-1]), "", shorten(swallowed[0]), reason)
    return [column[:-1] for column in columns], lines[:-1], [reject]


def load_table(sample: Sample, kind: TableKind) -> FileTable:
    """The table of a CSV or parquet sample. A parquet file gives only the columns that `kind`
    knows."""
    return read_parquet(sample, kind) if sample.kind == "parquet" else read_table(sample)


def table_header(sample: Sample) -> tuple[str, ...]:
    """Header cells of a CSV or parquet sample. Empty for other kinds and for damaged files."""
    if sample.kind != "parquet":
        return sample.header
    try:
        return tuple(_open_parquet(sample).schema_arrow.names)
    except AdvisorError:
        return ()


def _open_parquet(sample: Sample) -> Any:
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(
            io.BytesIO(sample.data),
            thrift_string_size_limit=64 * MIB,
            thrift_container_size_limit=MAX_ROWS,
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise AdvisorError(f"{sample.name} is a damaged parquet file; write it again") from error


def read_parquet(sample: Sample, kind: TableKind) -> FileTable:
    """Known columns of a parquet file as strings, lines by row. Raises AdvisorError for damage, or
    too large a file."""
    source = _open_parquet(sample)
    schema = source.schema_arrow
    if len(schema.names) > MAX_COLUMNS:
        raise AdvisorError(
            f"{sample.name} has {len(schema.names):,} columns, more than the {MAX_COLUMNS:,} "
            "allowed"
        )
    if source.metadata.num_rows > MAX_ROWS:
        raise AdvisorError(
            f"{sample.name} has {source.metadata.num_rows:,} rows, more than the {MAX_ROWS:,} "
            "allowed; split it"
        )
    wanted = [
        schema_field.name
        for schema_field in schema
        if (match_header(schema_field.name, kind) or header_key(schema_field.name) in BARE_LATENCY)
        and not pa.types.is_nested(schema_field.type)
    ]
    parts: dict[str, list[pa.Array]] = {name: [] for name in wanted}
    n_rows = n_bytes = 0
    try:
        for batch in source.iter_batches(batch_size=65_536, columns=wanted):
            n_rows += batch.num_rows
            for name in wanted:
                column = batch.column(batch.schema.get_field_index(name))
                text = pc.cast(column, pa.large_string())
                n_bytes += text.nbytes
                parts[name].append(text)
            if n_rows > MAX_ROWS or n_bytes > 4 * MAX_BYTES:
                raise AdvisorError(f"{sample.name} unpacks to more than is allowed; split it")
    except AdvisorError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise AdvisorError(f"{sample.name} is a damaged parquet file; write it again") from error
    columns = tuple(
        pa.chunked_array(parts[name], pa.large_string()).combine_chunks() for name in wanted
    )
    return FileTable(tuple(wanted), columns, np.arange(1, n_rows + 1), ())


@dataclass(frozen=True)
class Mapped:
    """Match of a table's columns to canonical ones."""

    columns: dict[str, tuple[int, float]]
    unknown: tuple[str, ...]
    notes: tuple[ReadNote, ...]
    pair: SideBySide | None = None


def map_header(
    table: FileTable, kind: TableKind, name: str, shown: Mapping[str, str] | None = None
) -> Mapped:
    """Match headers to canonical columns.

    Raises AdvisorError for two headers of one column, unless they hold the same cells.

    shown : what the user's file calls headers of a table made long.
    """
    headers = [(shown or {}).get(header, header) for header in table.header]
    pair = side_by_side(table.header, headers) if kind == "points" else None
    placed = [repr(name) if shown else f"{at} ({name!r})" for at, name in enumerate(headers, 1)]
    columns: dict[str, tuple[int, float]] = {} if pair is None else pair.columns
    paired = () if pair is None else (pair.plain, pair.spec)
    unknown: list[str] = []
    notes: list[ReadNote] = []
    for index, header in enumerate(table.header):
        if index in paired:
            continue
        match = match_header(header, kind)
        if match is None:
            if header:
                unknown.append(header)
            continue
        target, factor = match
        if target not in columns:
            columns[target] = (index, factor)
            continue
        first = columns[target][0]
        same = columns[target][1] == factor and table.columns[first].equals(table.columns[index])
        if not same:
            raise AdvisorError(
                f"{name}: columns {placed[first]} and {placed[index]} both give the "
                f"{COLUMNS[kind][target].in_text} and differ; keep one of them"
            )
        notes.append(warned("column_repeated", column=placed[index], first=placed[first]))
    if renamed := names_of_today(map(header_key, table.header)):
        notes.append(warned("old_names", renamed=tuple(renamed.items())))
    return Mapped(columns, tuple(unknown), tuple(notes), pair)


def bare_times(headers: Iterable[str]) -> list[str]:
    """Headers that would be times if they named their unit."""
    return [
        header
        for header in headers
        if not match_header(header, "points") and match_header(f"{header}_ms", "points")
    ]


def unit_hints(unknown: Iterable[str]) -> list[ReadNote]:
    """A warning of each unknown header that would be a time column if it named its unit."""
    return [
        warned("unit_unknown", stated=header, name=header_key(header))
        for header in bare_times(unknown)
    ]
