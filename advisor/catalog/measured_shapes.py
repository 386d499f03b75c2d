"""Kernel constants of one model: with the measured rows of its own expert shape and of whole
attention layers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.fit_records import (
    MAX_FACTOR,
    MeasuredTable,
    ModuleTable,
    load_measured,
    load_modules,
)
from advisor.catalog.kernel_choice import BORROWED_LOG_SD, STAND_INS
from advisor.catalog.kernel_costs import KV_BYTES
from advisor.catalog.models import load_model
from advisor.physics import laws
from advisor.physics.architecture import Architecture, Mixer, WeightDtype
from advisor.physics.attention import core_cost
from advisor.physics.hardware import Hardware
from advisor.physics.kernel_costs import AttentionModule, KernelCosts, Knots, MeasuredLayer, MoeCost
from advisor.physics.notes import Note
from advisor.physics.step import MoeShape, Placement, expert_shape, routed_time


def served(
    table: ModuleTable, shares_cache: bool, log_sd: float, because: str, stands_in: bool
) -> AttentionModule:
    """A table as `attention` reads it."""
    return AttentionModule(
        batches=tuple(map(float, table.batches)),
        contexts=tuple(map(float, table.contexts)),
        seconds=tuple(tuple(1e-6 * time for time in row) for row in table.time_us),
        measured_to=tuple(map(float, table.measured_to)),
        shares_cache=shares_cache,
        log_sd=log_sd,
        because=because,
        stands_in=stands_in,
    )


KNOTS_PER_OCTAVE = 8
"""Least density of knots between two measured token counts: the form bends little from one to the
next. [-]"""


def with_measured_shape(
    costs: KernelCosts, hardware: Hardware, architecture: Architecture, placement: Placement
) -> KernelCosts:
    """Costs with measured rows of this model's routed layer, if any. Raises AdvisorError for a
    damaged file."""
    shape = MoeShape.of(architecture)
    if shape is None or (measured := _rows(costs.routed, hardware, shape, placement)) is None:
        return costs
    table, layer = measured
    tokens = list(layer.tokens)
    if (aside := _far_from_form(layer)) is not None:
        notes = {**costs.notes, "experts": (*costs.notes.get("experts", ()), aside)}
        return dataclasses.replace(costs, notes=notes)
    _, _, engine, version, dtype, *_ = table.fit_id.split("/")
    reason = costs.routed.reason or "measured this shape"
    because = f"{engine} {version}, {dtype}, {reason}, at {len(tokens)} token counts"
    bare = dataclasses.replace(costs.routed, curve=(), measured=None)

    def form(tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """Additive seconds of one routed layer under independent uniform routing."""
        touched = laws.uniform_experts(
            np.asarray(shape.n_experts), np.asarray(shape.n_active), tokens
        )
        return routed_time(bare, placement, shape, tokens, touched, architecture.dtypes.routed)

    knots = monotone_knots(layer, form)
    layer = dataclasses.replace(layer, knots=knots, at_tokens=layer.tokens)
    routed = dataclasses.replace(costs.routed, measured=layer, because=because)
    sources = {
        **costs.sources,
        "experts": (*costs.sources.get("experts", ()), _source(table, tokens)),
    }
    return dataclasses.replace(costs, routed=routed, sources=sources)


def _rows(
    cost: MoeCost, hardware: Hardware, model_shape: MoeShape, placement: Placement
) -> tuple[MeasuredTable, MeasuredLayer] | None:
    shape = expert_shape(model_shape, placement)
    if shape is None or not cost.fit_id or hardware.kernel_table_device is None:
        return None
    for table in load_measured(hardware.kernel_table_device):
        for rows in table.shapes if table.fit_id == cost.fit_id else ():
            if rows.shape == shape:
                factors = tuple(
                    (t, f) for t, f in zip(table.tokens, rows.factor, strict=True) if f is not None
                )
                log_sd = (
                    math.hypot(table.log_sd, BORROWED_LOG_SD) if cost.stands_in else table.log_sd
                )
                return table, MeasuredLayer(shape, factors, log_sd, cost.stands_in)
    return None


def monotone_knots(
    layer: MeasuredLayer, form: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Knots:
    """Factors on a fitted form with which a layer's time never falls with tokens.

    They hold at the measured token counts and between. `form` gives the additive seconds of tokens
    under independent uniform routing, [tokens] to [tokens]. The times it makes of the measured
    factors are lowered to the least at as many or more tokens and joined straight in the
    logarithms; straight factors would add the form's own bends to them. Where another routing
    touches other experts, the form carries the difference, and a fall is its doing.
    """
    tokens, factors = np.array(layer.knots).T
    times = np.minimum.accumulate((factors * form(tokens))[::-1])[::-1]
    log_tokens = np.log(tokens)
    counts = np.ceil(np.diff(np.log2(tokens)) * KNOTS_PER_OCTAVE).astype(int)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    between = place * np.repeat(np.diff(log_tokens) / counts, counts) + np.repeat(
        log_tokens[:-1], counts
    )
    fine = np.append(between, log_tokens[-1])
    joined = np.exp(np.interp(fine, log_tokens, np.log(times)))
    at = np.exp(fine)
    return tuple(zip(at.tolist(), (joined / form(at)).tolist(), strict=True))


_MORE = 1.001
"""Experts of a token, for one, by which a slope is found. [-]"""


def with_rising_curve(cost: MoeCost, architecture: Architecture, placement: Placement) -> MoeCost:
    """Cost by whose curve a layer of touched experts never takes less time for more rows.

    The measured factors c(m) are lowered to what the larger m leave, at this model's widths; tables
    of two shapes hold falls of up to 1 % that no kernel has.
    """
    shape = MoeShape.of(architecture)
    if shape is None or len(cost.curve) < 2:
        return cost
    rows, factors = np.array(cost.curve).T
    experts = np.asarray(shape.n_experts, float)
    bare = dataclasses.replace(cost, curve=(), measured=None)

    def log_form(active: float) -> NDArray[np.float64]:
        """Logarithm of the form's seconds where as many tokens choose so many experts each."""
        step = dataclasses.replace(shape, n_active=active), rows * experts, experts
        return np.log(routed_time(bare, placement, *step, architecture.dtypes.routed))

    # Straight in the rows, so that its logarithm rises least at the start of each part; with one
    # expert a token, most of it is fixed.
    slope = (log_form(_MORE) - log_form(1.0)) / math.log(_MORE)
    risen = np.append(0.0, np.cumsum(slope[:-1] * np.diff(np.log(rows))))
    lowered = np.minimum.accumulate((np.log(factors) + risen)[::-1])[::-1] - risen
    return dataclasses.replace(
        cost, curve=tuple(zip(rows.tolist(), np.exp(lowered).tolist(), strict=True))
    )


