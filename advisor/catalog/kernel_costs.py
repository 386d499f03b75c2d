"""From fit records to the kernel constants of one accelerator, engine and set of weight formats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from advisor.catalog.engines import Build, GraphPieces, class_today, engine_ids, load_engine
from advisor.catalog.fit_records import (
    BYTES_PER_WEIGHT,
    FitRecord,
    MeasuredTable,
    Operation,
    class_costs,
    load_measured,
    load_records,
)
from advisor.catalog.kernel_choice import (
    MIN_SHAPES,
    ROOFLINE_LOG_SD,
    ActivationScales,
    Choice,
    choose,
    choose_experts,
    computed,
    routed_roofline,
    small_launch,
)
from advisor.physics.architecture import Architecture, WeightDtype, WeightDtypes
from advisor.physics.attention import GROUPED
from advisor.physics.hardware import (
    Hardware,
    effective_bandwidth,
    effective_flops,
    gemm_t0,
    gpus_of_node,
    load_hardware,
    peak_flops,
)
from advisor.physics.kernel_costs import (
    AttentionCost,
    ExpertShape,
    GemmCost,
    KernelCosts,
    MoeCost,
    Network,
    StreamCost,
)
from advisor.physics.notes import Kind, Note
from advisor.prediction import BAND_SIGMAS, Tier

SHARPNESS = 4.0
"""Of the bend between reading and arithmetic. With 1 or 2 Hopper's latent tables ask for a
bandwidth above the data sheet's, at the same error; chosen on those tables. [-]"""
KV_BYTES = {name: BYTES_PER_WEIGHT[name] for name in ("bf16", "fp16", "fp8", "nvfp4")}
ASSUMED_RATE = 0.6
"""Share of the 16-bit peak that attention's arithmetic is taken to reach where no table tells:
latent bf16 tables of H100 and H200 under two engines give 0.54 to 0.60. [-]"""
GROUPED_BLOCK_ROWS = 16.0
"""Query rows of a matrix instruction (mma.m16n8k16, PTX ISA). Decode kernels of grouped heads on
larger instructions lay the queries along the narrow side; which, no table tells. [-]"""
_WARPGROUP_ROWS = 64.0
"""Rows of wgmma (sm_90) and tcgen05.mma (sm_100, sm_103), PTX ISA. [-]"""


def latent_block_rows(hardware: Hardware) -> float:
    """Query rows that a latent kernel pads to: those of the accelerator's matrix instruction.
    [-]"""
    wide = hardware.generation.endswith(("sm_90", "sm_100", "sm_103"))
    return _WARPGROUP_ROWS if wide else GROUPED_BLOCK_ROWS


