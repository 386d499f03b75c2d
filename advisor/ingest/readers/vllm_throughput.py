"""`vllm bench throughput --output-json`: offline throughput, prompt and generated tokens together."""

from __future__ import annotations

from advisor.ingest.draft import Draft, FieldMap, from_records
from advisor.ingest.readers.vllm_serve import keep_objects
from advisor.ingest.upload import Sample

FORMAT_ID = "vllm_throughput"
FORMAT_NAME = "vLLM bench throughput JSON"
RECOGNISED_BY = "fields elapsed_time, num_requests, total_num_tokens and tokens_per_second"

_MAPS = (
    FieldMap("model_id", ("model_id", "model")),
    FieldMap("total_tok_per_s", ("tokens_per_second",)),
    FieldMap("input_tokens", ("input_len",)),
    FieldMap("output_tokens", ("output_len",)),
)
_KEYS = frozenset({"elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second"})


def detect(sample: Sample) -> float:
    """0.9 for its four fields."""
    return 0.9 if sample.kind in ("json", "jsonl") and sample.first.keys() >= _KEYS else 0.0


def read(sample: Sample) -> Draft:
    """One row per object; the output rate follows once the two lengths are filled in."""
    records, lines, rejects = keep_objects(sample)
    draft = Draft("points", lines, from_records(records, _MAPS), rejects)
    draft.constant("engine", "vllm")
    draft.notes.append("tokens_per_second counts prompt and generated tokens; the batch is the engine's own choice")
    return draft
