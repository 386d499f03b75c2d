"""guidellm's benchmarks.json (0.3 and later) and benchmarks.csv: one row per benchmark of the
run."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.columns import match_header
from advisor.measured.ingest.result import Reject, shorten
from advisor.measured.ingest.upload import MAX_JSON_RECORDS, MAX_LINE_BYTES, Sample
from advisor.measured.readers.base import (
    MS,
    Format,
    RawRows,
    field_maps,
    field_of,
    from_records,
    with_header,
)
from advisor.prediction import AdvisorError
from advisor.text import number_of

# guidellm benchmarks.json (0.3 and later): one row per benchmark of the run.
_MAPS = (
    *field_maps(MS, tpot_s="metrics.inter_token_latency_ms.successful.mean"),
    *field_maps(MS, ttft_s="metrics.time_to_first_token_ms.successful.mean"),
    *field_maps(request_latency_s="metrics.request_latency.successful.mean"),
    *field_maps(output_tok_per_s="metrics.output_tokens_per_second.successful.mean"),
    *field_maps(total_tok_per_s="metrics.tokens_per_second.successful.mean"),
    *field_maps(input_tokens="metrics.prompt_token_count.successful.mean"),
    *field_maps(output_tokens="metrics.output_token_count.successful.mean"),
)


def detect_json(sample: Sample) -> float:
    """0.95 for metadata.guidellm_version, or benchmarks with inter_token_latency_ms metrics.

    0.8 for the metrics alone.
    """
    if sample.kind != "json" or not isinstance(sample.document, dict):
        return 0.0
    if field_of(sample.document, "metadata.guidellm_version") is not None:
        return 0.95
    latency = "metrics.inter_token_latency_ms"
    return 0.8 if any(field_of(item, latency) is not None for item in _benchmarks(sample)) else 0.0


def read_json(sample: Sample) -> RawRows:
    """One row a benchmark, concurrency by its strategy. Raises AdvisorError when there is no
    benchmark."""
    records = _benchmarks(sample)
    if not records:
        raise AdvisorError(
            f"{sample.name} holds no finished benchmark; run guidellm until at least one completes"
        )
    cells = from_records(records, _MAPS)
    per_iteration = [
        field_of(record, "metrics.iter_tokens_per_iteration.successful.mean") for record in records
    ]
    latency = [
        field_of(record, "metrics.inter_token_latency_ms.successful.mean") for record in records
    ]
    cells["itl_s"] = Cells(
        [chunk_latency(a, b) for a, b in zip(latency, per_iteration, strict=True)],
        "iter_tokens_per_iteration",
        MS,
    )
    batches = [batch_of_strategy(_strategy(record)) for record in records]
    cells["batch_size"] = Cells([size for size, _ in batches], "strategy")
    cells["batch_kind"] = Cells([kind for _, kind in batches], "strategy")
    model = field_of(sample.document, "config.spec.backend.model") or field_of(
        sample.document, "args.model"
    )
    raw = RawRows("points", np.arange(1, len(records) + 1), cells)
    if isinstance(model, str) and model:
        raw.constant("model_id", model, "config.spec.backend.model")
    labels = field_of(sample.document, "config.metadata.labels")
    raw.prefill = prefill_of_labels(labels)
    return raw


_LABELLED = ("hardware_id", "engine", "tensor_parallel", "draft_tokens_k", "drafter")


def prefill_of_labels(labels: Any) -> dict[str, Any]:
    """Guesses for missing fields from the labels a user gave the run."""
    if not isinstance(labels, dict):
        return {}
    matched_labels = ((match_header(str(key), "points"), value) for key, value in labels.items())
    return {
        match[0]: value
        for match, value in matched_labels
        if match and match[0] in _LABELLED and isinstance(value, str | int | float)
    }


def chunk_latency(token_latency: Any, tokens_per_iteration: Any) -> Any:
    """Token latency x tokens per iteration. What cannot be is passed on so that the row is
    refused."""
    for value in (token_latency, tokens_per_iteration):
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
    latency = number_of(token_latency)
    tokens = number_of(tokens_per_iteration)
    if latency is None or tokens is None or tokens <= 0:
        return tokens_per_iteration
    return latency * tokens


def batch_of_strategy(strategy: str) -> tuple[Any, str | None]:
    """Batch size and what it counts, of a strategy: `concurrent@4` or `synchronous`.

    None of a rate, whose batch follows from what was served: the tool's mean concurrency counts
    queued requests too.
    """
    kind, _, amount = strategy.partition("@")
    if kind == "synchronous":
        return 1, "single_stream"
    if kind == "concurrent" and amount:
        return amount, "max_concurrency"
    return None, None


def _benchmarks(sample: Sample) -> list[dict[str, Any]]:
    items = sample.document.get("benchmarks") if isinstance(sample.document, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _strategy(record: dict[str, Any]) -> str:
    """`concurrent@4` from wherever this version keeps its strategy."""
    for path in ("config.strategy", "args.strategy", "scheduler.strategy"):
        strategy = field_of(record, path)
        if isinstance(strategy, dict):
            kind = strategy.get("type_")
            amount = strategy.get("max_concurrency") or strategy.get("streams")
            return f"{kind}@{amount}" if amount is not None else str(kind)
    return ""


# guidellm benchmarks.csv: three header rows (group, field, statistic), one row per benchmark.
Key = tuple[str, str, str]
_ITL: Key = ("Inter Token Latency", "Successful ms", "Mean")
_ITERATION: Key = ("Token Streaming", "Successful Iter Tokens/Iter", "Mean")
_COLUMNS: dict[str, tuple[Key, float]] = {
    "tpot_s": (_ITL, MS),
    "ttft_s": (("Time to First Token", "Successful ms", "Mean"), MS),
    "request_latency_s": (("Request Latency", "Successful Sec", "Mean"), 1.0),
    "output_tok_per_s": (("Token Throughput", "Successful Output Tokens/Sec", "Mean"), 1.0),
    "total_tok_per_s": (("Token Throughput", "Successful Total Tokens/Sec", "Mean"), 1.0),
    "input_tokens": (("Token Metrics", "Successful Input Tokens", "Mean"), 1.0),
    "output_tokens": (("Token Metrics", "Successful Output Tokens", "Mean"), 1.0),
}


def read_csv(sample: Sample) -> RawRows:
    """One row per benchmark. Raises AdvisorError when the three header rows are incomplete."""
    header, rows, lines, rejects = _parse_csv(sample)
    index = {key: place for place, key in reversed(list(enumerate(header)))}
    if _ITL not in index:
        raise AdvisorError(
            f"{sample.name} is a guidellm CSV without inter-token latencies; benchmark with "
            "streaming on"
        )

    def column(key: Key) -> list[str | None]:
        place = index.get(key)
        return [None] * len(rows) if place is None else [row[place] for row in rows]

    cells = {
        name: Cells(column(key), " | ".join(key), scale)
        for name, (key, scale) in _COLUMNS.items()
        if key in index
    }
    chunks = [chunk_latency(a, b) for a, b in zip(column(_ITL), column(_ITERATION), strict=True)]
    cells["itl_s"] = Cells(chunks, " | ".join(_ITERATION), MS)
    strategies = column(("Benchmark", "Strategy", ""))
    batches = [batch_of_strategy(kind or "") for kind in strategies]
    cells["batch_size"] = Cells([size for size, _ in batches], "Benchmark | Strategy")
    cells["batch_kind"] = Cells([kind for _, kind in batches], "Benchmark | Strategy")
    cells["model_id"] = Cells(
        [_model_of_backend(cell) for cell in column(("Run Info", "Backend", ""))],
        "Run Info | Backend",
    )
    return RawRows("points", np.array(lines, dtype=np.int64), cells, rejects)


def _parse_csv(sample: Sample) -> tuple[list[Key], list[list[str]], list[int], list[Reject]]:
    # The csv module's own limit on a cell is process-wide, so it is left alone; guidellm's cells
    # stay far below it.
    reader = csv.reader(io.StringIO(sample.data.decode("utf-8")), delimiter=sample.delimiter)
    rows: list[list[str]] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    header: list[list[str]] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(header) < 3:
                header.append([cell.strip() for cell in row])
            elif len(row) != len(header[0]):
                reason = f"{len(row)} cells where the header has {len(header[0])}"
                rejects.append(Reject(reader.line_num, "", shorten(",".join(row)[:400]), reason))
            elif len(rows) >= MAX_JSON_RECORDS:
                raise AdvisorError(
                    f"{sample.name} has more than {MAX_JSON_RECORDS:,} benchmarks; split it"
                )
            else:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        limit = MAX_LINE_BYTES // 1024
        raise AdvisorError(
            f"{sample.name} is not a readable CSV ({error}); cells above {limit} KiB are refused"
        ) from error
    if len(header) < 3 or len({len(row) for row in header}) != 1:
        raise AdvisorError(
            f"{sample.name} looks like a guidellm CSV but lacks its three equal header rows; send "
            "it unedited"
        )
    return list(zip(*header, strict=True)), rows, lines, rejects


def _model_of_backend(cell: Any) -> str | None:
    """The model's name from the backend's JSON description."""
    try:
        backend = json.loads(cell or "")
    except (ValueError, RecursionError):
        return None
    model = backend.get("model") if isinstance(backend, dict) else None
    return model if isinstance(model, str) else None


FORMATS = (
    Format("guidellm_json", "guidellm JSON", detect_json, read_json),
    Format(
        "guidellm_csv",
        "guidellm CSV",
        with_header(0.95, "Benchmark", "Inter Token Latency"),
        read_csv,
    ),
)
