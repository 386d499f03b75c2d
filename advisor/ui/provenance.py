"""Tables of the Sources page: where each number of a scenario came from. Values in, frames out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from advisor.advice import Advice
from advisor.architecture import parameter_counts
from advisor.hardware import Hardware
from advisor.prediction import Constant
from advisor.routing_presets import RoutingPreset
from advisor.setup import Setup

_PREFIXES = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P")

_NOMENCLATURE = (
    ("B", "batch_size", "sequences that decode together in one instance", "sequences"),
    ("K", "n_draft", "draft tokens per sequence and round", "tokens"),
    ("AL", "accepted_length", "tokens emitted per round, bonus token included", "tokens per round"),
    ("N", "n_experts", "routed experts of one layer", "1"),
    ("k", "n_active", "routed experts that one token uses", "1"),
    ("s", "n_shared", "shared experts, used by every token", "1"),
    ("U", "distinct_experts", "routed experts of one layer that a step loads", "1"),
    ("T", "step_time_s", "time of one forward pass", "s"),
    ("R", "verify_ratio", "time to verify K + 1 tokens over the time of a plain step", "1"),
    ("CV", "load_cv", "spread of the experts' load over its mean", "1"),
    ("phi", "affinity", "how far one sequence keeps to its own experts", "1"),
    ("rho", "stickiness", "chance that a token repeats its predecessor's choice", "1"),
    ("TP, EP", "tensor_parallel, expert_parallel", "GPUs over which one instance is split", "1"),
)


def nomenclature_table() -> pd.DataFrame:
    """Symbol, name, meaning and unit of each quantity on screen."""
    return pd.DataFrame(_NOMENCLATURE, columns=["Symbol", "Name", "Meaning", "Unit"])


def hardware_table(hardware: Hardware) -> pd.DataFrame:
    """Each constant of an accelerator with kind, confidence, source and date."""
    named: dict[str, Constant | None] = {
        "Memory": hardware.memory_bytes,
        "Memory bandwidth": hardware.bandwidth_bytes_per_s,
        "Link": hardware.link_bytes_per_s,
        "Last-level cache": hardware.last_level_cache_bytes,
    }
    named |= {f"Peak, {dtype}": peak for dtype, peak in hardware.peak_flops_per_s.items()}
    for dtype, kernels in hardware.kernels.items():
        named[f"GEMM launch, {dtype}"] = kernels.gemm_t0_s
        named[f"GEMM bandwidth, {dtype}"] = kernels.fit_bandwidth_bytes_per_s
        named[f"Streaming bandwidth, {dtype}"] = kernels.stream_bandwidth_bytes_per_s
        named[f"Large GEMM, {dtype}"] = kernels.gemm_flops_per_s
    rows = [_row(name, constant) for name, constant in named.items() if constant is not None]
    return pd.DataFrame(rows, columns=["Constant", "Value", "Kind", "Confidence", "Source", "Date"])


def _row(name: str, constant: Constant) -> tuple[object, ...]:
    return (
        name,
        with_prefix(constant.value, constant.unit),
        constant.kind,
        constant.confidence,
        constant.source,
        constant.date.isoformat(),
    )


def with_prefix(value: float, unit: str) -> str:
    """A value with an SI prefix, four digits: `4.8 TB/s`, `4.45 µs`. Values without a unit keep their digits."""
    if unit in ("", "1") or value == 0:
        return f"{value:,.4g}"
    step = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), -4), 5)
    return f"{value / 1000.0**step:.4g} {_PREFIXES[step + 4]}{unit}"


def acceptance_table(advice: Advice) -> pd.DataFrame:
    """Accepted length by K with its band; extrapolated values are marked."""
    acceptance = advice.setup.acceptance
    return pd.DataFrame(
        {
            "K": np.arange(acceptance.accepted_length.size),
            "Tokens per round": acceptance.accepted_length,
            "Low": acceptance.low,
            "High": acceptance.high,
            "Extrapolated": acceptance.extrapolated,
        }
    )


def routing_table(preset: RoutingPreset) -> pd.DataFrame:
    """The routing statistics in use, with band and source."""
    named = {
        "Load spread (CV)": preset.load_cv,
        "Affinity (phi)": preset.affinity,
        "Stickiness (rho)": preset.stickiness,
    }
    rows = [
        (name, item.value, item.low, item.high, item.kind, item.confidence, item.source) for name, item in named.items()
    ]
    return pd.DataFrame(rows, columns=["Statistic", "Value", "Low", "High", "Kind", "Confidence", "Source"])


def model_table(setup: Setup) -> pd.DataFrame:
    """Size and memory of the model, as computed from its configuration."""
    counts, moe, memory = parameter_counts(setup.architecture), setup.architecture.moe, setup.memory
    rows: list[tuple[str, float, str]] = [
        ("Parameters", counts.total, "1"),
        ("Active parameters, without embedding", counts.active_nonembedding, "1"),
    ]
    if moe is not None:
        rows += [("Routed experts per layer", moe.n_experts, "1"), ("Active experts per token", moe.n_active, "1")]
    rows += [
        ("Weights per GPU", memory.weights_bytes / 1e9, "GB"),
        ("Drafter per GPU", memory.drafter_bytes / 1e9, "GB"),
        ("KV cache per sequence and GPU", memory.kv_bytes_per_sequence / 1e9, "GB"),
        ("Usable memory per GPU", memory.usable_bytes / 1e9, "GB"),
        ("Largest batch that fits", memory.largest_batch, "sequences"),
    ]
    return pd.DataFrame(rows, columns=["Quantity", "Value", "Unit"])
