"""From a scenario's ids and strings to the loaded things the formulas need, with warnings and sources."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.acceptance import Acceptance, parse_acceptance
from advisor.architecture import Architecture
from advisor.arrays import Array
from advisor.calibration import (
    ActivationScales,
    Adjustment,
    adjusted,
    check_adjustment,
    kernel_costs,
    parse_adjustment,
    with_attention_modules,
    with_measured_shape,
)
from advisor.catalog import hardware_from_given, load_model, model_ids, unknown_model
from advisor.draft_cost import draft_architecture
from advisor.drafter import Drafter, load_drafter
from advisor.hardware import Hardware, load_hardware
from advisor.hf import architecture_from_config
from advisor.kernel_costs import KernelCosts
from advisor.memory import MemoryFit, memory_fit
from advisor.prediction import AdvisorError
from advisor.routing import (
    RoutingPreset,
    distinct_experts,
    load_routing_preset,
    not_learnt,
    own_routing,
    preset_for,
    routing_preset_ids,
)
from advisor.scenario import Scenario
from advisor.serving_formats import CacheFormat, served_cache, served_weights
from advisor.step_cost import MoeShape, Placement, expert_shape

_NODE_GPUS = 8
"""GPUs that share the fast links of one node in the measured machines."""


@dataclass(frozen=True)
class Setup:
    """Everything a scenario names, loaded."""

    scenario: Scenario
    hardware: Hardware
    architecture: Architecture
    placement: Placement
    drafter: Drafter
    draft_architecture: Architecture | None
    acceptance: Acceptance
    routing: RoutingPreset | None
    """None: independent uniform routing, or a dense model."""
    routing_because: str
    costs: KernelCosts
    draft_costs: KernelCosts
    memory: MemoryFit
    cache: CacheFormat
    warnings: tuple[str, ...]
    sources: tuple[str, ...]
    adjustment: Adjustment | None
    """What the user's own measurements changed in `costs` and `draft_costs`; None: as shipped."""

    def routing_parameters(self, end: Literal["value", "low", "high"] = "value") -> tuple[float, float, float]:
        """(load_cv, affinity, stickiness), all zero for uniform routing.

        `low` and `high` are the ends of the preset's 80 % range that touch fewer and more experts: correlation and
        skew both lower the count.
        """
        if self.routing is None:
            return 0.0, 0.0, 0.0
        field = {"value": "value", "low": "high", "high": "low"}[end]
        preset = self.routing
        cv, phi, rho = (float(getattr(item, field)) for item in (preset.load_cv, preset.affinity, preset.stickiness))
        return cv, min(max(phi, 0.0), 1.0), min(max(rho, 0.0), 1.0)

    @property
    def place(self) -> str:
        """The accelerators of one instance, `4 x NVIDIA H200 SXM 141GB`."""
        gpus = self.placement.gpus
        return f"{gpus} x {self.hardware.name}" if gpus > 1 else self.hardware.name

    @property
    def kv_bytes_per_element(self) -> float:
        """Bytes of one element of the KV cache. [B]"""
        return self.cache.bytes_per_element


def load_setup(scenario: Scenario, borrowed_acceptance: bool | None = None) -> Setup:
    """Load a scenario. Raises AdvisorError when an id is unknown, a file cannot be read, or the drafter does not fit.

    `borrowed_acceptance` says whether the accepted length comes from another run than the one it is used for, which
    widens its band; None: only a measured curve of another model or drafter is borrowed. Scenarios with a model, an
    accelerator or a refit of the user's own are not remembered: the cache is shared by everybody who uses this process.
    """
    load = _load if scenario.is_private else _remembered
    return load(scenario, borrowed_acceptance)


