"""The slowest rank of every batch that a scenario may ask about, counted once on its loads and its layout."""

from __future__ import annotations

import numpy as np

from advisor.arrays import Array
from advisor.expert_traffic.counting import Planned, Steps, Variant, by_weight, counted
from advisor.expert_traffic.traffic import Traffic
from advisor.prediction import AdvisorError
from advisor.routing import Layout, RankBalance, Sources, Uneven, balanced, contiguous

BATCHES = (1, 4, 16, 64, 256, 1024)
"""Batches that are counted; between them the ratios to the mean rank are interpolated. [-]"""
BUDGET_EACH = 120_000
"""Expert choices that are drawn for each batch. [-]"""
LEAST_LAYERS = 8
MOST_TOKENS = 4096
"""Tokens of a step beyond which no more of each sequence are counted: ratios have settled, and are held. [-]"""


def filling_copies(n_experts: int, ranks: int, wanted: int) -> int:
    """Copies of experts, `wanted` or the next number above it that fills all ranks evenly, as engines ask. [-]

    Raises AdvisorError for more copies than experts, or than ranks where those are more.
    """
    if wanted > max(n_experts, ranks):
        raise AdvisorError(
            f"{wanted:,} copies of {n_experts} experts cannot be placed; give at most {max(n_experts, ranks)}"
        )
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


def counted_balance(traffic: Traffic, ranks: int, redundant: int | None, tokens: int) -> RankBalance:
    """Loads of the ranks that may be slowest, over BATCHES and 1 to `tokens` tokens of each sequence [-].

    redundant : copies of experts in a balanced layout; None: experts in order. [-]
    """
    variant = Variant(layout_plan(traffic.loads.shape[1], ranks, redundant))
    found = [_at(traffic, variant, batch, min(tokens, max(2, MOST_TOKENS // batch))) for batch in BATCHES]

    def joined(name: str) -> Array:
        each = [getattr(one, name) for one in found]
        held = [values[..., np.minimum(np.arange(tokens), values.shape[-1] - 1)] for values in each]
        return np.stack(held, axis=-2)

    slots = found[0].slots
    return RankBalance(np.array(BATCHES, float), joined("touched"), joined("pairs"), joined("received"), slots)


def _at(traffic: Traffic, variant: Variant, batch: int, tokens: int) -> Uneven:
    steps = Steps(batch, tokens, BUDGET_EACH, least_draws=1, least_layers=LEAST_LAYERS)
    return counted(by_weight, traffic, [variant], Sources(), steps)[0].slowest
