"""What is asked of a design space: the objective, the batches, the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from advisor import laws
from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.setup import Setup

Objective = Literal["tpot", "tokens_per_s_per_gpu", "cost_per_million_tokens", "sd_speedup"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
"""The first is the default."""


CONSTRAINTS = (
    "quality",
    "activation",
    "granularity",
    "attention_share",
    "shared_share",
    "n_active",
    "total_params",
    "memory",
    "tpot",
    "training_cost",
    "total_target",
    "active_target",
)
"""Bit i of `DesignSpace.failed` is constraint i."""
CONSTRAINT_TEXT = {
    "quality": "equal quality",
    "activation": "the smallest activation ratio of the law",
    "granularity": "the granularity range of the law",
    "attention_share": "the attention share of active parameters (20-50%)",
    "shared_share": "the largest shared share (1/3)",
    "n_active": "at least two experts per token",
    "total_params": "the limit on total parameters",
    "memory": "memory per GPU at the target batch and context",
    "tpot": "the limit on time per output token",
    "training_cost": "the limit on training compute",
    "total_target": "the target total size",
    "active_target": "the target active size",
}
TARGET_SHARE = 0.05
"""Choice of this project: how far a design's size may lie from a target size. [-]"""


@dataclass(frozen=True)
class Limits:
    """Bounds that designs must keep besides the quality, each None for no limit.

    Sizes are in parameters.
    """

    max_total_params: float | None = None
    max_tpot_ms: float | None = None
    """At every batch; default the scenario's. [ms]"""
    max_memory_bytes: float | None = None
    """Memory an engine may use per GPU. [B]"""
    max_training_cost: float | None = None
    """Training compute at equal tokens over the baseline's. [-]"""
    target_total_params: float | None = None
    """Total size to be kept within TARGET_SHARE."""
    target_active_params: float | None = None
    """Active size, without embeddings, to be kept within TARGET_SHARE."""


@dataclass(frozen=True)
class Question:
    """A question to the design space, checked and with defaults filled in."""

    objective: Objective
    batches: Array
    batch_weights: Array
    """Share of the tokens generated at each batch; they add up to 1."""
    quality_eps: float
    training_tokens: float | None
    max_total_params: float | None
    max_tpot_s: float | None
    memory_limit_bytes: float | None
    price_usd_per_hour: float | None
    max_training_cost: float | None = None
    """Training compute at equal tokens over the baseline's. [-]"""
    target_total_params: float | None = None
    target_active_params: float | None = None

    def score(self, gpus: int, speedup: Array, tpot_s: Array) -> Array:
        """The objective over the batches (first axis), higher is better. [...designs]

        Times are averaged over tokens.

        sd_speedup: mean plain time per token over the mean speculative one. tpot: 1 / mean time per token.
        tokens_per_s_per_gpu: 1 / mean GPU-seconds per token. cost: 1 / (USD per million tokens).
        """
        weight = self.batch_weights.reshape(-1, *(1,) * (tpot_s.ndim - 1))
        if self.objective == "sd_speedup":
            return np.asarray((weight * speedup * tpot_s).sum(0) / (weight * tpot_s).sum(0))
        if self.objective == "tpot":
            return np.asarray(1.0 / (weight * tpot_s).sum(0))
        batches = self.batches.reshape(weight.shape)
        gpu_seconds = (weight * tpot_s * gpus / batches).sum(0)
        if self.objective == "tokens_per_s_per_gpu":
            return np.asarray(1.0 / gpu_seconds)
        assert self.price_usd_per_hour is not None
        return np.asarray(1.0 / laws.usd_per_million_tokens(self.price_usd_per_hour, 1.0 / gpu_seconds))

    def mean_speedup(self, speedup: ArrayLike, tpot_s: ArrayLike) -> float:
        """Speedup of one design over the batches: mean plain time per token over mean speculative time. [-]"""
        times = self.batch_weights * np.asarray(tpot_s, float)
        return float((times * np.asarray(speedup, float)).sum() / times.sum())

    def mean_tpot_s(self, tpot_s: ArrayLike) -> float:
        """Time per output token of one design over the batches. [s]"""
        return float((self.batch_weights * np.asarray(tpot_s, float)).sum())

    def value(self, score: float) -> float:
        """The objective in its own unit: as `score`, or its inverse for tpot [s] and cost [USD]."""
        return 1.0 / score if self.objective in ("tpot", "cost_per_million_tokens") else score


def make_question(
    setup: Setup,
    objective: Objective,
    quality_eps: float,
    training_tokens: float | None,
    batches: Sequence[int] | Mapping[int, float] | None,
    limits: Limits,
    price: float | None,
) -> Question:
    """A checked question. Raises AdvisorError for a wrong limit, batch or objective, or a cost without a price."""
    if objective not in OBJECTIVES:
        raise AdvisorError(f"objective={objective!r} is unknown; choose one of {', '.join(OBJECTIVES)}")
    if objective == "sd_speedup" and setup.drafter.kind == "none":
        raise AdvisorError("without a drafter every design's speedup is 1; give a drafter, or the objective tpot")
    if not 0.0 <= quality_eps < 1.0:
        raise AdvisorError(f"quality_eps={quality_eps} must lie in [0, 1), e.g. 0.02 for 2%")
    given = {"training_tokens": training_tokens, "price_usd_per_hour": price, **vars(limits)}
    for name, limit in given.items():
        if limit is not None and not (limit > 0 and np.isfinite(limit)):
            raise AdvisorError(f"{name}={limit} must be a positive number")
    if objective == "cost_per_million_tokens" and price is None:
        known = setup.hardware.price_usd_per_hour
        if known is None:
            raise AdvisorError(
                f"no price is known for {setup.hardware.name}; give price_usd_per_hour, or the objective "
                "tokens_per_s_per_gpu, which ranks designs alike"
            )
        price = known.value
    weights = batches if isinstance(batches, Mapping) else dict.fromkeys(batches or [setup.scenario.batch_size], 1.0)
    size, share = np.array(list(weights), float), np.array(list(weights.values()), float)
    if not len(size) or np.any(size < 1) or np.any(size != np.floor(size)):
        raise AdvisorError("batches must be whole numbers >= 1, e.g. 1,16,64")
    if not np.all(np.isfinite(share)) or np.any(share < 0) or share.sum() <= 0:
        raise AdvisorError("batch weights must be >= 0 with a positive sum, e.g. {1: 0.2, 64: 0.8}")
    groups = setup.placement.attention_groups
    if np.any(size < groups):
        raise AdvisorError(f"batch {size.min():g} is below the {groups} attention groups of this placement; raise it")
    limit_ms = limits.max_tpot_ms if limits.max_tpot_ms is not None else setup.scenario.max_tpot_ms
    order = np.argsort(size)
    return Question(
        objective=objective,
        batches=size[order],
        batch_weights=(share / share.sum())[order],
        quality_eps=quality_eps,
        training_tokens=training_tokens,
        max_total_params=limits.max_total_params,
        max_tpot_s=None if limit_ms is None else limit_ms / 1e3,
        memory_limit_bytes=limits.max_memory_bytes,
        price_usd_per_hour=price,
        max_training_cost=limits.max_training_cost,
        target_total_params=limits.target_total_params,
        target_active_params=limits.target_active_params,
    )
