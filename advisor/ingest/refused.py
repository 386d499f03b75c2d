"""Files that are recognised but hold nothing usable, with the reason to give."""

from __future__ import annotations

import re

from advisor.ingest.canonical import header_key
from advisor.ingest.table import table_header
from advisor.ingest.upload import Sample


def reason(sample: Sample) -> str | None:
    """Why a known kind of file cannot be used, or None when the file is of no known kind."""
    first = sample.first
    keys = {str(key) for key in first}
    if _is_tuned_config(first):
        return (
            "it is a tuned kernel configuration, which holds block sizes and no latency; send the log of benchmark_moe "
            "run without --tune, which prints kernel times"
        )
    if {"benchmark", "model", "metric"} <= keys:
        return "it is the PyTorch benchmark database copy of a vLLM result; send the result JSON written beside it"
    if {"sample_batch_tokens", "sample_steps_per_sec"} <= keys or {"bias_seconds", "theta_seconds"} <= keys:
        return "it is a step-rate table for the engine's scheduler; send the benchmark it came from"
    if "report" in keys and "config" in keys:
        return "it is an optimum-benchmark report, whose latencies have no batch of drafts; send a serving benchmark"
    if "expert_activation" in keys or "forward_mode" in keys:
        return "it is a log of activated experts per step: give it as a routing trace (`trace`, tab Your routing trace)"
    if {"error", "returncode"} & keys and not {"metrics"} & keys:
        return "it records a run that failed; send the result of a run that finished"
    header = {header_key(cell) for cell in table_header(sample)}
    if {"tokens_s_gpu", "num_total_gpus"} <= header:
        return "it is a sweep of predicted configurations; predictions are not taken as measurements"
    if {"up_proj_us", "down_proj_us"} <= header or {"latency_us", "mfu"} <= header:
        return "it is a kernel table in a layout that is not read; use the columns of the kernel template"
    kernel = {"latency", "kernel_source"} <= header or {"latency", "op_name"} <= header
    if kernel and "num_experts" not in header:
        return "it is a kernel table of another operation; only MoE tables (num_tokens, hidden_size, inter_size, topk, num_experts, latency) are read"  # noqa: E501
    return None


def _is_tuned_config(first: dict[str, object]) -> bool:
    bodies = [value for key, value in first.items() if re.fullmatch(r"\d+", str(key)) and isinstance(value, dict)]
    return bool(bodies) and all("BLOCK_SIZE_M" in body for body in bodies)
