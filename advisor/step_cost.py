"""Time of one forward pass over B sequences x q tokens, by component. Never sees acceptance; opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from advisor.prediction import Tier


@dataclass(frozen=True)
class GemmCost:
    """n t0 + p-norm(bytes / bandwidth, flops / rate): a weight-streaming and an arithmetic limit, smoothly joined."""

    t0_s: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    tier: Tier
    sharpness: float = 2.3
    log_sd: float = 0.15


@dataclass(frozen=True)
class MoeCost:
    """Routed experts of one layer: additive form of docs/model.md, linear in the reciprocal parameters.

    time = t0_s + W / bandwidth + U per_expert_s + F / flops_per_s + A / activation_bandwidth + N_local per_resident_s
    """

    t0_s: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    tier: Tier
    per_expert_s: float = 0.0
    activation_bandwidth_bytes_per_s: float = np.inf
    per_resident_expert_s: float = 0.0
    log_sd: float = 0.15
    because: str = ""


@dataclass(frozen=True)
class StreamCost:
    """t0_s + bytes / bandwidth: attention over a KV cache, an all-reduce, an all-to-all."""

    t0_s: float
    bandwidth_bytes_per_s: float
    tier: Tier
    log_sd: float = 0.2


@dataclass(frozen=True)
class KernelCosts:
    """All constants `step_cost` needs for one accelerator, engine and set of weight types. Built by `calibration`."""

    routed: MoeCost
    attention_projection: GemmCost
    shared: GemmCost
    dense: GemmCost
    lm_head: GemmCost
    attention: StreamCost
    all_reduce: Mapping[int, StreamCost] = field(default_factory=dict)
    """By number of ranks; missing sizes use the nearest larger one, else the largest."""
    all_to_all: Mapping[int, StreamCost] = field(default_factory=dict)
    launch_per_layer_s: float = 10e-6
    host_per_step_s: float = 300e-6
    host_per_draft_pass_s: float = 300e-6
    host_per_round_s: float = 400e-6
    overhead_log_sd: float = 0.86
    """A factor of 3 either way at 80 %: ln 3 / 1.28."""
    last_level_cache_bytes: float = 0.0
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