ROOFLINE_GEMM_SHARPNESS = 2.3
"""Assumed: within the fitted GEMM tables' range (1.4 to 2.4 hold 80 % of 101, median 1.8), towards
its sharp end."""
ROOFLINE_GEMM_LOG_SD = 0.25
"""Assumed: between the fitted GEMM tables' spread (0.09-0.25) and that of the experts' roofline."""
SHARED_LAUNCHES = 0.5
"""Kernels of a shared expert over those of the layer it is part of, where they are launched one by
one: vLLM launches about 7 (two products, the gate's, two activations, a scaling, a sum) beside 13.
Charged on accelerators of an unknown chip alone
(docs/decisions/history.md (0032)). [-]"""
HOST_PER_STEP_S = 300e-6
"""Weak prior: in both arms, so that speedups do not determine it
(docs/decisions/0003-engine-overheads.md)."""
OVERHEAD_LOG_SD = math.log(3.0) / BAND_SIGMAS
"""Weak prior of docs/model.md: each overhead constant is known within a factor of 3."""
ROOFLINE_ALL_REDUCE_T0_S = {2: 5e-6, 4: 7e-6, 8: 8e-6}
ROOFLINE_ALL_REDUCE_LINK_FRACTION = 0.54
"""Of the link rate, a ring moving 2 (n - 1) / n of the message."""
ROOFLINE_ALL_TO_ALL_T0_S = 66e-6
BETWEEN_S = 0.10e-3
"""Launching the attention of one layer between pieces of a graph: geometric mean of three published
pairs of vLLM. .05 ms: plain decode of Kimi-K2.6 on eight A100, 32.0 and 28.9 ms a token, 61 layers
(vllm-project/vllm pull request 42885). .12: Qwen3-Coder-30B-A3B on an H100, ten requests of 128
tokens in 2.46 and 1.72 s, 48 layers (25444). .165: Qwen3.5-122B-A10B on a GB10, 47.5 and 55.2
tokens/s at 2.7 tokens a round (assumed), 48 layers; that pair differs in the attention kernels too
(issue 49547). [s]"""
BETWEEN_SOURCE = (
    "three published pairs of vLLM with and without full graphs, .05 to .17 ms: decision 0039"
)
STREAM_MIXING = StreamCost(20.1e-6, 2.37e12, Tier.INTERPOLATED, ROOFLINE_LOG_SD)
"""One mix of hyper-connections on AMD, published for an MI355X. Fixed: AITER's mhc_pre takes 16.3
us at one token in a CUDA graph (vllm-project/vllm pull request 56503), mhc_post a launch of 3.8 us
(issue 56506). Rate: of 2,048 to 8,192 tokens both fused move 2.28e12 B/s at 4,096 elements a
stream, 2.45e12 at 7,168 (ROCm/aiter pull request 3536)."""
STREAM_MIXING_SOURCE = (
    "kernels of AITER timed on an MI355X by others: docs/decisions/history.md (0041)"
)
ROOFLINE_ALL_TO_ALL_LINK_FRACTION = 0.77
"""Medians over the fitted tables of ten accelerators; an unmeasured accelerator gets them with
ROOFLINE_LOG_SD."""
NETWORK_FRACTION = 0.94
"""Share of a network card's nominal rate that an expert exchange reaches. [-]"""
NETWORK_T0_S = 17e-6
"""Latency of its messages to other nodes. Both fitted on DeepEP's times on 2, 4 and 8 nodes of
H200, judged on those of other publishers: docs/decisions/0016-between-nodes.md."""
NETWORK_FITTED_ON = "h200-sxm"
"""Its exchange between nodes is as fitted as its exchange inside one; elsewhere the rate is a data
sheet's."""


def kernel_costs(
    hardware: Hardware,
    engine: str,
    dtypes: WeightDtypes,
    kv_dtype: str = "bf16",
    gated_experts: bool = True,
    shape: ExpertShape | None = None,
    scales: ActivationScales = "static",
    attention_sinks: bool = False,
) -> KernelCosts:
    """Kernel constants of one accelerator, engine and set of stored weight formats.

    Fit records of the accelerator (or of the same chip) where there are any, else a roofline on the
    profile's constants with a wider band. Reads one small file, once per accelerator.

    Parameters
    ----------
    hardware : accelerator profile; its `kernel_table_device` names the records.
    engine : a profile's id, or other (then the best-fitted engine of the accelerator serves, with a
        warning).
    dtypes : stored format by component.
    kv_dtype : format of the KV cache, bf16 or fp8.
    gated_experts : False for experts of two matrices (up, down), which engines run with other
        kernels.
    shape : the model's routed layer on one rank (`expert_shape`): kernels that measured it come
        first. None for dense models and for arrays of designs.
    scales : how quantised projections get the scale of their activations: `dynamic` for a
        checkpoint whose quantization_config states that activation_scheme, else `static`.
    attention_sinks : the model's attention has sinks, which fewer kernels know.

    Raises AdvisorError when the records are damaged.
    """
    build = (
        _kernel_costs.__wrapped__ if hardware.is_own else _kernel_costs
    )  # a user's figures stay out of the cache
    return build(engine, dtypes, kv_dtype, gated_experts, shape, scales, attention_sinks, hardware)


