"""Steps counted under a layout of experts: the slowest rank of each layer, and what travels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture import WeightDtype
from advisor.arrays import Array
from advisor.expert_traffic.traffic import Traffic
from advisor.kernel_costs import MoeCost
from advisor.routing import (
    Choices,
    Layout,
    RankBalance,
    RankCounts,
    Sources,
    Uneven,
    heated,
    rank_counts,
)
from advisor.step_cost import MoeShape, Placement, routed_time

BUDGET = 1_500_000
"""Expert choices that are drawn for one answer: some seconds. [-]"""
PER_STEP = 0.4
"""Share of the budget that one step may take; layers of a larger one are drawn too. [-]"""
MOST_DRAWS = 64
WEIGHTS = (0.02, 0.25, 0.5, 0.75, 0.98)
"""Shares of serving in a rank's time that are tried; the ends are off 0 and 1, where whole numbers tie. [-]"""
Planned = Callable[[Array], Layout]
"""A layout from the loads [layers, N] that it is planned on."""
Slowness = Callable[[Layout, RankCounts, int], Array]
"""Measures by which ranks may be slowest, [nW, t, layers, R], of a layout, counts and a batch."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of a step on ranks, for 1 to t tokens of each sequence, [t].

    Means over draws of means over layers; `layer_s` keeps the draws apart.
    """

    layout: Layout
    """The first fold's, for its shape."""
    touched: Array
    """Largest number of experts that a rank reads. [-]"""
    pairs: Array
    """Largest number of expert choices that a rank serves. [-]"""
    mean_pairs: Array
    """Expert choices of the mean rank. [-]"""
    touched_overall: Array
    """Distinct experts touched on all ranks. [-]"""
    slowest: Uneven
    """The rank of each layer that a measure calls slowest, over the mean rank, by measure [nW, t]."""
    slowness: Array
    """The measure of that rank, [draws, nW, t]; of `RoutedLayer.rank_seconds` a layer's time. [s]"""
    received_pairs: Array
    """Largest number of messages that a rank gets where each expert's copy of a token travels. [-]"""
    received_tokens: Array
    """Largest number of messages that a rank gets where a token travels once to each rank. [-]"""
    mean_received_pairs: Array
    mean_received_tokens: Array
    reached: Array
    """Ranks that serve a token, its own included. [-]"""
    other_rank: Array
    """Share of expert choices served by another rank than the token's own. [-]"""
    other_nodes: Array
    """Other nodes that serve a token. [-]"""
    n_draws: int

    @property
    def slots_of_fullest(self) -> int:
        """Experts that the rank with most of them holds. [-]"""
        return int(np.bincount(self.layout.rank_of_slot).max())

    def balance(self, batch: float) -> RankBalance:
        """Loads of the slowest rank at the batch that was counted, for `Placement.balance`.

        batch : sequences of the instance, as they were counted. [-]
        """
        one = self.slowest
        reads, serves = one.touched[:, None], one.pairs[:, None]
        return RankBalance(np.array([batch]), reads, serves, one.received[None], one.slots)


@dataclass(frozen=True)
class Variant:
    """A layout to count, and how much hotter each layer's hottest expert is than it was planned for."""

    planned: Planned
    hotter: float = 0.0


@dataclass(frozen=True, eq=False)
class RoutedLayer:
    """One routed layer as its kernels run it under a placement."""

    cost: MoeCost
    placement: Placement
    shape: MoeShape
    dtype: WeightDtype

    def rank_seconds(self, layout: Layout, counts: RankCounts, batch: int) -> Array:
        """Time of each rank by what it reads and serves, [1, t, layers, R]. [s]

        The largest over ranks is what a layer takes: neither the rank that reads most experts nor the one with most
        rows need be the slowest, so the two are not maximised apart.
        """
        steps = np.arange(1, len(counts.pairs) + 1)[:, None, None]
        touched_overall = counts.touched_overall[..., None]
        pairs = counts.pairs / counts.pairs.mean(axis=2, keepdims=True)
        touched = counts.touched / (touched_overall / layout.n_ranks)
        uneven = Uneven(touched, pairs, pairs, float(layout.n_slots))
        tokens = batch * steps
        time = routed_time(self.cost, self.placement, self.shape, tokens, touched_overall, self.dtype, uneven=uneven)
        return time[None]


def by_weight(layout: Layout, counts: RankCounts, batch: int) -> Array:  # noqa: ARG001
    """Slowness of each rank for several costs of reading against serving, [nW, t, layers, R]. [-]

    A rank's time is nearly a weighted sum of both, so that whichever costs hold, one of WEIGHTS nearly finds its
    slowest rank; counts that rest on them serve every machine.
    """
    reads = counts.touched / counts.touched.mean(axis=2, keepdims=True)
    serves = counts.pairs / counts.pairs.mean(axis=2, keepdims=True)
    weight = np.asarray(WEIGHTS)[:, None, None, None]
    return (1.0 - weight) * reads + weight * serves


