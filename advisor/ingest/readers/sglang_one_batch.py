"""SGLang bench_one_batch and bench_one_batch_server JSONL: one static batch per line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft, FieldMap, floats, from_records
from advisor.ingest.readers.sglang_serving import positive_or_none
from advisor.ingest.readers.vllm_serve import keep_objects
from advisor.ingest.upload import Sample

FORMAT_ID = "sglang_one_batch"
FORMAT_NAME = "SGLang bench_one_batch (and _server) JSONL"
RECOGNISED_BY = "fields run_name, batch_size, input_len, output_len and median_decode_latency or last_ttft"

_MAPS = (
    FieldMap("point_id", ("run_name",)),
    FieldMap("batch_size", ("batch_size",)),
    FieldMap("input_tokens", ("input_len",)),
    FieldMap("output_tokens", ("output_len",)),
    FieldMap("step_time_s", ("median_decode_latency",)),
    FieldMap("request_latency_s", ("latency", "total_latency")),
    FieldMap("ttft_s", ("last_ttft", "prefill_latency")),
    FieldMap("output_tok_per_s", ("median_decode_throughput", "steady_state_output_throughput", "output_throughput")),
)


def detect(sample: Sample) -> float:
    """0.9 for a batch line of either tool."""
    if sample.kind not in ("json", "jsonl") or not sample.first.keys() >= {"batch_size", "input_len", "output_len"}:
        return 0.0
    return 0.9 if sample.first.keys() & {"median_decode_latency", "last_ttft", "acc_length"} else 0.0


def read(sample: Sample) -> Draft:
    """One row per batch. bench_one_batch never speculates, so its rows are baselines (K = 0)."""
    records, lines, rejects = keep_objects(sample)
    cells = from_records(records, _MAPS)
    offline = ["median_decode_latency" in record for record in records]
    cells["draft_tokens_k"] = Cells(
        [0 if own else _plain(record) for own, record in zip(offline, records, strict=True)], "(tool)"
    )
    cells["accepted_length"] = Cells([positive_or_none(record.get("acc_length")) for record in records], "acc_length")
    draft = Draft("points", lines, cells, rejects, finish=_finish)
    draft.constant("engine", "sglang")
    draft.constant("batch_kind", "batch")
    return draft


def _plain(record: dict[str, Any]) -> int | None:
    """K of a server run is unknown, unless the file says so."""
    value = record.get("speculative_num_steps")
    return value if isinstance(value, int) else None


def _finish(frame: pd.DataFrame) -> list[str]:
    """Time per output token: the decode step itself, else (latency - first token) / (output - 1)."""
    step = floats(frame, "step_time_s")
    latency = floats(frame, "request_latency_s")
    ttft = floats(frame, "ttft_s")
    tokens = floats(frame, "output_tokens")
    with np.errstate(invalid="ignore", divide="ignore"):
        per_token = np.where((tokens > 1) & (latency > ttft), (latency - ttft) / (tokens - 1), np.nan)
    frame["tpot_s"] = np.where(np.isnan(step), per_token, step)
    frame.loc[frame["accepted_length"].notna(), "accepted_length_same_run"] = 1
    if np.isnan(step).any():
        return ["tpot_s computed as (latency - first token) / (output length - 1), for a batch that runs to its end"]
    return []
