"""From a scenario's ids and strings to the loaded things the formulas need, with warnings and sources."""

from __future__ import annotations

import dataclasses
import functools

from advisor.acceptance import parse_acceptance
from advisor.architecture import Architecture
from advisor.calibration import (
    check_adjustment,
    parse_adjustment,
)
from advisor.catalog import (
    OTHER_ENGINE,
    engines,
    hardware_from_own,
    load_engine,
    load_model,
    model_ids,
    unknown_model,
)
from advisor.draft_cost import draft_architecture
from advisor.drafter import load_drafter
from advisor.hardware import Hardware, load_hardware
from advisor.hf import architecture_from_config
from advisor.memory import memory_fit
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.serving_formats import served_cache, served_weights
from advisor.setup.costs import both_costs
from advisor.setup.loaded import Setup
from advisor.setup.notes import sources_of, warnings_of
from advisor.setup.ranks import with_counted_ranks, with_memory
from advisor.setup.routing import routing_of
from advisor.step_cost import Placement
from advisor.task_transfer import carried, curve_on_task


def load_setup(scenario: Scenario, borrowed_acceptance: bool | None = None) -> Setup:
    """Load a scenario. Raises AdvisorError when an id is unknown, a file cannot be read, or the drafter does not fit.

    `borrowed_acceptance` says whether the accepted length comes from another run than the one it is used for, which
    widens its band; None: only a measured curve of another model or drafter is borrowed. Scenarios with a model, an
    accelerator or a refit of the user's own are not remembered: the cache is shared by everybody who uses this process.
    """
    load = _load if scenario.is_private else _remembered
    return load(scenario, borrowed_acceptance)


