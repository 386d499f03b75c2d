"""SGLang's benchmarks: bench_serving, bench_one_batch (and _server), bench_speculative."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.engines import engines
from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.result import rows_noted
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import (
    Format,
    RawRows,
    field_maps,
    field_of,
    finish_serve,
    floats,
    loads_of,
    mark_same_run,
    medians_note,
    raw_points,
    time_maps,
)

# SGLang bench_serving JSONL: one line per run, with the server's arguments under server_info where
# it gave them.
_SERVING_MAPS = (
    *field_maps(engine_version="server_info.version", tensor_parallel="server_info.tp_size"),
    *field_maps(expert_parallel="server_info.ep_size", data_parallel="server_info.dp_size"),
    *field_maps(
        decode_context_parallel="server_info.dcp_size", kv_dtype="server_info.kv_cache_dtype"
    ),
    *field_maps(weight_dtype="server_info.quantization", dataset="dataset_name"),
    *time_maps(),
    *field_maps(
        output_tok_per_s="output_throughput",
        total_tok_per_s="total_throughput",
        _completed="completed",
    ),
    *field_maps(_total_input="total_input_tokens", _total_output="total_output_tokens"),
    *field_maps(_asked_input="random_input_len", _asked_output="random_output_len"),
)
_MODEL = (
    *("server_info.model_path", "server_info.tokenizer_path", "server_info.served_model_name"),
    *("model_id", "model", "tokenizer_id"),
)


def read_serving(sample: Sample) -> RawRows:
    """One row per run. K, tree width and drafter from server_info."""
    raw, records = raw_points(sample, _SERVING_MAPS, finish_serve, _MODEL)
    cells = raw.cells
    raw.notes += medians_note(records)
    speculation = [speculation_of(record.get("server_info")) for record in records]
    if any(settings.get("drafter") == "mtp" for settings in speculation):
        raw.note("mtp_as_eagle")
    for name in ("draft_tokens_k", "draft_structure", "drafter"):
        cells[name] = Cells([settings.get(name) for settings in speculation], "server_info")
    cells["accepted_length"] = Cells(
        [positive_or_none(record.get("accept_length")) for record in records], "accept_length"
    )
    cells["engine"] = Cells([_engine(record.get("backend")) for record in records], "backend")
    cells |= loads_of(records)
    servers = [record.get("server_info") for record in records]
    cells["gpu_count"] = Cells([_gpus(server) for server in servers], "server_info")
    eager = [
        isinstance(server, dict) and server.get("disable_cuda_graph") is True for server in servers
    ]
    cells["captured"] = Cells(
        [0 if is_eager else None for is_eager in eager], "server_info.disable_cuda_graph"
    )
    raw.prefill = {"engine": "sglang"}
    return raw


def _gpus(server_info: Any) -> int | None:
    """GPUs of a server with several data-parallel ranks: its tensor-parallel ones where these share
    the attention."""
    if not isinstance(server_info, dict):
        return None
    tensor = server_info.get("tp_size")
    ranks = server_info.get("dp_size")
    if not isinstance(tensor, int) or not isinstance(ranks, int) or ranks < 2:
        return None
    return tensor if server_info.get("enable_dp_attention") else tensor * ranks


def positive_or_none(value: Any) -> Any:
    """SGLang writes 0, -1 or null for an acceptance length it does not have. Anything else is kept
    to be checked."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
        return None
    return value


_OWN_HEADS = frozenset({"NEXTN", "FROZEN_KV_MTP"})
WITHOUT_STEPS = frozenset({"NGRAM", "DFLASH", "DSPARK"})
"""Algorithms whose length is `speculative_num_draft_tokens` alone; SGLang sets a block drafter's
steps to 1."""


def speculation_of(server_info: Any) -> dict[str, Any]:
    """K (draft depth), tree structure and drafter from SGLang's server arguments. Empty when they
    are absent."""
    if not isinstance(server_info, dict) or "speculative_algorithm" not in server_info:
        return {}
    algorithm = server_info["speculative_algorithm"]
    if algorithm is None:
        return {"draft_tokens_k": 0}
    steps = server_info.get("speculative_num_steps")
    verified = server_info.get("speculative_num_draft_tokens")
    topk = server_info.get("speculative_eagle_topk")
    if str(algorithm).upper() in WITHOUT_STEPS:
        steps = None
        topk = None
    if str(algorithm).upper() == "NGRAM":
        topk = server_info.get("speculative_ngram_max_bfs_breadth")
    if steps is None and isinstance(verified, int) and not isinstance(verified, bool):
        steps = verified - 1  # the last emitted token is verified along with the drafts
    wide = isinstance(topk, int) and topk > 1
    return {
        "draft_tokens_k": steps,
        "draft_structure": f"tree;topk={topk};verify={verified}" if wide else "chain",
        "drafter": "mtp" if drafts_with_own_heads(server_info) else algorithm,
    }


