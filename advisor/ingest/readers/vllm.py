"""vLLM's benchmarks: bench serve and sweep, latency, throughput and forward."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.cells import Cells
from advisor.ingest.derived import acceptance_by_position_text, accepted_length_from_counts
from advisor.ingest.raw import (
    FieldMap,
    Format,
    RawRows,
    floats,
    from_records,
    from_table,
    keep_objects,
    raw_points,
    with_fields,
    with_header,
)
from advisor.ingest.result import Reject, shorten
from advisor.ingest.table import read_table
from advisor.ingest.upload import Sample
from advisor.text import counted

# Field names that `vllm bench serve` results share, whether written as JSON or flattened into a sweep's CSV.

_MS = 1e-3
_WHOLE_TOLERANCE = 1e-3
"""Draft tokens per draft this close to an integer are a fixed K."""

_PER_POSITION = "spec_decode_per_position_acceptance_rates"


def _spellings(*names: str) -> tuple[str, ...]:
    """Each name with underscores and with dashes: sweeps keep what the user typed."""
    return tuple(dict.fromkeys(form for name in names for form in (name, name.replace("_", "-"))))


_SERVE_MAPS: tuple[FieldMap, ...] = (
    FieldMap("model_id", _spellings("model_id", "model")),
    FieldMap("batch_size", _spellings("max_concurrency")),
    FieldMap("tpot_s", ("mean_tpot_ms",), _MS),
    FieldMap("itl_s", ("mean_itl_ms",), _MS),
    FieldMap("ttft_s", ("mean_ttft_ms",), _MS),
    FieldMap("request_latency_s", ("mean_e2el_ms",), _MS),
    FieldMap("output_tok_per_s", ("output_throughput",)),
    FieldMap("total_tok_per_s", ("total_token_throughput",)),
    FieldMap("accepted_length", ("spec_decode_acceptance_length",)),
    FieldMap("hardware_id", _spellings("hardware_id", "hardware", "gpu", "device")),
    FieldMap("gpu_count", _spellings("gpu_count", "num_gpus", "n_gpus", "gpus")),
    FieldMap("tensor_parallel", _spellings("tensor_parallel_size", "tensor_parallel", "tp_size", "tp")),
    FieldMap("expert_parallel", _spellings("expert_parallel_size", "ep_size", "ep")),
    FieldMap("n_experts", _spellings("num_experts", "n_experts")),
    FieldMap("n_active", _spellings("topk", "top_k", "n_active")),
    FieldMap("weight_dtype", _spellings("weight_dtype", "quantization", "dtype")),
    FieldMap("engine_version", _spellings("engine_version", "vllm_version")),
    FieldMap("dataset", _spellings("dataset", "dataset_name")),
    FieldMap("drafter", _spellings("drafter", "spec_method", "speculative_config.method")),
    FieldMap(
        "draft_tokens_k",
        _spellings("draft_tokens_k", "spec_k", "num_speculative_tokens", "speculative_config.num_speculative_tokens"),
    ),
    FieldMap("_drafts", ("spec_decode_num_drafts",)),
    FieldMap("_draft_tokens", ("spec_decode_draft_tokens",)),
    FieldMap("_accepted", ("spec_decode_accepted_tokens",)),
    FieldMap("_completed", ("completed",)),
    FieldMap("_total_input", ("total_input_tokens",)),
    FieldMap("_total_output", ("total_output_tokens",)),
    FieldMap("_concurrent", ("max_concurrent_requests",)),
)


def _by_position(values: list[Any]) -> dict[str, Cells]:
    """Acceptance by position as text, and the number of positions, from lists or their printed form, [rows]."""
    texts = [acceptance_by_position_text(_parsed(value)) for value in values]
    positions = [None if text is None else text.count(";") + 1 for text in texts]
    return {"acceptance_by_position": Cells(texts, _PER_POSITION), "_positions": Cells(positions, _PER_POSITION)}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def finish_serve(frame: pd.DataFrame) -> list[str]:
    """Lengths per request, accepted length from counts, and K from counts or from the number of positions."""
    notes: list[str] = []
    completed = floats(frame, "_completed")
    with np.errstate(invalid="ignore", divide="ignore"):
        for name, total in (("input_tokens", "_total_input"), ("output_tokens", "_total_output")):
            frame[name] = frame[name].fillna(
                pd.Series(floats(frame, total) / completed, index=frame.index).where(completed > 0)
            )
        drafts, draft_tokens = floats(frame, "_drafts"), floats(frame, "_draft_tokens")
        length = accepted_length_from_counts(floats(frame, "_accepted"), drafts)
        per_draft = np.where(drafts > 0, draft_tokens / drafts, np.nan)
    empty = frame["accepted_length"].isna().to_numpy() & ~np.isnan(length)
    if empty.any():
        frame.loc[empty, "accepted_length"] = length[empty]
        notes.append(f"accepted_length computed in {counted(int(empty.sum()), 'row')} as 1 + accepted tokens / drafts")
    frame.loc[frame["accepted_length"].notna(), "accepted_length_same_run"] = 1
    _fill_k(frame, floats(frame, "_positions"), "the number of draft positions reported", notes)
    whole = np.where(np.abs(per_draft - np.round(per_draft)) <= _WHOLE_TOLERANCE, np.round(per_draft), np.nan)
    _fill_k(frame, whole, "draft tokens / drafts", notes)
    varying = frame["draft_tokens_k"].isna().to_numpy() & ~np.isnan(per_draft)
    if varying.any():
        notes.append(
            f"draft length varied in {counted(int(varying.sum()), 'row')} "
            f"(mean {np.nanmean(per_draft[varying]):.2f}); state K"
        )
    return notes


def _fill_k(frame: pd.DataFrame, k: np.ndarray, how: str, notes: list[str]) -> None:
    empty = frame["draft_tokens_k"].isna().to_numpy() & ~np.isnan(k)
    if empty.any():
        frame.loc[empty, "draft_tokens_k"] = k[empty].astype(int)
        notes.append(f"draft_tokens_k taken in {counted(int(empty.sum()), 'row')} from {how}")


# `vllm bench serve --save-result`: one JSON object, one per line, or a list of them.


def read_serve(sample: Sample) -> RawRows:
    """One row per run. `max_concurrency` stands for the batch; K and acceptance come from the metadata and counters."""
    raw, records = raw_points(sample, _SERVE_MAPS, finish_serve)
    cells = raw.cells
    if any(_PER_POSITION in record for record in records):
        cells |= _by_position([record.get(_PER_POSITION) for record in records])
    kinds = ["max_concurrency" if record.get("max_concurrency") is not None else None for record in records]
    cells["batch_kind"] = Cells(kinds, "max_concurrency")
    cells["engine"] = Cells([_engine(record) for record in records], "backend")
    cells["date"] = Cells([record.get("date") for record in records], "date")
    seen = max(
        (int(c) for r in records if isinstance(c := r.get("max_concurrent_requests"), int | float) and c > 0),
        default=None,
    )
    raw.prefill = {"engine": "vllm", "batch_size": seen}
    return raw


def _engine(record: dict[str, Any]) -> str | None:
    """vllm where the file proves it: its backend is named so, or the engine's own draft counters were scraped."""
    if record.get("backend") == "vllm" or record.get("endpoint_type") == "vllm":
        return "vllm"
    return "vllm" if any(str(key).startswith("spec_decode_") for key in record) else None