def _far_from_form(layer: MeasuredLayer) -> Note | None:
    """Note on rows beyond MAX_FACTOR. None when there are none."""
    tokens, factors = np.array(layer.knots).T
    far = np.abs(np.log(factors)) > np.log(MAX_FACTOR)
    if not far.any():
        return None
    tokens = tokens[far]
    worst = factors[np.argmax(np.abs(np.log(factors)))]
    return Note.of(
        "shape_untuned",
        factor=float(worst),
        first_tokens=float(tokens.min()),
        last_tokens=float(tokens.max()),
    )


def _source(table: MeasuredTable, tokens: list[float]) -> str:
    loads = " and ".join(load.replace("_", " ") for load in table.loads)
    return (
        f"this very expert shape measured at {len(tokens)} token counts from {tokens[0]:,.0f} to "
        f"{tokens[-1]:,.0f} under {loads} loads ({table.fit_id}); the fit carries it to other "
        "numbers of touched experts"
    )


CHECKPOINTS = {
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "zai-org/GLM-5": "glm-5",
    "zai-org/GLM-5-FP8": "glm-5",
    "zai-org/GLM-5.2": "glm-5.2",
    "zai-org/GLM-5.2-FP8": "glm-5.2",
    "nvidia/GLM-5.2-NVFP4": "glm-5.2",
    "MiniMaxAI/MiniMax-M3": "minimax-m3",
    "moonshotai/Kimi-K3": "kimi-k3",
}
"""Checkpoints that the tables name and the profile with their dimensions. A table serves every
model whose layer has them: Kimi-K2's are DeepSeek-V3's with half the heads. DeepSeek-V4's
compressed layers were measured too and do not serve: on the one published step of V4-Flash over
tokens they raise the error of T(t) / T(1) from 21 to 35 %, since engines run parts of them beside
other work."""
SERVED_OPERATIONS = (
    "mla_generation_module",
    "dsa_generation_module",
    "dsa_generation_module_skip_indexer",
    "msa_generation_module",
)
"""Layers that the tables time whole: latent attention, sparse attention over a latent cache with
and without index keys of its own, sparse attention over grouped heads."""
_FORMATS: dict[WeightDtype, str] = {"bf16": "bf16", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
"""The tables' names of stored formats."""
MAX_GAP = 1.35
"""A table whose single sequence takes longer than this times another engine's holds launch gaps
that an engine with captured graphs does not have: H100, H200, B300 and GB200 under vLLM 35-45 us
for DeepSeek's layer. [-]"""
MAX_OVER_READING = 20.0
"""A table is of no kernel that engines serve where the time of one sequence grows with its context
by more than this times what reading all of its cache takes at the accelerator's bandwidth.
TensorRT-LLM's latent attention on sm_120 does not split the context (51 to 221 times: 12 ms a layer
at 131,072 tokens, where a published step of 61 layers takes 15) and its sparse attention over
grouped heads does not choose (24 and more). All others stay below 10, which is 128 heads bound by
arithmetic. [-]"""
SAME_SIZE = 0.002
"""Relative difference of weights up to which two layers are the same. [-]"""


def with_attention_modules(
    costs: KernelCosts,
    hardware: Hardware,
    architecture: Architecture,
    tensor_parallel: int,
    engine: str,
    kv_dtype: str,
) -> KernelCosts:
    """Costs with this model's measured attention layers. Raises AdvisorError where their file is
    damaged."""
    modules: dict[Mixer, AttentionModule] = {}
    sources = dict(costs.sources)
    notes = dict(costs.notes)
    for mixer in architecture.mixers:
        measured = _serving(hardware, architecture, mixer, tensor_parallel, engine, kv_dtype)
        if measured is None:
            continue
        table, modules[mixer], note = measured
        part = "latent attention" if mixer.kind in ("mla", "sparse") else "attention"
        text = (
            f"whole attention layers measured: {table.id} ({table.n_rows} rows; "
            "aiconfigurator-core, Apache-2.0)"
        )
        sources[part] = (*sources.get(part, ()), text)
        if note is not None:
            notes[part] = (*notes.get(part, ()), note)
    log_sd = _spread(costs, architecture, modules)
    return dataclasses.replace(
        costs, modules=modules, attention_log_sd=log_sd, sources=sources, notes=notes
    )


def table_behind(
    hardware: Hardware,
    architecture: Architecture,
    mixer: Mixer,
    tensor_parallel: int,
    engine: str,
    kv_dtype: str,
) -> ModuleTable | None:
    """The measured table that serves a mixer's layers in `with_attention_modules`. None where none
    does."""
    measured = _serving(hardware, architecture, mixer, tensor_parallel, engine, kv_dtype)
    return None if measured is None else measured[0]


def _serving(
    hardware: Hardware,
    architecture: Architecture,
    mixer: Mixer,
    tensor_parallel: int,
    engine: str,
    kv_dtype: str,
) -> tuple[ModuleTable, AttentionModule, Note | None] | None:
    if not _operation(mixer):  # no table times such layers whole
        return None
    tables = load_modules(hardware.kernel_table_device) if hardware.kernel_table_device else ()
    bandwidth = hardware.bandwidth_bytes_per_s.value
    return serving_module(tables, architecture, mixer, tensor_parallel, engine, kv_dtype, bandwidth)


def serving_module(
    tables: tuple[ModuleTable, ...],
    architecture: Architecture,
    mixer: Mixer,
    tensor_parallel: int,
    engine: str,
    kv_dtype: str,
    bandwidth_bytes_per_s: float,
) -> tuple[ModuleTable, AttentionModule, Note | None] | None:
    """Table that serves a mixer's layers, as `attention` reads it, with a note where borrowed.

    Another engine's table is borrowed. The engine's own table, unless another engine's single
    sequence is MAX_GAP times quicker; else the quickest there. None where no table has this layer's
    sizes, heads per rank and formats, or is as quick as MAX_OVER_READING asks at the accelerator's
    bandwidth.
    """
    stored = architecture.dtypes.attention
    names = [_FORMATS[each] for each in (stored, *STAND_INS.get(stored, ())) if each in _FORMATS]
    if not names or mixer.query_heads % tensor_parallel:
        return None
    fitting = [
        table
        for table in (
            *tables,
            *_smaller_caches(tables, mixer.query_heads // tensor_parallel, kv_dtype),
        )
        if table.n_heads == mixer.query_heads // tensor_parallel
        and (table.kv_dtype, table.gemm_dtype) == (kv_dtype, names[0])
        and _same_layer(table, architecture, mixer)
        and _over_reading(table, mixer, tensor_parallel, bandwidth_bytes_per_s) <= MAX_OVER_READING
    ]
    if not fitting:
        return None
    quickest = min(fitting, key=_rank)
    engines_table = min(
        (table for table in fitting if table.engine == engine), key=_rank, default=None
    )
    table = (
        quickest
        if engines_table is None or _alone_us(engines_table) > MAX_GAP * _alone_us(quickest)
        else engines_table
    )
    note = None
    of_table = {"by_engine": table.engine, "by_version": table.version}
    if engines_table is not None and table is not engines_table:
        note = Note.of(
            "layers_with_gaps",
            engine=engine,
            version=engines_table.version,
            alone_us=_alone_us(engines_table),
            quickest_us=_alone_us(quickest),
            **of_table,
        )
    elif engines_table is None:
        note = Note.of("layers_borrowed", engine=None if engine == "other" else engine, **of_table)
    borrowed = table.engine != engine or names[0] != _FORMATS.get(stored)
    log_sd = math.hypot(table.log_sd, BORROWED_LOG_SD) if borrowed else table.log_sd
    because = (
        f"{table.engine} {table.version}, {table.gemm_dtype}, {table.n_heads} heads, this very "
        "layer measured"
    )
    return table, served(table, mixer.kind == "mla", log_sd, because, borrowed), note


ONE_BLOCK = 16
"""Query heads up to which a latent kernel reads as long as for one: they fill one block of a matrix
instruction. [-]"""


def _smaller_caches(
    tables: tuple[ModuleTable, ...], n_heads: int, kv_dtype: str
) -> list[ModuleTable]:
    """Latent layers of `n_heads` heads in `kv_dtype` that were measured with a 16-bit cache
    alone."""
    latent = [table for table in tables if table.op == "mla_generation_module"]
    of_heads = [table for table in latent if table.n_heads == n_heads]
    smaller = [_with_smaller_cache(latent, table, kv_dtype) for table in of_heads]
    return [table for table in smaller if table is not None]


def _with_smaller_cache(
    tables: Iterable[ModuleTable], plain: ModuleTable, kv_dtype: str
) -> ModuleTable | None:
    """A latent layer measured with a 16-bit cache alone, as it would be with a smaller one. None
    where nothing tells.

    It saves what the same engine's layer saves with other heads, as few as fill ONE_BLOCK: vLLM's
    with an fp8 cache on sm_120 were timed at one head.
    """
    if plain.kv_dtype != "bf16" or kv_dtype == "bf16":
        return None
    alike = [
        table
        for table in tables
        if (_layer(table), table.batches, table.contexts)
        == (_layer(plain), plain.batches, plain.contexts)
        and max(table.n_heads, plain.n_heads) <= ONE_BLOCK
    ]
    small = {
        table.n_heads: np.array(table.time_us) for table in alike if table.kv_dtype == kv_dtype
    }
    wide = {table.n_heads: np.array(table.time_us) for table in alike if table.kv_dtype == "bf16"}
    heads = small.keys() & wide.keys()
    if plain.n_heads in small or not heads:
        return None
    nearest = min(heads, key=lambda count: (abs(count - plain.n_heads), count))
    reduced = np.array(plain.time_us) - np.clip(wide[nearest] - small[nearest], 0.0, None)
    # A longer context or a larger batch is never cheaper, as in the tables themselves.
    rising = np.maximum.accumulate(np.maximum.accumulate(reduced, axis=0), axis=1)
    spread = math.hypot(plain.log_sd, BORROWED_LOG_SD)
    return plain.model_copy(
        update={
            "kv_dtype": kv_dtype,
            "time_us": tuple(map(tuple, rising.tolist())),
            "log_sd": spread,
        }
    )


def _layer(table: ModuleTable) -> tuple[str, ...]:
    return table.op, table.engine, table.version, table.model, table.gemm_dtype


def _over_reading(
    table: ModuleTable, mixer: Mixer, tensor_parallel: int, bandwidth_bytes_per_s: float
) -> float:
    """How much longer one sequence takes at the longest context, over the time to read what it has
    cached more. [-]"""
    cached = (
        mixer.kv_elements_per_token
        * KV_BYTES[table.kv_dtype]
        / min(tensor_parallel, mixer.kv_shards)
    )
    read_s = (cached + mixer.index_elements_per_token) / mixer.compression / bandwidth_bytes_per_s
    longer_s = 1e-6 * (table.time_us[0][-1] - table.time_us[0][0])
    return longer_s / ((table.contexts[-1] - table.contexts[0]) * read_s)


def _alone_us(table: ModuleTable) -> float:
    """Time of one sequence at the shortest context. [us]"""
    return table.time_us[0][0]


def _rank(table: ModuleTable) -> tuple[float, str]:
    return _alone_us(table), table.id


def _spread(
    costs: KernelCosts, architecture: Architecture, modules: dict[Mixer, AttentionModule]
) -> float:
    """The widest log standard deviation of what prices the model's attention. [-]"""
    remaining = [
        mixer for mixer in architecture.mixers if mixer not in modules and mixer.kind != "none"
    ]
    spreads = [module.log_sd for module in modules.values()]
    spreads += [core_cost(mixer, costs).log_sd for mixer in remaining]
    return max(spreads, default=costs.attention.log_sd)


def _same_layer(table: ModuleTable, architecture: Architecture, mixer: Mixer) -> bool:
    """Whether a table's layer has the sizes of a mixer's, heads apart."""
    profile = CHECKPOINTS.get(table.model)
    if profile is None:
        return False
    checkpoint = load_model(profile)
    return checkpoint.hidden_size == architecture.hidden_size and any(
        _alike(layer, mixer) for layer in checkpoint.mixers if _operation(layer) == table.op
    )


def _operation(mixer: Mixer) -> str:
    """What the tables call a layer of this kind. Empty for those they do not time whole."""
    if mixer.kind == "mla":
        return SERVED_OPERATIONS[0]
    if mixer.kind != "sparse" or mixer.compression > 1.0:
        return ""
    if mixer.kv_shards > 1:
        return SERVED_OPERATIONS[3]
    return SERVED_OPERATIONS[1] if mixer.index_elements_per_token else SERVED_OPERATIONS[2]


def _alike(one: Mixer, other: Mixer) -> bool:
    """Whether two mixers differ in nothing but how many layers and heads they have."""
    sizes = (
        "kind",
        "replicated_params",
        "window_tokens",
        "local_window_tokens",
        "index_elements_per_token",
        "compression",
    )
    if any(
        getattr(one, name) != getattr(other, name) for name in (*sizes, "flops_per_head_and_key")
    ):
        return False
    if one.kv_elements_per_token * other.kv_shards != other.kv_elements_per_token * one.kv_shards:
        return False
    return math.isclose(_weights_per_head(one), _weights_per_head(other), rel_tol=SAME_SIZE)


def _weights_per_head(mixer: Mixer) -> float:
    return (mixer.projection_params - mixer.replicated_params) / mixer.query_heads
