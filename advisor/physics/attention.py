"""The attention layers of a pass: what their cores read and compute, and layers that were measured
as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.physics import laws
from advisor.physics.architecture import Architecture, Mixer
from advisor.physics.kernel_costs import AttentionCost, AttentionModule, KernelCosts
from advisor.physics.laws.recording import unrecorded
from advisor.prediction import Array, Floats

GROUPED = ("full", "sliding")
"""Mixers whose query heads share KV heads; latent kernels have rows of their own
(`latent_rows_apart`)."""


@dataclass(frozen=True)
class AttentionLoad:
    """Tokens and cache that one attention group attends to in a pass, arrays that broadcast."""

    sequences: Floats
    tokens: Floats
    """Tokens of each sequence, q. [-]"""
    context: Floats
    """Cached tokens of each sequence, c. [-]"""
    bytes_per_element: float
    """Storage of one element of the cache. [B]"""
    tensor_parallel: int


@dataclass(frozen=True)
class Core:
    """The attention core of the layers of one mixer."""

    mixer: Mixer
    cost: AttentionCost
    read_bytes: Array
    """Bytes of one layer on one rank. [B]"""
    work_law: Callable[..., Floats]
    """`laws.attention_flops` or `laws.state_flops`."""
    work: Mapping[str, Any]
    """What it takes, by its symbols."""

    @property
    def flops(self) -> Array:
        """Operations of one layer on one rank. [FLOP]"""
        return np.asarray(self.work_law(**self.work))

    @property
    def symbols(self) -> dict[str, Any]:
        """Arguments of `laws.attention_core` by symbol. SI units."""
        return {"L": self.mixer.count, "R": self.read_bytes, "F": self.flops, **self.cost.symbols}

    @property
    def time_s(self) -> Array:
        """Time of all the mixer's layers. [s]"""
        return np.asarray(laws.attention_core(**self.symbols))


@dataclass(frozen=True)
class MeasuredAttention:
    """The layers of one mixer where they were measured as a whole, projections and launches
    included."""

    mixer: Mixer
    module: AttentionModule
    symbols: Mapping[str, Any]
    """What `laws.attention_module` takes. SI units."""

    @property
    def time_s(self) -> Array:
        """Time of all the mixer's layers. [s]"""
        return np.asarray(laws.attention_module(**self.symbols))


def attention_layers(
    architecture: Architecture, costs: KernelCosts, load: AttentionLoad
) -> tuple[Core | MeasuredAttention, ...]:
    """Attention of each mixer that has one: its measured layers, else its core without projections.

    Where latent kernels take further tokens of a sequence apart (`latent_rows_apart`), each is a
    sequence of its own.
    """
    # The last of them attends to all the others; the table of a module counts its own token beside.
    token_by_token = replace(
        load,
        sequences=load.sequences * load.tokens,
        tokens=np.ones(()),
        context=load.context + load.tokens - 1.0,
    )
    layers: list[Core | MeasuredAttention] = []
    for mixer in architecture.mixers:
        layer_load = token_by_token if mixer.kind == "mla" and costs.latent_rows_apart else load
        if mixer in costs.modules:
            layers.append(measured_attention(mixer, costs, layer_load))
        elif mixer.kind != "none":
            layers.append(attention_core(mixer, costs, layer_load))
    return tuple(layers)


def attending_layers(architecture: Architecture) -> int:
    """Layers with attention or a recurrent state: each ends a piece of a graph that is captured in
    pieces. [-]"""
    return sum(mixer.count for mixer in architecture.mixers if mixer.kind != "none")


@unrecorded()
def cached_s(layers: Sequence[Core | MeasuredAttention], shape: tuple[int, ...]) -> Array:
    """Time of the layers that keep a cache, by `laws.attention_core` and `laws.attention_module`
    [shape]. [s]"""
    return sum((layer.time_s for layer in layers if layer.mixer.kind != "linear"), np.zeros(shape))


def reread_share(architecture: Architecture, costs: KernelCosts) -> float:
    """Share of its attention that each further token of a sequence adds to a pass. [-]

    Where tokens are taken apart the attention itself holds their readings, so 0. Fitted else:
    docs/decisions/history.md (0015).
    """
    latent = any(mixer.kind == "mla" for mixer in architecture.mixers)
    return 0.0 if latent and costs.latent_rows_apart else costs.reread_share


def attention_core(mixer: Mixer, costs: KernelCosts, load: AttentionLoad) -> Core:
    """Attention core of one mixer's layers: constants, laws, bytes read and operations."""
    cost = core_cost(mixer, costs)
    law, values = attention_reading(mixer, load, costs.heads_apart)
    read_bytes = np.asarray(law(**values))
    work_law, work = attention_operations(mixer, cost, load, values, read_bytes)
    return Core(mixer, cost, read_bytes, work_law, work)


