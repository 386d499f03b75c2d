"""Delimited text to columns of strings, with the line each row stood on and the rows that do not fit the header."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from advisor.ingest.canonical import TableKind, header_key, match_header
from advisor.ingest.result import Reject, shorten
from advisor.ingest.upload import MAX_BYTES, MAX_COLUMNS, MAX_LINE_BYTES, MAX_REJECTS, MAX_ROWS, MIB, Sample
from advisor.prediction import AdvisorError

BARE_LATENCY = frozenset({"latency"})
"""Headers without a unit that kernel tables define to be milliseconds."""


@dataclass(frozen=True)
class FileTable:
    """A delimited file: header cells, one string column each, the line number of each row, refused rows."""

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
    if width > MAX_COLUMNS:
        raise AdvisorError(f"{sample.name} has {width:,} columns, more than the {MAX_COLUMNS:,} allowed; drop some")
    if width == 0:
        raise AdvisorError(f"{sample.name} has no header line; start the table with the names of its columns")
    table = _parse(sample, data, width, refuse)
    if table.num_rows - 1 + len(skipped) > MAX_ROWS:
        raise AdvisorError(
            f"{sample.name} has {table.num_rows - 1:,} rows, more than the {MAX_ROWS:,} allowed; split it"
        )
    n_rows, chunked = table.num_rows, list(reversed(table.columns))
    del table  # each column is joined and its pieces freed in turn, so that the table is never held twice
    columns = [chunked.pop().combine_chunks() for _ in range(width)]
    if not n_rows or (skipped and skipped[0][0] == 1):
        raise AdvisorError(
            f"{sample.name} has a header line that cannot be read; remove line breaks and quotes from it"
        )
    header = tuple((column[0].as_py() or "").strip() for column in columns)
    numbers = _row_numbers(n_rows, [number for number, _, _ in skipped])
    lines = numbers + skipped_lines + _extra_lines(columns, numbers)
    reason = f"cells where the header has {width}; check delimiters and quotes"
    rejects = [
        Reject(_line_of(number, numbers, lines), "", shorten(text), f"{found} {reason}")
        for number, found, text in skipped
    ]
    columns = [column[1:] for column in columns]
    columns, lines = _drop_blank_rows(columns, lines[1:])
    columns, lines, unclosed = _drop_unclosed_quote(data, columns, lines)
    return FileTable(header, tuple(columns), lines, tuple(rejects + unclosed))


def _from_header(data: bytes) -> tuple[bytes, int]:
    """The data from its first line that is neither blank nor a `#` comment, and how many lines came before."""
    found = re.match(rb"(?:(?:#[^\n]*|[^\S\n]*)\n)*+", data)
    start = found.end() if found else 0
    return data[start:], data.count(b"\n", 0, start)


def _parse(sample: Sample, data: bytes, width: int, refuse: object) -> pa.Table:
    names = [f"c{index}" for index in range(width)]
    try:
        return pacsv.read_csv(
            io.BytesIO(data),
            # One thread: only then does the parser number the rows it refuses.
            read_options=pacsv.ReadOptions(use_threads=False, column_names=names, block_size=MAX_LINE_BYTES),
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
    except pa.ArrowException as error:
        if "straddl" in str(error) or "block" in str(error):
            limit = MAX_LINE_BYTES // MIB
            raise AdvisorError(f"{sample.name} has a line longer than {limit} MiB; check its quotes") from error
        raise AdvisorError(f"{sample.name} is not a readable table: {shorten(str(error))[:120]}") from error


def _row_numbers(n_rows: int, skipped: list[int]) -> np.ndarray:
    """Number of each kept row in the file, the header being 1, given the numbers of the refused ones."""
    return np.delete(np.arange(1, n_rows + len(skipped) + 1), np.asarray(skipped, dtype=np.int64) - 1)


def _extra_lines(columns: list[pa.Array], numbers: np.ndarray) -> np.ndarray:
    """Line breaks inside quoted cells before each row, so that row numbers become line numbers."""
    breaks = np.zeros(len(numbers), dtype=np.int64)
    for column in columns:
        if pc.any(pc.match_substring(column, "\n")).as_py():
            breaks += pc.count_substring(column, "\n").to_numpy(zero_copy_only=False).astype(np.int64)
    return np.concatenate(([0], np.cumsum(breaks)[:-1])) if len(breaks) else breaks


def _line_of(number: int, numbers: np.ndarray, lines: np.ndarray) -> int:
    """Line of a refused row: that of the last kept row before it plus the rows between."""
    before = int(np.searchsorted(numbers, number)) - 1
    return number if before < 0 else int(lines[before] + number - numbers[before])


def _drop_blank_rows(columns: list[pa.Array], lines: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
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
    """A quote that never closes swallows the rest of the file into one cell. That row is refused, with the reason."""
    if not len(lines) or data.count(b'"') % 2 == 0:
        return columns, lines, []
    last = [column[-1].as_py() or "" for column in columns]
    swallowed = [cell for cell in last if "\n" in cell]
    if not swallowed:
        return columns, lines, []
    n_lost = swallowed[0].count("\n")
    reason = f"a quote opened here is never closed, so the {n_lost} lines after it were not read; close it"
    reject = Reject(int(lines[-1]), "", shorten(swallowed[0]), reason)
    return [column[:-1] for column in columns], lines[:-1], [reject]


def load_table(sample: Sample, kind: TableKind) -> FileTable:
    """The table of a CSV or parquet sample. A parquet file gives only the columns that `kind` knows."""
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
            io.BytesIO(sample.data), thrift_string_size_limit=64 * MIB, thrift_container_size_limit=MAX_ROWS
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise AdvisorError(f"{sample.name} is a damaged parquet file; write it again") from error


def read_parquet(sample: Sample, kind: TableKind) -> FileTable:
    """Read the known columns of a parquet file as strings.

    Line numbers are row numbers. Raises AdvisorError for a damaged file, or one with too many rows or columns.
    """
    source = _open_parquet(sample)
    schema = source.schema_arrow
    if len(schema.names) > MAX_COLUMNS:
        raise AdvisorError(f"{sample.name} has {len(schema.names):,} columns, more than the {MAX_COLUMNS:,} allowed")
    if source.metadata.num_rows > MAX_ROWS:
        raise AdvisorError(
            f"{sample.name} has {source.metadata.num_rows:,} rows, more than the {MAX_ROWS:,} allowed; split it"
        )
    wanted = [
        item.name
        for item in schema
        if (match_header(item.name, kind) or header_key(item.name) in BARE_LATENCY)
        and not pa.types.is_nested(item.type)
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
    columns = tuple(pa.chunked_array(parts[name], pa.large_string()).combine_chunks() for name in wanted)
    return FileTable(tuple(wanted), columns, np.arange(1, n_rows + 1), ())


@dataclass(frozen=True)
class Mapped:
    """Match of a table's columns to canonical ones."""

    columns: dict[str, tuple[int, float]]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]