def drafts_with_own_heads(server_info: dict[str, Any]) -> bool:
    """Whether SGLang's EAGLE is the model's own MTP module.

    It runs that where no other checkpoint is named.

    EAGLE3 always has a checkpoint of its own. Read in SGLang 0.5.23,
    arg_groups/speculative_hook.py: NEXTN becomes EAGLE, and a draft path that is not given becomes
    the model's.
    """
    algorithm = str(server_info.get("speculative_algorithm", "")).upper()
    if algorithm in _OWN_HEADS:
        return True
    draft = server_info.get("speculative_draft_model_path")
    model = server_info.get("model_path")
    if algorithm != "EAGLE" or "speculative_draft_model_path" not in server_info:
        return False
    return draft in (None, "", model) or bool(
        re.search(r"nextn|[-_]mtp", str(draft), re.IGNORECASE)
    )


def _engine(backend: Any) -> str | None:
    if not isinstance(backend, str):
        return None
    return next((engine.id for engine in engines() if backend.startswith(engine.backend)), backend)


# SGLang bench_one_batch and bench_one_batch_server JSONL: one static batch per line.
_ONE_BATCH_MAPS = (
    *field_maps(
        point_id="run_name",
        batch_size="batch_size",
        input_tokens="input_len",
        output_tokens="output_len",
    ),
    *field_maps(step_time_s="median_decode_latency", request_latency_s="latency|total_latency"),
    *field_maps(ttft_s="last_ttft|prefill_latency"),
    *field_maps(
        output_tok_per_s="median_decode_throughput|steady_state_output_throughput|output_throughput"
    ),
)


def read_one_batch(sample: Sample) -> RawRows:
    """One row per batch. bench_one_batch never speculates, so its rows are baselines (K = 0)."""
    raw, records = raw_points(
        sample, _ONE_BATCH_MAPS, _finish_one_batch, engine="sglang", batch_kind="batch"
    )
    cells = raw.cells
    offline = ["median_decode_latency" in record for record in records]
    cells["draft_tokens_k"] = Cells(
        [
            0 if is_offline else _plain(record)
            for is_offline, record in zip(offline, records, strict=True)
        ],
        "(tool)",
    )
    cells["accepted_length"] = Cells(
        [positive_or_none(record.get("acc_length")) for record in records], "acc_length"
    )
    return raw


def _plain(record: dict[str, Any]) -> int | None:
    """K of a server run is unknown, unless the file says so."""
    value = record.get("speculative_num_steps")
    return value if isinstance(value, int) else None


def _finish_one_batch(frame: pd.DataFrame, raw: RawRows) -> None:
    """Time per output token: the decode step itself, else (latency - first token) / (output -
    1)."""
    step = floats(frame, "step_time_s")
    latency = floats(frame, "request_latency_s")
    ttft = floats(frame, "ttft_s")
    tokens = floats(frame, "output_tokens")
    with np.errstate(invalid="ignore", divide="ignore"):
        per_token = np.where(
            (tokens > 1) & (latency > ttft), (latency - ttft) / (tokens - 1), np.nan
        )
    frame["tpot_s"] = np.where(np.isnan(step), per_token, step)
    mark_same_run(frame)
    raw.notes += rows_noted(time_from_latency=np.isnan(step))


# SGLang bench_speculative JSONL: step time and acceptance by batch and draft shape, with its own
# baseline lines.
_SPECULATIVE_MAPS = (
    *field_maps(
        batch_size="batch_size", draft_tokens_k="steps", step_time_s="step_time", _speed="speed"
    ),
)


def read_speculative(sample: Sample) -> RawRows:
    """One row per line. `speed` is tokens/s of one request; steps = 0 marks the baseline without
    speculation."""
    raw, records = raw_points(
        sample, _SPECULATIVE_MAPS, _finish_speculative, engine="sglang", batch_kind="batch"
    )
    cells = raw.cells
    cells["draft_structure"] = Cells([_structure(record) for record in records], "topk")
    lengths = [None if record.get("steps") == 0 else record.get("acc_length") for record in records]
    cells["accepted_length"] = Cells(lengths, "acc_length")
    return raw