def _at_its_batch(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    """`_load`, remembered apart from the batch: of a setup, only what is said about memory depends on it."""
    alone = _whatever_the_batch(scenario.model_copy(update={"batch_size": 1}), borrowed_acceptance)
    setup = dataclasses.replace(alone, scenario=scenario)
    return dataclasses.replace(setup, warnings=_warnings(setup))


def _load(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    hardware = _hardware(scenario)
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
    costs, draft_costs = _both_costs(scenario, hardware, cache, (architecture, per_pass), placement, adjustment)
    routing, because = _routing(scenario, architecture)
    acceptance = parse_acceptance(
        scenario.acceptance,
        scenario.k_max,
        borrowed=borrowed_acceptance,
        model_id=architecture.id,
        drafter_id=drafter.id,
    )
    memory = memory_fit(
        architecture,
        placement,
        hardware.memory_bytes.value,
        scenario.context_tokens,
        cache.bytes_per_element,
        per_pass,
    )
    setup = Setup(
        scenario, hardware, architecture, placement, drafter, per_pass, acceptance, routing, because,
        costs, draft_costs, memory, cache, warnings=(), sources=(), adjustment=adjustment,
    )  # fmt: skip
    return dataclasses.replace(setup, warnings=_warnings(setup), sources=_sources(setup))


def _warnings(setup: Setup) -> tuple[str, ...]:
    """What a reader must know before trusting the answer, each once."""
    scenario, architecture, placement = setup.scenario, setup.architecture, setup.placement
    found = [
        *_memory_warnings(scenario, setup.memory, placement),
        *architecture.warnings,
        *_placement_warnings(scenario, architecture, placement),
        *_of(setup.costs.warnings, _parts(architecture, placement)),
    ]
    if setup.acceptance.borrowed:
        found.append(f"The accepted length is borrowed: {setup.acceptance.source}. Give your own for a narrower band.")
    if placement.expert_parallel > 1:
        found.append("Expert-parallel imbalance follows an assumed formula; it has not been measured.")
    if architecture.moe and architecture.moe.n_active == 1 and scenario.routing == "auto":
        found.append("No top-1 router has been measured; its routing correlation is a class default.")
    return tuple(dict.fromkeys(found))


def _sources(setup: Setup) -> tuple[str, ...]:
    """Where every constant comes from, each source once."""
    hardware, adjustment = setup.hardware, setup.adjustment
    found = [
        *setup.architecture.sources,
        *_of(setup.costs.sources, _parts(setup.architecture, setup.placement)),
        setup.acceptance.source,
        *setup.drafter.sources,
    ]
    if setup.routing is not None:
        found.append(f"{setup.routing.name}: {setup.routing.affinity.source}")
    found.append(f"{hardware.name}: {hardware.bandwidth_bytes_per_s.source}")
    if adjustment is not None:
        found.append(
            f"{adjustment.n_points} uploaded points (data {adjustment.data}): kernel times and overheads refitted for "
            f"{hardware.name} with {adjustment.engine_class}"
        )
    return tuple(dict.fromkeys(found))


def touched_experts(
    setup: Setup, batch: ArrayLike, tokens: ArrayLike, end: Literal["value", "low", "high"] = "value"
) -> Array:
    """Distinct experts for this scenario's routing, B sequences x t tokens; 0 for a dense model. [1]

    `end` picks the routing preset's value, or the end of its 80 % range that touches fewer (low) or more (high).
    """
    shape = MoeShape.of(setup.architecture)
    if shape is None:
        return np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(tokens)))
    experts, active = float(shape.n_experts), max(float(shape.n_active), 1.0)  # type: ignore[arg-type]
    cv, phi, rho = setup.routing_parameters(end)
    return distinct_experts(batch, tokens, experts, active, min(cv, np.sqrt(experts / active - 1.0)), phi, rho)


def by_form(setup: Setup) -> Setup:
    """`setup` with the fitted forms alone, also where its very shape was measured, and with kernels chosen without
    looking at shapes: designs of other shapes then compare on the same footing. Costs that a caller changed keep their
    kernels and lose the measured rows alone."""
    if _with_costs(setup) == setup:
        return _with_costs(setup, by_shape=False)
    costs, draft_costs = (
        dataclasses.replace(each, routed=dataclasses.replace(each.routed, measured=None))
        for each in (setup.costs, setup.draft_costs)
    )
    return dataclasses.replace(setup, costs=costs, draft_costs=draft_costs)


def with_scales(setup: Setup, scales: ActivationScales) -> Setup:
    """`setup` with quantised products as `scales` says: what studies compare the assumption of static ones with."""
    return _with_costs(setup, scales=scales)


