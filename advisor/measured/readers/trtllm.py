"""TensorRT-LLM's trtllm-bench: the report that it prints into its log, and the JSON of
--report_json.

Read in NVIDIA/TensorRT-LLM, tensorrt_llm/bench/dataclasses/reporting.py: both hold the same
figures.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from advisor.measured.ingest.result import rows_noted
from advisor.measured.ingest.upload import MAX_TEXT_LOG_BYTES, Sample
from advisor.measured.readers.base import (
    MS,
    Format,
    RawRows,
    field_maps,
    field_of,
    fill_k,
    floats,
    from_records,
    keep_objects,
    mark_same_run,
    whole,
)
from advisor.prediction import AdvisorError

_TITLE = "= PERFORMANCE OVERVIEW"
_BEGINS = ("= PYTORCH BACKEND", "= ENGINE DETAILS")
"""Titles with which a report begins; one that was cut begins with its figures."""
_LABELS = {
    "model": "model",
    "model path": "model_path",
    "tensorrt llm version": "version",
    "tensorrt-llm version": "version",
    "quantization": "quantization",
    "number of concurrent requests": "concurrent",
    "average input length (tokens)": "input",
    "average output length (tokens)": "output",
    "tp size": "tp",
    "pp size": "pp",
    "ep size": "ep",
    "total output throughput (tokens/sec)": "output_rate",
    "total token throughput (tokens/sec)": "total_rate",
    "average request latency (ms)": "latency_ms",
    "average time-to-first-token [ttft] (ms)": "ttft_ms",
    "average time-per-output-token [tpot] (ms)": "tpot_ms",
    "[dt] average": "drafted",
    "[adt] average": "accepted",
}
"""Labels of the printed report, in lower case, and our names of what stands behind them."""
_JSON_PATHS = {
    "model": "engine.model",
    "model_path": "engine.model_path",
    "version": "engine.version",
    "quantization": "engine.quantization",
    "gpu": "machine.name",
    "concurrent": "request_info.avg_num_concurrent_requests",
    "input": "request_info.avg_input_length",
    "output": "request_info.avg_output_length",
    "tp": "world_info.tp_size",
    "pp": "world_info.pp_size",
    "ep": "world_info.ep_size",
    "output_rate": "performance.system_output_throughput_tok_s",
    "total_rate": "performance.system_total_throughput_tok_s",
    "latency_ms": "performance.avg_request_latency_ms",
    "ttft_ms": "streaming_metrics.avg_ttft_ms",
    "tpot_ms": "streaming_metrics.avg_tpot_ms",
    "mode": "decoding_stats.mode",
    "drafted": "decoding_stats.num_draft_tokens_percentiles.average",
    "accepted": "decoding_stats.num_accepted_draft_tokens_percentiles.average",
}
_MAPS = (
    *field_maps(
        hardware_id="gpu",
        engine_version="version",
        weight_dtype="quantization",
        tensor_parallel="tp",
    ),
    *field_maps(
        expert_parallel="ep", batch_size="concurrent", input_tokens="input", output_tokens="output"
    ),
    *field_maps(output_tok_per_s="output_rate", total_tok_per_s="total_rate"),
    *field_maps(MS, request_latency_s="latency_ms", ttft_s="ttft_ms", tpot_s="tpot_ms"),
    *field_maps(drafter="mode", _pp="pp", _drafted="drafted", _accepted="accepted"),
)
_LINE = re.compile(r"[\s>]*(?P<label>[\w\[\]()/. -]+?)\s*:\s*(?P<value>\S.*?)\s*")
_MACHINE = re.compile(r"[\s>]*(?P<name>[^,:]{3,80}), memory [0-9.]+ GB, .*")
_MODE = re.compile(r"= DECODING STATISTICS \((?:[A-Za-z]+\.)?(?P<mode>[\w-]+)\)")
_LONGEST_LINE = 400
_WHOLE = 0.02
"""K is whole within this: the averages behind it are printed to two decimals. [tokens]"""


def detect_log(sample: Sample) -> float:
    """0.95 for text with the title PERFORMANCE OVERVIEW and its Total Output Throughput."""
    if sample.kind != "text" or len(sample.data) > MAX_TEXT_LOG_BYTES:
        return 0.0
    return (
        0.95
        if _TITLE.encode() in sample.data and b"Total Output Throughput (tokens/sec)" in sample.data
        else 0.0
    )


def read_log(sample: Sample) -> RawRows:
    """One row per report of the log. Raises AdvisorError for a report without a figure."""
    records, lines = _reports(sample.text)
    if not records:
        raise AdvisorError(
            f"{sample.name} has the title {_TITLE!r} and no figures under it; send the whole log"
        )
    raw = RawRows(
        "points", np.array(lines, dtype=np.int64), from_records(records, _MAPS), finish=_finish
    )
    return _described(raw, records)


def _reports(text: str) -> tuple[list[dict[str, str]], list[int]]:
    """The figures of each report by our names, and the line of its title."""
    records: list[dict[str, str]] = []
    lines: list[int] = []
    current: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        short = line[:_LONGEST_LINE]
        if any(title in short for title in _BEGINS):
            current = {}
        elif _TITLE in short:
            records.append(current)
            lines.append(number)
        elif mode := _MODE.search(short):
            current["mode"] = mode["mode"]
        elif machine := _MACHINE.fullmatch(short):
            current.setdefault("gpu", machine["name"])
        elif figure := _LINE.fullmatch(short):
            name = _LABELS.get(" ".join(figure["label"].lower().split()))
            if name is not None and figure["value"] not in ("None", "N/A"):
                current.setdefault(name, figure["value"])
    with_rate = [
        (record, line)
        for record, line in zip(records, lines, strict=True)
        if "output_rate" in record
    ]
    return [record for record, _ in with_rate], [line for _, line in with_rate]


def _described(raw: RawRows, records: list[dict[str, Any]]) -> RawRows:
    """The rows with what holds of every report."""
    raw.constant("engine", "trtllm")
    raw.constant("batch_kind", "concurrency")
    raw.name_models(records, "model", "model_path")
    if any("tpot_ms" not in record for record in records):
        raw.note("no_streaming")
    return raw


def _finish(frame: pd.DataFrame, raw: RawRows) -> None:
    """GPUs, and K and accepted length from the drafts of a mean request: its rounds are output less
    accepted tokens."""
    gpus = floats(frame, "tensor_parallel") * np.nan_to_num(floats(frame, "_pp"), nan=1.0)
    known = gpus >= 1
    frame.loc[known, "gpu_count"] = gpus[known].astype(int)
    rounds = floats(frame, "output_tokens") - floats(frame, "_accepted")
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.where(rounds > 0, floats(frame, "output_tokens") / rounds, np.nan)
        k = np.where(rounds > 0, floats(frame, "_drafted") / rounds, np.nan)
    counts = ~np.isnan(length)
    if counts.any():
        frame.loc[counts, "accepted_length"] = length[counts]
        mark_same_run(frame)
        raw.notes += rows_noted(length_from_rounds=counts)
    fill_k(frame, whole(np.where(np.round(k) >= 1, k, np.nan), _WHOLE), "rounds", raw)


def detect_json(sample: Sample) -> float:
    """0.95 for the report's objects with its own name of the rate."""
    rate = field_of(sample.first, "performance.system_output_throughput_tok_s")
    return 0.95 if sample.is_json and rate is not None else 0.0


def read_json(sample: Sample) -> RawRows:
    """One row per report."""
    documents, lines, rejects = keep_objects(sample)
    records = []
    for document in documents:
        values = {name: field_of(document, path) for name, path in _JSON_PATHS.items()}
        records.append({name: value for name, value in values.items() if value is not None})
    return _described(
        RawRows("points", lines, from_records(records, _MAPS), rejects, finish=_finish), records
    )


FORMATS = (
    Format("trtllm_bench", "trtllm-bench log", detect_log, read_log),
    Format(
        "trtllm_report",
        "trtllm-bench --report_json",
        detect_json,
        read_json,
        wants=(
            "performance.system_output_throughput_tok_s",
            "world_info.tp_size",
            "request_info.avg_output_length",
        ),
    ),
)
