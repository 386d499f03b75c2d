"""Loads of experts, from a trace, by layer or from a preset's spread, and steps counted under a
layout of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from advisor.physics.architecture import Moe
from advisor.physics.expert_ranks import (
    Choices,
    Layout,
    RankBalance,
    RankCounts,
    Sources,
    Uneven,
    drawn_choices,
    expert_loads,
    rank_counts,
    skewed_loads,
    windows,
)
from advisor.physics.notes import Note
from advisor.prediction import AdvisorError, Array
from advisor.profiling.routing_draw import fitted_loads

if TYPE_CHECKING:
    from advisor.physics.routing_trace import TraceFit

ENOUGH_TO_HALVE = 4
"""Sequences from which on placements are planned on one half and judged on the other. [-]"""
PRESET_LAYERS = 16
"""Layers drawn where only a spread is known; they differ by chance alone. [-]"""


@dataclass(frozen=True)
class Router:
    """Choice of experts by a model's tokens, as far as a scenario knows it without counting."""

    model: str
    moe: Moe
    spread: tuple[float, float, float]
    """Load variation, affinity and stickiness of `touched_experts`. [-]"""
    preset: str
    """Name of the preset that says so, for a reader."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Choices of experts to place for and to judge on."""

    kind: Literal["trace", "loads", "preset"]
    loads: Array
    """Share of tokens that choose each expert, [layers, N]; rows sum to k. [-]"""
    n_active: int
    because: str
    """Where it comes from, for a reader."""
    sequences: tuple[Choices, ...] = ()
    """A trace's, [tokens, layers, k] each."""
    fit: TraceFit | None = None
    correlation: tuple[float, float] = (0.0, 0.0)
    """Affinity and stickiness of draws where there is no trace. [-]"""
    notes: tuple[Note, ...] = ()

    @property
    def routing(self) -> str | None:
        """Value of a scenario's `routing` as the trace gives it, None without a trace."""
        return None if self.fit is None else self.fit.fit.text

    def folds(self) -> list[tuple[Array, tuple[Choices, ...]]]:
        """Pairs of loads to plan on and sequences to judge on.

        The two halves of a trace crosswise where it has ENOUGH_TO_HALVE sequences, else all of what
        there is.
        """
        if len(self.sequences) < ENOUGH_TO_HALVE:
            return [(self.loads, self.sequences)]
        halves = self.sequences[::2], self.sequences[1::2]
        n_experts = self.loads.shape[1]
        return [(expert_loads(plan, n_experts), judge) for plan, judge in (halves, halves[::-1])]

    def choices(
        self,
        judged: tuple[Choices, ...],
        batch: int,
        tokens: int,
        layers: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Choices:
        """One step's expert ids in some layers, [B, t, layers, k]."""
        if judged:
            return windows(judged, batch, tokens, rng, layers)
        return drawn_choices(
            self.loads[layers], self.n_active, batch, tokens, rng, *self.correlation
        )


def traffic_of_trace(
    sequences: Sequence[Choices], n_experts: int, longest: int, fit: TraceFit | None = None
) -> Traffic:
    """Choices of experts that a routing trace holds, with the loads and the fit of the trace.

    sequences : expert ids, [tokens, layers, k] each.
    longest : tokens of each sequence in a step; shorter sequences are left out. [-]
    fit : that of the trace, where it was made already.

    Raises AdvisorError for what `fit_sequences` refuses, or where no sequence has `longest` tokens.
    """
    from advisor.physics.routing_trace import (
        fit_sequences,
    )  # a scenario without choices of experts needs none of it

    fit = fit or fit_sequences(sequences, n_experts)
    long_sequences = tuple(ids[:, list(fit.layers)] for ids in sequences if len(ids) >= longest)
    if not long_sequences:
        raise AdvisorError(
            f"no sequence of the trace has {longest} tokens, as many as a step verifies; give "
            "longer ones"
        )
    notes = list(fit.notes)
    if len(long_sequences) < ENOUGH_TO_HALVE:
        notes.append(Note.of("trace_not_halved", sequences=len(long_sequences)))
    because = f"counted on {len(long_sequences)} sequences, {len(fit.layers)} layers of your trace"
    return Traffic(
        "trace",
        expert_loads(long_sequences, n_experts),
        fit.n_active,
        because,
        long_sequences,
        fit,
        notes=tuple(notes),
    )


def traffic_of_loads(counts: Array, router: Router) -> Traffic:
    """Choices of experts to draw from each expert's load in each layer.

    counts : loads in any unit, [layers, N]. Sequences correlate as `router` says.

    Raises AdvisorError for another number of experts, negative loads, or a layer without any.
    """
    moe = router.moe
    counts = np.asarray(counts, float)
    if counts.ndim != 2 or counts.shape[1] != moe.n_experts:
        raise AdvisorError(
            f"the loads have shape {counts.shape}; expected [layers, {moe.n_experts}] for "
            f"{router.model}, experts that are never chosen with 0"
        )
    if (
        not np.all(np.isfinite(counts))
        or counts.min() < 0.0
        or not np.all(counts.sum(axis=1) > 0.0)
    ):
        raise AdvisorError("loads must be numbers >= 0, with some load in every layer")
    loads = fitted_loads(counts, moe.n_active)
    _, phi, rho = router.spread
    because = f"drawn from your loads of {len(loads)} layers, taken to stay as they are"
    notes = loads_notes(counts, moe)
    return Traffic("loads", loads, moe.n_active, because, correlation=(phi, rho), notes=notes)


def loads_notes(loads: Array, moe: Moe) -> tuple[Note, ...]:
    """Doubts about loads of experts, [layers, N], of a model."""
    notes = []
    idle = int((loads.sum(axis=0) == 0.0).sum())
    if len(loads) < moe.count:
        notes.append(Note.of("loads_of_some_layers", layers=len(loads), routed_layers=moe.count))
    if idle:
        notes.append(Note.of("experts_without_load", idle=idle, experts=moe.n_experts))
    return tuple(notes)


def traffic_of_preset(router: Router, rng: np.random.Generator) -> Traffic:
    """Choices of experts to draw from a routing preset's spread of loads, hot experts placed by
    chance."""
    moe = router.moe
    cv, phi, rho = router.spread
    limit = float(np.sqrt(max(moe.n_experts / moe.n_active - 1.0, 0.0)))
    layers = min(int(moe.count), PRESET_LAYERS)
    loads = skewed_loads(moe.n_experts, moe.n_active, min(cv, 0.98 * limit), layers, rng)
    spread = f"lognormal loads with the spread of {router.preset} (CV {cv:.2f})"
    because = f"assumed: {spread}, which experts are hot drawn by chance"
    return Traffic("preset", loads, moe.n_active, because, correlation=(phi, rho))


BUDGET = 1_500_000
"""Expert choices that are drawn for one answer: some seconds. [-]"""
PER_STEP = 0.4
"""Share of the budget that one step may take; layers of a larger one are drawn too. [-]"""
MOST_DRAWS = 64
WEIGHTS = (0.02, 0.25, 0.5, 0.75, 0.98)
"""Shares of serving in a rank's time that are tried; the ends are off 0 and 1, where whole numbers
tie. [-]"""
Planned = Callable[[Array], Layout]
"""A layout from the loads [layers, N] that it is planned on."""
Slowness = Callable[[Layout, RankCounts, int], Array]
"""Measures by which ranks may be slowest, [nW, t, layers, R], of a layout, counts and a batch."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of a step on ranks, for 1 to t tokens of each sequence, [t], means over draws and
    layers."""

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
    """The rank of each layer that a measure calls slowest, over the mean rank, by measure [nW,
    t]."""
    slowness: Array
    """The measure of that rank, [draws, nW, t]; of `RoutedLayer.rank_seconds` a layer's time.
    [s]"""
    received_pairs: Array
    """Largest number of messages that a rank gets where each expert's copy of a token travels.
    [-]"""
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
        """Loads of the slowest rank at the counted `batch` [-] of the instance, for
        `Placement.balance`."""
        slowest = self.slowest
        reads = slowest.touched[:, None]
        serves = slowest.pairs[:, None]
        return RankBalance(np.array([batch]), reads, serves, slowest.received[None], slowest.slots)


def by_weight(layout: Layout, counts: RankCounts, batch: int) -> Array:  # noqa: ARG001
    """Slowness of each rank for several costs of reading against serving, [nW, t, layers, R]. [-]

    A rank's time is nearly a weighted sum of both, so that whichever costs hold, one of WEIGHTS
    nearly finds its slowest rank; counts that rest on them serve every machine.
    """
    reads = counts.touched / counts.touched.mean(axis=2, keepdims=True)
    serves = counts.pairs / counts.pairs.mean(axis=2, keepdims=True)
    weight = np.asarray(WEIGHTS)[:, None, None, None]
    return (1.0 - weight) * reads + weight * serves


@dataclass(frozen=True)
class Steps:
    """Steps to count: `batch` sequences of 1 to `tokens` tokens each, all lengths of one draw.
    [-]"""

    batch: int
    tokens: int
    budget: int = BUDGET
    """Expert choices that may be drawn. [-]"""
    least_draws: int = 4
    least_layers: int = 4

    def n_draws(self, traffic: Traffic) -> tuple[int, int]:
        """Steps to draw in each fold, and layers of each step, within the budget. [-]"""
        choices_per_layer = self.batch * self.tokens * traffic.n_active
        present = len(traffic.loads)
        layers = int(
            np.clip(
                PER_STEP * self.budget // choices_per_layer,
                min(self.least_layers, present),
                present,
            )
        )
        return int(
            np.clip(
                self.budget // (choices_per_layer * layers) // len(traffic.folds()),
                self.least_draws,
                MOST_DRAWS,
            )
        ), layers


def counted(
    slowness: Slowness, traffic: Traffic, plans: Sequence[Planned], sources: Sources, steps: Steps
) -> list[Counted]:
    """Count the same steps under each layout, planned on one half of the traffic and judged on the
    other."""
    draws, n_layers = steps.n_draws(traffic)
    rows: list[list[dict[str, Array]]] = [[] for _ in plans]
    shapes: list[Layout] = []
    for fold, (loads, judged) in enumerate(traffic.folds()):
        layouts = [planned(loads) for planned in plans]
        shapes = shapes or layouts
        for draw in range(draws):
            rng = np.random.default_rng((0, fold, draw))
            some = _some_layers(layouts[0].rank_loads(loads), n_layers, (draw + 0.5) / draws)
            ids = traffic.choices(judged, steps.batch, steps.tokens, some, rng)
            for row, layout in zip(rows, layouts, strict=True):
                copies = np.random.default_rng((0, fold, draw, 2))
                counts = rank_counts(ids, layout.of_layers(some), copies, sources)
                row.append(_step(slowness(layout, counts, steps.batch), counts))
    return [_summed(row, layout) for row, layout in zip(rows, shapes, strict=True)]


def _some_layers(rank_loads: Array, count: int, offset: float) -> NDArray[np.int64]:
    """So many layers, by number, spread evenly over how uneven they are: rank_loads [layers, R].
    [-]

    `offset` from 0 to 1 takes others in another draw [-]. A few layers drawn at random would be
    more or less uneven than the model's mean layer.
    """
    by_unevenness = np.argsort(rank_loads.max(axis=1), kind="stable")
    places = (np.arange(count) + offset) * len(by_unevenness) / count
    return np.sort(by_unevenness[places.astype(np.int64)])


def _summed(rows: list[dict[str, Array]], layout: Layout) -> Counted:
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    ranks = layout.n_ranks
    slots = float(layout.n_slots)
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

    loads = {
        "touched": counts.touched.max(axis=2).mean(axis=1),
        "pairs": counts.pairs.max(axis=2).mean(axis=1),
        "mean_pairs": counts.pairs.mean(axis=(1, 2)),
        "touched_overall": counts.touched_overall.mean(axis=1),
        "slow_touched": of_slowest(counts.touched),
        "slow_pairs": of_slowest(counts.pairs),
        "slowness": of_slowest(slowness),
    }
    received = {
        "received_pairs": counts.received_pairs.max(axis=2).mean(axis=1),
        "received_tokens": counts.received_tokens.max(axis=2).mean(axis=1),
        "mean_received_pairs": counts.received_pairs.mean(axis=(1, 2)),
        "mean_received_tokens": counts.received_tokens.mean(axis=(1, 2)),
    }
    exchanged = {
        "reached": counts.reached.mean(axis=1),
        "other_rank": counts.other_rank.mean(axis=1),
        "other_nodes": counts.other_nodes.mean(axis=1),
    }
    return loads | received | exchanged
