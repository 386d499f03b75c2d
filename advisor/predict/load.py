"""From a scenario's ids and strings to the loaded things the formulas need, with warnings and
sources."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from advisor.catalog.adjustment import check_adjustment, parse_adjustment
from advisor.catalog.engines import (
    ANY_SIZE,
    OTHER_ENGINE,
    Graphs,
    GraphServer,
    captured_sizes,
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
from advisor.physics.expert_loads import loads_warnings
from advisor.physics.hardware import Hardware, compute_dtype, gpus_of_node, load_hardware
from advisor.physics.memory import GIB, MemoryFit
from advisor.physics.step import Placement
from advisor.predict.plain_sweep import PlainSweep, not_of, parse_sweep
from advisor.predict.scenario import Scenario
from advisor.predict.setup import (
    Setup,
    both_costs,
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

ASSUMED_IMBALANCE = (
    "Expert-parallel imbalance follows an assumed formula; it has not been measured. Loads of "
    "your experts (--expert-loads, or a routing trace dropped on Measure) replace it by counts."
)

FORCED = "Your refit was rejected by its checks and is forced all the same."

BORROWED = "The accepted length is borrowed"
"""How the warning begins."""


def warnings_of(setup: Setup) -> tuple[str, ...]:
    """Warnings that a reader must know before trusting the answer, each once."""
    scenario = setup.scenario
    architecture = setup.architecture
    placement = setup.placement
    is_forced = setup.adjustment is not None and setup.adjustment.forced
    warnings = [FORCED] if is_forced else []
    warnings += [
        *_memory_warnings(scenario, setup.memory, placement),
        *block_warnings(setup),
        *architecture.warnings,
        *_placement_warnings(setup),
        *_node_warnings(setup),
        *_format_warnings(setup),
        *_release_warnings(setup),
        *_graph_warnings(setup),
        *_piece_warnings(setup),
        *_sweep_warnings(setup),
        *kernel_warnings(setup),
    ]
    warnings += setup.acceptance.remarks
    if setup.acceptance.borrowed:
        source = setup.acceptance.source
        warnings.append(f"{BORROWED}: {source}. Give your own for a narrower range.")
    loads = (
        None
        if architecture.moe is None
        else own_loads(scenario, architecture.name, architecture.moe)
    )
    if architecture.moe is not None and loads is not None:
        warnings += [
            f"{text[0].upper()}{text[1:]}." for text in loads_warnings(loads, architecture.moe)
        ]
    warnings += _imbalance_notes(setup)
    if architecture.moe and architecture.moe.n_active == 1 and scenario.routing == "auto":
        warnings.append(
            "No top-1 router has been measured; its routing correlation is a class default."
        )
    return tuple(dict.fromkeys(warnings))


def kernel_warnings(setup: Setup) -> list[str]:
    """Warnings of kernels that are not measured for the setup, with what stands in for them."""
    return _of(setup.costs.warnings, _parts(setup.architecture, setup.placement))


def _imbalance_notes(setup: Setup) -> list[str]:
    """Basis of the slowest expert-parallel rank: assumed, or counted, and then what that leaves
    open."""
    scenario = setup.scenario
    placement = setup.placement
    has_loads = scenario.expert_loads is not None
    copies = scenario.redundant_experts
    if placement.expert_parallel == 1:
        return (
            []
            if copies is None
            else ["On one expert-parallel rank copies of experts change nothing."]
        )
    if placement.balance is None:
        return [ASSUMED_IMBALANCE]
    origin = "your loads of experts, taken to stay as they are"
    if not has_loads:
        origin = "loads with the routing preset's spread, which experts are hot drawn by chance"
    notes = [f"The slowest expert-parallel rank is counted on {origin}; it has not been measured."]
    if copies is not None:
        rounded = (
            f" ({placement.redundant} copies, to fill the ranks evenly)"
            if placement.redundant != copies
            else ""
        )
        notes.append(
            f"The balanced layout{rounded} is planned on the loads that it is judged with: real "
            "loads drift in between."
        )
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


def _of(notes: Mapping[str, tuple[str, ...]], parts: tuple[str, ...]) -> list[str]:
    return [text for part in parts for text in notes.get(part, ())]


def _memory_warnings(scenario: Scenario, memory: MemoryFit, placement: Placement) -> list[str]:
    # Weights, cache of one sequence, batch: the first that is too large names what to change.
    if memory.largest_batch >= scenario.batch_size:
        return []
    need = memory.total_bytes(scenario.batch_size, placement.attention_groups) / GIB
    have = memory.usable_bytes / GIB
    weights = (memory.weights_bytes + memory.drafter_bytes) / GIB
    if weights >= have:
        return [
            f"Does not fit: weights take {weights:.0f} GiB per GPU, {have:.0f} GiB are usable. "
            "Use more GPUs (tensor parallel), a larger accelerator, or a smaller weight format."
        ]
    if memory.largest_batch == 0:
        cache = memory.kv_bytes_per_sequence / GIB
        return [
            f"Does not fit: one sequence of {scenario.context_tokens:,} tokens takes {cache:.0f} "
            f"GiB of KV cache beside {weights:.0f} GiB of weights per GPU, {have:.0f} GiB are "
            "usable. Use a shorter context, an fp8 KV cache or more GPUs."
        ]
    return [
        f"Batch {scenario.batch_size} does not fit: {need:.0f} GiB per GPU, {have:.0f} GiB are "
        f"usable. The largest batch that fits at {scenario.context_tokens:,} tokens of context is "
        f"{memory.largest_batch}."
    ]


_WEIGHT_ONLY = ("bf16", "fp32", "int4")
"""Formats that say nothing of an accelerator: int4 is widened everywhere."""


def _format_warnings(setup: Setup) -> list[str]:
    """Weight formats that the accelerator cannot multiply, and those that the engine's
    documentation leaves open."""
    hardware = setup.hardware
    architecture = setup.architecture
    engine = engine_of(setup.scenario.engine)
    counts = parameter_counts(architecture)
    used = [getattr(architecture.dtypes, part) for part in MATRICES if getattr(counts, part)]
    warnings = []
    for dtype in dict.fromkeys(stored for stored in used if stored not in _WEIGHT_ONLY):
        if compute_dtype(hardware, dtype) != dtype:
            warnings.append(
                f"{hardware.name} does not multiply in {dtype}: weights are kept in it and "
                "converted to bf16 by the kernels."
            )
        if engine is not None and (unlisted := engine.unlisted_on(dtype, hardware.generation)):
            warnings.append(
                f"{engine.name} may not run {dtype} weights on {hardware.name}: not listed in "
                f"{unlisted.source}."
            )
    return warnings


_BLOCK = 128
"""Rows and columns of a weight that share a scale in fp8_block. [-]"""


def block_warnings(setup: Setup) -> list[str]:
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
    refuses = "may refuse" if pads else "refuses"
    return [
        f"{engine.name} {refuses} to load this: {ways} ranks cut experts {moe.expert_width:,} "
        f"wide to {moe.expert_width // ways:,}, no multiple of the fp8 blocks of {_BLOCK}. Spread "
        f"whole experts over the {gpus} GPUs (--ep {gpus}), or take --tp {ranks}."
    ]


def _placement_warnings(setup: Setup) -> list[str]:
    scenario = setup.scenario
    architecture = setup.architecture
    placement = setup.placement
    warnings = []
    copies = scenario.n_gpus // placement.gpus
    if copies > 1:
        warnings.append(
            f"{scenario.n_gpus} GPUs hold {copies} independent copies of the model; batch and "
            "speed are per copy."
        )
    limit = architecture.max_context_tokens
    if limit is not None and scenario.context_tokens > limit:
        warnings.append(
            f"A context of {scenario.context_tokens:,} tokens exceeds the model's own {limit:,}; "
            "shorten it."
        )
    return warnings


def _node_warnings(setup: Setup) -> list[str]:
    """What is charged for links between nodes, and what is not, where an instance has GPUs on
    several."""
    hardware = setup.hardware
    placement = setup.placement
    node = gpus_of_node(setup.hardware)
    warnings = []
    if placement.attention_groups > 1 and placement.expert_parallel > node:
        network = setup.costs.network
        if network is not None:
            rate = network.bandwidth_bytes_per_s / 1e9
            warnings.append(
                f"{placement.expert_parallel} expert-parallel ranks lie on nodes of {node}: the "
                f"exchange of tokens holds the network, {rate:.0f} GB/s a GPU from a data sheet, "
                "without congestion; on AWS EFA exchanges took 1.4 to 2.9 times as long as "
                "charged (docs/expert-parallel.md)."
            )
        elif hardware.network_bytes_per_s is None:
            warnings.append(
                f"More than {node} GPUs: what joins nodes of {hardware.name} is not known, the "
                "exchange of tokens is that of one node and too low."
            )
    if placement.tensor_parallel > node:
        warnings.append(
            f"Tensor parallelism beyond a node of {node}: links between nodes are not modelled, "
            "all-reduces are too low."
        )
    return [*warnings, *_beyond_measured_ranks(setup, node)]


def _beyond_measured_ranks(setup: Setup, node: int) -> list[str]:
    """Warnings of exchanges inside a node among more ranks than any that their constants are known
    for."""
    placement = setup.placement
    costs = setup.costs
    exchanging = placement.expert_parallel if placement.attention_groups > 1 else 1
    used = (
        ("An all-reduce", costs.all_reduce, placement.tensor_parallel),
        ("An exchange of tokens", costs.all_to_all, exchanging),
    )
    return [
        f"{what} among {min(ranks, node)} GPUs of {setup.hardware.name} is charged as among "
        f"{max(table)}, the most its constants are known for: probably too little."
        for what, table, ranks in used
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
    return _told(_untold(scenario, borrowed_acceptance))


def _untold(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    """The setup without warnings and sources."""
    hardware_json = scenario.hardware_json
    hardware = (
        load_hardware(scenario.hardware_id)
        if hardware_json is None
        else hardware_from_own(hardware_json, scenario.hardware_id)
    )
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
        check_adjustment(
            adjustment, hardware.id, scenario.engine, own_digest(scenario.hardware_json)
        )
    costs, draft_costs = both_costs(
        scenario, hardware, cache, (architecture, per_pass), placement, adjustment
    )
    routing, because = routing_of(scenario, architecture)
    memory = memory_of(scenario, hardware, architecture, per_pass, placement, cache)
    setup = Setup(
        scenario,
        hardware,
        architecture,
        placement,
        drafter,
        per_pass,
        _acceptance(scenario, architecture, drafter, borrowed_acceptance),
        routing,
        because,
        costs,
        draft_costs,
        memory,
        cache,
        warnings=(),
        sources=(),
        adjustment=adjustment,
        sweep=_sweep(scenario),
        graphs=_graphs(scenario, hardware, placement),
    )
    return with_counted_ranks(setup)


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
    # A sweep of another scenario is told in a warning and not refused (decision 0026).
    return None if sweep is None or not_of(sweep, vars(scenario)) else sweep


def _sweep_warnings(setup: Setup) -> list[str]:
    text = setup.scenario.plain_sweep
    other = "" if text is None else not_of(parse_sweep(text), vars(setup.scenario))
    return [f"Your plain sweep is of {other}: here it is not used."] if other else []


def _graphs(scenario: Scenario, hardware: Hardware, placement: Placement) -> Graphs | None:
    """CUDA graphs that the scenario's server captured. None where neither a release that was read
    nor sizes say it."""
    version = scenario.engine_version
    sizes = scenario.graph_sizes
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
    return Graphs(
        f"{name} {version}" if version else name, rule, dataclasses.replace(server, **stated)
    )


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


def widest_graph(setup: Setup, tokens: int) -> int | None:
    """Most tokens that a read release of the engine captures at `tokens` [-] a sequence, or None.
    [tokens]"""
    engine = engine_of(setup.scenario.engine)
    if engine is None or not engine.graphs:
        return None
    server = GraphServer.of(setup.hardware, setup.placement.gpus)
    return max(int(captured_sizes(rule, server, tokens)[-1]) for rule in engine.graphs)


def _release_warnings(setup: Setup) -> list[str]:
    """Warning that the stated release has other host times than today's."""
    scenario = setup.scenario
    part = setup.hardware
    today = class_today(scenario.engine, part.vendor, part.generation, None)
    stated_release = class_today(
        scenario.engine, part.vendor, part.generation, scenario.engine_version
    )
    if stated_release == today or setup.drafter.kind == "none":
        return []
    name = load_engine(scenario.engine).name
    return [
        f"{name} {scenario.engine_version} takes other host time for a round than today's {name}: "
        "it is charged."
    ]


