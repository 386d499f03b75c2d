"""From a scenario's ids and strings to the loaded things the formulas need, with notes and
sources."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from advisor.catalog.adjustment import check_adjustment, parse_adjustment
from advisor.catalog.engines import (
    ANY_SIZE,
    OTHER_ENGINE,
    Graphs,
    GraphServer,
    class_today,
    engine_of,
    engines,
    load_engine,
    stated_sizes,
)
from advisor.catalog.hardware import hardware_from_own, own_digest
from advisor.catalog.models import load_model, model_ids, own_model, unknown_model
from advisor.catalog.task_transfer import carried, curve_on_task
from advisor.physics.acceptance import Acceptance, parse_acceptance
from advisor.physics.architecture import MATRICES, Architecture, parameter_counts
from advisor.physics.attention import attending_layers
from advisor.physics.draft import Drafter, draft_architecture, load_drafter
from advisor.physics.hardware import Hardware, compute_dtype, gpus_of_node, load_hardware
from advisor.physics.memory import GIB
from advisor.physics.notes import Note, ranked
from advisor.physics.step import Placement
from advisor.predict.plain_sweep import PlainSweep, not_of, parse_sweep
from advisor.predict.scenario import Scenario
from advisor.predict.setup import (
    Setup,
    both_costs,
    in_pieces,
    memory_of,
    own_loads,
    pieces_of,
    routing_of,
    served_cache,
    served_weights,
    with_counted_ranks,
    with_memory,
)
from advisor.prediction import AdvisorError

_T = TypeVar("_T")


def notes_of(setup: Setup) -> tuple[Note, ...]:
    """Notes that a reader must know before trusting the answer, each once, the heaviest first."""
    scenario = setup.scenario
    architecture = setup.architecture
    moe = architecture.moe
    notes = [
        *_memory_notes(setup),
        *block_notes(setup),
        *(Note.of("read", text=text) for text in architecture.warnings),
        *architecture.notes,
        *_placement_notes(setup),
        *_node_notes(setup),
        *_format_notes(setup),
        *_release_notes(setup),
        *_graph_notes(setup),
        *_piece_notes(setup),
        *_sweep_notes(setup),
        *kernel_notes(setup),
    ]
    notes += _sparse_cache_notes(setup)
    if setup.adjustment is not None and setup.adjustment.forced:
        notes.append(Note.of("refit_forced"))
    notes += [Note.of("length_carried", text=text) for text in setup.acceptance.remarks]
    if setup.acceptance.borrowed:
        notes.append(Note.of("length_borrowed", source=setup.acceptance.source))
    loads = None if moe is None else own_loads(scenario, architecture.name, moe)
    if moe is not None and loads is not None:
        from advisor.physics.expert_loads import loads_notes  # few answers count ranks

        notes += loads_notes(loads, moe)
    notes += _imbalance_notes(setup)
    if moe is not None and moe.n_active == 1 and scenario.routing == "auto":
        notes.append(Note.of("top_1_unmeasured"))
    return ranked(notes)


def kernel_notes(setup: Setup) -> list[Note]:
    """Notes on kernels that are not measured for the setup, with what stands in for them."""
    return _of(setup.costs.notes, _parts(setup.architecture, setup.placement))


def _imbalance_notes(setup: Setup) -> list[Note]:
    """Basis of the slowest expert-parallel rank: assumed, or counted, and then what that leaves
    open."""
    placement = setup.placement
    copies = setup.scenario.redundant_experts
    if placement.expert_parallel == 1:
        return [] if copies is None else [Note.of("copies_change_nothing")]
    if placement.balance is None:
        return [Note.of("imbalance_assumed")]
    notes = [Note.of("imbalance_counted", own=setup.scenario.expert_loads is not None)]
    if copies is not None:
        rounded = placement.redundant if placement.redundant != copies else None
        notes.append(Note.of("layout_planned", rounded=rounded))
    return notes


def sources_of(setup: Setup) -> tuple[str, ...]:
    """Sources of every constant, each once."""
    hardware = setup.hardware
    adjustment = setup.adjustment
    sources = [
        *setup.architecture.sources,
        *_of(setup.costs.sources, _parts(setup.architecture, setup.placement)),
        setup.acceptance.source,
        *setup.drafter.sources,
    ]
    if setup.routing is not None:
        sources.append(f"{setup.routing.name}: {setup.routing.affinity.source}")
    if setup.scenario.expert_loads is not None and setup.architecture.moe is not None:
        sources.append("Loads of experts by layer: given with the scenario")
    sources.append(f"{hardware.name}: {hardware.bandwidth_bytes_per_s.source}")
    if adjustment is not None:
        sources.append(
            f"{adjustment.n_points} uploaded points (data {adjustment.data}): kernel times and "
            f"overheads refitted for {hardware.name} with {adjustment.engine_class}"
        )
    return tuple(dict.fromkeys(sources))


def _parts(architecture: Architecture, placement: Placement) -> tuple[str, ...]:
    """The parts of the kernel costs that this model and placement use."""
    kinds = {mixer.kind for mixer in architecture.mixers}
    used = {
        "accelerator": True,
        "experts": architecture.moe is not None,
        "projections": True,
        "attention": bool(kinds & {"full", "sliding"}),
        "recurrent state": "linear" in kinds,
        "latent attention": bool(kinds & {"mla", "sparse"}),
        "all-reduce": placement.tensor_parallel > 1,
        "expert exchange": placement.attention_groups > 1,
    }
    return tuple(part for part, needed in used.items() if needed)


def _of(texts: Mapping[str, tuple[_T, ...]], parts: tuple[str, ...]) -> list[_T]:
    return [text for part in parts for text in texts.get(part, ())]


def _memory_notes(setup: Setup) -> list[Note]:
    # Weights, cache of one sequence, batch: the first that is too large names what to change.
    scenario = setup.scenario
    memory = setup.memory
    if memory.largest_batch >= scenario.batch_size:
        return []
    weights = (memory.weights_bytes + memory.drafter_bytes) / GIB
    usable = memory.usable_bytes / GIB
    if weights >= usable:
        return [Note.of("weights_too_large", weights_gib=weights, usable_gib=usable)]
    context = scenario.context_tokens
    if memory.largest_batch == 0:
        note = Note.of(
            "sequence_too_large",
            context_tokens=context,
            cache_gib=(memory.prefix_bytes + memory.kv_bytes_per_sequence) / GIB,
            weights_gib=weights,
            usable_gib=usable,
        )
        return [note]
    needed = memory.total_bytes(scenario.batch_size) / GIB
    note = Note.of(
        "batch_too_large",
        batch=scenario.batch_size,
        needed_gib=needed,
        usable_gib=usable,
        context_tokens=context,
        largest=memory.largest_batch,
    )
    return [note]


_WEIGHT_ONLY = ("bf16", "fp32", "int4")
"""Formats that say nothing of an accelerator: int4 is widened everywhere."""


def _format_notes(setup: Setup) -> list[Note]:
    """Weight formats that the accelerator cannot multiply, and those that the engine's
    documentation leaves open."""
    hardware = setup.hardware
    architecture = setup.architecture
    engine = engine_of(setup.scenario.engine)
    counts = parameter_counts(architecture)
    used = [getattr(architecture.dtypes, part) for part in MATRICES if getattr(counts, part)]
    immature = Note.of("engines_immature", hardware=hardware.name)
    notes = [immature] if hardware.is_immature else []
    for dtype in dict.fromkeys(stored for stored in used if stored not in _WEIGHT_ONLY):
        place = {"dtype": dtype, "hardware": hardware.name}
        if compute_dtype(hardware, dtype) != dtype:
            notes.append(Note.of("format_converted", **place))
        if engine is not None and (unlisted := engine.unlisted_on(dtype, hardware.generation)):
            notes.append(
                Note.of("format_unlisted", engine=engine.name, source=unlisted.source, **place)
            )
    return notes


_BLOCK = 128
"""Rows and columns of a weight that share a scale in fp8_block. [-]"""


def block_notes(setup: Setup) -> list[Note]:
    """Refusal of an engine to load experts that tensor parallelism splits within a block of their
    weights."""
    engine = engine_of(setup.scenario.engine)
    moe = setup.architecture.moe
    placement = setup.placement
    ways = placement.expert_tensor_parallel
    gpus = placement.gpus
    hardware = setup.hardware
    if setup.scenario.engine == "vllm" and placement.expert_parallel > 1:
        ways = 1  # it then spreads experts over all ranks and splits none
    if (
        moe is None
        or engine is None
        or setup.architecture.dtypes.routed != "fp8_block"
        or ways == 1
    ):
        return []
    if not moe.expert_width % (ways * _BLOCK) or not engine.warned_of(
        {"split_blocks"}, setup.scenario.engine_version
    ):
        return []
    pads = hardware.vendor != "NVIDIA" or not {"sm_100", "sm_103"}.isdisjoint(
        hardware.generation.split()
    )
    ranks = max(
        n
        for n in range(1, gpus)
        if gpus % n == 0 and (n == 1 or moe.expert_width % (n * _BLOCK) == 0)
    )
    note = Note.of(
        "split_blocks",
        engine=engine.name,
        pads=pads,
        ranks=ways,
        width=moe.expert_width,
        cut=moe.expert_width // ways,
        block=_BLOCK,
        gpus=gpus,
        narrower=ranks,
    )
    return [note]


def _placement_notes(setup: Setup) -> list[Note]:
    scenario = setup.scenario
    notes = []
    copies = scenario.n_gpus // setup.placement.gpus
    if copies > 1:
        notes.append(Note.of("copies", gpus=scenario.n_gpus, copies=copies))
    limit = setup.architecture.max_context_tokens
    context = scenario.context_tokens
    if limit is not None and context > limit:
        notes.append(Note.of("context_too_long", context_tokens=context, limit_tokens=limit))
    return notes


def _node_notes(setup: Setup) -> list[Note]:
    """What is charged for links between nodes, and what is not, where an instance has GPUs on
    several."""
    hardware = setup.hardware
    placement = setup.placement
    node = gpus_of_node(hardware)
    notes = []
    if placement.attention_groups > 1 and placement.expert_parallel > node:
        network = setup.costs.network
        if network is not None:
            rate = network.bandwidth_bytes_per_s / 1e9
            ranks = placement.expert_parallel
            notes.append(Note.of("network_charged", ranks=ranks, node=node, gb_per_s=rate))
        elif hardware.network_bytes_per_s is None:
            notes.append(Note.of("network_unknown", node=node, hardware=hardware.name))
    if placement.tensor_parallel > node:
        notes.append(Note.of("ranks_beyond_node", node=node))
    return [*notes, *_beyond_measured_ranks(setup, node)]


def _beyond_measured_ranks(setup: Setup, node: int) -> list[Note]:
    """Exchanges inside a node among more ranks than any that their constants are known for."""
    placement = setup.placement
    costs = setup.costs
    exchanging = placement.expert_parallel if placement.attention_groups > 1 else 1
    used = (
        (True, costs.all_reduce, placement.tensor_parallel),
        (False, costs.all_to_all, exchanging),
    )
    return [
        Note.of(
            "ranks_beyond_measured",
            reduces=reduces,
            ranks=min(ranks, node),
            hardware=setup.hardware.name,
            measured=max(table),
        )
        for reduces, table, ranks in used
        if table and min(ranks, node) > max(table)
    ]


def load_setup(scenario: Scenario, borrowed_acceptance: bool | None = None) -> Setup:
    """Load a scenario. Raises AdvisorError when an id is unknown, a file cannot be read, or the
    drafter does not fit.

    `borrowed_acceptance` says whether the accepted length comes from another run than the one it is
    used for, which widens its band; None: only a measured curve of another model or drafter is
    borrowed. Scenarios with a model, an accelerator or a refit of the user's own are not
    remembered: the cache is shared by everybody who uses this process.
    """
    # What one user gave must not be found by another through a shared cache.
    load = _load if scenario.is_private else _remembered
    return load(scenario, borrowed_acceptance)


def _load(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    return _told(priced_setup(scenario, borrowed_acceptance))


_OF_NO_SERVER = {
    **dict.fromkeys(("max_tpot_ms", "plain_sweep", "input_tokens", "output_tokens")),
    "batch_size": 1,
    "k_max": 1,
    "acceptance": "0",
}
"""Settings that scenarios of one server and context may differ in, at values of no scenario."""


def priced_setup(scenario: Scenario, borrowed_acceptance: bool | None = None) -> Setup:
    """Setup as `load_setup` gives it, without notes and sources: what prices need of it."""
    alike = scenario.model_copy(update=_OF_NO_SERVER)
    server = _server(alike) if scenario.is_private else _remembered_server(alike)
    acceptance = _acceptance(scenario, server.architecture, server.drafter, borrowed_acceptance)
    setup = dataclasses.replace(
        server, scenario=scenario, acceptance=acceptance, sweep=_sweep(scenario)
    )
    return with_counted_ranks(setup)


def _server(scenario: Scenario) -> Setup:
    """The setup before ranks are counted, of settings beside those of `_OF_NO_SERVER`."""
    hardware_json = scenario.hardware_json
    hardware = (
        load_hardware(scenario.hardware_id)
        if hardware_json is None
        else hardware_from_own(hardware_json, scenario.hardware_id)
    )
    _check_engine(scenario, hardware)
    architecture = _architecture(scenario)
    weights = {
        "stated_vocabulary": scenario.draft_vocabulary,
        "weight_dtype": scenario.draft_dtype,
    }
    drafter = load_drafter(scenario.drafter_id).model_copy(update=weights)
    draft_model = load_model(drafter.draft_model_id) if drafter.draft_model_id else None
    per_pass = draft_architecture(drafter, architecture, draft_model)
    placement = Placement(scenario.tensor_parallel, scenario.expert_parallel)
    _check_placement(scenario, architecture, placement)
    cache = served_cache(architecture, scenario, hardware)
    adjustment = parse_adjustment(scenario.refit) if scenario.refit is not None else None
    if adjustment is not None:
        check_adjustment(
            adjustment, hardware.id, scenario.engine, own_digest(scenario.hardware_json)
        )
    costs, draft_costs = both_costs(
        scenario, hardware, cache, (architecture, per_pass), placement, adjustment
    )
    routing, because = routing_of(scenario, architecture)
    memory = memory_of(scenario, hardware, architecture, per_pass, placement, cache)
    return Setup(
        scenario,
        hardware,
        architecture,
        placement,
        drafter,
        per_pass,
        _acceptance(scenario, architecture, drafter, None),
        routing,
        because,
        costs,
        draft_costs,
        memory,
        cache,
        notes=(),
        sources=(),
        adjustment=adjustment,
        graphs=_graphs(scenario, hardware, placement),
    )


def _acceptance(
    scenario: Scenario, architecture: Architecture, drafter: Drafter, borrowed: bool | None
) -> Acceptance:
    """Accepted lengths by K, carried to the scenario's task and context."""
    text = curve_on_task(scenario.acceptance, scenario.task)
    ids = {"model_id": architecture.id, "drafter_id": drafter.id}
    measured = parse_acceptance(text, scenario.k_max, borrowed=borrowed, **ids)
    return carried(text, measured, drafter.kind, scenario.task, scenario.context_tokens)


