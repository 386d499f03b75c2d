"""Everything a scenario names, loaded: weights and cache as served, kernel costs, routing, the
slowest EP rank."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.adjustment import Adjustment, adjusted
from advisor.catalog.engines import (
    EAGER_DENSE_S,
    EAGER_ROUTED_S,
    Build,
    GraphPieces,
    Graphs,
    Ran,
    class_today,
)
from advisor.catalog.fit_records import class_costs
from advisor.catalog.kernel_choice import ActivationScales
from advisor.catalog.kernel_costs import BETWEEN_S, graph_pieces, kernel_costs, with_network
from advisor.catalog.measured_shapes import (
    with_attention_modules,
    with_measured_shape,
    with_rising_curve,
)
from advisor.catalog.models import load_model, model_ids, published_architecture, stored_format
from advisor.catalog.routing_presets import (
    DOMAINS,
    ONE_DOMAIN,
    load_routing_preset,
    not_learnt,
    one_domain,
    own_routing,
    preset_for,
    routing_preset_ids,
)
from advisor.catalog.routing_shift import is_moved, moved_routing
from advisor.physics.acceptance import Acceptance
from advisor.physics.architecture import (
    MATRICES,
    Architecture,
    CacheDtype,
    Moe,
    WeightDtype,
    parameter_counts,
    with_dtype,
)
from advisor.physics.draft import Drafter, Drafting
from advisor.physics.hardware import Hardware, hardware_ids, load_hardware
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.memory import MemoryFit, StatedPool, memory_fit
from advisor.physics.notes import Note
from advisor.physics.step import MoeShape, Placement, RoutedLayer, expert_shape
from advisor.physics.touched_experts import NOT_LEARNT, PARAMETERS, RoutingPreset, touched_under
from advisor.predict.plain_sweep import PlainSweep
from advisor.predict.scenario import Scenario, loads_shape, parse_loads
from advisor.prediction import AdvisorError, Array

if TYPE_CHECKING:  # counted ranks are imported where they are counted: few answers do
    from advisor.physics.expert_loads import Planned, Router, Traffic
    from advisor.physics.expert_ranks import Layout, RankBalance, Uneven

ServedCache = Literal["bf16", "fp8"]
CACHE_BYTES: dict[ServedCache, float] = {"bf16": 2.0, "fp8": 1.0}
"""Bytes of one element of the cache. [B]"""
_PER_TENSOR: frozenset[WeightDtype] = frozenset({"fp8", "nvfp4"})
"""ModelOpt's formats: TensorRT-LLM serves its releases with an fp8 cache. Releases in blocks keep
16 bits."""
_NAMES = {"routed": "routed experts", "shared": "shared experts"}
"""Of a component's weights in a sentence, where that is not its own."""


def served_weights(architecture: Architecture, scenario: Scenario) -> Architecture:
    """Architecture with the weights that the scenario asks for.

    A checkpoint that is in the format already is taken as it is stored. A model with the dimensions
    of a shipped one that is published in the format is taken as published: parts that the release
    leaves in 16 bits stay so, and a note names them. Other models get the format in every
    matrix.
    """
    requested = scenario.weight_dtype
    if requested is not None:
        architecture = _as_published(architecture, requested) or with_dtype(architecture, requested)
    stated = {
        "routed": scenario.expert_dtype if architecture.moe is not None else None,
        "embedding": scenario.head_dtype,
    }
    formats = {part: dtype for part, dtype in stated.items() if dtype is not None}
    dtypes = architecture.dtypes.model_copy(update=formats)
    return architecture.model_copy(update={"dtypes": dtypes}) if formats else architecture