def _with_costs(setup: Setup, by_shape: bool = True, scales: ActivationScales = "static") -> Setup:
    costs, draft_costs = _both_costs(
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


def _both_costs(
    scenario: Scenario,
    hardware: Hardware,
    cache: CacheFormat,
    architectures: tuple[Architecture, Architecture | None],
    placement: Placement,
    adjustment: Adjustment | None,
    by_shape: bool = True,
    scales: ActivationScales = "static",
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
    scales: ActivationScales,
) -> KernelCosts:
    """Constants of the accelerator and engine for one model; `by_shape` with the kernel that measured its own expert
    shape, the rows of that, and its own attention layers where they were measured as a whole."""
    gated = architecture.moe is None or architecture.moe.matrices > 2
    shape = MoeShape.of(architecture) if by_shape else None
    layer = expert_shape(shape, placement) if shape is not None else None
    costs = kernel_costs(hardware, scenario.engine, architecture.dtypes, cache.dtype, gated, layer, scales)
    if not by_shape:
        return costs
    measured = with_measured_shape(costs, hardware, architecture, placement)
    shards = placement.tensor_parallel
    return with_attention_modules(measured, hardware, architecture, shards, scenario.engine, cache.dtype)


def _parts(architecture: Architecture, placement: Placement) -> tuple[str, ...]:
    """The parts of the kernel costs that this model and placement use."""
    kinds = {mixer.kind for mixer in architecture.mixers}
    used = {
        "accelerator": True,
        "experts": architecture.moe is not None,
        "projections": True,
        "attention": bool(kinds & {"full", "sliding"}),
        "latent attention": bool(kinds & {"mla", "sparse"}),
        "all-reduce": placement.tensor_parallel > 1,
        "expert exchange": placement.attention_groups > 1,
    }
    return tuple(part for part, needed in used.items() if needed)


def _of(notes: Mapping[str, tuple[str, ...]], parts: tuple[str, ...]) -> list[str]:
    return [text for part in parts for text in notes.get(part, ())]


_whatever_the_batch = functools.lru_cache(maxsize=128)(_load)
_remembered = functools.lru_cache(maxsize=256)(_at_its_batch)


def _hardware(scenario: Scenario) -> Hardware:
    if scenario.hardware_json is not None:
        return hardware_from_given(scenario.hardware_json, scenario.hardware_id)
    return load_hardware(scenario.hardware_id)


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


def _routing(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset | None, str]:
    if architecture.moe is None:
        return None, "dense model: no routing"
    if scenario.routing == "uniform":
        return None, "independent uniform routing, as chosen"
    if scenario.routing == "auto":
        return _own_preset(scenario, architecture)
    if "," in scenario.routing:
        return _own_trace(scenario, architecture)
    return load_routing_preset(scenario.routing), "the preset chosen"


def _own_trace(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset, str]:
    """What the user's own trace or log told; what it left open is the model's preset's."""
    preset, because = _own_preset(scenario, architecture)
    left_open = not_learnt(scenario.routing)
    text = "Your own routing trace."
    if left_open:
        text = f"Your own log of activated experts; it leaves {' and '.join(left_open)} open. {because}"
    return own_routing(scenario.routing, preset), text


def _own_preset(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset, str]:
    """The preset of the model; a user's config with the dimensions of a measured model has its routing."""
    if scenario.model_config_json is not None:
        for preset_id in routing_preset_ids():
            preset = load_routing_preset(preset_id)
            if preset.model_id in model_ids() and preset.model_id is not None:
                known = load_model(preset.model_id)
                if (known.moe, known.hidden_size) == (architecture.moe, architecture.hidden_size):
                    return preset, f"Its experts have the dimensions of {known.name}, whose routing was measured"
    return preset_for(architecture)


def _memory_warnings(scenario: Scenario, memory: MemoryFit, placement: Placement) -> list[str]:
    if memory.largest_batch >= scenario.batch_size:
        return []
    need = memory.total_bytes(scenario.batch_size, placement.attention_groups) / 1e9
    have = memory.usable_bytes / 1e9
    weights = (memory.weights_bytes + memory.drafter_bytes) / 1e9
    if weights >= have:
        return [
            f"Does not fit: weights take {weights:.0f} GB per GPU, {have:.0f} GB are usable. "
            "Use more GPUs (tensor parallel), a larger accelerator, or a smaller weight format."
        ]
    if memory.largest_batch == 0:
        cache = memory.kv_bytes_per_sequence / 1e9
        return [
            f"Does not fit: one sequence of {scenario.context_tokens:,} tokens takes {cache:.0f} GB of KV cache beside "
            f"{weights:.0f} GB of weights per GPU, {have:.0f} GB are usable. Use a shorter context, an fp8 KV cache or "
            "more GPUs."
        ]
    return [
        f"Batch {scenario.batch_size} does not fit: {need:.0f} GB per GPU, {have:.0f} GB are usable. "
        f"The largest batch that fits at {scenario.context_tokens:,} tokens of context is {memory.largest_batch}."
    ]


def _placement_warnings(scenario: Scenario, architecture: Architecture, placement: Placement) -> list[str]:
    warnings = []
    copies = scenario.n_gpus // placement.gpus
    if copies > 1:
        warnings.append(
            f"{scenario.n_gpus} GPUs hold {copies} independent copies of the model; batch and speed are per copy."
        )
    if placement.gpus > _NODE_GPUS:
        warnings.append(f"More than {_NODE_GPUS} GPUs: links between nodes are not modelled, communication is too low.")
    limit = architecture.max_context_tokens
    if limit is not None and scenario.context_tokens > limit:
        warnings.append(
            f"A context of {scenario.context_tokens:,} tokens exceeds the model's own {limit:,}; shorten it."
        )
    return warnings