@dataclass(frozen=True)
class Steps:
    """Steps to count: `batch` sequences of 1 to `tokens` tokens each, all lengths of one draw. [-]"""

    batch: int
    tokens: int
    budget: int = BUDGET
    """Expert choices that may be drawn. [-]"""
    least_draws: int = 4
    least_layers: int = 4

    def n_draws(self, traffic: Traffic) -> tuple[int, int]:
        """Steps to draw in each fold, and layers of each step, within the budget. [-]"""
        each, present = self.batch * self.tokens * traffic.n_active, len(traffic.loads)
        layers = int(np.clip(PER_STEP * self.budget // each, min(self.least_layers, present), present))
        return int(
            np.clip(self.budget // (each * layers) // len(traffic.folds()), self.least_draws, MOST_DRAWS)
        ), layers


def counted(
    slowness: Slowness, traffic: Traffic, variants: Sequence[Variant], sources: Sources, steps: Steps, seed: int = 0
) -> list[Counted]:
    """Count steps under each variant, planned on one half of the traffic and judged on the other.

    All variants see the same steps, so that differences between layouts and temperatures are not chance.
    """
    levels = sorted({one.hotter for one in variants})
    draws, n_layers = steps.n_draws(traffic)
    rows: list[list[dict[str, Array]]] = [[] for _ in variants]
    shapes: list[Layout] = []
    for fold, (loads, judged) in enumerate(traffic.folds()):
        layouts = [one.planned(loads) for one in variants]
        shapes = shapes or layouts
        for draw in range(draws):
            rng = np.random.default_rng((seed, fold, draw))
            some = _some_layers(layouts[0].rank_loads(loads), n_layers, (draw + 0.5) / draws)
            ids = traffic.choices(judged, steps.batch, steps.tokens, some, rng)
            warm = {level: _warmed(ids, loads[some], level, (seed, fold, draw, 1)) for level in levels}
            for row, layout, one in zip(rows, layouts, variants, strict=True):
                copies = np.random.default_rng((seed, fold, draw, 2))
                counts = rank_counts(warm[one.hotter], layout.of_layers(some), copies, sources)
                row.append(_step(slowness(layout, counts, steps.batch), counts))
    return [_summed(row, layout) for row, layout in zip(rows, shapes, strict=True)]


def _some_layers(rank_loads: Array, count: int, offset: float) -> NDArray[np.int64]:
    """So many layers, by number, spread evenly over how uneven they are: rank_loads [layers, R]. [-]

    `offset` from 0 to 1 takes others in another draw [-]. A few layers drawn at random would be more or less uneven
    than the model's mean layer.
    """
    by_unevenness = np.argsort(rank_loads.max(axis=1), kind="stable")
    places = (np.arange(count) + offset) * len(by_unevenness) / count
    return np.sort(by_unevenness[places.astype(np.int64)])


def _warmed(ids: Choices, loads: Array, hotter: float, seed: tuple[int, ...]) -> Choices:
    return heated(ids, loads.argmax(axis=1), hotter, np.random.default_rng(seed)) if hotter > 0.0 else ids


def _summed(rows: list[dict[str, Array]], layout: Layout) -> Counted:
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    ranks, slots = layout.n_ranks, float(layout.n_slots)
    slowest = Uneven(
        touched=means.pop("slow_touched") / (means["touched_overall"] / ranks),
        pairs=means.pop("slow_pairs") / means["mean_pairs"],
        received=means["pairs"] / means["mean_pairs"],
        slots=slots,
    )
    means["slowness"] = np.array([row["slowness"] for row in rows])
    return Counted(layout=layout, slowest=slowest, n_draws=len(rows), **means)


def _step(slowness: Array, counts: RankCounts) -> dict[str, Array]:
    """One step's figures by number of tokens, each [t]; those of the slowest ranks [nW, t]."""
    slow = slowness.argmax(axis=3)[..., None]

    def of_slowest(values: Array) -> Array:
        whole = np.broadcast_to(values, slowness.shape)
        return np.asarray(np.take_along_axis(whole, slow, axis=3).mean(axis=(2, 3)))

    return {
        "touched": counts.touched.max(axis=2).mean(axis=1),
        "pairs": counts.pairs.max(axis=2).mean(axis=1),
        "mean_pairs": counts.pairs.mean(axis=(1, 2)),
        "touched_overall": counts.touched_overall.mean(axis=1),
        "slow_touched": of_slowest(counts.touched),
        "slow_pairs": of_slowest(counts.pairs),
        "slowness": of_slowest(slowness),
        "received_pairs": counts.received_pairs.max(axis=2).mean(axis=1),
        "received_tokens": counts.received_tokens.max(axis=2).mean(axis=1),
        "mean_received_pairs": counts.received_pairs.mean(axis=(1, 2)),
        "mean_received_tokens": counts.received_tokens.mean(axis=(1, 2)),
        "reached": counts.reached.mean(axis=1),
        "other_rank": counts.other_rank.mean(axis=1),
        "other_nodes": counts.other_nodes.mean(axis=1),
    }
