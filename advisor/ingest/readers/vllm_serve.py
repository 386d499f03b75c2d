"""`vllm bench serve --save-result`: one JSON object, one per line, or a list of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft, from_records
from advisor.ingest.readers.vllm_fields import PER_POSITION, SERVE_MAPS, finish_serve, position_rates
from advisor.ingest.result import Reject, shorten
from advisor.ingest.upload import Sample

FORMAT_ID = "vllm_serve"
FORMAT_NAME = "vLLM bench serve JSON"
RECOGNISED_BY = "fields duration, completed, output_throughput, mean_tpot_ms and total_token_throughput"

_KEYS = frozenset({"duration", "completed", "output_throughput", "total_token_throughput"})
_KNOWN_RESULT = ("spec_decode_", "mean_", "median_", "std_", "p", "total_", "max_", "request_")
_LISTS = frozenset(
    {"latencies", "queue_times", "input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"}
)


def detect(sample: Sample) -> float:
    """0.9 for the result fields of vLLM's serving benchmark."""
    if sample.kind not in ("json", "jsonl"):
        return 0.0
    return 0.9 if sample.first.keys() >= _KEYS else 0.0


def read(sample: Sample) -> Draft:
    """One row per run. `max_concurrency` stands for the batch; K and acceptance come from the metadata and counters."""
    records, lines, rejects = keep_objects(sample)
    cells = from_records(records, SERVE_MAPS)
    positions = [position_rates(record.get(PER_POSITION)) for record in records]
    if any(text for text, _ in positions):
        cells["acceptance_by_position"] = Cells([text for text, _ in positions], PER_POSITION)
        cells["_positions"] = Cells([k for _, k in positions], PER_POSITION)
    kinds = ["max_concurrency" if record.get("max_concurrency") is not None else None for record in records]
    cells["batch_kind"] = Cells(kinds, "max_concurrency")
    cells["engine"] = Cells([_engine(record) for record in records], "backend")
    cells["date"] = Cells([record.get("date") for record in records], "date")
    seen = max(
        (int(c) for r in records if isinstance(c := r.get("max_concurrent_requests"), int | float) and c > 0),
        default=None,
    )
    prefill = {"engine": "vllm", "batch_size": seen}
    metadata = {
        key: value
        for key, value in sample.first.items()
        if isinstance(value, str | int | float) and key not in _LISTS and not key.startswith(_KNOWN_RESULT)
    }
    return Draft("points", lines, cells, rejects, prefill, metadata=metadata, finish=finish_serve)


def keep_objects(sample: Sample) -> tuple[list[dict[str, Any]], np.ndarray, list[Reject]]:
    """The records that are objects, their line numbers, and a refusal for every other one."""
    pairs = list(zip(sample.records, sample.lines, strict=True))
    records = [record for record, _ in pairs if isinstance(record, dict)]
    lines = np.array([line for record, line in pairs if isinstance(record, dict)], dtype=np.int64)
    wrong = [
        Reject(line, "", shorten(record), "expected a JSON object")
        for record, line in pairs
        if not isinstance(record, dict)
    ]
    return records, lines, [*sample.rejects, *wrong]


def _engine(record: dict[str, Any]) -> str | None:
    """vllm where the file proves it: its backend is named so, or the engine's own draft counters were scraped."""
    if record.get("backend") == "vllm" or record.get("endpoint_type") == "vllm":
        return "vllm"
    return "vllm" if any(str(key).startswith("spec_decode_") for key in record) else None
