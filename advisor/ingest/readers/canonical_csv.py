"""Our own table (CSV or parquet): the downloadable template, filled in."""

from __future__ import annotations

from advisor.ingest.canonical import MEASURED_COLUMNS, header_key, match_header
from advisor.ingest.checks import misplaced_columns
from advisor.ingest.draft import Draft, from_mapped
from advisor.ingest.table import load_table, map_header, table_header, unit_hints
from advisor.ingest.upload import Sample

FORMAT_ID = "canonical_csv"
FORMAT_NAME = "our own CSV template"
RECOGNISED_BY = "a header with at least three of our columns, one of them a measurement"

_MIN_COLUMNS = 3


def detect(sample: Sample) -> float:
    """0.9 for a header with our measured columns, less than any tool's own more specific header."""
    if sample.kind not in ("text", "parquet"):
        return 0.0
    header = table_header(sample)
    found = {match[0] for cell in header if (match := match_header(cell, "points"))}
    exact = {header_key(cell) for cell in header} & found
    if len(found) < _MIN_COLUMNS or not found & set(MEASURED_COLUMNS["points"]):
        return 0.0
    return 0.9 if len(exact) >= _MIN_COLUMNS else 0.6


def read(sample: Sample) -> Draft:
    """Every row of the table; unknown columns are named in a warning and ignored."""
    table = load_table(sample, "points")
    mapped = map_header(table, "points", sample.name)
    warnings = [*mapped.warnings, *unit_hints(mapped.unknown, "points")]
    if mapped.unknown:
        shown = ", ".join(name[:40] for name in mapped.unknown[:10])
        warnings.append(f"{len(mapped.unknown)} columns are not known and were ignored: {shown}")
    cells, swaps = from_mapped(table, mapped), misplaced_columns(table, mapped.columns, "points")
    return Draft("points", table.lines, cells, list(table.rejects), warnings=warnings, swaps=swaps)
