"""The single changes that are tried on a scenario (listed in docs/model.md). Nothing is costed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from advisor.acceptance import acceptance_curves
from advisor.advice import Advice
from advisor.architecture import BYTES_PER_WEIGHT
from advisor.catalog import engine_ids
from advisor.drafter import load_drafter
from advisor.hardware import ComputeDtype, compute_dtype, gpus_of_node, hardware_ids, load_hardware
from advisor.prediction import AdvisorError
from advisor.scenario import MAX_BATCH, MAX_DRAFT, Scenario, build_scenario

Kind = Literal[
    "batch",
    "draft length",
    "weights",
    "expert weights",
    "KV cache",
    "placement",
    "accelerator",
    "drafter",
    "engine",
    "design",
]

_NODE_GPUS = 8
_BATCH_FACTORS = (0.5, 2.0, 4.0)
"""Another load altogether is no change of the same deployment."""
_NARROWER = 0.9
"""A format counts as narrower from this share of today's bytes on. [-]"""
_WEIGHT_FORMATS: tuple[ComputeDtype, ...] = ("fp8", "nvfp4")
_EXPERT_FORMATS: tuple[ComputeDtype, ...] = ("fp8", "nvfp4", "mxfp4")
_WEIGHT_ONLY: tuple[ComputeDtype, ...] = ("mxfp4",)
"""Formats tried wherever they are narrower, since engines widen them before they multiply."""
_QUALITY = "What the format costs in answer quality is not modelled."


@dataclass(frozen=True)
class Change:
    """One change to a scenario."""

    kind: Kind
    what: str
    scenario: Scenario
    """The scenario with the change made."""
    notes: tuple[str, ...] = ()
    """What the comparison does not cover, one sentence each."""
    kernels_apart: bool = False
    """Kernels were measured apart from today's, so their errors are drawn apart."""
    other_acceptance: bool = False
    """The accepted length comes from another source than today's: the two are compared all the same, and it is said."""


def changes(advice: Advice) -> tuple[Change, ...]:
    """All single changes of the documented list that make another valid scenario. Designs are apart (`designs`)."""
    makers = (_batches, _draft_lengths, _formats, _cache, _placements, _accelerators, _drafters, _engines)
    found = {change.scenario: change for make in makers for change in make(advice)}
    found.pop(advice.scenario, None)
    return tuple(found.values())


def _made(kind: Kind, what: str, scenario: Scenario, values: dict[str, Any], **extra: Any) -> Iterator[Change]:
    """The change, or nothing where the scenario refuses it."""
    try:
        yield Change(kind, what, build_scenario(**(dict(scenario) | values)), **extra)
    except AdvisorError:
        return


def _batches(advice: Advice) -> Iterator[Change]:
    scenario, largest = advice.scenario, advice.setup.memory.largest_batch
    wanted = {round(scenario.batch_size * factor) for factor in _BATCH_FACTORS}
    if min(_BATCH_FACTORS) <= advice.sweet_spot_batch / scenario.batch_size <= max(_BATCH_FACTORS):
        wanted.add(int(advice.sweet_spot_batch))
    if scenario.batch_size > largest > 0:
        wanted = {largest}
    for batch in sorted(wanted):
        if advice.setup.placement.attention_groups <= batch <= min(largest, MAX_BATCH):
            what = f"batch {scenario.batch_size:,} -> {batch:,}"
            yield from _made("batch", what, scenario, {"batch_size": batch})


def _draft_lengths(advice: Advice) -> Iterator[Change]:
    scenario = advice.scenario
    if advice.recommendation.n_draft == scenario.k_max < MAX_DRAFT:
        longer = min(2 * scenario.k_max, MAX_DRAFT)
        yield from _made("draft length", f"K up to {scenario.k_max} -> {longer}", scenario, {"k_max": longer})


def _formats(advice: Advice) -> Iterator[Change]:
    scenario, setup = advice.scenario, advice.setup
    dtypes, moe = setup.architecture.dtypes, setup.architecture.moe
    stored = {dtypes.attention, dtypes.dense} | ({dtypes.routed, dtypes.shared} if moe is not None else set())
    for dtype in _WEIGHT_FORMATS:
        narrower = [BYTES_PER_WEIGHT[dtype] <= _NARROWER * BYTES_PER_WEIGHT[today] for today in stored]
        no_wider = all(BYTES_PER_WEIGHT[dtype] <= BYTES_PER_WEIGHT[today] for today in stored)
        if any(narrower) and no_wider and compute_dtype(setup.hardware, dtype) == dtype:
            what = f"weights {'/'.join(sorted(stored))} -> {dtype}"
            values = {"weight_dtype": dtype, "expert_dtype": None}
            yield from _made("weights", what, scenario, values, notes=(_QUALITY,), kernels_apart=True)
    for dtype in _EXPERT_FORMATS if moe is not None else ():
        served = dtype in _WEIGHT_ONLY or compute_dtype(setup.hardware, dtype) == dtype
        if served and BYTES_PER_WEIGHT[dtype] <= _NARROWER * BYTES_PER_WEIGHT[dtypes.routed]:
            what = f"routed experts {dtypes.routed} -> {dtype}"
            yield from _made(
                "expert weights", what, scenario, {"expert_dtype": dtype}, notes=(_QUALITY,), kernels_apart=True
            )


