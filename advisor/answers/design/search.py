"""Every design of a grid, costed, held to the baseline's quality and ranked; cuts through what is
found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import k_running_at
from advisor.answers.by_batch import schedule_for
from advisor.answers.design.grid import (
    CONSTRAINTS,
    MAX_DESIGNS,
    TARGET_SHARE,
    DesignGrid,
    Mixes,
    Question,
    bodies,
    make_question,
    mixes,
    shared_experts,
    widths,
)
from advisor.answers.design.space import (
    Baseline,
    Body,
    DesignSpace,
    Served,
    Sizes,
    Touched,
    arms,
    carried,
    law_ratios,
    make_body,
    measured_gap,
    over_widths,
    quality_of,
    served,
    sizes,
    touched_by,
)
from advisor.catalog.routing_shift import shifted_routing
from advisor.physics.architecture import parameter_counts
from advisor.physics.quality import GuardRails, Shape, activation_ratio, granularity
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup, without_own_loads
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup, by_form
from advisor.prediction import AdvisorError, Array

_SLACK = 1e-6
"""The baseline keeps its own quality whatever the rounding of single precision. [-]"""
_MAX_CELLS = 400_000_000
"""Designs times batches times draft lengths of one search: 20 s on one Xeon core in November 2026
(40 to 50 ns each, 1.7 to 3.1 million designs and batches at eight lengths), so that it ends within
a minute beside another. [-]"""


def design_space(
    scenario: Scenario | Setup,
    *,
    batches: Sequence[int] | Mapping[int, float] | None = None,
    grid: DesignGrid | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    **question: Any,
) -> DesignSpace:
    """Cost every design of a grid around the scenario's model and rank those that keep its quality.

    scenario : baseline model, accelerator, placement, drafter, acceptance; or a Setup.
    grid : numbers of experts, widths, depths to combine.
    on_progress : gets the share of bodies (depths and heads) done, before each; it may raise to end
        the search. [-]
    batches, question : as of `make_question`.
    Raises AdvisorError for a dense baseline, a search too large, and as `make_question` does.
    """
    # Loads of the baseline's experts say nothing of another number of experts.
    measured_setup = without_own_loads(
        scenario if isinstance(scenario, Setup) else load_setup(scenario)
    )
    # All designs are costed by the fit alone: measured rows, which few shapes have, would not
    # compare with it.
    setup = by_form(measured_setup)
    moe = setup.architecture.moe
    if moe is None:
        raise AdvisorError(
            f"{setup.architecture.name} is dense; give a mixture-of-experts model as the baseline"
        )
    checked_question = make_question(setup, batches, **question)
    grid = grid or DesignGrid()
    stacks = tuple(make_body(setup, body) for body in bodies(grid, setup.architecture))
    drafts = np.arange(1, (setup.scenario.k_max if setup.drafter.kind != "none" else 0) + 1)
    start = as_served(measured_setup, checked_question.batches, checked_question.batches.max())
    baseline = _baseline(stacks[0], checked_question, drafts, start)
    rails, notes = GuardRails().relaxed_to(baseline.shape)
    mix = mixes(grid, moe, setup.placement)
    steps = [widths(grid, stack.architecture, setup.placement) for stack in stacks]
    _check_size(len(mix) * sum(map(len, steps)), len(checked_question.batches), len(drafts))
    routing = shifted_routing(setup.routing, baseline.counts, *mix.counts)
    search = _Search(
        checked_question,
        baseline,
        rails,
        mix,
        touched_by(setup, mix, routing, checked_question.batches, drafts),
        drafts,
    )
    columns = _every_body(search, stacks, steps, on_progress)
    return DesignSpace(
        setup,
        checked_question,
        grid,
        stacks,
        baseline,
        rails,
        notes,
        drafts,
        **columns,
        measured_setup=measured_setup,
        gap=measured_gap(measured_setup, setup, checked_question.batches),
    )


def as_served(setup: Setup, batches: Array, target: float) -> Served:
    """Figures of a setup at each batch [nB], as Serve has them, [nB, 1].

    Each at the K that the configuration for batch `target` runs there, or where a batch does not
    fit, at the best.
    """
    scenario = setup.scenario.model_copy(update={"batch_size": int(target)})
    schedule = schedule_for(replace(setup, scenario=scenario))
    curve = curve_for(
        schedule.setup, batches, np.arange(schedule.curve.drafts[-1] + 1), central_only=True
    )
    fits = batches <= setup.memory.largest_batch
    n_draft = np.where(
        fits, k_running_at(schedule.to_serve, batches), curve.speedup.argmax(axis=1)
    )[:, None]
    speedup = np.take_along_axis(curve.speedup, n_draft, axis=1)
    tpot_s = np.take_along_axis(curve.tpot_s, n_draft, axis=1)
    return Served(speedup, tpot_s, n_draft.astype(np.int16))


def _every_body(
    search: _Search,
    stacks: Sequence[Body],
    steps: Sequence[Array],
    on_progress: Callable[[float], None],
) -> dict[str, Any]:
    """Columns of the designs of all bodies, one body after the other."""
    parts = []
    for index, (stack, width) in enumerate(zip(stacks, steps, strict=True)):
        on_progress(index / len(stacks))
        parts.append(_evaluate(search, index, stack, width))
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def _check_size(n_designs: int, n_batches: int, n_drafts: int) -> None:
    """Raises AdvisorError for a search that would take too long."""
    if n_designs > MAX_DESIGNS or n_designs * n_batches * n_drafts > _MAX_CELLS:
        raise AdvisorError(
            f"{n_designs:,} designs at {n_batches} batches and {n_drafts} draft lengths are too "
            f"many for one search (at most {MAX_DESIGNS:,} designs, {_MAX_CELLS:,} combinations); "
            "thin grid or batches"
        )


@dataclass(frozen=True)
class _Search:
    """What all bodies of a search share."""

    question: Question
    baseline: Baseline
    rails: GuardRails
    mix: Mixes
    touched: Touched
    drafts: NDArray[np.int64]


def _evaluate(search: _Search, index: int, body: Body, width: Array) -> dict[str, NDArray]:
    """All designs of one body: [n mixes x n widths], flattened."""
    question = search.question
    mix = search.mix
    column = Mixes(mix.n_experts[:, None], mix.n_active[:, None], mix.n_shared[:, None])
    size = sizes(body, column, width, question.max_memory_bytes)
    active = size.weights.active
    total = size.weights.total
    quality = law_ratios(body, search.baseline, column, width, size.weights, question).astype(
        np.float32
    )
    broken, violation = _broken(search, body, column, width, size, quality.min(axis=0))
    # Single precision halves the memory of millions of designs, and is finer than any error of the
    # model.
    n_batches = len(question.batches)
    gpus = body.setup.placement.gpus
    speedup = np.empty((n_batches, *active.shape), np.float32)
    tpot = np.empty((n_batches, *active.shape), np.float32)
    n_draft = np.empty((n_batches, *active.shape), np.int16)
    score = np.empty(active.shape)
    for block, served_block in over_widths(
        body, mix, width, search.touched, question.batches, search.drafts
    ):
        as_start = carried(search.baseline.served, search.baseline.by_fit, served_block)
        speedup[:, block] = as_start.speedup
        tpot[:, block] = as_start.tpot_s
        n_draft[:, block] = as_start.n_draft
        score[block] = question.score(gpus, as_start.speedup, as_start.tpot_s)
    if question.max_tpot_s is not None:
        over = tpot.max(axis=0) / question.max_tpot_s
        broken |= (over > 1.0).astype(np.uint16) << CONSTRAINTS.index("tpot")
        violation += np.log(np.maximum(over, 1.0))
    columns: dict[str, NDArray] = {
        "body": np.full(active.shape, index, np.int8),
        "n_experts": column.n_experts.astype(np.int32),
        "n_active": column.n_active.astype(np.int32),
        "n_shared": column.n_shared.astype(np.float32),
        "expert_width": width.astype(np.int32),
    }
    columns |= {
        "total_params": total,
        "active_params": active,
        "largest_batch": size.largest_batch.astype(np.float32),
        "failed": broken,
        "violation": violation,
        "score": score,
    }
    flat = {
        name: np.ascontiguousarray(np.broadcast_to(values, active.shape)).reshape(-1)
        for name, values in columns.items()
    }
    rows = {"speedup": speedup, "tpot_s": tpot, "n_draft": n_draft, "quality": quality}
    return flat | {name: values.reshape(len(values), -1) for name, values in rows.items()}


def _broken(
    search: _Search, body: Body, mix: Mixes, width: Array, size: Sizes, quality: Array
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Bits of the constraints each design breaks, and the sum of how far, `quality` by the lowest
    law. [n, nW] each."""
    question = search.question
    shape = Shape(
        activation_ratio(*mix.counts),
        granularity(body.architecture.hidden_size, width),
        size.weights.attention / size.weights.active,
        mix.shared_share,
        mix.n_active,
    )
    # Logarithms of ratios, so that constraints in different units can be added up.
    beyond = search.rails.violations(shape)
    floor = (1.0 - question.quality_eps) * (1.0 - _SLACK)
    beyond["quality"] = np.log(np.maximum(floor / np.maximum(quality, 1e-6), 1.0))
    if question.max_total_params is not None:
        beyond["total_params"] = np.log(
            np.maximum(size.weights.total / question.max_total_params, 1.0)
        )
    if question.max_training_cost is not None:
        cost = size.weights.active / search.baseline.active_params
        beyond["training_cost"] = np.log(np.maximum(cost / question.max_training_cost, 1.0))
    for name, value, target in (
        ("total_target", size.weights.total, question.target_total_params),
        ("active_target", size.weights.active, question.target_active_params),
    ):
        if target is not None:
            off = np.abs(np.log(value / target)) - np.log1p(TARGET_SHARE)
            beyond[name] = np.maximum(off, 0.0)
    groups = body.setup.placement.attention_groups
    need = size.bytes_each_gpu + body.cache_bytes_per_sequence * question.batches.max() / groups
    beyond["memory"] = np.log(np.maximum(need / size.usable_bytes, 1.0))
    bits = np.zeros(quality.shape, np.uint16)
    total = np.zeros(quality.shape, np.float32)
    for name, excess in beyond.items():
        bits |= (excess > 0).astype(np.uint16) << CONSTRAINTS.index(name)
        total += excess.astype(np.float32)
    return bits, total


