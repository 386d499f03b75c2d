"""`vllm bench sweep serve` summary.csv: one row per run, overrides as columns named as typed."""

from __future__ import annotations

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft, from_table
from advisor.ingest.readers.vllm_fields import PER_POSITION, SERVE_MAPS, finish_serve, position_rates
from advisor.ingest.table import read_table
from advisor.ingest.upload import Sample

FORMAT_ID = "vllm_sweep"
FORMAT_NAME = "vLLM bench sweep summary.csv"
RECOGNISED_BY = "columns run_number, output_throughput, mean_tpot_ms and total_token_throughput"

_HEADERS = {"run_number", "output_throughput", "total_token_throughput", "mean_tpot_ms"}


def detect(sample: Sample) -> float:
    """0.95 for its columns, above our own template, which shares some names."""
    return 0.95 if sample.kind == "text" and set(sample.header) >= _HEADERS else 0.0


def read(sample: Sample) -> Draft:
    """One row per run."""
    table = read_table(sample)
    cells = from_table(table, SERVE_MAPS)
    printed = table.column(PER_POSITION)
    if printed is not None:
        positions = [position_rates(cell) for cell in printed.to_pylist()]
        cells["acceptance_by_position"] = Cells([text for text, _ in positions], PER_POSITION)
        cells["_positions"] = Cells([k for _, k in positions], PER_POSITION)
    draft = Draft("points", table.lines, cells, list(table.rejects), finish=finish_serve)
    draft.constant("engine", "vllm")
    if "batch_size" in cells:
        draft.constant("batch_kind", "max_concurrency")
    return draft
