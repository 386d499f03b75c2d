"""AIPerf profile_export.jsonl: one line per request; the requests of the file become one row of means."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.ingest.draft import Draft
from advisor.ingest.readers.aiperf_metrics import Metric, draft_from_metrics
from advisor.ingest.result import Reject, shorten
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError

FORMAT_ID = "aiperf_records"
FORMAT_NAME = "AIPerf per-request JSONL"
RECOGNISED_BY = "lines with metadata and metrics, each metric an object with value and unit"

_WANTED = (
    "inter_token_latency", "inter_chunk_latency", "time_to_first_token", "request_latency", "input_sequence_length",
    "output_sequence_length", "usage_completion_tokens", "spec_decode_acceptance_length", "spec_decode_steps",
    "spec_decode_draft_tokens",
)  # fmt: skip


def detect(sample: Sample) -> float:
    """0.95 for a line with per-request metrics."""
    metrics = sample.first.get("metrics")
    latency = metrics.get("request_latency") if isinstance(metrics, dict) else None
    return 0.95 if "metadata" in sample.first and isinstance(latency, dict) and "value" in latency else 0.0


def read(sample: Sample) -> Draft:
    """One row: means over requests (over all chunks for the chunk latency). Failed and odd requests are refused."""
    rejects = list(sample.rejects)
    values: dict[str, list[Any]] = {name: [] for name in _WANTED}
    units: dict[str, str] = {}
    n_used = 0
    for record, line in zip(sample.records, sample.lines, strict=True):
        metrics = record.get("metrics") if isinstance(record, dict) else None
        if not isinstance(metrics, dict) or record.get("error"):
            shown = record.get("error") if isinstance(record, dict) else record
            rejects.append(Reject(line, "error", shorten(shown), "a failed request; it has no times"))
            continue
        found, problem = _numbers(metrics, units)
        if problem:
            rejects.append(
                Reject(line, problem, shorten(metrics.get(problem)), "not a finite number in the file's unit")
            )
            continue
        n_used += 1
        for name, numbers in found.items():
            values[name] += numbers
    if not n_used:
        raise AdvisorError(f"{sample.name} holds no successful request; send a run with at least one")
    means = {name: Metric(float(np.mean(list_)), units.get(name, "")) for name, list_ in values.items() if list_}
    draft = draft_from_metrics([means], [min(sample.lines)])
    draft.rejects = rejects
    draft.notes.append(f"one row of means over {n_used:,} requests; the file does not state the concurrency")
    return draft


def _numbers(metrics: dict[str, Any], units: dict[str, str]) -> tuple[dict[str, list[float]], str]:
    """The wanted metrics of one request as lists of finite numbers, or the name of the first that is not."""
    found: dict[str, list[float]] = {}
    for name in _WANTED:
        metric = metrics.get(name)
        if not isinstance(metric, dict) or metric.get("value") is None:
            continue
        unit = str(metric.get("unit", ""))
        value = metric["value"]
        numbers = value if isinstance(value, list) else [value]
        good = all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < 1e15 for n in numbers)
        if not good or units.setdefault(name, unit) != unit:
            return {}, name
        found[name] = [float(number) for number in numbers]
    return found, ""