@lru_cache(maxsize=256)
def _kernel_costs(
    engine: str,
    dtypes: WeightDtypes,
    kv_dtype: str,
    gated_experts: bool,
    shape: ExpertShape | None,
    scales: ActivationScales,
    attention_sinks: bool,
    hardware: Hardware,
) -> KernelCosts:
    notes = _Notes(hardware, engine)
    beside = _beside_experts.__wrapped__ if hardware.is_own else _beside_experts
    routed = _routed(notes, dtypes.routed, gated_experts, shape)
    stored = (dtypes.attention, dtypes.shared, dtypes.dense, dtypes.embedding)
    costs, others = beside(engine, stored, kv_dtype, scales, attention_sinks, hardware)
    return KernelCosts(
        routed=routed,
        **costs,
        sources={
            part: tuple(dict.fromkeys(texts))
            for part, texts in {**notes.sources, **others.sources}.items()
        },
        notes={
            part: tuple(dict.fromkeys(of_part))
            for part, of_part in {**notes.of_parts, **others.of_parts}.items()
        },
    )


def graph_pieces(
    engine: str, build: Build, cache: str, architecture: Architecture
) -> GraphPieces | None:
    """Rule by which a build verifies outside full CUDA graphs, or None. Not known of latent,
    sparse, sink attention."""
    other = any(
        m.has_sinks or m.kind not in (*GROUPED, "linear", "none") for m in architecture.mixers
    )
    rules = () if other or engine not in engine_ids() else load_engine(engine).graph_pieces
    return next((rule for rule in rules if rule.holds(build, cache)), None)


@lru_cache(maxsize=256)
def _beside_experts(
    engine: str,
    stored: tuple[WeightDtype, WeightDtype, WeightDtype, WeightDtype],
    kv_dtype: str,
    scales: ActivationScales,
    attention_sinks: bool,
    hardware: Hardware,
) -> tuple[dict[str, Any], _Notes]:
    """What no shape of experts changes, by field, and its notes. stored : attention, shared, dense,
    embedding."""
    notes = _Notes(hardware, engine)
    norm = small_launch(engine, "query_key_norm_s")
    chip = set(hardware.generation.split())
    served = load_engine(engine) if engine in engine_ids() else None
    heads_apart = False
    # FlashAttention 2 knows no sinks: the engine then takes a kernel that packs heads.
    if served is not None and not attention_sinks and not chip.isdisjoint(served.heads_apart):
        heads_apart = True
        notes.add("attention", Note.of("heads_apart", engine=served.name))
    # Formats of the dense parts, always in this order: sources are listed as they are met.
    gemm = {dtype: _gemm(notes, dtype, scales) for dtype in dict.fromkeys(stored)}
    parts = ("attention_projection", "shared", "dense", "lm_head")
    costs: dict[str, Any] = {part: gemm[dtype] for part, dtype in zip(parts, stored, strict=True)}
    if stored[-1] != "bf16":
        costs["router"] = _gemm(notes, "bf16", scales)
    costs["attention"] = _attention(notes, "attention", kv_dtype)
    costs["mla"] = _attention(notes, "mla", kv_dtype)
    # Engines keep recurrent states in 16 or 32 bits whatever the cache's format (vLLM's
    # mamba_ssm_cache_dtype, SGLang's mamba_ssm_dtype): what reads a 16-bit cache moves them.
    costs["state"] = _attention(notes, "attention", "bf16", "recurrent state")
    costs["all_reduce"] = _all_reduce(notes)
    costs["all_to_all"] = _all_to_all(notes)
    latent_rows_apart = served is not None and not chip.isdisjoint(served.latent_rows_apart)
    costs |= {
        "host_per_step_s": HOST_PER_STEP_S,
        "overhead_log_sd": OVERHEAD_LOG_SD,
        "query_key_norm_s": 0.0 if norm is None else norm.value_s,
        "stream_mixing": _stream_mixing(hardware),
        **class_costs(class_today(engine, hardware.vendor, hardware.generation)),
        "shared_launches": 0.0 if hardware.generation else SHARED_LAUNCHES,
        "heads_apart": heads_apart,
        "latent_rows_apart": latent_rows_apart,
        "kernels_of": notes.kernels_of,
    }
    return costs, notes


