"""Cuts through a design space: k/N over batch, shared over routed, granularity, single changes, quality and speed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.design.evaluate import Body, Served, arms, quality_of, served, sizes, touched_by
from advisor.design.grid import Mixes, widths
from advisor.design.routing_shift import shifted_routing
from advisor.design.space import DesignSpace

SWEEP_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_BINS_PER_OCTAVE = 2
_DISTINCT = 0.5
"""Designs closer than this, in octaves of N and k and quarters of S together, count as one answer. [-]"""
_FINENESS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class DesignLine:
    """Designs along one line [n] over batches [nB], at the best K of each point. Times in seconds."""

    mix: Mixes
    expert_width: Array
    batches: Array
    speedup: Array
    """Speedup of each design at each batch, [nB, n]."""
    tpot_s: Array
    n_draft: NDArray[np.int16]
    quality_ratio: Array
    """Dense-equivalent size over the baseline's, [n]."""
    loss_difference: Array
    """Second law, nats per token against the baseline, [n]: contested, shown beside the rest."""
    largest_batch: Array


def serve(
    space: DesignSpace,
    body: Body,
    mix: Mixes,
    width: Array,
    batches: Array,
    *,
    skew: str = "value",
    correlation: str = "value",
) -> Served:
    """Designs [n] at any batches, outside the grid too.

    skew, correlation : ends of the routing band that expert load, and affinity and stickiness, are taken from.
    """
    per_end = {
        end: shifted_routing(space.setup.routing, space.baseline.counts, mix.n_experts, mix.n_active, mix.n_shared, end)
        for end in {skew, correlation}
    }
    routing = replace(per_end[correlation], load_cv=per_end[skew].load_cv)
    touched = touched_by(body.setup, mix, routing, batches, space.drafts)
    return served(body.setup, arms(body, mix, width, touched, batches, space.drafts), space.drafts)


def sweep(space: DesignSpace, mix: Mixes, width: Array, batches: Array) -> DesignLine:
    """Designs of the baseline's own depth and attention."""
    body = space.bodies[0]
    found = serve(space, body, mix, width, batches)
    size = sizes(body, mix, width, space.question.memory_limit_bytes)
    total, active = size.weights.total, size.weights.active
    return DesignLine(
        mix=mix,
        expert_width=width,
        batches=batches,
        speedup=found.speedup,
        tpot_s=found.tpot_s,
        n_draft=found.n_draft,
        quality_ratio=quality_of(body, mix, width, active, space.question) / space.baseline.dense_equivalent,
        loss_difference=space.loss_difference(0, total, active, mix.n_active, mix.n_shared),
        largest_batch=size.largest_batch,
    )


def shared_sweep(space: DesignSpace, batches: tuple[int, ...] = SWEEP_BATCHES) -> DesignLine:
    """Experts turned from routed into shared, one after the other, with active and total parameters held.

    k + s and N + s stay the baseline's, so the default law sees no difference; the second law's is given. With expert
    parallelism N stays instead, because it must divide over the ranks.
    """
    n, k, s = space.baseline.counts
    shared = np.arange(s % 1.0, k + s - 1.0 + 1e-9)
    experts = n + s - shared if space.setup.placement.expert_parallel == 1 else np.full_like(shared, n)
    mix = Mixes(experts, k + s - shared, shared)
    width = np.full(len(mix), float(space.baseline.expert_width))
    return sweep(space, mix, width, np.array(batches, float))


def granularity_sweep(space: DesignSpace, batches: tuple[int, ...] = SWEEP_BATCHES) -> DesignLine:
    """Experts cut finer or joined, N and k together, the width solved to equal quality.

    Those without a solution are left out.
    """
    n, k, s = space.baseline.counts
    factor = np.array(_FINENESS)
    whole = (k * factor == np.floor(k * factor)) & (n * factor == np.floor(n * factor)) & (k * factor >= 1)
    whole &= (n * factor) % space.setup.placement.expert_parallel == 0
    factor = factor[whole]
    mix = Mixes(n * factor, k * factor, s * factor)
    width, solved = equal_quality_width(space, mix)
    return sweep(space, mix.take(solved), width[solved], np.array(batches, float))


def equal_quality_width(space: DesignSpace, mix: Mixes) -> tuple[Array, NDArray[np.intp]]:
    """Narrowest width of the grid that keeps the baseline's quality, and the designs that have one. [n], [<= n]"""
    body = space.bodies[0]
    steps = widths(space.grid, body.architecture, space.setup.placement)
    column = Mixes(mix.n_experts[:, None], mix.n_active[:, None], mix.n_shared[:, None])
    floor = (1.0 - space.question.quality_eps) * space.baseline.dense_equivalent
    keeps = quality_of(body, column, steps, sizes(body, column, steps).weights.active, space.question) >= floor
    return steps[keeps.argmax(axis=1)], np.flatnonzero(keeps.any(axis=1))


@dataclass(frozen=True)
class HeatMap:
    """Best feasible design for each k/N (half-octave bins) at each batch, [n ratios, nB].

    NaN where none fits.
    """

    ratio: Array
    """Middle of the bin. [-]"""
    batches: Array
    speedup: Array
    tpot_s: Array
    design: NDArray[np.int64]
    """Index into the space; -1: none."""


