"""What is known of the experts that tokens choose: a trace, loads by layer, or no more than a preset's spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.architecture import Moe
from advisor.arrays import Array
from advisor.prediction import AdvisorError
from advisor.routing import (
    Choices,
    TraceFit,
    drawn_choices,
    expert_loads,
    fit_sequences,
    fitted_loads,
    skewed_loads,
    windows,
    write_own_routing,
)

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
    """Load variation, affinity and stickiness of `routing.touched_experts`. [-]"""
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
    warnings: tuple[str, ...] = field(default=())

    @property
    def routing(self) -> str | None:
        """Value of a scenario's `routing` as the trace gives it, None without a trace."""
        if self.fit is None:
            return None
        found = self.fit.fit
        return write_own_routing(
            (found.load_cv, found.affinity, found.stickiness),
            (found.load_cv_interval, found.affinity_interval, found.stickiness_interval),
        )

    def folds(self) -> list[tuple[Array, tuple[Choices, ...]]]:
        """Pairs of loads to plan on and sequences to judge on.

        The two halves of a trace crosswise where it has ENOUGH_TO_HALVE sequences, else all of what there is.
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
        return drawn_choices(self.loads[layers], self.n_active, batch, tokens, rng, *self.correlation)


def traffic_of_trace(
    sequences: Sequence[Choices], n_experts: int, longest: int, fit: TraceFit | None = None
) -> Traffic:
    """Choices of experts that a routing trace holds, with the loads and the fit of the trace.

    sequences : expert ids, [tokens, layers, k] each.
    longest : tokens of each sequence in a step; shorter sequences are left out. [-]
    fit : that of the trace, where it was made already.

    Raises AdvisorError for what `routing.fit_sequences` refuses, or where no sequence has `longest` tokens.
    """
    fit = fit or fit_sequences(sequences, n_experts)
    kept = tuple(ids[:, list(fit.layers)] for ids in sequences if len(ids) >= longest)
    if not kept:
        raise AdvisorError(
            f"no sequence of the trace has {longest} tokens, as many as a step verifies; give longer ones"
        )
    told = list(fit.warnings)
    if len(kept) < ENOUGH_TO_HALVE:
        told.append(
            f"{len(kept)} sequences cannot be halved: placements are planned and judged on the same tokens, so what "
            "balancing brings is overstated"
        )
    because = f"counted on {len(kept)} sequences, {len(fit.layers)} layers of your trace"
    return Traffic("trace", expert_loads(kept, n_experts), fit.n_active, because, kept, fit, warnings=tuple(told))


def traffic_of_loads(counts: Array, router: Router) -> Traffic:
    """Choices of experts to draw from each expert's load in each layer.

    counts : loads in any unit, [layers, N]. Sequences correlate as `router` says.

    Raises AdvisorError for another number of experts, negative loads, or a layer without any.
    """
    moe, counts = router.moe, np.asarray(counts, float)
    if counts.ndim != 2 or counts.shape[1] != moe.n_experts:
        raise AdvisorError(
            f"the loads have shape {counts.shape}; expected [layers, {moe.n_experts}] for {router.model}, experts that "
            "are never chosen with 0"
        )
    if not np.all(np.isfinite(counts)) or counts.min() < 0.0 or not np.all(counts.sum(axis=1) > 0.0):
        raise AdvisorError("loads must be numbers >= 0, with some load in every layer")
    loads = fitted_loads(counts, moe.n_active)
    _, phi, rho = router.spread
    because = f"drawn from your loads of {len(loads)} layers, taken to stay as they are"
    told = loads_warnings(counts, moe)
    return Traffic("loads", loads, moe.n_active, because, correlation=(phi, rho), warnings=told)


def loads_warnings(loads: Array, moe: Moe) -> tuple[str, ...]:
    """Doubts about loads of experts, [layers, N], of a model."""
    found, idle = [], int((loads.sum(axis=0) == 0.0).sum())
    if len(loads) < moe.count:
        found.append(
            f"the loads are of {len(loads)} of {moe.count:g} routed layers; the others are taken to be like them"
        )
    if idle:
        found.append(f"{idle} of {moe.n_experts} experts have no load in any layer; are the loads of this model?")
    return tuple(found)


def traffic_of_preset(router: Router, rng: np.random.Generator) -> Traffic:
    """Choices of experts to draw from a routing preset's spread of loads, hot experts placed by chance."""
    moe = router.moe
    cv, phi, rho = router.spread
    limit = float(np.sqrt(max(moe.n_experts / moe.n_active - 1.0, 0.0)))
    layers = min(int(moe.count), PRESET_LAYERS)
    loads = skewed_loads(moe.n_experts, moe.n_active, min(cv, 0.98 * limit), layers, rng)
    spread = f"lognormal loads with the spread of {router.preset} (CV {cv:.2f})"
    because = f"assumed: {spread}, which experts are hot drawn by chance"
    return Traffic("preset", loads, moe.n_active, because, correlation=(phi, rho))