def core_cost(mixer: Mixer, costs: KernelCosts) -> AttentionCost:
    """The constants that price the core of one mixer's layers."""
    # Sparse attention chooses from a latent cache, so latent kernels run it; recurrent states keep
    # a format of their own.
    special = {"mla": costs.mla, "sparse": costs.mla, "linear": costs.state}.get(mixer.kind)
    return costs.attention if special is None else special


@unrecorded()
def measured_attention(mixer: Mixer, costs: KernelCosts, load: AttentionLoad) -> MeasuredAttention:
    """Layers of one mixer by their measured module, carried to several tokens of a sequence.

    Where tokens choose their own entries, each is as a sequence of its own. Where they share a
    cache, the projections grow as the module does at its shortest context, and the core by its law.
    """
    module: AttentionModule = costs.modules[mixer]
    sequences = load.sequences
    rows = load.sequences * load.tokens
    layers = {"L": mixer.count}
    # A token that chooses its own entries is to the kernel a sequence of its own, and the table has
    # such rows.
    if not module.shares_cache:
        return MeasuredAttention(
            mixer, module, layers | {"T_m": module.time_s(rows, load.context + load.tokens)}
        )
    one_token = np.asarray(1.0)
    # The tables count the new token in the context.
    shortest_context = np.asarray(module.shortest - 1.0)

    def core(sequences: Floats, tokens: Floats, context: Floats) -> Array:
        load_here = replace(load, sequences=sequences, tokens=tokens, context=context)
        return attention_core(mixer.model_copy(update={"count": 1}), costs, load_here).time_s

    values = {
        "T_m": module.time_s(sequences, load.context + 1.0),
        "T_q": module.time_s(rows, module.shortest),
        "T_1": module.time_s(sequences, module.shortest),
        "C_q": core(sequences, load.tokens, load.context),
        "C_1": core(sequences, one_token, load.context),
        "C_q0": core(rows, one_token, shortest_context),
        "C_10": core(sequences, one_token, shortest_context),
    }
    return MeasuredAttention(mixer, module, layers | values)


def attention_reading(
    mixer: Mixer, load: AttentionLoad, heads_apart: bool
) -> tuple[Callable[..., Floats], dict[str, Any]]:
    """Law of the bytes that one layer's attention core reads on one rank, with its arguments.

    `laws.state_moved` of a recurrent layer, else `laws.cache_read`; values by symbol, sizes in [-]
    and bytes in [B].
    """
    batch = load.sequences
    q = load.tokens
    ranks = load.tensor_parallel
    if mixer.kind == "linear":
        return laws.state_moved, {"B": batch, "S": mixer.state_elements, "q": q, "tp": ranks}
    values = {
        "B": batch,
        "c": load.context,
        "q": q,
        "e": mixer.kv_elements_per_token,
        "b": load.bytes_per_element,
    }
    window = np.inf if mixer.window_tokens is None else mixer.window_tokens
    reach = {"r": mixer.compression, "w": window, "n_q": q if mixer.kind == "sparse" else 1.0}
    beside = {"w_local": mixer.local_window_tokens, "e_idx": mixer.index_elements_per_token}
    split = min(ranks, mixer.kv_shards)
    # One token has its group's heads in the place of queries; of several tokens each head is a
    # block of its own.
    each = (
        mixer.query_heads * split / (ranks * mixer.kv_shards)
        if heads_apart and mixer.kind in GROUPED
        else 1.0
    )
    return laws.cache_read, values | reach | beside | {"s": split, "g": np.where(q > 1, each, 1.0)}


def attention_operations(
    mixer: Mixer,
    cost: AttentionCost,
    load: AttentionLoad,
    reading: Mapping[str, Any],
    read_bytes: Array,
) -> tuple[Callable[..., Floats], dict[str, Any]]:
    """Law of the operations of one layer's attention core on one rank, with its arguments.

    `laws.state_flops` of a recurrent layer, else `laws.attention_flops`; values by symbol, sizes in
    [-]. `reading` is what the law of the bytes takes, `read_bytes` [B] what it gives.
    """
    if mixer.kind == "linear":
        return laws.state_flops, {"R": read_bytes}
    blocks = {"n_g": mixer.kv_shards * reading["g"], "m_0": cost.block_rows}
    heads = {"H": mixer.query_heads, "tp": load.tensor_parallel, **blocks}
    # Bytes and operations of one layer must speak of the same load, so the symbols are taken over
    # and not made again.
    shared = {name: reading[name] for name in ("B", "c", "q", "r", "w", "n_q", "s")}
    return laws.attention_flops, {**shared, **heads, "a": mixer.flops_per_head_and_key}
