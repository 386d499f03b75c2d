"""What a reader must know before trusting an answer, and where its constants come from."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.architecture import MATRICES, Architecture, parameter_counts
from advisor.catalog import OTHER_ENGINE, load_engine
from advisor.expert_traffic import loads_warnings
from advisor.hardware import compute_dtype, gpus_of_node
from advisor.memory import GIB, MemoryFit
from advisor.scenario import Scenario
from advisor.setup.loaded import Setup
from advisor.setup.routing import own_loads
from advisor.step_cost import Placement

ASSUMED_IMBALANCE = (
    "Expert-parallel imbalance follows an assumed formula; it has not been measured. Loads of your experts "
    "(--expert-loads, or Your routing trace on the page Data) replace it by counts."
)


def warnings_of(setup: Setup) -> tuple[str, ...]:
    """Warnings that a reader must know before trusting the answer, each once."""
    scenario, architecture, placement = setup.scenario, setup.architecture, setup.placement
    found = [
        *_memory_warnings(scenario, setup.memory, placement),
        *architecture.warnings,
        *_placement_warnings(setup),
        *_node_warnings(setup),
        *_format_warnings(setup),
        *_of(setup.costs.warnings, _parts(architecture, placement)),
    ]
    found += setup.acceptance.remarks
    if setup.acceptance.borrowed:
        found.append(f"The accepted length is borrowed: {setup.acceptance.source}. Give your own for a narrower band.")
    found += _loads_notes(setup)
    found += _imbalance_notes(setup)
    if architecture.moe and architecture.moe.n_active == 1 and scenario.routing == "auto":
        found.append("No top-1 router has been measured; its routing correlation is a class default.")
    return tuple(dict.fromkeys(found))


def _loads_notes(setup: Setup) -> list[str]:
    """Doubts about the loads of experts that the scenario carries."""
    scenario, moe = setup.scenario, setup.architecture.moe
    loads = None if moe is None else own_loads(scenario, setup.architecture.name, moe)
    if loads is None or moe is None:
        return []
    return [f"{text[0].upper()}{text[1:]}." for text in loads_warnings(loads, moe)]


def _imbalance_notes(setup: Setup) -> list[str]:
    """Basis of the slowest expert-parallel rank: assumed, or counted, and then what that leaves open."""
    scenario, placement = setup.scenario, setup.placement
    given, copies = scenario.expert_loads is not None, scenario.redundant_experts
    if placement.expert_parallel == 1:
        return [] if copies is None else ["On one expert-parallel rank copies of experts change nothing."]
    if placement.balance is None:
        return [ASSUMED_IMBALANCE]
    origin = "your loads of experts, taken to stay as they are"
    if not given:
        origin = "loads with the routing preset's spread, which experts are hot drawn by chance"
    found = [f"The slowest expert-parallel rank is counted on {origin}; it has not been measured."]
    if copies is not None:
        rounded = f" ({placement.redundant} copies, to fill the ranks evenly)" if placement.redundant != copies else ""
        found.append(
            f"The balanced layout{rounded} is planned on the loads that it is judged with: real loads drift in between."
        )
    return found


def sources_of(setup: Setup) -> tuple[str, ...]:
    """Sources of every constant, each once."""
    hardware, adjustment = setup.hardware, setup.adjustment
    found = [
        *setup.architecture.sources,
        *_of(setup.costs.sources, _parts(setup.architecture, setup.placement)),
        setup.acceptance.source,
        *setup.drafter.sources,
    ]
    if setup.routing is not None:
        found.append(f"{setup.routing.name}: {setup.routing.affinity.source}")
    if setup.scenario.expert_loads is not None and setup.architecture.moe is not None:
        found.append("Loads of experts by layer: given with the scenario")
    found.append(f"{hardware.name}: {hardware.bandwidth_bytes_per_s.source}")
    if adjustment is not None:
        found.append(
            f"{adjustment.n_points} uploaded points (data {adjustment.data}): kernel times and overheads refitted for "
            f"{hardware.name} with {adjustment.engine_class}"
        )
    return tuple(dict.fromkeys(found))


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
            f"Does not fit: one sequence of {scenario.context_tokens:,} tokens takes {cache:.0f} GiB of KV cache "
            f"beside {weights:.0f} GiB of weights per GPU, {have:.0f} GiB are usable. Use a shorter context, an fp8 KV "
            "cache or more GPUs."
        ]
    return [
        f"Batch {scenario.batch_size} does not fit: {need:.0f} GiB per GPU, {have:.0f} GiB are usable. "
        f"The largest batch that fits at {scenario.context_tokens:,} tokens of context is {memory.largest_batch}."
    ]


_WEIGHT_ONLY = ("bf16", "fp32", "int4")
"""Formats that say nothing of an accelerator: int4 is widened everywhere."""


def _format_warnings(setup: Setup) -> list[str]:
    """Weight formats that the accelerator cannot multiply, and those that the engine's documentation leaves open."""
    hardware, architecture, engine_id = setup.hardware, setup.architecture, setup.scenario.engine
    counts = parameter_counts(architecture)
    used = [getattr(architecture.dtypes, part) for part in MATRICES if getattr(counts, part)]
    warnings = []
    for dtype in dict.fromkeys(each for each in used if each not in _WEIGHT_ONLY):
        if compute_dtype(hardware, dtype) != dtype:
            warnings.append(
                f"{hardware.name} has no arithmetic in {dtype}: the weights are read in it, widened and multiplied in "
                "bf16, by weight-only kernels."
            )
        found = None if engine_id == OTHER_ENGINE else load_engine(engine_id).unlisted_on(dtype, hardware.generation)
        if found is not None:
            warnings.append(
                f"{load_engine(engine_id).name} may not run {dtype} weights on {hardware.name}: not listed in "
                f"{found.source}."
            )
    return warnings


def _placement_warnings(setup: Setup) -> list[str]:
    scenario, architecture, placement = setup.scenario, setup.architecture, setup.placement
    warnings = []
    copies = scenario.n_gpus // placement.gpus
    if copies > 1:
        warnings.append(
            f"{scenario.n_gpus} GPUs hold {copies} independent copies of the model; batch and speed are per copy."
        )
    limit = architecture.max_context_tokens
    if limit is not None and scenario.context_tokens > limit:
        warnings.append(
            f"A context of {scenario.context_tokens:,} tokens exceeds the model's own {limit:,}; shorten it."
        )
    return warnings


def _node_warnings(setup: Setup) -> list[str]:
    """What is charged for links between nodes, and what is not, where an instance has GPUs on several."""
    hardware, placement, node = setup.hardware, setup.placement, gpus_of_node(setup.hardware)
    warnings = []
    if placement.attention_groups > 1 and placement.expert_parallel > node:
        network = setup.costs.network
        if network is not None:
            rate = network.bandwidth_bytes_per_s / 1e9
            warnings.append(
                f"{placement.expert_parallel} expert-parallel ranks lie on nodes of {node}: the exchange of tokens "
                f"holds the network, {rate:.0f} GB/s a GPU from a data sheet, without congestion; on AWS "
                "EFA exchanges took 1.4 to 2.9 times as long as charged (docs/expert-parallel.md)."
            )
        elif hardware.network_bytes_per_s is None:
            warnings.append(
                f"More than {node} GPUs: what joins nodes of {hardware.name} is not known, the exchange of tokens is "
                "that of one node and too low."
            )
    if placement.tensor_parallel > node:
        warnings.append(
            f"Tensor parallelism beyond a node of {node}: links between nodes are not modelled, all-reduces are too "
            "low."
        )
    return warnings