def _as_published(architecture: Architecture, requested: WeightDtype) -> Architecture | None:
    """The model as a release in `wanted` stores it. None where none is known."""
    shipped = load_model(architecture.id) if architecture.id in model_ids() else None
    as_stored = stored_format(architecture) in (
        (requested, "fp8_block") if requested == "fp8" else (requested,)
    )
    if as_stored and (shipped is None or architecture.dtypes != shipped.dtypes):
        return architecture  # the user's own quantisation
    try:
        published = published_architecture(architecture.id, requested)
    except AdvisorError:
        return None
    dtypes = published.dtypes
    counts = parameter_counts(architecture)
    used = [part for part in MATRICES if getattr(counts, part)]
    in_bf16 = [_NAMES.get(part, part) for part in used if getattr(dtypes, part) == "bf16"]
    blocks = requested == "fp8" and "fp8_block" in {getattr(dtypes, part) for part in used}
    model = architecture.name
    notes = [Note.of("published_in_blocks", model=model)] if blocks else []
    if in_bf16 and requested != "bf16":
        notes.append(Note.of("parts_in_bf16", model=model, dtype=requested, parts=tuple(in_bf16)))
    as_released = {
        name: getattr(published, name) for name in ("dtypes", "kv_cache_dtype", "activation_scheme")
    }
    sources = tuple(dict.fromkeys((*architecture.sources, *published.sources)))
    return architecture.model_copy(
        update={**as_released, "sources": sources, "notes": (*architecture.notes, *notes)}
    )


@dataclass(frozen=True)
class CacheFormat:
    """The format of the KV cache, and why it is that one."""

    dtype: ServedCache
    because: str

    @property
    def bytes_per_element(self) -> float:
        """Bytes of one element. [B]"""
        return CACHE_BYTES[self.dtype]

    @property
    def sentence(self) -> str:
        """The format and its reason, for a reader."""
        return f"KV cache in {self.dtype}: {self.because}"


def served_cache(architecture: Architecture, scenario: Scenario, hardware: Hardware) -> CacheFormat:
    """Cache that the scenario names, or the engine's own choice for this checkpoint with `auto`.

    As the checkpoint says, where it does. Else fp8 where TensorRT-LLM serves weights in fp8 or
    nvfp4 (its recipes do; no server states it) or SGLang sparse attention with token-level index on
    Blackwell; else bf16.
    """
    if scenario.kv_dtype != "auto":
        return CacheFormat(scenario.kv_dtype, "as chosen")
    of_checkpoint: CacheDtype | None = architecture.kv_cache_dtype
    if of_checkpoint == "fp8" or of_checkpoint == "bf16":
        return CacheFormat(of_checkpoint, "as the checkpoint says")
    if of_checkpoint is not None:
        return CacheFormat(
            "fp8", f"the checkpoint says {of_checkpoint}, which is not modelled; fp8 stands in"
        )
    # Right by outcome on the plain-decode check, stated by no server of it (decision 0009).
    if scenario.engine == "trtllm" and stored_format(architecture) in _PER_TENSOR:
        return CacheFormat("fp8", "TensorRT-LLM's choice for fp8 and nvfp4 weights")
    indexed = any(
        m.kind == "sparse" and m.compression == 1.0 and m.kv_shards == 1
        for m in architecture.mixers
    )
    if scenario.engine == "sglang" and indexed and hardware.generation.startswith("Blackwell"):
        return CacheFormat("fp8", "SGLang's choice for sparse attention on Blackwell")
    return CacheFormat("bf16", "the checkpoint names none")