def map_header(table: FileTable, kind: TableKind, name: str) -> Mapped:
    """Match headers to canonical columns.

    Raises AdvisorError for two headers of one column, unless they hold the same cells.
    """
    columns: dict[str, tuple[int, float]] = {}
    unknown: list[str] = []
    warnings: list[str] = []
    for index, header in enumerate(table.header):
        found = match_header(header, kind)
        if found is None:
            if header:
                unknown.append(header)
            continue
        target, factor = found
        if target not in columns:
            columns[target] = (index, factor)
            continue
        first = columns[target][0]
        same = columns[target][1] == factor and table.columns[first].equals(table.columns[index])
        if not same:
            raise AdvisorError(
                f"{name}: columns {first + 1} ({table.header[first]!r}) and {index + 1} ({header!r}) both give "
                f"{target} and differ; keep one of them"
            )
        warnings.append(f"column {index + 1} ({header!r}) repeats column {first + 1} and was ignored")
    return Mapped(columns, tuple(unknown), tuple(warnings))


def unit_hints(unknown: tuple[str, ...], kind: TableKind) -> list[str]:
    """A sentence for each unknown header that would be a time column if it named its unit."""
    hints = []
    for header in unknown:
        if match_header(f"{header}_ms", kind) is not None:
            key = header_key(header)
            hints.append(f"column {header!r} was ignored because its unit is unknown; name it {key}_ms or {key}_s")
    return hints
