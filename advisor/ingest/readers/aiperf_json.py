"""AIPerf profile_export_aiperf.json and the older genai-perf *_genai_perf.json: one run per file."""

from __future__ import annotations

from typing import Any

from advisor.ingest.draft import Draft, field_of
from advisor.ingest.readers.aiperf_metrics import Metric, draft_from_metrics
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "aiperf_json"
FORMAT_NAME = "AIPerf or genai-perf JSON"
RECOGNISED_BY = "metrics as objects with unit and avg, request_latency among them"


def detect(sample: Sample) -> float:
    """0.95 when request_latency is an object with a unit and a mean."""
    metric = sample.first.get("request_latency")
    return 0.95 if sample.kind == "json" and isinstance(metric, dict) and {"unit", "avg"} <= metric.keys() else 0.0


def read(sample: Sample) -> Draft:
    """One row. Raises AdvisorError for a run that was cancelled before its end."""
    document = sample.first
    if document.get("is_complete") is False or document.get("was_cancelled") is True:
        raise AdvisorError(f"{sample.name} records a run that was cancelled before its end; send a finished one")
    metrics = {
        key: Metric(value.get("avg"), str(value.get("unit", "")))
        for key, value in document.items()
        if isinstance(value, dict) and "avg" in value
    }
    draft = draft_from_metrics([metrics], [1])
    config = document.get("input_config")
    model = _model(config)
    if model:
        draft.constant("model_id", model, "input_config")
    concurrency = _concurrency(config)
    if concurrency is not None:
        draft.constant("batch_size", concurrency, "input_config concurrency")
        draft.constant("batch_kind", "max_concurrency")
    elif "effective_concurrency" in metrics:
        draft.prefill["batch_size"] = metrics["effective_concurrency"].value
    draft.metadata = {
        key: document[key] for key in ("aiperf_version", "schema_version", "start_time") if key in document
    }
    return draft


def _model(config: Any) -> str | None:
    items = field_of(config, "models.items")
    if isinstance(items, list) and len(items) == 1 and isinstance(items[0], dict):
        name = items[0].get("name")
        return name if isinstance(name, str) else None
    for path in ("model", "model_names", "formatted_model_name"):
        value = field_of(config, path)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return None


def _concurrency(config: Any) -> Any:
    """Concurrency of the one profiling phase; None when phases differ or none states it."""
    phases = field_of(config, "phases")
    if isinstance(phases, list):
        found = {
            phase.get("concurrency")
            for phase in phases
            if isinstance(phase, dict)
            and phase.get("kind", "profiling") == "profiling"
            and _is_number(phase.get("concurrency"))
        }
        return found.pop() if len(found) == 1 else None
    for path in ("concurrency", "perf_analyzer.stimulus.concurrency", "loadgen.concurrency"):
        value = field_of(config, path)
        if _is_number(value):
            return value
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
