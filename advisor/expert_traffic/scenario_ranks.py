"""The slowest rank of every batch that a scenario may ask about, counted once on its loads and its layout."""

from __future__ import annotations

import numpy as np

from advisor.arrays import Array
from advisor.expert_traffic.counting import Planned, RoutedLayer, Steps, Variant, counted
from advisor.expert_traffic.traffic import Traffic
from advisor.routing import Layout, RankBalance, Sources, Uneven, balanced, contiguous

BATCHES = (1, 4, 16, 64, 256, 1024)
"""Batches that are counted; between them the ratios to the mean rank are interpolated. [-]"""
BUDGET_EACH = 120_000
"""Expert choices that are drawn for each batch. [-]"""
MOST_TOKENS = 4096
"""Tokens of a step beyond which no more of each sequence are counted: ratios have settled, and are held. [-]"""


def filling_copies(n_experts: int, ranks: int, wanted: int) -> int:
    """Copies of experts, `wanted` or the next number above it that fills all ranks evenly, as engines ask. [-]"""
    return wanted + (-(n_experts + wanted) % ranks)


def layout_plan(n_experts: int, ranks: int, redundant: int | None, nodes: int = 1, groups: int = 1) -> Planned:
    """Plan of a layout: experts in order (None), or balanced with so many copies.

    n_experts, ranks, nodes, groups : as `routing.balanced` takes them. [-]
    """

    def in_order(loads: Array) -> Layout:  # noqa: ARG001
        return contiguous(n_experts, ranks)

    def spread(loads: Array) -> Layout:
        return balanced(loads, ranks, redundant or 0, nodes, groups)

    return in_order if redundant is None else spread


def counted_balance(layer: RoutedLayer, traffic: Traffic, redundant: int | None, tokens: int) -> RankBalance:
    """Loads of the slowest rank over BATCHES and 1 to `tokens` tokens of each sequence [-].

    redundant : copies of experts in a balanced layout; None: experts in order. [-]
    """
    ranks, n_experts = layer.placement.expert_parallel, traffic.loads.shape[1]
    variant = Variant(layout_plan(n_experts, ranks, redundant))
    found = [_at(layer, traffic, variant, batch, min(tokens, max(2, MOST_TOKENS // batch))) for batch in BATCHES]

    def joined(name: str) -> Array:
        held = [getattr(one, name)[np.minimum(np.arange(tokens), len(one.pairs) - 1)] for one in found]
        return np.asarray(held)

    slots = found[0].slots
    return RankBalance(np.array(BATCHES, float), joined("touched"), joined("pairs"), joined("received"), slots)


def _at(layer: RoutedLayer, traffic: Traffic, variant: Variant, batch: int, tokens: int) -> Uneven:
    steps = Steps(batch, tokens, BUDGET_EACH, least_draws=1)
    return counted(layer, traffic, [variant], Sources(layer.placement.attention_groups), steps)[0].slowest
