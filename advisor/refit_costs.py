"""What the refit's multipliers are worth before any data, and how they go into the kernel constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.kernel_costs import GemmCost, KernelCosts, MoeCost, StreamCost
from advisor.refit_points import NAMES, RefitPoint
from advisor.setup import Setup

Array = NDArray[np.float64]

MEANINGS = {
    "launch": "launch time per layer",
    "host": "host time per step",
    "draft_host": "host time per draft pass",
    "round_host": "host time per speculative round",
    "routed": "time of the routed experts",
    "attention": "time of attention",
    "dense": "time of projections and dense layers",
    "communication": "time of communication",
    "drafter": "kernel time of the drafter",
    "accepted_length": "the borrowed accepted length",
}
MIN_LOG_SD = 0.03
"""No kernel time is held known to better than this. [1]"""
_FITTED_OVERHEADS = ("launch", "draft_host", "round_host")


@dataclass(frozen=True)
class PriorSpread:
    """Log standard deviations [names] and covariance [names, names] of the multipliers, and of what they leave."""

    log_sd: Array
    covariance: Array
    residual_log_sd: float


def prior_spread(points: Sequence[RefitPoint]) -> PriorSpread:
    """Spread of the shipped fits that the points' predictions rest on; of several, the widest."""
    overhead = max(point.setup.costs.overhead_log_sd for point in points)
    widths = dict.fromkeys(NAMES, overhead)
    widths |= {
        "routed": max(point.setup.costs.routed.band_log_sd for point in points),
        "attention": max(_attention(point.setup).log_sd for point in points),
        "dense": max(_dense_log_sd(point.setup.costs) for point in points),
        "communication": max(_communication_log_sd(point.setup.costs) for point in points),
        "drafter": max(point.setup.draft_costs.dense.log_sd for point in points),
        "accepted_length": max(point.length_log_sd for point in points),
    }
    log_sd = np.array([max(widths[name], MIN_LOG_SD) for name in NAMES])
    covariance = np.diag(log_sd**2)
    fitted = points[0].setup.costs.overhead_log_covariance
    if fitted:
        at = [NAMES.index(name) for name in _FITTED_OVERHEADS]
        covariance[np.ix_(at, at)] = np.array(fitted) + MIN_LOG_SD**2 * np.eye(len(at))
        log_sd = np.sqrt(np.diag(covariance))
    return PriorSpread(log_sd, covariance, max(point.setup.costs.residual_log_sd for point in points))


def applied(
    setup: Setup,
    factors: Mapping[str, float],
    log_sd: Mapping[str, float],
    correlation: Mapping[tuple[str, str], float],
    residual_log_sd: float | None,
) -> Setup:
    """`setup` with each constant times its factor, and the spreads that its band is drawn from.

    `residual_log_sd` None keeps what the shipped constants leave unexplained. [1]
    """
    changes: dict[str, Any] = {
        "overhead_log_sd": log_sd.get("host", setup.costs.overhead_log_sd),
        "overhead_log_covariance": tuple(
            tuple(correlation[a, b] * log_sd[a] * log_sd[b] for b in _FITTED_OVERHEADS) for a in _FITTED_OVERHEADS
        ),
    }
    if residual_log_sd is not None:
        changes |= {"residual_log_sd": residual_log_sd, "residual_log_sd_by_tier": {}, "band_share_by_tier": {}}
    costs = setup.costs
    for name, field in (
        ("launch", "launch_per_layer_s"),
        ("host", "host_per_step_s"),
        ("draft_host", "host_per_draft_pass_s"),
        ("round_host", "host_per_round_s"),
    ):
        changes[field] = getattr(costs, field) * factors.get(name, 1.0)
    for name, fields in (
        ("routed", ("routed",)),
        ("attention", ("attention", "mla")),
        ("dense", ("attention_projection", "shared", "dense", "lm_head")),
    ):
        for field in fields:
            changes[field] = _scaled(getattr(costs, field), factors.get(name, 1.0), log_sd.get(name))
    changes["attention_flops_per_s"] = costs.attention_flops_per_s / factors.get("attention", 1.0)
    changes["all_reduce"], changes["all_to_all"] = (
        {ranks: _scaled(cost, factors.get("communication", 1.0), log_sd.get("communication")) for ranks, cost in t}
        for t in (costs.all_reduce.items(), costs.all_to_all.items())
    )
    drafter = slower(setup.draft_costs, factors.get("drafter", 1.0), log_sd.get("drafter"))
    return replace(setup, costs=replace(costs, **changes), draft_costs=drafter)


def slower(costs: KernelCosts, factor: float, log_sd: float | None = None) -> KernelCosts:
    """`costs` with every kernel's time multiplied by `factor`; overheads stay."""
    changes: dict[str, Any] = {
        name: _scaled(getattr(costs, name), factor, log_sd)
        for name in ("routed", "attention_projection", "shared", "dense", "lm_head", "attention", "mla")
    }
    changes["attention_flops_per_s"] = costs.attention_flops_per_s / factor
    for name in ("all_reduce", "all_to_all"):
        changes[name] = {ranks: _scaled(cost, factor, log_sd) for ranks, cost in getattr(costs, name).items()}
    return replace(costs, **changes)


def _scaled(cost: Any, factor: float, log_sd: float | None) -> Any:
    """One kernel's constants with its time multiplied by `factor`: fixed times grow, rates fall."""
    if cost is None:
        return None
    assert isinstance(cost, GemmCost | MoeCost | StreamCost)
    changes: dict[str, Any] = {} if log_sd is None else {"log_sd": log_sd}
    for item in dataclasses.fields(cost):
        value = getattr(cost, item.name)
        if item.name.endswith("_per_s"):
            changes[item.name] = value / factor
        elif item.name.endswith("_s"):
            changes[item.name] = value * factor
    if isinstance(cost, MoeCost) and cost.measured is not None and log_sd is not None:
        changes["measured"] = replace(cost.measured, log_sd=log_sd)
    return replace(cost, **changes)


def _attention(setup: Setup) -> StreamCost:
    latent = any(mixer.kind in ("mla", "sparse") for mixer in setup.architecture.mixers)
    return setup.costs.mla if latent and setup.costs.mla is not None else setup.costs.attention


def _dense_log_sd(costs: KernelCosts) -> float:
    return max(cost.log_sd for cost in (costs.attention_projection, costs.shared, costs.dense, costs.lm_head))


def _communication_log_sd(costs: KernelCosts) -> float:
    return max((cost.log_sd for cost in (*costs.all_reduce.values(), *costs.all_to_all.values())), default=0.2)