def _graph_warnings(setup: Setup) -> list[str]:
    """Warning that what the stated release captures was not read."""
    scenario = setup.scenario
    if setup.graphs is not None or (
        scenario.engine_version is None and scenario.graph_sizes is None
    ):
        return []
    engine = engine_of(scenario.engine)
    rules, name = ((), "the engine") if engine is None else (engine.graphs, engine.name)
    release = (
        f"{name} {scenario.engine_version}"
        if scenario.engine_version
        else f"this release of {name}"
    )
    read = f" (read: {rules[0].since} to before {rules[-1].before})" if rules else ""
    return [
        f"What {release} captures in CUDA graphs was not read{read}: neither padding nor steps "
        "beyond the largest graph are charged. State the largest size or a list (graph_sizes) to "
        "have them charged."
    ]


def _piece_warnings(setup: Setup) -> list[str]:
    """Warning that a verification runs in pieces of graphs, with what keeps it whole."""
    rule = pieces_of(setup.scenario, setup.hardware, setup.cache, setup.architecture)
    if rule is None or setup.drafter.kind == "none":
        return []
    waits_ms = setup.costs.between_graphs_s * attending_layers(setup.architecture) * 1e3
    cost_text = (
        f"Each round verifies outside full CUDA graphs: {waits_ms:.1f} ms more, and drafts "
        "without a graph."
    )
    return [f"{cost_text} {rule.do} avoids both."]


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
    return dataclasses.replace(setup, warnings=warnings_of(setup), sources=sources_of(setup))


def _at_its_batch(scenario: Scenario, borrowed_acceptance: bool | None) -> Setup:
    """`_load`, remembered apart from the batch: of a setup, only what is said about memory depends
    on it."""
    alone = _whatever_the_batch(scenario.model_copy(update={"batch_size": 1}), borrowed_acceptance)
    return _told(dataclasses.replace(alone, scenario=scenario))


_whatever_the_batch = functools.lru_cache(maxsize=128)(_untold)
_remembered = functools.lru_cache(maxsize=256)(_at_its_batch)


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