@dataclass(frozen=True)
class CountedPass:
    """Experts that measured passes touched, where that is known apart from any law of routing."""

    tokens: int
    """Tokens of each sequence in the pass that was counted. [-]"""
    touched: float | None
    """Distinct experts of that pass, mean over layers; None: not counted. [-]"""
    in_turn: bool = False
    """Every pass deals its tokens to experts in turn, each the next k: as engines simulate an even
    load (sgl-project/sglang pull request 25571)."""

    def over(self, law: Array, shape: MoeShape, batch: ArrayLike, tokens: ArrayLike) -> Array:
        """Distinct experts of passes that touch `law` of them by the routing, where nothing was
        counted. [-]"""
        experts = float(np.asarray(shape.n_experts))
        active = float(np.asarray(shape.n_active))
        dealt = np.asarray(batch, float) * np.asarray(tokens, float) * active
        by_routing = np.broadcast_to(np.minimum(experts, dealt), law.shape) if self.in_turn else law
        if self.touched is None:
            return np.asarray(by_routing)
        # No router touches fewer than one token's experts or more than there are: padding and means
        # over layers can.
        counted_experts = min(max(self.touched, 1.0), experts)
        return np.where(
            np.equal(np.asarray(tokens, float), self.tokens), counted_experts, by_routing
        )


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
    notes: tuple[Note, ...]
    """What to know before trusting an answer, the heaviest first."""
    sources: tuple[str, ...]
    adjustment: Adjustment | None
    """What the user's own measurements changed in `costs` and `draft_costs`; None: as shipped."""
    sweep: PlainSweep | None = None
    """The user's own plain steps, where they are of this very scenario."""
    graphs: Graphs | None = None
    """CUDA graphs that the engine captured; None: not known, so every step is priced as if one held
    it exactly."""
    counted: CountedPass | None = None
    """Experts counted in a measured row that the setup predicts; None: by the routing alone."""
    contexts: Array | None = None
    """A context for each batch of a curve; None: the scenario's at all of them. [tokens]"""

    def routing_parameters(
        self, end: Literal["value", "low", "high"] = "value"
    ) -> tuple[float, float, float]:
        """(load_cv, affinity, stickiness), zero for uniform. `low` and `high` touch fewer and more
        experts."""
        if self.routing is None:
            return 0.0, 0.0, 0.0
        # More spread and more correlation mean fewer distinct experts, so the ends change places.
        field = {"value": "value", "low": "high", "high": "low"}[end]
        preset = self.routing
        cv = float(getattr(preset.load_cv, field))
        phi = float(getattr(preset.affinity, field))
        rho = float(getattr(preset.stickiness, field))
        return cv, min(max(phi, 0.0), 1.0), min(max(rho, 0.0), 1.0)

    @property
    def router(self) -> Router:
        """Choice of experts by the model's tokens. Raises AdvisorError for a dense model."""
        from advisor.physics.expert_loads import Router

        moe = self.architecture.moe
        if moe is None:
            raise self._has_no_experts()
        preset = self.routing.name if self.routing is not None else "uniform routing"
        return Router(self.architecture.name, moe, self.routing_parameters(), preset)

    @property
    def routed_layer(self) -> RoutedLayer:
        """One routed layer of the model on its ranks. Raises AdvisorError for a dense model."""
        shape = MoeShape.of(self.architecture)
        if shape is None:
            raise self._has_no_experts()
        return RoutedLayer(
            self.costs.routed, self.placement, shape, self.architecture.dtypes.routed
        )

    def _has_no_experts(self) -> AdvisorError:
        name = self.architecture.name
        return AdvisorError(f"{name} is dense: it has no experts to place; choose an MoE model")

    @property
    def drafting(self) -> Drafting:
        """The drafter with its kernel costs, on the GPUs of the target."""
        costs = self.draft_costs
        cache = self.kv_bytes_per_element
        return Drafting(self.drafter, self.draft_architecture, costs, self.placement, cache)

    @property
    def longest_step(self) -> int:
        """Tokens that each sequence has in the longest step: K max + 1, or 1 without a drafter.
        [-]"""
        return (self.scenario.k_max if self.drafter.kind != "none" else 0) + 1

    @property
    def place(self) -> str:
        """The accelerators of one instance, `4 x NVIDIA H200 SXM 141GB`."""
        gpus = self.placement.gpus
        return f"{gpus} x {self.hardware.name}" if gpus > 1 else self.hardware.name

    @property
    def kv_bytes_per_element(self) -> float:
        """Bytes of one element of the KV cache. [B]"""
        return self.cache.bytes_per_element


def context_beside(setup: Setup, n_axes: int) -> float | Array:
    """Context of a curve, a number or along the batches, the first of `n_axes` axes. [tokens]"""
    if setup.contexts is None:
        return float(setup.scenario.context_tokens)
    return setup.contexts.reshape(-1, *(1,) * (n_axes - 1))


End = Literal["value", "low", "high"]
"""The routing preset's value, or the end of its 80 % range that touches fewer experts (low) or more
(high)."""


def touched_in_pass(setup: Setup, batch: ArrayLike, tokens: ArrayLike, end: End = "value") -> Array:
    """Distinct experts for this scenario's routing, B sequences x t tokens. 0 for a dense model.
    [-]"""
    return np.asarray(touched_at_ends(setup, batch, tokens, (end,))[0])