def _sweep(scenario: Scenario) -> PlainSweep | None:
    """The scenario's plain sweep. None where it has none, or one of another scenario."""
    sweep = None if scenario.plain_sweep is None else parse_sweep(scenario.plain_sweep)
    # A sweep of another scenario has a note and is not refused (decision 0026).
    return None if sweep is None or not_of(sweep, vars(scenario)) else sweep


def _sweep_notes(setup: Setup) -> list[Note]:
    text = setup.scenario.plain_sweep
    other = "" if text is None else not_of(parse_sweep(text), vars(setup.scenario))
    return [Note.of("sweep_of_other", settings=other)] if other else []


def _graphs(scenario: Scenario, hardware: Hardware, placement: Placement) -> Graphs | None:
    """CUDA graphs that the scenario's server captured. None where neither a release that was read
    nor sizes say it."""
    version = scenario.engine_version
    sizes = "none" if scenario.graph_mode == "none" else scenario.graph_sizes
    if version is None and sizes is None:
        return None
    stated = stated_sizes(sizes) if sizes is not None else {}
    engine = engine_of(scenario.engine)
    rule = None if engine is None or version is None else engine.graph_rule(version)
    if rule is None and ("sizes" in stated or "largest" in stated):
        # Sizes that are stated need no release: today's rule says what they count, and how they are
        # rounded.
        rule = engine.graphs[-1] if engine is not None and engine.graphs else ANY_SIZE
    if rule is None:
        return None
    server = GraphServer.of(hardware, placement.gpus)
    name = engine.name if engine is not None else "the engine"
    release = f"{name} {version}" if version else name
    return Graphs(release, rule, dataclasses.replace(server, **stated), bool(stated))