SERVE = Format(
    "vllm_serve",
    "vLLM bench serve JSON",
    "fields duration, completed, output_throughput, mean_tpot_ms and total_token_throughput",
    with_fields(0.9, "duration", "completed", "output_throughput", "total_token_throughput"),
    read_serve,
)


# `vllm bench sweep serve` summary.csv: one row per run, overrides as columns named as typed.


def read_sweep(sample: Sample) -> RawRows:
    """One row per run."""
    table = read_table(sample)
    cells = from_table(table, _SERVE_MAPS)
    printed = table.column(_PER_POSITION)
    if printed is not None:
        cells |= _by_position(printed.to_pylist())
    raw = RawRows("points", table.lines, cells, list(table.rejects), finish=finish_serve)
    raw.constant("engine", "vllm")
    if "batch_size" in cells:
        raw.constant("batch_kind", "max_concurrency")
    return raw


SWEEP = Format(
    "vllm_sweep",
    "vLLM bench sweep summary.csv",
    "columns run_number, output_throughput, mean_tpot_ms and total_token_throughput",
    # Above our own template, which shares some names.
    with_header(0.95, "run_number", "output_throughput", "total_token_throughput", "mean_tpot_ms"),
    read_sweep,
)


# `vllm bench latency --output-json`: the time of one whole batch; lengths and batch are not in it.

_LATENCY_MAPS = (
    FieldMap("model_id", ("model_id", "model")),
    FieldMap("request_latency_s", ("avg_latency",)),
    FieldMap("batch_size", ("batch_size",)),
    FieldMap("input_tokens", ("input_len",)),
    FieldMap("output_tokens", ("output_len",)),
)


def read_latency(sample: Sample) -> RawRows:
    """One row per object; the output rate follows once batch and lengths are filled in."""
    raw, _ = raw_points(sample, _LATENCY_MAPS, engine="vllm", batch_kind="batch")
    raw.notes.append("the latency is of a whole batch and includes prefill, so it gives a rate but no step time")
    return raw


LATENCY = Format(
    "vllm_latency",
    "vLLM bench latency JSON",
    "fields avg_latency, latencies and percentiles",
    with_fields(0.9, "avg_latency", "latencies", "percentiles"),
    read_latency,
)


