"""`vllm bench latency --output-json`: the time of one whole batch; lengths and batch are not in it."""

from __future__ import annotations

from advisor.ingest.draft import Draft, FieldMap, from_records
from advisor.ingest.readers.vllm_serve import keep_objects
from advisor.ingest.upload import Sample

FORMAT_ID = "vllm_latency"
FORMAT_NAME = "vLLM bench latency JSON"
RECOGNISED_BY = "fields avg_latency, latencies and percentiles"

_MAPS = (
    FieldMap("model_id", ("model_id", "model")),
    FieldMap("request_latency_s", ("avg_latency",)),
    FieldMap("batch_size", ("batch_size",)),
    FieldMap("input_tokens", ("input_len",)),
    FieldMap("output_tokens", ("output_len",)),
)


def detect(sample: Sample) -> float:
    """0.9 for its three fields."""
    found = sample.first.keys() >= {"avg_latency", "latencies", "percentiles"}
    return 0.9 if found and sample.kind in ("json", "jsonl") else 0.0


def read(sample: Sample) -> Draft:
    """One row per object; the output rate follows once batch and lengths are filled in."""
    records, lines, rejects = keep_objects(sample)
    draft = Draft("points", lines, from_records(records, _MAPS), rejects)
    draft.constant("engine", "vllm")
    draft.constant("batch_kind", "batch")
    draft.notes.append("the latency is of a whole batch and includes prefill, so it gives a rate but no step time")
    return draft