def default_graphs(setup: Setup, engine: str, version: str | None = None) -> Graphs | None:
    """CUDA graphs that a release captures by itself here, default the reviewed one. None where
    unread."""
    profile = load_engine(engine)
    # An engine is exported for the release that was reviewed, so its graphs are what an export
    # meets.
    release = version or (profile.reviewed.version if profile.reviewed else "0.0")
    rule = profile.graph_rule(release)
    server = GraphServer.of(setup.hardware, setup.placement.gpus)
    return None if rule is None else Graphs(f"{profile.name} {release}", rule, server)


def _release_notes(setup: Setup) -> list[Note]:
    """Whether the stated release has other host times than today's."""
    scenario = setup.scenario
    part = setup.hardware
    today = class_today(scenario.engine, part.vendor, part.generation, None)
    version = scenario.engine_version
    stated_release = class_today(scenario.engine, part.vendor, part.generation, version)
    if stated_release == today or setup.drafter.kind == "none":
        return []
    name = load_engine(scenario.engine).name
    return [Note.of("release_host_time", engine=name, version=version)]


def _graph_notes(setup: Setup) -> list[Note]:
    """Whether what the stated release captures was not read."""
    scenario = setup.scenario
    version = scenario.engine_version
    if setup.graphs is not None or (version is None and scenario.graph_sizes is None):
        return []
    engine = engine_of(scenario.engine)
    rules = () if engine is None else engine.graphs
    note = Note.of(
        "graphs_unread",
        engine=None if engine is None else engine.name,
        version=version or None,
        since=rules[0].since if rules else None,
        before=rules[-1].before if rules else None,
    )
    return [note]