# `vllm bench throughput --output-json`: offline throughput, prompt and generated tokens together.

_THROUGHPUT_MAPS = (
    FieldMap("model_id", ("model_id", "model")),
    FieldMap("total_tok_per_s", ("tokens_per_second",)),
    FieldMap("input_tokens", ("input_len",)),
    FieldMap("output_tokens", ("output_len",)),
)


def read_throughput(sample: Sample) -> RawRows:
    """One row per object; the output rate follows once the two lengths are filled in."""
    raw, _ = raw_points(sample, _THROUGHPUT_MAPS, engine="vllm")
    raw.notes.append("tokens_per_second counts prompt and generated tokens; the batch is the engine's own choice")
    return raw


THROUGHPUT = Format(
    "vllm_throughput",
    "vLLM bench throughput JSON",
    "fields elapsed_time, num_requests, total_num_tokens and tokens_per_second",
    with_fields(0.9, "elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second"),
    read_throughput,
)


# `vllm bench forward --output-json`: one forward pass of a stated batch, so T_verify(B, K) itself.

_FORWARD_MAPS = (
    FieldMap("batch_size", ("batch_size",)),
    FieldMap("draft_tokens_k", ("k",)),
    FieldMap("context_tokens", ("context",)),
    FieldMap("verify_time_s", ("median_us",), 1e-6),
    FieldMap("point_id", ("case",)),
    FieldMap("notes", ("notes",)),
)


def detect_forward(sample: Sample) -> float:
    """0.95 when the first record has requests with draft tokens and a median."""
    first = sample.first
    requests = first.get("requests")
    if "median_us" not in first or not isinstance(requests, list) or not requests:
        return 0.0
    return 0.95 if isinstance(requests[0], dict) and "query_len" in requests[0] else 0.0


def read_forward(sample: Sample) -> RawRows:
    """One row per case: B requests that verify the same K tokens. Prefill and mixed cases are refused."""
    records, lines, rejects = keep_objects(sample)
    rows: list[dict[str, Any]] = []
    kept: list[int] = []
    ranks = set()
    for record, line in zip(records, lines, strict=True):
        row, column, reason = _forward_row(record)
        if row is None:
            value = record.get(column) if column else record.get("case")
            rejects.append(Reject(int(line), column, shorten(value), reason))
            continue
        rows.append(row)
        kept.append(int(line))
        if isinstance(record.get("ranks"), list) and record["ranks"]:
            ranks.add(len(record["ranks"]))
    prefill = {"gpu_count": ranks.pop()} if len(ranks) == 1 else {}
    raw = RawRows("points", np.array(kept, dtype=np.int64), from_records(rows, _FORWARD_MAPS), rejects, prefill)
    raw.constant("engine", "vllm")
    raw.constant("batch_kind", "batch")
    raw.notes.append("verify_time_s is the timed forward pass itself (median); it contains no drafting and no sampling")
    return raw


def _forward_row(record: dict[str, Any]) -> tuple[dict[str, Any] | None, str, str]:
    """The row of one case, or None with the field at fault and the reason."""
    requests = record.get("requests")
    if not isinstance(requests, list) or not requests or not all(isinstance(item, dict) for item in requests):
        return None, "requests", "expected a list of requests"
    if any(isinstance(rank, dict) and rank.get("finite") is False for rank in record.get("ranks") or []):
        return None, "case", "the tool marked the output of this case as not finite"
    drafts = {_whole(item.get("num_draft_tokens")) for item in requests}
    queries = {_whole(item.get("query_len")) for item in requests}
    if None in drafts or None in queries:
        return None, "requests", "num_draft_tokens and query_len must be whole numbers"
    if len(drafts) != 1 or len(queries) != 1:
        return None, "requests", "requests of this case differ in draft length; one row needs one K"
    k, query = drafts.pop() or 0, queries.pop()
    if query != k + 1:
        reason = f"query_len {query} is not K + 1 = {k + 1}: a prefill or chunked case, not a decoding step"
        return None, "requests", reason
    contexts = [item.get("kv_len") for item in requests]
    numbers = [value for value in contexts if isinstance(value, int | float) and not isinstance(value, bool)]
    context = float(np.mean(numbers)) if len(numbers) == len(contexts) else None
    routing = {rank.get("routing") for rank in record.get("ranks") or [] if isinstance(rank, dict)} - {None}
    row = {
        "batch_size": len(requests),
        "k": k,
        "context": context,
        "median_us": record.get("median_us"),
        "case": record.get("case"),
        "notes": f"routing: {', '.join(sorted(map(str, routing)))}" if routing else None,
    }
    return row, "", ""


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if np.isfinite(value) and value == int(value) and value >= 0 else None


FORWARD = Format(
    "vllm_forward",
    "vLLM bench forward JSON",
    "a list of cases with requests (query_len, kv_len, num_draft_tokens) and median_us",
    detect_forward,
    read_forward,
)