def _stream_mixing(hardware: Hardware) -> StreamCost | None:
    """Cost of hyper-connections: as timed on one chip of AMD, assumed on its others, and of no
    other vendor."""
    timed = "gfx950" in hardware.generation.split()
    assumed = replace(STREAM_MIXING, tier=Tier.ROOFLINE)
    return (STREAM_MIXING if timed else assumed) if hardware.vendor == "AMD" else None


_PART: dict[str, str] = {
    "moe": "experts",
    "gemm": "projections",
    "attention": "attention",
    "mla": "latent attention",
    "all_reduce": "all-reduce",
    "all_to_all": "expert exchange",
}
"""What each operation is called in notes; callers show the notes of the parts a model has."""


class _Notes:
    """The accelerator and engine that parts are chosen for, its records, and sources and notes by
    part so far."""

    def __init__(self, hardware: Hardware, engine: str) -> None:
        self.hardware = hardware
        self.engine = engine
        device = hardware.kernel_table_device
        self.records = load_records(device) if device else ()
        self.sources: dict[str, list[str]] = {}
        self.of_parts: dict[str, list[Note]] = {}
        self.kernels_of = ""
        measured_on = {record.hardware_id for record in self.records}
        if measured_on and hardware.id not in measured_on:
            self.kernels_of = " and ".join(
                load_hardware(hardware_id).name for hardware_id in sorted(measured_on)
            )
            self.add("accelerator", Note.of("same_chip", chip=self.kernels_of))

    def add(self, part: str, note: Note) -> None:
        """Keep a note on one part."""
        self.of_parts.setdefault(part, []).append(note)

    def took(self, choice: Choice, part: str = "") -> None:
        """Keep a record's source, and a note where it was borrowed. `part` where it is not its
        operation's."""
        part = part or _PART[choice.record.op]
        source = (
            f"fit {choice.record.id} of the measured kernel tables (aiconfigurator-core, "
            "Apache-2.0)"
        )
        self.sources.setdefault(part, []).append(source)
        if choice.borrowed:
            note = Note.of(
                "kernels_borrowed",
                part=part,
                borrowed=choice.borrowed,
                engine=None if self.engine == "other" else self.engine,
                reason=choice.reason or None,
            )
            self.add(part, note)

    def roofline(self, part: str, what: str = "") -> None:
        """Keep a note that a part rests on the profile alone."""
        note = Note.of("kernels_unmeasured", part=what or part, hardware=self.hardware.id)
        self.add(part, note)


def _routed(notes: _Notes, dtype: WeightDtype, gated: bool, shape: ExpertShape | None) -> MoeCost:
    hardware = notes.hardware
    measured = (
        load_measured(hardware.kernel_table_device)
        if hardware.kernel_table_device and shape
        else ()
    )
    choice = choose_experts(notes.records, notes.engine, dtype, hardware, gated, shape, measured)
    if choice is None:
        notes.roofline("experts", f"{dtype} experts")
        return routed_roofline(hardware, dtype)
    notes.took(choice)
    record = choice.record
    per_resident_expert_s = record.value("per_resident_expert_s") * _known_experts(
        record, shape, measured
    )
    return MoeCost(
        t0_s=record.value("t0_s"),
        bandwidth_bytes_per_s=_inverse(record.value("weight_s_per_byte")),
        flops_per_s=_inverse(record.value("s_per_flop")),
        tier=Tier.FITTED,
        per_expert_s=record.value("per_expert_s"),
        activation_bandwidth_bytes_per_s=_inverse(record.value("activation_s_per_byte")),
        per_resident_expert_s=per_resident_expert_s,
        log_sd=choice.log_sd,
        because=_because(choice),
        curve=record.curve,
        fit_id=record.id,
        stands_in=bool(choice.borrowed),
        reason=choice.reason,
    )