def touched_at_ends(
    setup: Setup, batch: ArrayLike, tokens: ArrayLike, ends: Sequence[End]
) -> Array:
    """Distinct experts as `touched_in_pass` gives them, at several ends, [ends, ...]. [-]"""
    shape = MoeShape.of(setup.architecture)
    if shape is None:
        return np.zeros((len(ends), *np.broadcast_shapes(np.shape(batch), np.shape(tokens))))
    experts = float(shape.n_experts)  # type: ignore[arg-type]
    active = max(float(shape.n_active), 1.0)  # type: ignore[arg-type]
    # A load is at most 1, which bounds the variation of k of N: a preset of another shape may
    # exceed it.
    most = float(np.sqrt(experts / active - 1.0))
    routings = [(min(cv, most), phi, rho) for cv, phi, rho in map(setup.routing_parameters, ends)]
    touched = touched_under(batch, tokens, experts, active, routings)
    return touched if setup.counted is None else setup.counted.over(touched, shape, batch, tokens)


def graphs_of_steps(setup: Setup, batch: ArrayLike, tokens: ArrayLike) -> Ran | None:
    """CUDA graphs that steps of B sequences x q tokens run in, broadcast. None where it is not
    known what is captured.

    Each data-parallel rank runs graphs of its own, for its share of the sequences.
    """
    if setup.graphs is None:
        return None
    return setup.graphs.ran(np.asarray(batch, float) / setup.placement.attention_groups, tokens)


def by_form(setup: Setup) -> Setup:
    """Setup priced by the fitted forms alone, also where its very shape was measured.

    Kernels are chosen without looking at shapes, so that designs of other shapes compare on the
    same footing; a plain sweep of the model's own is left out likewise. Costs that a caller changed
    keep their kernels and lose the measured rows alone.
    """
    setup = dataclasses.replace(setup, sweep=None)
    # Costs that a caller changed cannot be made again from the scenario.
    if with_own_costs(setup) == setup:
        setup = with_own_costs(setup, by_shape=False)
    routed = with_rising_curve(
        dataclasses.replace(setup.costs.routed, measured=None), setup.architecture, setup.placement
    )
    costs = dataclasses.replace(setup.costs, routed=routed)
    draft_costs = dataclasses.replace(
        setup.draft_costs, routed=dataclasses.replace(setup.draft_costs.routed, measured=None)
    )
    return dataclasses.replace(setup, costs=costs, draft_costs=draft_costs)


def with_own_costs(
    setup: Setup, by_shape: bool = True, scales: ActivationScales | None = None
) -> Setup:
    """Setup with the costs of its scenario, by the fitted forms alone or with `scales` of
    products."""
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
    """Kernel costs of target and draft pass, with the user's refit. Without a drafter both are the
    target's."""
    target, per_pass = architectures
    # Scenarios that differ in context, acceptance or limits share their records; a user's own leave
    # nothing behind.
    known = hardware.id in hardware_ids() and hardware is load_hardware(hardware.id)
    shared = known and not scenario.is_private
    priced = _shipped_costs if shared else _costs
    on: Any = hardware.id if shared else hardware
    costs = priced(scenario.engine, on, cache.dtype, target, placement, by_shape, scales)
    draft_costs = (
        priced(scenario.engine, on, cache.dtype, per_pass, placement, by_shape, scales)
        if per_pass
        else costs
    )
    if scenario.engine_version is not None:  # older releases have host times of their own
        of_release = class_today(
            scenario.engine, hardware.vendor, hardware.generation, scenario.engine_version
        )
        costs = dataclasses.replace(costs, **class_costs(of_release))
        draft_costs = dataclasses.replace(draft_costs, **class_costs(of_release))
    if in_pieces(scenario, pieces_of(scenario, hardware, cache, target)):
        costs = dataclasses.replace(costs, between_graphs_s=BETWEEN_S)
        draft_costs = dataclasses.replace(draft_costs, between_graphs_s=BETWEEN_S)
    return (
        adjusted(costs, draft_costs, adjustment) if adjustment is not None else (costs, draft_costs)
    )


def in_pieces(scenario: Scenario, rule: GraphPieces | None) -> bool:
    """Whether verifications run in pieces of graphs: as the scenario says, else by `pieces_of`."""
    return scenario.graph_mode == "pieces" if scenario.graph_mode else rule is not None


def pieces_of(
    scenario: Scenario, hardware: Hardware, cache: CacheFormat, architecture: Architecture
) -> GraphPieces | None:
    """Rule by which the scenario's engine verifies outside full CUDA graphs, or None."""
    build = Build(scenario.engine_version or "", vendor=hardware.vendor, chip=hardware.generation)
    return graph_pieces(scenario.engine, build, cache.dtype, architecture)