def _structure(record: dict[str, Any]) -> str | None:
    topk = record.get("topk")
    verified = record.get("num_draft_tokens")
    if record.get("steps") == 0 or not isinstance(topk, int):
        return None
    return f"tree;topk={topk};verify={verified}" if topk > 1 else f"chain;verify={verified}"


def _finish_speculative(frame: pd.DataFrame, _raw: RawRows) -> None:
    speed = floats(frame, "_speed")
    positive = speed > 0
    frame["tpot_s"] = np.where(positive, 1.0 / np.where(positive, speed, 1.0), np.nan)
    frame["output_tok_per_s"] = floats(frame, "batch_size") * np.where(positive, speed, np.nan)
    mark_same_run(frame)


# SpecForge's benchmarks of EAGLE heads on SGLang: bench_model_speedup (JSON lines) and bench_eagle3
# (one document).
_SPECFORGE_MAPS = (
    *field_maps(batch_size="batch_size", draft_tokens_k="steps", dataset="benchmark"),
    *field_maps(output_tok_per_s="throughput|metrics.output_throughput"),
)
_SHAPE = frozenset({"batch_size", "steps", "topk", "num_draft_tokens"})
_SPECFORGE_FIELDS = (
    "batch_size",
    "steps",
    "topk",
    "num_draft_tokens",
    "throughput",
    "completion_tokens",
    "benchmark",
)


def detect_specforge(sample: Sample) -> float:
    """Confidence 0.95 for lines or lists of runs with a shape, a benchmark's name and a
    throughput."""
    if not sample.is_json:
        return 0.0
    lines = sample.first.keys() >= {*_SPECFORGE_FIELDS}
    return 0.95 if lines or _by_benchmark(sample.first) else 0.0


def _by_benchmark(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of a bench_eagle3 document, one for each of its repetitions, with the name of their
    benchmark."""
    return [
        {**run, "benchmark": name, "metrics": metrics}
        for name, runs in document.items()
        if isinstance(runs, list)
        for run in runs
        if isinstance(run, dict) and run.keys() >= _SHAPE and isinstance(run.get("metrics"), list)
        for metrics in run["metrics"]
    ]


def read_specforge(sample: Sample) -> RawRows:
    """One row per run. The tool's clients wait for whole answers, so there is a rate and no time
    per token."""
    runs = _by_benchmark(sample.first)
    if runs:
        lines = tuple(range(1, len(runs) + 1))
        sample = replace(sample, records=tuple(runs), lines=lines)
    raw, records = raw_points(
        sample,
        _SPECFORGE_MAPS,
        lambda frame, _: mark_same_run(frame),
        engine="sglang",
        batch_kind="max_concurrency",
    )
    drafting = [bool(record.get("steps")) for record in records]
    lengths = [
        positive_or_none(record.get("acc_length", field_of(record, "metrics.accept_length")))
        if drafts
        else None
        for drafts, record in zip(drafting, records, strict=True)
    ]
    raw.cells["accepted_length"] = Cells(lengths, "acc_length")
    raw.cells["draft_structure"] = Cells([_structure(record) for record in records], "topk")
    raw.cells["drafter"] = Cells(["eagle3" if drafts else None for drafts in drafting], "steps")
    return raw


FORMATS = (
    # vLLM's file shares these names, so one of SGLang's own is needed.
    Format.of_fields(
        "sglang_serving",
        "SGLang bench_serving JSONL",
        0.95,
        read_serving,
        (
            "backend",
            "completed",
            "duration",
            "output_throughput",
            "total_output_tokens",
            "random_range_ratio|server_info|sharegpt_output_len|total_output_tokens_retokenized",
        ),
    ),
    Format.of_fields(
        "sglang_one_batch",
        "SGLang bench_one_batch (and _server) JSONL",
        0.9,
        read_one_batch,
        ("batch_size", "input_len", "output_len", "median_decode_latency|last_ttft|acc_length"),
    ),
    Format.of_fields(
        "sglang_speculative",
        "SGLang bench_speculative JSONL",
        0.95,
        read_speculative,
        ("batch_size", "steps", "topk", "num_draft_tokens", "acc_length", "step_time", "speed"),
    ),
    Format(
        "specforge",
        "SpecForge bench_model_speedup JSONL or bench_eagle3 JSON",
        detect_specforge,
        read_specforge,
        wants=_SPECFORGE_FIELDS,
    ),
)
