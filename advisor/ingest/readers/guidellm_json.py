"""guidellm benchmarks.json (0.3 and later): one row per benchmark of the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft, FieldMap, field_of, from_records
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "guidellm_json"
FORMAT_NAME = "guidellm JSON"
RECOGNISED_BY = "metadata.guidellm_version, or benchmarks with inter_token_latency_ms metrics"

_MS = 1e-3
_MAPS = (
    FieldMap("tpot_s", ("metrics.inter_token_latency_ms.successful.mean",), _MS),
    FieldMap("ttft_s", ("metrics.time_to_first_token_ms.successful.mean",), _MS),
    FieldMap("request_latency_s", ("metrics.request_latency.successful.mean",)),
    FieldMap("output_tok_per_s", ("metrics.output_tokens_per_second.successful.mean",)),
    FieldMap("total_tok_per_s", ("metrics.tokens_per_second.successful.mean",)),
    FieldMap("input_tokens", ("metrics.prompt_token_count.successful.mean",)),
    FieldMap("output_tokens", ("metrics.output_token_count.successful.mean",)),
)
TPOT_NOTE = "tpot_s is guidellm's inter-token latency; its own time per output token includes the prefill"
CHUNK_NOTE = "itl_s is inter-token latency x tokens per streamed iteration"


def detect(sample: Sample) -> float:
    """0.95 with guidellm's version in the metadata, 0.8 for the metrics alone."""
    if sample.kind != "json" or not isinstance(sample.document, dict):
        return 0.0
    if field_of(sample.document, "metadata.guidellm_version") is not None:
        return 0.95
    return 0.8 if any("inter_token_latency_ms" in _metrics(item) for item in _benchmarks(sample)) else 0.0


def read(sample: Sample) -> Draft:
    """One row per benchmark; the strategy gives the concurrency."""
    records = _benchmarks(sample)
    if not records:
        raise AdvisorError(f"{sample.name} holds no finished benchmark; run guidellm until at least one completes")
    cells = from_records(records, _MAPS)
    per_iteration = [field_of(record, "metrics.iter_tokens_per_iteration.successful.mean") for record in records]
    latency = [field_of(record, "metrics.inter_token_latency_ms.successful.mean") for record in records]
    cells["itl_s"] = Cells(
        [chunk_latency(a, b) for a, b in zip(latency, per_iteration, strict=True)], "iter_tokens_per_iteration", _MS
    )
    batches = [batch_of_strategy(_strategy(record), _mean_concurrency(record)) for record in records]
    cells["batch_size"] = Cells([size for size, _ in batches], "strategy")
    cells["batch_kind"] = Cells([kind for _, kind in batches], "strategy")
    model = field_of(sample.document, "config.spec.backend.model") or field_of(sample.document, "args.model")
    draft = Draft("points", np.arange(1, len(records) + 1), cells, notes=[TPOT_NOTE, CHUNK_NOTE])
    if isinstance(model, str) and model:
        draft.constant("model_id", model, "config.spec.backend.model")
    labels = field_of(sample.document, "config.metadata.labels")
    draft.metadata = {"guidellm_version": field_of(sample.document, "metadata.guidellm_version"), "labels": labels}
    draft.prefill = prefill_of_labels(labels)
    return draft


def prefill_of_labels(labels: Any) -> dict[str, Any]:
    """Guesses for missing fields from the labels a user gave the run."""
    if not isinstance(labels, dict):
        return {}
    names = {
        "gpu": "hardware_id", "hardware": "hardware_id", "hardware_id": "hardware_id", "engine": "engine",
        "tp": "tensor_parallel",
        "k": "draft_tokens_k", "spec_k": "draft_tokens_k", "draft_tokens_k": "draft_tokens_k", "drafter": "drafter",
    }  # fmt: skip
    return {names[key]: value for key, value in labels.items() if key in names and isinstance(value, str | int | float)}


def chunk_latency(token_latency: Any, tokens_per_iteration: Any) -> Any:
    """Token latency x tokens per iteration; a value that is no number is passed on so that the row is refused."""
    for value in (token_latency, tokens_per_iteration):
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
    try:
        return float(token_latency) * float(tokens_per_iteration)
    except (TypeError, ValueError, OverflowError):
        return tokens_per_iteration


def batch_of_strategy(strategy: str, mean_concurrency: Any) -> tuple[Any, str | None]:
    """Batch size and what it counts, from `concurrent@4`, `synchronous`, or a rate with its mean concurrency."""
    kind, _, amount = strategy.partition("@")
    if kind == "synchronous":
        return 1, "single_stream"
    if kind == "concurrent" and amount:
        return amount, "max_concurrency"
    return mean_concurrency, "concurrency" if mean_concurrency is not None else None


def _benchmarks(sample: Sample) -> list[dict[str, Any]]:
    items = sample.document.get("benchmarks") if isinstance(sample.document, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _metrics(record: dict[str, Any]) -> dict[str, Any]:
    metrics = record.get("metrics")
    return metrics if isinstance(metrics, dict) else {}


def _mean_concurrency(record: dict[str, Any]) -> Any:
    return field_of(record, "metrics.request_concurrency.successful.mean")


def _strategy(record: dict[str, Any]) -> str:
    """`concurrent@4` from wherever this version keeps its strategy."""
    for path in ("config.strategy", "args.strategy", "scheduler.strategy"):
        strategy = field_of(record, path)
        if isinstance(strategy, dict):
            kind = strategy.get("type_")
            amount = strategy.get("max_concurrency") or strategy.get("streams")
            return f"{kind}@{amount}" if amount is not None else str(kind)
    return ""
