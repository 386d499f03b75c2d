"""Laws that hold for every setup: bytes, formats, length, tokens, accepted length, K by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from advisor.answers.by_batch import ranges_of
from advisor.answers.design.answer import with_bandwidth
from advisor.catalog.kernel_choice import SLOW_TIMES, routed_roofline
from advisor.catalog.kernel_costs import kernel_costs
from advisor.catalog.measured_shapes import with_measured_shape
from advisor.catalog.models import load_model, model_ids
from advisor.physics import laws
from advisor.physics.architecture import WeightDtype, weight_bytes_by_component
from advisor.physics.hardware import Hardware, hardware_ids, load_hardware
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.step import MoeShape, Placement, expert_shape, routed_time
from advisor.predict.curve import Curve, batches_with, curve_for, graph_edges
from advisor.predict.setup import Setup
from advisor.prediction import Array
from studies.setups import (
    BATCH,
    COUNT,
    ENGINES,
    LONGEST_DRAFT,
    every_setup,
    named_setups,
    with_changes,
)

SAMPLE = range(0, COUNT, 10)
FORMATS: tuple[WeightDtype, ...] = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4")
BATCHES = (1, 2, 4, 8, 16, 24, 32)
LARGEST_FALL = 0.03
"""What interpolation between measured sizes may leave, as in test_monotone_scans. [-]"""
TOKENS: Array = 2.0 ** np.arange(3, 10, dtype=np.float64)


@lru_cache(maxsize=1)
def setups() -> dict[str, Setup]:
    return named_setups()


def setup_at(place: int) -> Setup:
    return list(setups().values())[place]


def placed() -> list[object]:
    """Places of the named setups: a sample, and the others as thorough tests."""
    return [
        pytest.param(place, marks=() if place in SAMPLE else pytest.mark.thorough)
        for place in range(COUNT)
    ]


def test_one_hundred_and_twenty_setups_have_names_of_their_own() -> None:
    assert len(setups()) == COUNT
    assert sum(setup.graphs is not None for setup in setups().values()) >= 20
    assert {setup.scenario.engine for setup in setups().values()} == set(ENGINES)


def holds_its_bytes(setup: Setup) -> None:
    curve = curve_for(setup, BATCHES, [0], central_only=True)
    parts = weight_bytes_by_component(setup.architecture)
    read = sum(parts.get(name, 0.0) for name in ("attention", "shared", "dense", "router"))
    moe = setup.architecture.moe
    touched = curve.touched_plain / moe.n_experts if moe is not None else 0.0
    read_bytes = (read + parts.get("routed", 0.0) * touched) / setup.placement.gpus
    assert np.all(curve.plain_step_s >= read_bytes / setup.hardware.bandwidth_bytes_per_s.value)


def grows_with_its_work(setup: Setup) -> None:
    curve = curve_for(setup, BATCHES, central_only=True)
    for times, axis in (
        (curve.plain_step_s, 0),
        (curve.round_s, 0),
        (curve.round_s[:, 1:], 1),
    ):
        fall = 1.0 - times / np.maximum.accumulate(times, axis=axis)
        assert fall.max() < LARGEST_FALL
    longer = with_changes(setup, context_tokens=2 * setup.scenario.context_tokens)
    after = curve_for(longer, BATCHES, central_only=True)
    assert np.all(after.plain_step_s >= curve.plain_step_s)
    assert np.all(after.round_s >= curve.round_s)


def gains_with_the_accepted_length(setup: Setup) -> None:
    before = curve_for(setup, BATCHES, central_only=True)
    more = curve_for(with_changes(setup, acceptance="2.8@3"), BATCHES, central_only=True)
    assert np.all(more.speedup >= before.speedup)


def waits_longer_for_slower_memory(setup: Setup) -> None:
    before = curve_for(setup, BATCHES, central_only=True)
    slower = replace(
        setup,
        costs=with_bandwidth(setup.costs, 0.5),
        draft_costs=with_bandwidth(setup.draft_costs, 0.5),
    )
    after = curve_for(slower, BATCHES, central_only=True)
    assert np.all(after.plain_step_s >= before.plain_step_s)
    assert np.all(after.round_s >= before.round_s)


LARGEST_JUMP = 0.05
"""What the log speedup may move between two batches beyond the slope on both sides. [-]"""


def jumps_for_a_reason(setup: Setup) -> None:
    grid = batches_with(*graph_edges(setup))
    grid = grid[grid <= min(512, max(setup.memory.largest_batch, BATCH))]
    curve = curve_for(setup, grid, [0, 1, 3, LONGEST_DRAFT], central_only=True)
    moved = np.diff(np.log(curve.speedup), axis=0)
    doublings = np.log2(grid[1:] / grid[:-1])[:, None]
    slope = moved / doublings
    before = moved[1:-1] - slope[:-2] * doublings[1:-1]
    after = moved[1:-1] - slope[2:] * doublings[1:-1]
    jumped = np.minimum(np.abs(before), np.abs(after)) > LARGEST_JUMP
    # One and two sequences touch their first experts, and no kernel is full.
    jumped &= (grid[1:-2] >= 4.0)[:, None]
    unnamed = [
        (int(grid[place + 1]), int(curve.drafts[column]))
        for place, column in np.argwhere(jumped)
        if not reasons_of_jump(setup, curve, place + 1, column)
    ]
    assert not unnamed, unnamed


def reasons_of_jump(setup: Setup, curve: Curve, place: int, column: int) -> set[str]:
    """Why a speedup may jump between the batch at `place` and the next: another captured graph or
    none, a step of a measured kernel, ranks on another node."""
    pair = slice(place, place + 2)
    tokens = np.outer(curve.batches[pair], [1.0, curve.drafts[column] + 1.0])
    reasons = set()
    if curve.eager is not None and curve.padding is not None:
        outside = curve.eager[pair][:, [0, column]]
        padding = curve.padding[pair][:, [0, column]]
        if (outside[0] != outside[1]).any() or not np.allclose(padding[0], padding[1]):
            reasons.add("graph edge")
    width = setup.architecture.hidden_size
    routed = setup.costs.routed.measured
    links = [cost.factor(2.0 * width * tokens) for cost in setup.costs.all_reduce.values()]
    measured = [*links, *([] if routed is None else [routed.factor(tokens)])]
    if any(np.abs(np.diff(np.log(factor), axis=0)).max() > 0.01 for factor in measured):
        reasons.add("kernel step")
    return reasons if setup.costs.network is None else reasons | {"node"}


def falls_beyond_the_edges(setup: Setup) -> None:
    edges = graph_edges(setup)
    ranges = ranges_of(setup, curve_for(setup, batches_with(*edges)))
    last = max([*edges, last_kernel_edge(setup)])
    rises = [
        after.batch_start for before, after in pairwise(ranges) if after.n_draft > before.n_draft
    ]
    assert all(batch <= last for batch in rises), (rises, last)


def last_kernel_edge(setup: Setup) -> int:
    """Last batch at which the tokens of a round enter a part in which a kernel's measured factor
    rises, or touched experts still do, by 1 % a doubling. [-]"""
    moe = MoeShape.of(setup.architecture)
    if moe is None:
        return 0
    tokens: Array = 2.0 ** np.arange(0, 14, 0.25, dtype=np.float64)
    routed = setup.costs.routed
    active = float(np.asarray(moe.n_active))
    touched = laws.uniform_experts(float(np.asarray(moe.n_experts)), active, tokens)
    rows = laws.rows_per_expert(tokens, active, touched)
    factor = routed.correction(rows) if routed.measured is None else routed.measured.factor(tokens)
    rising = np.abs(np.diff(np.log(factor))) * 4.0 > 0.01
    rising |= np.diff(np.log(touched)) * 4.0 > 0.01
    return int(tokens[1:][rising].max(initial=0.0))


LAWS = (
    holds_its_bytes,
    grows_with_its_work,
    gains_with_the_accepted_length,
    waits_longer_for_slower_memory,
    jumps_for_a_reason,
    falls_beyond_the_edges,
)


@pytest.mark.parametrize("place", placed())
@pytest.mark.parametrize("law", LAWS)
def test_a_named_setup_keeps_the_laws(law: Callable[[Setup], None], place: int) -> None:
    law(setup_at(place))


@pytest.mark.thorough
def test_every_model_on_every_accelerator_under_every_engine_keeps_the_laws() -> None:
    judged = 0
    for name, setup in every_setup():
        for law in LAWS[:4]:
            try:
                law(setup)
            except AssertionError as error:
                raise AssertionError(f"{name}: {law.__name__}") from error
        judged += 1
    assert judged > 1000


def measured_accelerators() -> dict[str, Hardware]:
    """One accelerator for each device whose kernels were measured."""
    parts = [load_hardware(name) for name in hardware_ids()]
    return {part.kernel_table_device: part for part in parts if part.kernel_table_device}


def formats_are_priced_by_their_bytes(model_id: str, hardware: Hardware, engine: str) -> None:
    """Routed layers in every format, on one and on eight GPUs."""
    for ranks in (1, 8):
        placement = Placement(tensor_parallel=ranks)
        for stored in FORMATS:
            cost, time_s, roofline_s = routed_layer(model_id, stored, hardware, engine, placement)
            over = float(np.exp(np.log(time_s / roofline_s).mean()))
            where = f"{model_id} in {stored} on {ranks} {hardware.id} under {engine}"
            assert cost.routed.measured is not None or over <= SLOW_TIMES, where


def routed_layer(
    model_id: str, stored: WeightDtype, hardware: Hardware, engine: str, placement: Placement
) -> tuple[KernelCosts, Array, Array]:
    """Costs of a model in a format, seconds of a routed layer, and those of the profile alone."""
    model = load_model(model_id)
    dtypes = model.dtypes.model_copy(update={"routed": stored})
    architecture = model.model_copy(update={"dtypes": dtypes})
    shape = MoeShape.of(architecture)
    assert shape is not None
    gated = float(np.asarray(shape.matrices)) == 3.0
    at = expert_shape(shape, placement)
    bare = kernel_costs(hardware, engine, dtypes, gated_experts=gated, shape=at)
    costs = with_measured_shape(bare, hardware, architecture, placement)
    active = float(np.asarray(shape.n_active))
    touched = laws.uniform_experts(float(np.asarray(shape.n_experts)), active, TOKENS)
    step = placement, shape, TOKENS, touched, stored
    roofline = routed_roofline(hardware, stored)
    return costs, routed_time(costs.routed, *step), routed_time(roofline, *step)


MOES = [name for name in model_ids() if load_model(name).moe is not None]


@pytest.mark.parametrize("model_id", MOES[::6])
@pytest.mark.parametrize("device", ["h100_sxm", "b200_sxm"])
def test_a_format_that_was_not_measured_takes_at_most_three_times_its_bytes(
    model_id: str, device: str
) -> None:
    formats_are_priced_by_their_bytes(model_id, measured_accelerators()[device], "vllm")


@pytest.mark.thorough
@pytest.mark.parametrize("model_id", MOES)
def test_all_formats_on_all_accelerators_and_engines_take_at_most_three_times_their_bytes(
    model_id: str,
) -> None:
    for hardware in measured_accelerators().values():
        for engine in ENGINES:
            formats_are_priced_by_their_bytes(model_id, hardware, engine)


def test_verification_of_more_drafts_is_never_free_at_large_batches() -> None:
    """Where graphs are not known: launches of their own hide what a step computes."""
    for name, setup in list(setups().items())[::8]:
        if setup.graphs is None:
            curve = curve_for(setup, [256, 1024], range(LONGEST_DRAFT + 1), central_only=True)
            assert np.all(np.diff(curve.round_s, axis=1) > 0.0), name