def _known_experts(
    record: FitRecord, shape: ExpertShape | None, measured: tuple[MeasuredTable, ...]
) -> float:
    """Share of a layer's experts for which a record charges their number: those of its largest
    table, where few tell.

    On fewer than MIN_SHAPES shapes the cost of a resident expert is not told from the fixed one,
    and grows without end: two gpt-oss tables (32 and 128 experts) would give Marlin's kernel 74 us
    for 384 experts and 260 for 896, where its tables of Kimi-K2 and Kimi-K3 have 32 and 52.
    """
    counts = [
        rows.shape[3] for table in measured if table.fit_id == record.id for rows in table.shapes
    ]
    if shape is None or not counts or record.n_shapes >= MIN_SHAPES:
        return 1.0
    return min(1.0, max(counts) / shape[3])


def _because(choice: Choice) -> str:
    record = choice.record
    error = (
        ""
        if record.loso_median is None
        else f", median error {record.loso_median:.1%} on shapes left out"
    )
    reason = f"; {choice.reason}" if choice.reason else ""
    return (
        f"{record.engine} {record.version}, {record.dtype}, {record.n_shapes} shapes{error}{reason}"
    )


def _gemm(notes: _Notes, dtype: WeightDtype, scales: ActivationScales) -> GemmCost:
    hardware = notes.hardware
    choice = choose(notes.records, "gemm", notes.engine, dtype, scales=scales)
    if choice is None:
        notes.roofline("projections", f"{dtype} projections")
        stored = computed(dtype)
        return GemmCost(
            t0_s=gemm_t0(hardware, stored).value,
            bandwidth_bytes_per_s=effective_bandwidth(hardware, stored).value,
            flops_per_s=effective_flops(hardware, stored).value,
            tier=Tier.ROOFLINE,
            sharpness=ROOFLINE_GEMM_SHARPNESS,
            log_sd=ROOFLINE_GEMM_LOG_SD,
        )
    notes.took(choice)
    record = choice.record
    return GemmCost(
        t0_s=record.value("t0_s"),
        bandwidth_bytes_per_s=record.value("bandwidth_bytes_per_s"),
        flops_per_s=record.value("flops_per_s"),
        tier=Tier.FITTED,
        sharpness=record.value("sharpness"),
        log_sd=choice.log_sd,
    )


def _attention(notes: _Notes, op: Operation, kv_dtype: str, part: str = "") -> AttentionCost:
    """The core's constants. `part` is what notes call it where that is not its operation's name."""
    part = part or _PART[op]
    priced = attention_cost(notes.hardware, notes.records, notes.engine, op, kv_dtype)
    if priced is None:
        notes.roofline(part)
        return roofline_attention(notes.hardware, op)
    notes.took(priced.choice, part)
    if priced.note is not None:
        notes.add(part, Note.of(priced.note[0], part=part, **priced.note[1]))
    return priced.cost


def _all_reduce(notes: _Notes) -> dict[int, StreamCost]:
    hardware = notes.hardware
    costs = _streams(notes, "all_reduce", (2, 4, 8, 16, 32))
    if not costs and hardware.link_bytes_per_s is not None:
        notes.roofline("all-reduce")
        for ranks, t0 in ROOFLINE_ALL_REDUCE_T0_S.items():
            moved = 2.0 * (ranks - 1) / ranks
            rate = ROOFLINE_ALL_REDUCE_LINK_FRACTION * hardware.link_bytes_per_s.value / moved
            costs[ranks] = StreamCost(t0, rate, Tier.ROOFLINE, ROOFLINE_LOG_SD)
    return costs


