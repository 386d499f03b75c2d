"""Tables of the tab Sources: where each number of a scenario came from. Values in, frames out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.advice import Advice
from advisor.architecture import parameter_counts
from advisor.hardware import Hardware
from advisor.prediction import Constant
from advisor.routing import RoutingPreset
from advisor.setup import Setup
from advisor.text import with_prefix

_NOMENCLATURE = (
    ("B", "batch_size", "sequences that decode together in one instance", "sequences"),
    ("K", "n_draft", "draft tokens per sequence and step", "tokens"),
    ("AL", "accepted_length", "tokens emitted per step with drafts, the model's own included", "tokens per step"),
    ("N", "n_experts", "routed experts of one layer", "1"),
    ("k", "n_active", "routed experts that one token uses", "1"),
    ("s", "n_shared", "shared experts, used by every token", "1"),
    ("U", "touched_experts", "routed experts of one layer that a step loads", "1"),
    ("T", "step_time_s", "time of one forward pass", "s"),
    ("R", "verify_ratio", "time to verify K + 1 tokens over that of a step without drafts", "1"),
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
        "GPUs of a node": hardware.gpus_per_node,
        "Network between nodes": hardware.network_bytes_per_s,
        "Last-level cache": hardware.last_level_cache_bytes,
    }
    named |= {f"Peak, {dtype}": peak for dtype, peak in hardware.peak_flops_per_s.items()}
    for dtype, kernels in hardware.kernels.items():
        named[f"GEMM launch, {dtype}"] = kernels.gemm_t0_s
        named[f"GEMM bandwidth, {dtype}"] = kernels.fit_bandwidth_bytes_per_s
        named[f"Streaming bandwidth, {dtype}"] = kernels.stream_bandwidth_bytes_per_s
        named[f"Large GEMM, {dtype}"] = kernels.gemm_flops_per_s
    rows = [_row(name, constant) for name, constant in named.items() if constant is not None]
    return pd.DataFrame(rows, columns=["Constant", "Value", "Source", "Kind", "Confidence", "Date"])


def _row(name: str, constant: Constant) -> tuple[object, ...]:
    return (
        name,
        with_prefix(constant.value, constant.unit),
        constant.source,
        constant.kind,
        constant.confidence,
        constant.date.isoformat(),
    )


def acceptance_table(advice: Advice) -> pd.DataFrame:
    """Accepted length by K with its band, extrapolated values marked."""
    acceptance = advice.setup.acceptance
    return pd.DataFrame(
        {
            "K": np.arange(acceptance.accepted_length.size),
            "Tokens per step": acceptance.accepted_length,
            "Low": acceptance.low,
            "High": acceptance.high,
            "Extrapolated": np.where(acceptance.extrapolated, "yes", "no"),
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
    rows: list[tuple[str, str]] = [
        ("Parameters", _billions(counts.total)),
        ("Active parameters, without embedding", _billions(counts.active_nonembedding)),
    ]
    if moe is not None:
        rows += [("Routed experts per layer", f"{moe.n_experts:,}"), ("Active experts per token", f"{moe.n_active:,}")]
    rows += [
        ("Weights per GPU", with_prefix(memory.weights_bytes, "B")),
        ("Drafter per GPU", with_prefix(memory.drafter_bytes, "B")),
        ("KV cache per sequence and GPU", with_prefix(memory.kv_bytes_per_sequence, "B")),
        ("Usable memory per GPU", with_prefix(memory.usable_bytes, "B")),
        ("Largest batch that fits", f"{memory.largest_batch:,} sequences"),
    ]
    return pd.DataFrame(rows, columns=["Quantity", "Value"])


def _billions(count: float) -> str:
    return f"{count / 1e9:,.4g} billion"


def numbered(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """A table whose Source column holds numbers, and the sources in that order.

    Texts of sources are too long for a column.
    """
    numbers, sources = pd.factorize(table["Source"])
    return table.assign(Source=numbers + 1), list(sources)