def heat_map(space: DesignSpace, batches: tuple[int, ...] = SWEEP_BATCHES) -> HeatMap:
    """k/N over batch: each cell is its own search, by the question's objective at that batch alone."""
    found = space.contenders
    size = np.array(batches, float)
    mix = space.mix(found)
    level = np.round(np.log2(mix.n_active / mix.n_experts) * _BINS_PER_OCTAVE).astype(int)
    bins = np.unique(level)
    gain, tpot = serve_many(space, found, size)
    fits = space.largest_batch[found][None, :] >= size[:, None]
    merit = np.where(fits, gain if space.question.objective == "sd_speedup" else 1.0 / tpot, -np.inf)
    shape = (len(bins), len(size))
    speedup, times, design = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, -1, np.int64)
    for row, bin_level in enumerate(bins):
        members = np.flatnonzero(level == bin_level)
        top = members[merit[:, members].argmax(axis=1)]
        column = np.flatnonzero(np.isfinite(merit[np.arange(len(size)), top]))
        top = top[column]
        speedup[row, column], times[row, column] = gain[column, top], tpot[column, top]
        design[row, column] = found[top]
    return HeatMap(2.0 ** (bins / _BINS_PER_OCTAVE), size, speedup, times, design)


def serve_many(space: DesignSpace, indices: NDArray[np.intp], batches: Array) -> tuple[Array, Array]:
    """(speedup, time per token [s]) of designs of the space at any batches, [nB, n]."""
    gain, tpot = (np.empty((len(batches), len(indices))) for _ in range(2))
    for body in np.unique(space.body[indices]):
        at = np.flatnonzero(space.body[indices] == body)
        chosen = indices[at]
        width = space.expert_width[chosen].astype(float)
        found = serve(space, space.bodies[body], space.mix(chosen), width, batches)
        gain[:, at], tpot[:, at] = found.speedup, found.tpot_s
    return gain, tpot


@dataclass(frozen=True)
class DesignChange:
    """One change to the baseline with the width solved to equal quality, and what it does."""

    what: str
    index: int
    objective_gain: float
    speedup_gain: float
    tpot_gain: float


def try_next(space: DesignSpace, count: int = 6) -> list[DesignChange]:
    """Single changes of a design that help the objective most, ranked.

    Of N, k, s, depth or heads, one of each kind and value.

    Each has its best width.
    """
    own, found = space.baseline, best_of_each_mix(space)
    n, k, s = own.counts
    same_n, same_k = space.n_experts[found] == n, space.n_active[found] == k
    same_s, same_body = space.n_shared[found] == np.float32(s), space.body[found] == 0
    alike = same_n.astype(int) + same_k + same_s + same_body
    moved = found[alike == 3]
    weight = space.question.batch_weights[:, None]
    own_speed = own.served.speedup[:, 0], own.served.tpot_s[:, 0]
    times = (weight * space.tpot_s[:, moved]).sum(0)
    plain = (weight * space.tpot_s[:, moved] * space.speedup[:, moved]).sum(0)
    base_speedup, base_time = space.question.mean_speedup(*own_speed), space.question.mean_tpot_s(own_speed[1])
    changes = [
        DesignChange(
            what=_what_changed(space, int(index)),
            index=int(index),
            objective_gain=float(space.score[index]) / own.score,
            speedup_gain=float(plain[i] / times[i]) / base_speedup,
            tpot_gain=base_time / float(times[i]),
        )
        for i, index in enumerate(moved)
        if space.score[index] > own.score
    ]
    return sorted(changes, key=lambda change: -change.objective_gain)[:count]


def best_of_each_mix(space: DesignSpace) -> NDArray[np.intp]:
    """The candidate of the best width of each (body, N, k, s), best first."""
    rising = np.flatnonzero(space.failed == 0)
    mixes = space.mixes_of(rising)
    group = np.zeros(len(rising), np.int64)
    group[1:] = np.cumsum(np.any(mixes[:, 1:] != mixes[:, :-1], axis=0))
    order = np.argsort(-space.score[rising], kind="stable")
    _, first = np.unique(group[order], return_index=True)
    return np.asarray(rising[order[np.sort(first)]])


def _what_changed(space: DesignSpace, index: int) -> str:
    own, width = space.baseline, space.expert_width[index]
    pairs = (
        ("experts", own.n_experts, space.n_experts[index]),
        ("active experts", own.n_active, space.n_active[index]),
        ("shared experts", own.n_shared, float(space.n_shared[index])),
    )
    for name, old, new in pairs:
        if new != np.float32(old):
            return f"{name} {old:g} -> {new:g}, width {own.expert_width} -> {width}"
    return f"{space.bodies[space.body[index]].architecture.name}, width {own.expert_width} -> {width}"


def pareto_front(space: DesignSpace, count: int = 200) -> NDArray[np.intp]:
    """Designs that no other beats in both dense-equivalent size and the objective.

    From best quality to best objective.

    All widths within every constraint but equal quality compete; at most `count`, evenly thinned.
    """
    others = ~np.uint16(1)
    index = np.flatnonzero((space.failed & others) == 0)
    order = index[np.lexsort((-space.score[index], -space.dense_equivalent[index]))]
    best = np.maximum.accumulate(space.score[order])
    front = order[np.concatenate([[True], space.score[order][1:] > best[:-1]])] if len(order) else order
    if len(front) > count:
        front = front[np.unique(np.linspace(0, len(front) - 1, count).round().astype(int))]
    return front


def distinct_candidates(space: DesignSpace, count: int) -> list[int]:
    """The best feasible designs that differ from each other in kind, best first."""
    chosen: list[int] = []
    marks = np.empty((0, 4))
    for index in best_of_each_mix(space):
        mix = space.mix([int(index)])
        mark = np.array(
            [np.log2(mix.n_experts[0]), np.log2(mix.n_active[0]), 4.0 * mix.shared_share[0], 10.0 * space.body[index]]
        )
        if not len(chosen) or np.linalg.norm(marks - mark, axis=1).min() >= _DISTINCT:
            chosen.append(int(index))
            marks = np.vstack([marks, mark])
        if len(chosen) == count:
            break
    return chosen