def _all_to_all(notes: _Notes) -> dict[int, StreamCost]:
    ranks = sorted({r.n_ranks for r in notes.records if r.op == "all_to_all" and r.n_ranks})
    # Decode steps are small: engines exchange their tokens with the low-latency kernels.
    hardware = notes.hardware
    costs = _streams(notes, "all_to_all", ranks, "_ll")
    if not costs and hardware.link_bytes_per_s is not None:
        rate = ROOFLINE_ALL_TO_ALL_LINK_FRACTION * hardware.link_bytes_per_s.value
        notes.roofline("expert exchange")
        costs[8] = StreamCost(ROOFLINE_ALL_TO_ALL_T0_S, rate, Tier.ROOFLINE, ROOFLINE_LOG_SD)
    return costs


def with_network(costs: KernelCosts, hardware: Hardware, ranks: int) -> KernelCosts:
    """Costs with the network between nodes, where ranks that exchange tokens lie on several.

    Unchanged where it is not known, or as fast as the links inside a node.

    ranks: expert-parallel ranks. [-]
    """
    node = gpus_of_node(hardware)
    network = hardware.network_bytes_per_s
    link = hardware.link_bytes_per_s
    if network is None or ranks <= node:
        return costs
    # A network as fast as the links inside a node makes one node of all.
    if link is not None and network.value >= link.value:
        return costs
    tier = Tier.FITTED if hardware.id == NETWORK_FITTED_ON else Tier.ROOFLINE
    between_nodes = Network(
        node, NETWORK_T0_S, NETWORK_FRACTION * network.value, tier, ROOFLINE_LOG_SD
    )
    source = f"{hardware.name}, network between nodes: {network.source}"
    part = "expert exchange"
    return replace(
        costs,
        network=between_nodes,
        sources={**costs.sources, part: (*costs.sources.get(part, ()), source)},
    )


def _streams(
    notes: _Notes, op: Operation, ranks: Iterable[int], first: str = ""
) -> dict[int, StreamCost]:
    """Measured costs of a collective by ranks, kernels whose name ends in `first` before others."""
    costs: dict[int, StreamCost] = {}
    for n in ranks:
        choices = (
            choose(notes.records, op, notes.engine, "bf16", n_ranks=n, kernel_ending=end)
            for end in (first, "")
        )
        if (choice := next(filter(None, choices), None)) is None:
            continue
        notes.took(choice)
        record = choice.record
        slope = record.value("s_per_byte") * _link_ratio(notes.hardware, record.hardware_id)
        # A record with a curve passes through every measured size; another engine's stays a
        # stand-in.
        tier = Tier.INTERPOLATED if record.curve and not choice.borrowed else Tier.FITTED
        costs[n] = StreamCost(
            record.value("t0_s"), _inverse(slope), tier, choice.log_sd, record.curve
        )
    return costs


def _link_ratio(hardware: Hardware, measured_id: str) -> float:
    """How much slower this accelerator's links are than those of the same chip that was measured.
    At least 1. [-]"""
    if hardware.id == measured_id or hardware.link_bytes_per_s is None:
        return 1.0
    measured = load_hardware(measured_id).link_bytes_per_s
    return 1.0 if measured is None else max(1.0, measured.value / hardware.link_bytes_per_s.value)


def _inverse(value: float) -> float:
    return math.inf if value == 0.0 else 1.0 / value


ROOFLINE_T0_S = 11e-6
"""Median over the fitted tables of ten accelerators. [s]"""


@dataclass(frozen=True)
class PricedAttention:
    """Constants of an attention core, the record behind them, and a note's kind and facts."""

    cost: AttentionCost
    choice: Choice
    note: tuple[Kind, dict[str, Any]] | None = None