def _costs(
    engine: str,
    hardware: Hardware,
    kv_dtype: str,
    architecture: Architecture,
    placement: Placement,
    by_shape: bool,
    scales: ActivationScales | None,
) -> KernelCosts:
    """Constants of the accelerator and engine for one model. `by_shape` with the kernel that
    measured its own expert shape, the rows of that, and its own attention layers where they were
    measured as a whole. `scales`: of quantised products; None: as the checkpoint says, static where
    it says nothing."""
    gated = architecture.moe is None or architecture.moe.matrices > 2
    shape = MoeShape.of(architecture) if by_shape else None
    layer = expert_shape(shape, placement) if shape is not None else None
    if scales is None:
        # Beside nvfp4 parts static: their blocks find scales of their own, which the scheme of
        # 8-bit parts says nothing of.
        mixed = "nvfp4" in architecture.dtypes.model_dump().values()
        scales = (
            "dynamic" if architecture.activation_scheme == "dynamic" and not mixed else "static"
        )
    sinks = any(mixer.has_sinks for mixer in architecture.mixers)
    costs = kernel_costs(
        hardware, engine, architecture.dtypes, kv_dtype, gated, layer, scales, sinks
    )
    # A routed layer launches more kernels than a dense one: 1.1 against 0.77 ms (measured,
    # catalog/engines.py).
    launched_s = EAGER_DENSE_S if architecture.moe is None else EAGER_ROUTED_S
    costs = dataclasses.replace(costs, eager_per_layer_s=launched_s)
    if placement.attention_groups > 1:
        costs = with_network(costs, hardware, placement.expert_parallel)
    if not by_shape:
        return costs
    measured = with_measured_shape(costs, hardware, architecture, placement)
    shards = placement.tensor_parallel
    return with_attention_modules(measured, hardware, architecture, shards, engine, kv_dtype)


@functools.lru_cache(maxsize=256)
def _shipped_costs(engine: str, hardware_id: str, *rest: Any) -> KernelCosts:
    """`_costs` of an accelerator by its id, remembered."""
    return _costs(engine, load_hardware(hardware_id), *rest)


def routing_of(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset | None, str]:
    """Routing of the scenario's model: its own trace, a measured preset, or a class default. None
    for a dense model.

    The spread of loads is that of the scenario's own loads of experts, unless a routing trace
    states it.
    """
    if architecture.moe is None:
        return None, "dense model: no routing"
    preset, because = _chosen(scenario, architecture)
    loads = own_loads(scenario, architecture.name, architecture.moe)
    # A trace tells the spread itself; a log of counts may leave it open.
    if loads is None or (
        "," in scenario.routing and PARAMETERS[0] not in not_learnt(scenario.routing)
    ):
        return preset, because
    spread = f"{float(loads.std(axis=1).mean()):.3g}"
    uniform = "0/0/0"
    other_groups = f"{NOT_LEARNT},{NOT_LEARNT}" if preset is not None else f"{uniform},{uniform}"
    loads_preset = own_routing(
        f"{spread}/{spread}/{spread},{other_groups}", preset or preset_for(architecture)[0]
    )
    load_cv = loads_preset.load_cv.model_copy(
        update={"source": "the loads of experts given with the scenario"}
    )
    name = (
        "your loads of experts" if preset is None else f"your loads of experts, else {preset.name}"
    )
    return loads_preset.model_copy(
        update={"name": name, "load_cv": load_cv}
    ), f"Loads spread as yours do (CV {spread}); the rest: {because}"


def own_loads(scenario: Scenario, model: str, moe: Moe) -> Array | None:
    """Loads of experts that the scenario carries, [layers, N] over each layer's mean, or None. [-]

    Raises AdvisorError for a text that is none, another number of experts, or more layers than the
    model routes in.
    """
    if scenario.expert_loads is None:
        return None
    layers, experts = loads_shape(scenario.expert_loads)
    if (layers, experts) != (0, 0) and (experts != moe.n_experts or layers > moe.count):
        raise AdvisorError(
            f"the loads are of {layers} layers and {experts} experts; expected up to "
            f"{moe.count:g} layers and {moe.n_experts} experts for {model}, those that are never "
            "chosen with 0"
        )
    return parse_loads(scenario.expert_loads)


