"""SGLang bench_serving JSONL: one line per run, with the server's arguments under server_info where it gave them."""

from __future__ import annotations

from typing import Any

from advisor.catalog import engines
from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft, FieldMap, from_records
from advisor.ingest.readers.vllm_fields import finish_serve
from advisor.ingest.readers.vllm_serve import keep_objects
from advisor.ingest.upload import Sample

FORMAT_ID = "sglang_serving"
FORMAT_NAME = "SGLang bench_serving JSONL"
RECOGNISED_BY = "fields backend, dataset_name, random_input_len, output_throughput and mean_itl_ms"

_MS = 1e-3
_KEYS = frozenset({"backend", "duration", "completed", "output_throughput", "total_output_tokens"})
_OWN = frozenset({"total_output_tokens_retokenized", "random_range_ratio", "accept_length", "sharegpt_output_len"})

_MAPS = (
    FieldMap("model_id", ("server_info.model_path", "server_info.served_model_name", "model_id")),
    FieldMap("engine_version", ("server_info.version",)),
    FieldMap("tensor_parallel", ("server_info.tp_size",)),
    FieldMap("expert_parallel", ("server_info.ep_size",)),
    FieldMap("weight_dtype", ("server_info.quantization",)),
    FieldMap("batch_size", ("max_concurrency",)),
    FieldMap("dataset", ("dataset_name",)),
    FieldMap("tpot_s", ("mean_tpot_ms",), _MS),
    FieldMap("itl_s", ("mean_itl_ms",), _MS),
    FieldMap("ttft_s", ("mean_ttft_ms",), _MS),
    FieldMap("request_latency_s", ("mean_e2e_latency_ms",), _MS),
    FieldMap("output_tok_per_s", ("output_throughput",)),
    FieldMap("total_tok_per_s", ("total_throughput",)),
    FieldMap("_completed", ("completed",)),
    FieldMap("_total_input", ("total_input_tokens",)),
    FieldMap("_total_output", ("total_output_tokens",)),
)


def detect(sample: Sample) -> float:
    """0.95: vLLM's file shares most names, so one of SGLang's own is needed."""
    keys = sample.first.keys()
    return 0.95 if sample.kind in ("json", "jsonl") and keys >= _KEYS and keys & _OWN else 0.0


def read(sample: Sample) -> Draft:
    """One row per run; K, tree width and drafter from server_info."""
    records, lines, rejects = keep_objects(sample)
    cells = from_records(records, _MAPS)
    speculation = [speculation_of(record.get("server_info")) for record in records]
    for name in ("draft_tokens_k", "draft_structure", "drafter"):
        cells[name] = Cells([item.get(name) for item in speculation], "server_info")
    cells["accepted_length"] = Cells(
        [positive_or_none(record.get("accept_length")) for record in records], "accept_length"
    )
    cells["engine"] = Cells([_engine(record.get("backend")) for record in records], "backend")
    kinds = ["max_concurrency" if record.get("max_concurrency") is not None else None for record in records]
    cells["batch_kind"] = Cells(kinds, "max_concurrency")
    mean = sample.first.get("concurrency")
    prefill = {"batch_size": round(mean, 2) if isinstance(mean, float) else mean, "engine": "sglang"}
    metadata = {
        key: sample.first[key] for key in ("tag", "request_rate", "concurrency") if sample.first.get(key) is not None
    }
    return Draft("points", lines, cells, rejects, prefill, metadata=metadata, finish=finish_serve)


def positive_or_none(value: Any) -> Any:
    """SGLang writes 0, -1 or null for an acceptance length it does not have; anything else is kept to be checked."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
        return None
    return value


def speculation_of(server_info: Any) -> dict[str, Any]:
    """K (draft depth), tree structure and drafter from SGLang's server arguments; empty when they are absent."""
    if not isinstance(server_info, dict) or "speculative_algorithm" not in server_info:
        return {}
    algorithm = server_info["speculative_algorithm"]
    if algorithm is None:
        return {"draft_tokens_k": 0}
    steps, verified = server_info.get("speculative_num_steps"), server_info.get("speculative_num_draft_tokens")
    topk = server_info.get("speculative_eagle_topk")
    wide = isinstance(topk, int) and topk > 1
    return {
        "draft_tokens_k": steps if steps is not None else verified,
        "draft_structure": f"tree;topk={topk};verify={verified}" if wide else "chain",
        "drafter": algorithm,
    }


def _engine(backend: Any) -> str | None:
    if not isinstance(backend, str):
        return None
    return next((engine.id for engine in engines() if backend.startswith(engine.backend)), backend)