def _baseline(body: Body, question: Question, drafts: NDArray[np.int64], start: Served) -> Baseline:
    setup = body.setup
    moe = body.architecture.routed
    shared = shared_experts(moe)
    mix = Mixes.of(moe.n_experts, moe.n_active, shared)
    width = np.array([float(moe.expert_width)])
    counts = parameter_counts(body.architecture)
    active = np.array([counts.active_nonembedding])
    routing = shifted_routing(setup.routing, (moe.n_experts, moe.n_active, shared), *mix.counts)
    touched = touched_by(setup, mix, routing, question.batches, drafts)
    by_fit = served(setup, arms(body, mix, width, touched, question.batches, drafts), drafts)
    activation = activation_ratio(*mix.counts)
    shape = Shape(
        activation,
        granularity(body.architecture.hidden_size, width),
        np.array([counts.attention / counts.active_nonembedding]),
        mix.shared_share,
        mix.n_active,
    )
    scalar_shape = Shape(*(np.asarray(values).reshape(()) for values in vars(shape).values()))
    score = question.score(setup.placement.gpus, start.speedup, start.tpot_s)
    return Baseline(
        n_experts=moe.n_experts,
        n_active=moe.n_active,
        n_shared=shared,
        expert_width=moe.expert_width,
        total_params=float(counts.total),
        active_params=float(counts.active_nonembedding),
        activation=float(activation[0]),
        dense_equivalent=float(quality_of(body, mix, width, active, question)[0]),
        shape=scalar_shape,
        served=start,
        by_fit=by_fit,
        score=float(score[0]),
    )