def _piece_notes(setup: Setup) -> list[Note]:
    """Whether a verification runs in pieces of graphs, with what keeps it whole."""
    rule = pieces_of(setup.scenario, setup.hardware, setup.cache, setup.architecture)
    if not in_pieces(setup.scenario, rule) or setup.drafter.kind == "none":
        return []
    wait_ms = setup.costs.between_graphs_s * attending_layers(setup.architecture) * 1e3
    return [Note.of("graphs_in_pieces", wait_ms=wait_ms, do=rule.do if rule else None)]


def _sparse_cache_notes(setup: Setup) -> list[Note]:
    """Whether sparse attention reads a cache of a format that was seen to take another kernel.

    Seen on an H20: DeepSeek-V4-Flash under SGLang of August 2026 took 3.3 times the baseline step
    with a cache in 16 bits (docs/decisions/0045-verified-tokens.md).
    """
    sparse = any(mixer.kind == "sparse" for mixer in setup.architecture.mixers)
    in_16_bits = setup.cache.dtype == "bf16"
    of_chip = setup.scenario.engine == "sglang" and "sm_90" in setup.hardware.generation.split()
    return [Note.of("sparse_cache_in_16_bits")] if sparse and in_16_bits and of_chip else []


def with_costs(setup: Setup, **changes: Any) -> Setup:
    """Setup with constants of its kernel costs replaced, in target and drafter alike."""
    changed = {
        name: dataclasses.replace(getattr(setup, name), **changes)
        for name in ("costs", "draft_costs")
    }
    return dataclasses.replace(setup, **changed)


