"""Tier of a result by the kernel records that price it, and what lies beyond the calibrated
range."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.physics.attention import core_cost
from advisor.physics.components import KERNELS, Component
from advisor.physics.kernel_costs import (
    AttentionCost,
    AttentionModule,
    GemmCost,
    MoeCost,
    Network,
    StreamCost,
    stream_cost,
)
from advisor.predict.setup import Setup, context_beside
from advisor.prediction import Array, Tier

CALIBRATED_TOKENS = 2048
"""Kernels are fitted on steps of up to this many tokens; beyond, results are flagged and their band
widened. [-]"""
_WIDENING_PER_DOUBLING = 0.1
"""Extra log standard deviation for each doubling beyond the calibrated range (assumed). [-]"""
_MATTERS = 0.1
"""A component counts for the tier when it takes at least this share of a step. [-]"""
KernelRecord = AttentionCost | AttentionModule | GemmCost | MoeCost | Network | StreamCost
"""What prices a component."""


def beyond_log_sd(step_tokens: ArrayLike) -> Array:
    """Log standard deviation that a step longer than the measured ones adds to a speedup. [-]"""
    doublings = np.log2(np.asarray(step_tokens, float) / CALIBRATED_TOKENS)
    return np.asarray(np.maximum(doublings, 0.0) * _WIDENING_PER_DOUBLING)


def by_tier(tier: NDArray[np.object_], values: Mapping[str, float], default: float) -> Array:
    """Values at each point's tier. Tiers above fitted share the fitted one's, being too few to
    calibrate alone."""
    roofline = values.get("roofline", default)
    fitted = values.get("fitted", default)
    return np.where(tier == Tier.ROOFLINE, roofline, fitted)


def component_tier_ranks(setup: Setup, step_tokens: ArrayLike) -> dict[str, NDArray[np.int64]]:
    """Rank of the tier (`Tier.rank`) of each kernel component of a step of M = B q `step_tokens`
    [-]."""
    tokens = np.asarray(step_tokens, float)
    ranks_by_component = {}
    least = np.zeros(tokens.shape, np.int64)
    for component in KERNELS:
        # A component is only as known as the least known of its kernels; without any kernel it is a
        # roofline.
        ranks = [_tier_rank(cost, tokens, setup) for cost in records_in_use(setup, component)] or [
            Tier.ROOFLINE.rank
        ]
        ranks_by_component[component.key] = functools.reduce(np.maximum, ranks, least)
    return ranks_by_component


def records_in_use(setup: Setup, component: Component) -> list[KernelRecord]:
    """The kernel records that price a component of this model and placement. None where no link is
    used."""
    costs = setup.draft_costs if component.drafter else setup.costs
    placement = setup.placement
    if component.bound == "links":
        links = (
            stream_cost(costs.all_reduce, placement.tensor_parallel),
            stream_cost(costs.all_to_all, placement.expert_parallel)
            if placement.attention_groups > 1
            else None,
            costs.network,
        )
        return [cost for cost in links if cost is not None]
    if component.key == "attention":
        rest = [mixer for mixer in setup.architecture.mixers if mixer not in costs.modules]
        cores = [core_cost(mixer, costs) for mixer in rest if mixer.kind != "none"]
        return [*costs.modules.values(), *dict.fromkeys(cores)]
    return [getattr(costs, name) for name in component.priced_by]


def _tier_rank(cost: KernelRecord, step_tokens: Array, setup: Setup) -> NDArray[np.int64] | int:
    if isinstance(cost, MoeCost):
        return cost.tier_rank(step_tokens)
    # Tables of attention layers are by the rows of one data-parallel group.
    if isinstance(cost, AttentionModule):
        rows = step_tokens / setup.placement.attention_groups
        return cost.tier_rank(rows, context_beside(setup, step_tokens.ndim))
    return cost.tier.rank


def tiers_of(
    setup: Setup,
    plain: Mapping[str, Array],
    round_components: Mapping[str, Array],
    batch: Array,
    step_tokens: Array,
) -> NDArray[np.object_]:
    """Tier at each point [nB, nK]: the lowest among kernels that take a tenth of either arm or
    more.

    At best interpolated: a step put together from parts was not itself measured, even where all its
    kernels were.
    """
    # Kernels were timed one by one: their sum in a graph is a prediction, however well each was
    # measured.
    rank = np.full(step_tokens.shape, Tier.INTERPOLATED.rank)
    for components, tokens in ((plain, batch), (round_components, step_tokens)):
        total = sum(components.values())
        for name, ranks in component_tier_ranks(setup, tokens).items():
            if ranks.max() <= Tier.INTERPOLATED.rank:
                continue
            # A guess about a hundredth of the step must not make the whole answer a guess.
            heavy = np.asarray(components.get(name, 0.0)) >= _MATTERS * np.asarray(total)
            heavy_ranks = np.where(heavy, ranks, 0)
            rank = np.maximum(rank, heavy_ranks[:, None] if heavy_ranks.ndim == 1 else heavy_ranks)
    return _TIERS[rank]


_TIERS = np.array(list(Tier), dtype=object)