def _chosen(scenario: Scenario, architecture: Architecture) -> tuple[RoutingPreset | None, str]:
    if scenario.routing == "uniform":
        return None, "independent uniform routing, as chosen"
    if scenario.routing == "auto":
        preset, because = _own_preset(architecture)
        if scenario.task in ONE_DOMAIN and architecture.moe is not None:
            remark = f"loads and correlation moved to those of text of one domain: {DOMAINS}"
            return one_domain(preset, architecture.moe), f"{because.rstrip('.')}; {remark}"
        return preset, because
    if is_moved(scenario.routing):  # a design's; another model has its own
        return moved_routing(scenario.routing, architecture.routed) or _own_preset(architecture)
    if "," in scenario.routing:
        preset, because = _own_preset(
            architecture
        )  # whose are the parameters that the trace leaves open
        text = "Your own routing trace."
        if left_open := not_learnt(scenario.routing):
            text = f"Your own routing; it leaves {' and '.join(left_open)} open. {because}"
        return own_routing(scenario.routing, preset), text
    return load_routing_preset(scenario.routing), "the preset chosen"


def _own_preset(architecture: Architecture) -> tuple[RoutingPreset, str]:
    """The preset of the model. An own config whose experts have a measured model's dimensions has
    its routing."""
    if architecture.id not in model_ids():
        # Dimensions tell a measured model under another name, as its fine-tunes have.
        for preset_id in routing_preset_ids():
            preset = load_routing_preset(preset_id)
            if preset.model_id in model_ids() and preset.model_id is not None:
                known = load_model(preset.model_id)
                if (known.moe, known.hidden_size) == (architecture.moe, architecture.hidden_size):
                    return (
                        preset,
                        (
                            f"Its experts have the dimensions of {known.name}, whose routing was "
                            "measured"
                        ),
                    )
    return preset_for(architecture)


_REMEMBERED = 64
_KNOWN: OrderedDict[str, RankBalance] = OrderedDict()
"""Counts by a digest of everything they follow from: a user's loads are neither kept here nor to be
read from it."""


def with_counted_ranks(setup: Setup) -> Setup:
    """Setup that predicts with the slowest rank counted, where its scenario asks for that.

    The copies of a balanced layout are rounded up to fill the ranks evenly, and take memory.
    Without loads they are placed on the routing preset's spread. Raises AdvisorError for loads that
    cannot be read or are of another number of experts.
    """
    wanted = setup.scenario.redundant_experts
    ranks = setup.placement.expert_parallel
    if ranks == 1 or (wanted is None and setup.scenario.expert_loads is None):
        return setup
    # Engines give all ranks buffers of one size, so copies fill them evenly.
    copies = None if wanted is None else filling_copies(setup.router.moe.n_experts, ranks, wanted)
    placement = dataclasses.replace(
        setup.placement, redundant=copies or 0, balance=_balance(setup, copies)
    )
    return with_memory(dataclasses.replace(setup, placement=placement))


def with_memory(setup: Setup) -> Setup:
    """Setup with the memory that its placement takes."""
    scenario = setup.scenario
    per_pass = setup.draft_architecture
    memory = memory_of(
        scenario, setup.hardware, setup.architecture, per_pass, setup.placement, setup.cache
    )
    return dataclasses.replace(setup, memory=memory)


def memory_of(
    scenario: Scenario,
    hardware: Hardware,
    architecture: Architecture,
    per_pass: Architecture | None,
    placement: Placement,
    cache: CacheFormat,
) -> MemoryFit:
    """Memory that a model and its drafter take beside a cache of the scenario's context."""
    # A map over contexts has shorter ones than the prefix.
    prefix = min(scenario.shared_prefix_tokens or 0, scenario.context_tokens - 1)
    drafts = scenario.drafter_id != "none"
    with_drafter = scenario.kv_cache_tokens_with_drafter if drafts else None
    return memory_fit(
        architecture,
        placement,
        hardware.memory_bytes.value,
        scenario.context_tokens,
        cache.bytes_per_element,
        per_pass,
        prefix,
        StatedPool(scenario.kv_cache_tokens, with_drafter),
    )


