"""Measured MoE kernel tables, one row per timed shape (CSV or parquet): framework, version, device, ..., latency."""

from __future__ import annotations

from advisor.ingest.canonical import header_key, match_header
from advisor.ingest.cells import Cells
from advisor.ingest.checks import misplaced_columns
from advisor.ingest.draft import Draft, from_mapped
from advisor.ingest.table import BARE_LATENCY, load_table, map_header, table_header
from advisor.ingest.upload import Sample

FORMAT_ID = "kernel_table"
FORMAT_NAME = "a measured MoE kernel table"
RECOGNISED_BY = "columns num_tokens, hidden_size, topk, num_experts and a latency, as CSV or parquet"

_SHAPE = {"num_tokens", "hidden_size", "topk", "num_experts"}
_MS = 1e-3


def detect(sample: Sample) -> float:
    """0.95 when the shape columns and a latency are in the header."""
    if sample.kind not in ("text", "parquet"):
        return 0.0
    header = table_header(sample)
    found = {match[0] for cell in header if (match := match_header(cell, "kernels"))}
    timed = "latency_s" in found or bool({header_key(cell) for cell in header} & BARE_LATENCY)
    return 0.95 if found >= _SHAPE and timed else 0.0


def read(sample: Sample) -> Draft:
    """Every row. A latency column without a unit is in milliseconds, as these tables define it."""
    table = load_table(sample, "kernels")
    mapped = map_header(table, "kernels", sample.name)
    cells = from_mapped(table, mapped)
    swaps = misplaced_columns(table, mapped.columns, "kernels")
    notes = []
    bare = next((index for index, cell in enumerate(table.header) if header_key(cell) in BARE_LATENCY), None)
    if "latency_s" not in cells and bare is not None:
        cells["latency_s"] = Cells(table.columns[bare], table.header[bare], _MS)
        notes.append("latency read as milliseconds, the unit of this table layout")
    draft = Draft("kernels", table.lines, cells, list(table.rejects), notes=notes, swaps=swaps)
    draft.warnings += mapped.warnings
    if "op" not in cells:
        draft.constant("op", "moe")
    return draft
