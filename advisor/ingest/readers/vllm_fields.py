"""Field names that `vllm bench serve` results share, whether written as JSON or flattened into a sweep's CSV."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.derived import acceptance_by_position_text, accepted_length_from_counts
from advisor.ingest.draft import FieldMap, floats
from advisor.text import counted

_MS = 1e-3
WHOLE_TOLERANCE = 1e-3
"""Draft tokens per draft this close to an integer are a fixed K."""

PER_POSITION = "spec_decode_per_position_acceptance_rates"


def _spellings(*names: str) -> tuple[str, ...]:
    """Each name with underscores and with dashes: sweeps keep what the user typed."""
    return tuple(dict.fromkeys(form for name in names for form in (name, name.replace("_", "-"))))


SERVE_MAPS: tuple[FieldMap, ...] = (
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


def position_rates(value: Any) -> tuple[str | None, int | None]:
    """Per-position acceptance as text, and K, from a list or its printed form."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None, None
    text = acceptance_by_position_text(value)
    return text, len(value) if text is not None else None


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
    whole = np.where(np.abs(per_draft - np.round(per_draft)) <= WHOLE_TOLERANCE, np.round(per_draft), np.nan)
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