def traffic_of(setup: Setup, expert_loads: str | None) -> Traffic:
    """Traffic of a scenario's own loads, or (None) of its routing preset's spread.

    expert_loads : as a scenario packs them.

    Raises AdvisorError for a dense model, and for loads that cannot be read or are of another
    number of experts.
    """
    from advisor.physics.expert_loads import traffic_of_loads, traffic_of_preset

    if expert_loads is not None:
        return traffic_of_loads(parse_loads(expert_loads), setup.router)
    # A fixed seed: the same scenario has the same slowest rank in every session.
    return traffic_of_preset(setup.router, np.random.default_rng(0))


def _balance(setup: Setup, copies: int | None) -> RankBalance:
    loads = setup.scenario.expert_loads
    ranks = setup.placement.expert_parallel
    longest = setup.longest_step
    # A digest: the shared cache keeps counts, and nothing to read a user's loads from (decision
    # 0017).
    key = hashlib.sha256(repr((loads, setup.router, ranks, copies, longest)).encode()).hexdigest()
    balance = _KNOWN.get(key)
    if balance is None:
        balance = _KNOWN[key] = counted_balance(traffic_of(setup, loads), ranks, copies, longest)
        while len(_KNOWN) > _REMEMBERED:
            _KNOWN.popitem(last=False)
    return balance


BATCHES = (1, 4, 16, 64, 256, 1024)
"""Batches that are counted; between them the ratios to the mean rank are interpolated. [-]"""
BUDGET_EACH = 120_000
"""Expert choices that are drawn for each batch. [-]"""
LEAST_LAYERS = 8
MOST_TOKENS = 4096
"""Tokens of a step beyond which no more of each sequence are counted: ratios have settled, and are
held. [-]"""


def filling_copies(n_experts: int, ranks: int, wanted: int) -> int:
    """Copies of experts from `wanted` up that fill all ranks evenly. Raises AdvisorError for too
    many."""
    if wanted > max(n_experts, ranks):
        raise AdvisorError(
            f"{wanted:,} copies of {n_experts} experts cannot be placed; give at most "
            f"{max(n_experts, ranks)}"
        )
    return wanted + (-(n_experts + wanted) % ranks)


def layout_plan(
    n_experts: int, ranks: int, redundant: int | None, nodes: int = 1, groups: int = 1
) -> Planned:
    """Plan of a layout as `balanced` takes it: experts in order (None), or balanced with so many
    copies."""

    from advisor.physics.expert_ranks import balanced, contiguous

    def in_order(loads: Array) -> Layout:  # noqa: ARG001
        return contiguous(n_experts, ranks)

    def spread(loads: Array) -> Layout:
        return balanced(loads, ranks, redundant or 0, nodes, groups)

    return in_order if redundant is None else spread


def counted_balance(
    traffic: Traffic, ranks: int, redundant: int | None, tokens: int
) -> RankBalance:
    """Loads of the ranks that may be slowest, over BATCHES and 1 to `tokens` tokens of each
    sequence [-].

    redundant : copies of experts in a balanced layout; None: experts in order. [-]
    """
    from advisor.physics.expert_ranks import RankBalance

    planned = layout_plan(traffic.loads.shape[1], ranks, redundant)
    # Longer steps are held at MOST_TOKENS: ratios have settled there (decision 0017).
    batch_counts = [
        _at(traffic, planned, batch, min(tokens, max(2, MOST_TOKENS // batch))) for batch in BATCHES
    ]

    def joined(name: str) -> Array:
        values_by_batch = [getattr(counts, name) for counts in batch_counts]
        held = [
            values[..., np.minimum(np.arange(tokens), values.shape[-1] - 1)]
            for values in values_by_batch
        ]
        return np.stack(held, axis=-2)

    slots = batch_counts[0].slots
    return RankBalance(
        np.array(BATCHES, float), joined("touched"), joined("pairs"), joined("received"), slots
    )


def _at(traffic: Traffic, planned: Planned, batch: int, tokens: int) -> Uneven:
    from advisor.physics.expert_loads import Steps, by_weight, counted
    from advisor.physics.expert_ranks import Sources

    steps = Steps(batch, tokens, BUDGET_EACH, least_draws=1, least_layers=LEAST_LAYERS)
    return counted(by_weight, traffic, [planned], Sources(), steps)[0].slowest