def with_placement(setup: Setup, placement: Placement) -> Setup:
    """Setup on another placement, with its costs and memory. Raises AdvisorError where that cannot
    be."""
    # Fields too, not the placement alone: hash, link and a plain sweep go by the scenario.
    ranks = {
        "tensor_parallel": placement.tensor_parallel,
        "expert_parallel": placement.expert_parallel,
    }
    scenario = setup.scenario.model_copy(update=ranks)
    target = setup.architecture
    per_pass = setup.draft_architecture
    _check_placement(scenario, target, placement)
    costs, draft_costs = both_costs(
        scenario, setup.hardware, setup.cache, (target, per_pass), placement, setup.adjustment
    )
    changed = dataclasses.replace(
        setup,
        scenario=scenario,
        placement=placement,
        costs=costs,
        draft_costs=draft_costs,
        graphs=_graphs(scenario, setup.hardware, placement),
        sweep=_sweep(scenario) if setup.sweep else None,
    )
    return _told(with_counted_ranks(with_memory(changed)))


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
    # Loads had set the routing's spread: without them it is the preset's again.
    routing, because = routing_of(plain, setup.architecture)
    return with_assumed_ranks(
        dataclasses.replace(setup, scenario=plain, routing=routing, routing_because=because)
    )


def _told(setup: Setup) -> Setup:
    return dataclasses.replace(setup, notes=notes_of(setup), sources=sources_of(setup))


