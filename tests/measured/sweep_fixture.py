"""A made-up sweep in the profiler's own files: times follow from known constants. Nothing here was
measured."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiling.results import rows_text, to_yaml

DEVICE = "generated, not a device"
T0_S = 40e-6
BANDWIDTH = 20e9
ACTIVATION_BANDWIDTH = 2e9
HIDDEN = 1024
WIDTH = 512
MATRICES = 3


def layer_time_s(
    tokens: float, n_active: int, touched: float, bytes_per_weight: float = 2.0
) -> float:
    """t0 + weights of the touched experts / bandwidth + activations / their bandwidth
    (docs/model.md)."""
    weights = touched * MATRICES * HIDDEN * WIDTH * bytes_per_weight
    activations = tokens * n_active * (4 * HIDDEN + 2 * MATRICES * WIDTH) + 4 * tokens * HIDDEN
    return T0_S + weights / BANDWIDTH + activations / ACTIVATION_BANDWIDTH


def layer_row(
    n_experts: int, n_active: int, batch: int, queries: int, **changes: Any
) -> dict[str, Any]:
    """One measured MoE row with the expected number of touched experts."""
    tokens = batch * queries
    touched = n_experts * (1 - (1 - n_active / n_experts) ** tokens)
    time_s = layer_time_s(tokens, n_active, touched)
    row = {
        "block": f"moe-bf16-n{n_experts}",
        "op": "moe_layer",
        "status": "ok",
        "dtype": "bfloat16",
    }
    row |= {
        "kernel": "expert_loop",
        "mode": "eager",
        "batch_size": batch,
        "tokens_per_sequence": queries,
    }
    row |= {"n_tokens": tokens, "n_experts": n_experts, "n_active": n_active, "expert_width": WIDTH}
    row |= {
        "hidden_size": HIDDEN,
        "shared_width": 0,
        "touched_experts": touched,
        "routing": "independent",
    }
    row |= {
        "time_s": 1.1 * time_s,
        "time_p20_s": time_s,
        "time_p80_s": 1.3 * time_s,
        "n_rounds": 24,
    }
    row |= {"checked_error": 0.004, "control_ratio": 1.0}
    return row | changes


def sweep_rows(
    noise: float = 0.0, seed: int = 0, ks: tuple[int, ...] = (1, 2, 4, 8)
) -> list[dict[str, Any]]:
    """Rows over N = 32 and 64, k and tokens, with relative noise on the times; a few rows of other
    kinds."""
    rng = np.random.default_rng(seed)
    rows = [
        layer_row(n, k, tokens, 1) for n in (32, 64) for k in ks for tokens in (1, 2, 4, 8, 16, 32)
    ]
    rows += [
        layer_row(32, ks[-1], 4, q, routing="correlated", affinity=0.2, stickiness=0.3)
        for q in (2, 4)
    ]
    for row in rows:
        for name in ("time_s", "time_p20_s", "time_p80_s"):
            row[name] *= float(np.exp(noise * rng.standard_normal()))
    copy = {
        "block": "bandwidth",
        "op": "copy_bandwidth",
        "status": "ok",
        "bytes": 3e8,
        "time_s": 0.01,
        "n_rounds": 24,
    }
    absent = {
        "block": "moe-bf16-n32",
        "op": "moe_layer",
        "status": "unavailable",
        "kernel": "triton_fused",
    }
    absent |= {"dtype": "bfloat16", "notes": "needs an accelerator"}
    return [copy, *rows, layer_row(32, 4, 4, 1, shared_width=1024), absent]


def write_sweep(
    folder: Path, rows: list[dict[str, Any]] | None = None, *, packed: bool = False, **meta: Any
) -> Path:
    """A folder as the profiler leaves it, of `sweep_rows()` or other rows; `meta` replaces fields
    of meta.yaml."""
    rows = sweep_rows() if rows is None else rows
    folder.mkdir(parents=True, exist_ok=True)
    text = rows_text(rows, header=True).encode()
    (folder / "data.csv.gz").write_bytes(gzip.compress(text)) if packed else (
        folder / "data.csv"
    ).write_bytes(text)
    content: dict[str, Any] = {
        "dataset": folder.name,
        "kind": "measured",
        "source": "advisor.profiling, code 0123456789ab",
        "status": "complete",
        "reasons": [],
        "findings": ["made-up numbers for a test"],
        "data": "data.csv.gz" if packed else "data.csv",
        "rows": len(rows),
        "measured_rows": sum(row["status"] == "ok" for row in rows),
        "started_at": "2026-11-21T00:00:00Z",
        "written_at": "2026-11-21T00:01:00Z",
        "elapsed_s": 60.0,
        "plan": {
            "hash": "0" * 16,
            "preset": "quick",
            "rounds": 24,
            "code_version": "0123456789ab",
            "seed": 0,
        },
        "device": {
            "backend": "cpu",
            "name": DEVICE,
            "memory_bytes": 2**34,
            "last_level_cache_bytes": 2**25,
            "last_level_cache_known": True,
        },
        "software": {"torch": "2.13.0"},
    }
    (folder / "meta.yaml").write_text(to_yaml(content | meta), encoding="utf-8")
    return folder