def _cache(advice: Advice) -> Iterator[Change]:
    if advice.setup.cache.dtype == "bf16":
        yield from _made("KV cache", "KV cache bf16 -> fp8", advice.scenario, {"kv_dtype": "fp8"}, notes=(_QUALITY,))


def _placements(advice: Advice) -> Iterator[Change]:
    """Half and double the tensor parallelism, and experts split over the same ranks. Within a node.

    Where today's placement does not fit, every wider one within the node. All-reduces between nodes are not priced, so
    tensor parallelism stays within the accelerator's own.
    """
    scenario, node = advice.scenario, gpus_of_node(advice.setup.hardware)
    tp, ep, whole = scenario.tensor_parallel, scenario.expert_parallel, scenario.n_gpus
    ranks = [tp, tp // 2, tp * 2]
    if advice.setup.memory.largest_batch < scenario.batch_size:
        ranks = [tp * 2**power for power in range(1, 4)]
    pairs = [(tensor, expert) for tensor in ranks for expert in sorted({1, ep, tensor}) if 1 <= tensor <= node]
    for tensor, expert in pairs:
        gpus = max(tensor, expert)
        if gpus > max(_NODE_GPUS, whole) or (tensor, expert) == (tp, ep):
            continue
        n_gpus = whole if whole > advice.setup.placement.gpus and whole % gpus == 0 else gpus
        what = f"{_place(tp, ep)} -> {_place(tensor, expert)}"
        is_assumed = expert > 1 and scenario == scenario.on_assumed_ranks()
        notes = ("Expert-parallel imbalance follows an assumed formula.",) if is_assumed else ()
        values = {"n_gpus": n_gpus, "tensor_parallel": tensor, "expert_parallel": expert}
        yield from _made("placement", what, scenario, values, notes=notes)


def _place(tensor: int, expert: int) -> str:
    return f"TP {tensor}" + (f" EP {expert}" if expert > 1 else "")


def _accelerators(advice: Advice) -> Iterator[Change]:
    """Accelerators with kernel measurements: a ranking on data sheets alone would say little.

    All-reduces between nodes are not priced, so none on whose node today's tensor parallelism has no room.
    """
    for hardware_id in hardware_ids():
        hardware = load_hardware(hardware_id)
        if hardware.kernel_table_device is None or advice.scenario.tensor_parallel > gpus_of_node(hardware):
            continue
        what = f"{advice.setup.hardware.name} -> {hardware.name}"
        yield from _made(
            "accelerator",
            what,
            advice.scenario,
            {"hardware_id": hardware_id, "hardware_json": None, "refit": None},
            notes=("Prices are not compared.", *_without_refit(advice.scenario)),
            kernels_apart=hardware.kernel_table_device != advice.setup.hardware.kernel_table_device,
        )


def _drafters(advice: Advice) -> Iterator[Change]:
    """Drafters whose accepted length was measured with this very model."""
    scenario = advice.scenario
    if scenario.model_config_json is not None:
        return
    seen = {scenario.drafter_id}
    for curve in acceptance_curves(model_id=scenario.model_id):
        if curve.drafter_id in seen:
            continue
        seen.add(curve.drafter_id)
        what = f"{advice.setup.drafter.name} -> {load_drafter(curve.drafter_id).name}"
        note = f"Its accepted length is from another source than today's: {curve.id} ({curve.dataset})."
        yield from _made(
            "drafter",
            what,
            scenario,
            {"drafter_id": curve.drafter_id, "acceptance": curve.id},
            notes=(note,),
            other_acceptance=True,
        )


def _engines(advice: Advice) -> Iterator[Change]:
    for engine in engine_ids():
        if engine != advice.scenario.engine:
            what = f"engine {advice.scenario.engine} -> {engine}"
            values = {"engine": engine, "refit": None}
            notes = _without_refit(advice.scenario)
            yield from _made("engine", what, advice.scenario, values, notes=notes, kernels_apart=True)


def _without_refit(scenario: Scenario) -> tuple[str, ...]:
    """What to say of a change that a refit, made on one accelerator and engine, does not follow."""
    return ("Predicted without your refit, which does not hold there.",) if scenario.refit else ()