def attention_cost(
    hardware: Hardware, records: tuple[FitRecord, ...], engine: str, op: Operation, kv_dtype: str
) -> PricedAttention | None:
    """Constants of grouped (`attention`) or latent (`mla`) attention. None where no record serves.

    A record of a smaller cache that reads a token no faster than the same engine's 16-bit record
    does is refused: it times a kernel that the engine would not choose. The engine's 16-bit record
    then serves, at the smaller cache's bytes where another engine's tables show that these pay on
    this accelerator, else at the 16-bit time.
    """
    accepted_records = tuple(record for record in records if not _refused(records, record))
    small = choose(accepted_records, op, engine, "bf16", kernel_ending=_ending(kv_dtype))
    if kv_dtype == "bf16":
        return None if small is None else PricedAttention(_cost(hardware, op, small), small)
    plain = choose(records, op, engine, "bf16", kernel_ending=_ending("bf16"))
    is_engines = plain is not None and plain.record.engine == engine
    if small is not None and (small.record.engine == engine or not is_engines):
        return PricedAttention(_cost(hardware, op, small), small)
    if plain is None:
        return None
    measured = any(r.op == op and r.engine == engine and _format(r) == kv_dtype for r in records)
    facts = {
        "cache": kv_dtype,
        "measured": measured,
        "engine": plain.record.engine,
        "version": plain.record.version,
    }
    if small is not None:
        facts["reached_by"] = small.record.engine
        return PricedAttention(_cost(hardware, op, plain), plain, ("cache_rate_assumed", facts))
    slower = KV_BYTES["bf16"] / KV_BYTES[kv_dtype]
    return PricedAttention(_cost(hardware, op, plain, slower), plain, ("cache_time_assumed", facts))


def _refused(records: tuple[FitRecord, ...], record: FitRecord) -> bool:
    """Whether `record` is of a smaller cache and saves nothing against the same engine's 16-bit
    record."""
    if record.op not in ("attention", "mla") or _format(record) == "bf16":
        return False
    plain = choose(records, record.op, record.engine, "bf16", kernel_ending=_ending("bf16"))
    return (
        plain is not None
        and plain.record.engine == record.engine
        and _token_time(record) >= _token_time(plain.record)
    )


def _token_time(record: FitRecord) -> float:
    """Seconds to read one element of the cache, of whatever bytes. [s]"""
    return record.value("s_per_byte") * KV_BYTES[_format(record)]


def _format(record: FitRecord) -> str:
    return record.kernel_source.rpartition("+kv-")[2]


def _ending(kv_dtype: str) -> str:
    return f"+kv-{kv_dtype}"


def _cost(
    hardware: Hardware, op: Operation, choice: Choice, slower_by: float = 1.0
) -> AttentionCost:
    record = choice.record
    return AttentionCost(
        t0_s=record.value("t0_s"),
        bandwidth_bytes_per_s=1.0 / (record.value("s_per_byte") * slower_by),
        flops_per_s=1.0 / record.value("s_per_flop"),
        tier=Tier.FITTED,
        log_sd=choice.log_sd,
        sharpness=SHARPNESS,
        block_rows=_block_rows(hardware, op),
    )


def roofline_attention(hardware: Hardware, op: Operation) -> AttentionCost:
    """Constants of an accelerator without attention tables, from its profile."""
    return AttentionCost(
        t0_s=ROOFLINE_T0_S,
        bandwidth_bytes_per_s=effective_bandwidth(hardware, "bf16").value,
        flops_per_s=ASSUMED_RATE * peak_flops(hardware, "bf16").value,
        tier=Tier.ROOFLINE,
        log_sd=ROOFLINE_LOG_SD,
        sharpness=SHARPNESS,
        block_rows=_block_rows(hardware, op),
    )


def _block_rows(hardware: Hardware, op: Operation) -> float:
    return latent_block_rows(hardware) if op == "mla" else GROUPED_BLOCK_ROWS