_remembered_server = functools.lru_cache(maxsize=128)(_server)
_remembered = functools.lru_cache(maxsize=256)(_load)


def _check_engine(scenario: Scenario, hardware: Hardware) -> None:
    """Raise AdvisorError for an engine that does not run on the accelerator's vendor, where both
    are known."""
    engine = engine_of(scenario.engine)
    vendors = {vendor for listed_engine in engines() for vendor in listed_engine.vendors}
    if engine is not None and engine.vendors and hardware.vendor in vendors - set(engine.vendors):
        others = [other.id for other in engines() if hardware.vendor in other.vendors]
        raise AdvisorError(
            f"{engine.name} does not run on {hardware.name} ({hardware.vendor}), only on "
            f"accelerators of {', '.join(engine.vendors)}; choose {', '.join(others)} or "
            f"{OTHER_ENGINE}"
        )


def _architecture(scenario: Scenario) -> Architecture:
    if scenario.model_config_json is not None:
        architecture = own_model(scenario.model_config_json, scenario.model_id)
    elif scenario.model_id not in model_ids():
        # Never a path: a shared link must not make the server read its files.
        raise AdvisorError(unknown_model(scenario.model_id))
    else:
        architecture = load_model(scenario.model_id)
    # They then take no GPU memory; what looking them up takes is not modelled.
    engine = engine_of(scenario.engine)
    if engine is not None and engine.tables_on_host:
        architecture = architecture.model_copy(update={"table_params": 0})
    return served_weights(architecture, scenario)


def _check_placement(scenario: Scenario, architecture: Architecture, placement: Placement) -> None:
    moe = architecture.moe
    if moe is None and placement.expert_parallel > 1:
        raise AdvisorError(f"{architecture.name} is dense; set expert_parallel=1")
    if moe is not None and moe.n_experts % placement.expert_parallel:
        raise AdvisorError(
            f"expert_parallel={placement.expert_parallel} does not divide {moe.n_experts} "
            "experts; choose a divisor"
        )
    if max(placement.tensor_parallel, placement.expert_parallel) % min(
        placement.tensor_parallel, placement.expert_parallel
    ):
        raise AdvisorError(
            f"tensor_parallel={placement.tensor_parallel} and "
            f"expert_parallel={placement.expert_parallel} do not nest; make one a multiple of the "
            "other"
        )
    tp = placement.tensor_parallel
    if architecture.hidden_size % tp or (
        moe is not None and moe.expert_width % placement.expert_tensor_parallel
    ):
        raise AdvisorError(
            f"tensor_parallel={tp} does not divide the model's widths (hidden "
            f"{architecture.hidden_size}); choose a divisor, usually a power of two"
        )
    for kv in {mixer.kv_shards for mixer in architecture.mixers if mixer.query_heads}:
        if kv % tp and tp % kv:  # engines split heads of keys and values, or repeat each as a whole
            raise AdvisorError(
                f"tensor_parallel={tp} neither divides {kv} KV heads nor is a multiple of them, "
                "so no engine starts; choose a power of two"
            )
    if placement.gpus > scenario.n_gpus:
        raise AdvisorError(
            f"the placement needs {placement.gpus} GPUs, n_gpus={scenario.n_gpus}; raise n_gpus"
        )
