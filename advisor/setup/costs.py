"""Kernel costs of a scenario: as its model and drafter ask, by the fitted forms alone, or with other scales."""

from __future__ import annotations

import dataclasses

from advisor.architecture import Architecture
from advisor.calibration import (
    ActivationScales,
    Adjustment,
    adjusted,
    kernel_costs,
    with_attention_modules,
    with_measured_shape,
    with_network,
)
from advisor.hardware import Hardware
from advisor.kernel_costs import KernelCosts
from advisor.scenario import Scenario
from advisor.serving_formats import CacheFormat
from advisor.setup.loaded import Setup
from advisor.step_cost import MoeShape, Placement, expert_shape


def by_form(setup: Setup) -> Setup:
    """Setup priced by the fitted forms alone, also where its very shape was measured.

    Kernels are chosen without looking at shapes, so that designs of other shapes compare on the same footing. Costs
    that a caller changed keep their kernels and lose the measured rows alone.
    """
    if _with_costs(setup) == setup:
        return _with_costs(setup, by_shape=False)
    costs, draft_costs = (
        dataclasses.replace(each, routed=dataclasses.replace(each.routed, measured=None))
        for each in (setup.costs, setup.draft_costs)
    )
    return dataclasses.replace(setup, costs=costs, draft_costs=draft_costs)


def with_scales(setup: Setup, scales: ActivationScales) -> Setup:
    """Setup with quantised products scaled as `scales` says.

    Studies compare the assumption of static scales with it.
    """
    return _with_costs(setup, scales=scales)


def _with_costs(setup: Setup, by_shape: bool = True, scales: ActivationScales | None = None) -> Setup:
    costs, draft_costs = both_costs(
        setup.scenario,
        setup.hardware,
        setup.cache,
        (setup.architecture, setup.draft_architecture),
        setup.placement,
        setup.adjustment,
        by_shape,
        scales,
    )
    return dataclasses.replace(setup, costs=costs, draft_costs=draft_costs)


def both_costs(
    scenario: Scenario,
    hardware: Hardware,
    cache: CacheFormat,
    architectures: tuple[Architecture, Architecture | None],
    placement: Placement,
    adjustment: Adjustment | None,
    by_shape: bool = True,
    scales: ActivationScales | None = None,
) -> tuple[KernelCosts, KernelCosts]:
    """Costs of the target and of one draft pass (the target's where there is none), with the user's refit."""
    target, per_pass = architectures
    costs = _costs(scenario, hardware, cache, target, placement, by_shape, scales)
    draft_costs = _costs(scenario, hardware, cache, per_pass, placement, by_shape, scales) if per_pass else costs
    return adjusted(costs, draft_costs, adjustment) if adjustment is not None else (costs, draft_costs)


def _costs(
    scenario: Scenario,
    hardware: Hardware,
    cache: CacheFormat,
    architecture: Architecture,
    placement: Placement,
    by_shape: bool,
    scales: ActivationScales | None,
) -> KernelCosts:
    """Constants of the accelerator and engine for one model. `by_shape` with the kernel that measured its own expert
    shape, the rows of that, and its own attention layers where they were measured as a whole. `scales`: of quantised
    products; None: as the checkpoint says."""
    gated = architecture.moe is None or architecture.moe.matrices > 2
    shape = MoeShape.of(architecture) if by_shape else None
    layer = expert_shape(shape, placement) if shape is not None else None
    scales = scales or _stated_scales(architecture)
    costs = kernel_costs(hardware, scenario.engine, architecture.dtypes, cache.dtype, gated, layer, scales)
    if placement.attention_groups > 1:
        costs = with_network(costs, hardware, placement.expert_parallel)
    if not by_shape:
        return costs
    measured = with_measured_shape(costs, hardware, architecture, placement)
    shards = placement.tensor_parallel
    return with_attention_modules(measured, hardware, architecture, shards, scenario.engine, cache.dtype)


def _stated_scales(architecture: Architecture) -> ActivationScales:
    """How the checkpoint's products get the scale of their activations. Static where it says nothing.

    Beside nvfp4 parts static: their blocks find scales of their own, which the scheme of 8-bit parts says nothing of.
    """
    mixed = "nvfp4" in architecture.dtypes.model_dump().values()
    return "dynamic" if architecture.activation_scheme == "dynamic" and not mixed else "static"