def _load(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    hardware = _hardware(scenario)
    _check_engine(scenario, hardware)
    architecture = _architecture(scenario)
    drafter = load_drafter(scenario.drafter_id)
    draft_model = load_model(drafter.draft_model_id) if drafter.draft_model_id else None
    per_pass = draft_architecture(drafter, architecture, draft_model)
    placement = Placement(scenario.tensor_parallel, scenario.expert_parallel)
    _check_placement(scenario, architecture, placement)
    cache = served_cache(architecture, scenario, hardware)
    adjustment = parse_adjustment(scenario.refit) if scenario.refit is not None else None
    if adjustment is not None:
        check_adjustment(adjustment, hardware.id, scenario.engine)
    costs, draft_costs = both_costs(scenario, hardware, cache, (architecture, per_pass), placement, adjustment)
    routing, because = routing_of(scenario, architecture)
    given = curve_on_task(scenario.acceptance, scenario.task)
    measured = parse_acceptance(
        given,
        scenario.k_max,
        borrowed=borrowed_acceptance,
        model_id=architecture.id,
        drafter_id=drafter.id,
    )
    acceptance = carried(given, measured, drafter.kind, scenario.task, scenario.context_tokens)
    memory = memory_fit(
        architecture,
        placement,
        hardware.memory_bytes.value,
        scenario.context_tokens,
        cache.bytes_per_element,
        per_pass,
    )
    setup = Setup(
        scenario,
        hardware,
        architecture,
        placement,
        drafter,
        per_pass,
        acceptance,
        routing,
        because,
        costs,
        draft_costs,
        memory,
        cache,
        warnings=(),
        sources=(),
        adjustment=adjustment,
    )
    return _told(with_counted_ranks(setup))


def with_placement(setup: Setup, placement: Placement) -> Setup:
    """Setup on another placement, with its costs and memory.

    Everything else is kept as it was loaded.

    Raises AdvisorError for a placement that the model or the scenario's GPUs do not allow.
    """
    ranks = {"tensor_parallel": placement.tensor_parallel, "expert_parallel": placement.expert_parallel}
    scenario, target, per_pass = setup.scenario.model_copy(update=ranks), setup.architecture, setup.draft_architecture
    _check_placement(scenario, target, placement)
    costs, draft_costs = both_costs(
        scenario, setup.hardware, setup.cache, (target, per_pass), placement, setup.adjustment
    )
    placed = dataclasses.replace(setup, scenario=scenario, placement=placement, costs=costs, draft_costs=draft_costs)
    return _told(with_counted_ranks(with_memory(placed)))


def with_assumed_ranks(setup: Setup) -> Setup:
    """Setup with experts in order and the slowest rank assumed, routed as before."""
    if setup.placement.balance is None:
        return setup
    placement = dataclasses.replace(setup.placement, redundant=0, balance=None)
    return _told(with_memory(dataclasses.replace(setup, placement=placement)))


def without_own_loads(setup: Setup) -> Setup:
    """Setup as if its scenario said nothing of its experts' loads and their layout."""
    plain = setup.scenario.on_assumed_ranks()
    if plain == setup.scenario:
        return setup
    routing, because = routing_of(plain, setup.architecture)
    return with_assumed_ranks(dataclasses.replace(setup, scenario=plain, routing=routing, routing_because=because))


def _told(setup: Setup) -> Setup:
    """The setup with what a reader must know of it."""
    return dataclasses.replace(setup, warnings=warnings_of(setup), sources=sources_of(setup))


def _at_its_batch(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    """`_load`, remembered apart from the batch: of a setup, only what is said about memory depends on it."""
    alone = _whatever_the_batch(scenario.model_copy(update={"batch_size": 1}), borrowed_acceptance)
    setup = dataclasses.replace(alone, scenario=scenario)
    return dataclasses.replace(setup, warnings=warnings_of(setup))


_whatever_the_batch = functools.lru_cache(maxsize=128)(_load)
_remembered = functools.lru_cache(maxsize=256)(_at_its_batch)


def _hardware(scenario: Scenario) -> Hardware:
    if scenario.hardware_json is not None:
        return hardware_from_own(scenario.hardware_json, scenario.hardware_id)
    return load_hardware(scenario.hardware_id)


def _check_engine(scenario: Scenario, hardware: Hardware) -> None:
    """Raise AdvisorError for an engine that does not run on the accelerator's vendor, where both are known."""
    known = {vendor for engine in engines() for vendor in engine.vendors}
    if scenario.engine == OTHER_ENGINE or hardware.vendor not in known:
        return
    engine = load_engine(scenario.engine)
    if engine.vendors and hardware.vendor not in engine.vendors:
        others = [one.id for one in engines() if hardware.vendor in one.vendors]
        raise AdvisorError(
            f"{engine.name} does not run on {hardware.name} ({hardware.vendor}), only on accelerators of "
            f"{', '.join(engine.vendors)}; choose {', '.join(others)} or {OTHER_ENGINE}"
        )


def _architecture(scenario: Scenario) -> Architecture:
    if scenario.model_config_json is not None:
        architecture = architecture_from_config(scenario.model_config_json, name=scenario.model_id)
    elif scenario.model_id not in model_ids():
        # Never a path: a shared link must not make the server read its files.
        raise AdvisorError(unknown_model(scenario.model_id))
    else:
        architecture = load_model(scenario.model_id)
    return served_weights(architecture, scenario)


def _check_placement(scenario: Scenario, architecture: Architecture, placement: Placement) -> None:
    moe = architecture.moe
    if moe is None and placement.expert_parallel > 1:
        raise AdvisorError(f"{architecture.name} is dense; set expert_parallel=1")
    if moe is not None and moe.n_experts % placement.expert_parallel:
        raise AdvisorError(
            f"expert_parallel={placement.expert_parallel} does not divide {moe.n_experts} experts; choose a divisor"
        )
    if max(placement.tensor_parallel, placement.expert_parallel) % min(
        placement.tensor_parallel, placement.expert_parallel
    ):
        raise AdvisorError(
            f"tensor_parallel={placement.tensor_parallel} and expert_parallel={placement.expert_parallel} do not nest; "
            "make one a multiple of the other"
        )
    tp = placement.tensor_parallel
    if architecture.hidden_size % tp or (moe is not None and moe.expert_width % placement.expert_tensor_parallel):
        raise AdvisorError(
            f"tensor_parallel={tp} does not divide the model's widths (hidden {architecture.hidden_size}); "
            "choose a divisor, usually a power of two"
        )
    if placement.gpus > scenario.n_gpus:
        raise AdvisorError(f"the placement needs {placement.gpus} GPUs, n_gpus={scenario.n_gpus}; raise n_gpus")