_DISTINCT = 0.5
"""Designs closer than this, in octaves of N and k and quarters of S together, count as one answer.
[-]"""


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
    """Designs [n] at any batches. skew, correlation : ends of the routing band of load, of affinity
    and stickiness."""
    per_end = {
        end: shifted_routing(space.setup.routing, space.baseline.counts, *mix.counts, end)
        for end in {skew, correlation}
    }
    routing = replace(per_end[correlation], load_cv=per_end[skew].load_cv)
    touched = touched_by(body.setup, mix, routing, batches, space.drafts)
    return served(body.setup, arms(body, mix, width, touched, batches, space.drafts), space.drafts)


def best_of_each_mix(space: DesignSpace) -> NDArray[np.intp]:
    """The candidate of the best width of each (body, N, k, s), best first."""
    rising = np.flatnonzero(space.failed == 0)
    mixes = space.mixes_of(rising)
    group = np.zeros(len(rising), np.int64)
    group[1:] = np.cumsum(np.any(mixes[:, 1:] != mixes[:, :-1], axis=0))
    order = np.argsort(-space.score[rising], kind="stable")
    _, first = np.unique(group[order], return_index=True)
    return np.asarray(rising[order[np.sort(first)]])


def pareto_front(space: DesignSpace, count: int = 200) -> NDArray[np.intp]:
    """Designs, at most `count`, that no other beats in both lowest law and objective, best quality
    first."""
    index = np.flatnonzero(space.keeps_apart_from("quality"))
    quality = space.quality[:, index].min(axis=0)
    order = index[np.lexsort((-space.score[index], -quality))]
    best = np.maximum.accumulate(space.score[order])
    front = (
        order[np.concatenate([[True], space.score[order][1:] > best[:-1]])] if len(order) else order
    )
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
            [
                np.log2(mix.n_experts[0]),
                np.log2(mix.n_active[0]),
                4.0 * mix.shared_share[0],
                10.0 * space.body[index],
            ]
        )
        if not len(chosen) or np.linalg.norm(marks - mark, axis=1).min() >= _DISTINCT:
            chosen.append(int(index))
            marks = np.vstack([marks, mark])
        if len(chosen) == count:
            break
    return chosen
