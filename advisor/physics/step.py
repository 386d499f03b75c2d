"""Time of one forward pass over B sequences x q tokens, by component. Never sees acceptance; opens
nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.physics import laws
from advisor.physics.architecture import (
    BYTES_PER_WEIGHT,
    Architecture,
    WeightDtype,
    effective_n_active,
)
from advisor.physics.attention import (
    AttentionLoad,
    attending_layers,
    attention_layers,
    cached_s,
    reread_share,
)
from advisor.physics.kernel_costs import (
    ExpertShape,
    GemmCost,
    KernelCosts,
    MoeCost,
    StreamCost,
    stream_cost,
)
from advisor.physics.laws.recording import unrecorded, within
from advisor.physics.touched_experts import local_experts
from advisor.prediction import AdvisorError, Array, Floats, arrays

if TYPE_CHECKING:
    from advisor.physics.expert_ranks import Layout, RankBalance, RankCounts, Uneven


@dataclass(frozen=True)
class Placement:
    """Spread of one model instance over GPUs, by tensor and expert parallelism.

    Extra GPUs beyond max(tp, ep) are further independent instances. ep <= tp: the experts are split
    ep ways and each expert tp/ep ways. ep > tp: attention runs as ep/tp data-parallel groups that
    share the batch, and every rank holds N/ep whole experts.
    """

    tensor_parallel: int = 1
    expert_parallel: int = 1
    redundant: int = 0
    """Copies of routed experts beyond one of each, on all expert-parallel ranks together. [-]"""
    balance: RankBalance | None = None
    """How unevenly routing loads the expert-parallel ranks, where that was counted; None:
    `local_experts`."""

    @property
    def gpus(self) -> int:
        """GPUs of one instance. [-]"""
        return max(self.tensor_parallel, self.expert_parallel)

    @property
    def attention_groups(self) -> int:
        """Data-parallel attention groups that share the batch. [-]"""
        return max(1, self.expert_parallel // self.tensor_parallel)

    @property
    def expert_tensor_parallel(self) -> int:
        """Ways in which one expert's width is split. [-]"""
        return max(1, self.tensor_parallel // self.expert_parallel)


@dataclass(frozen=True)
class MoeShape:
    """Dimensions of the routed layers as arrays, so that one call costs one design or a million.
    All [-]."""

    count: ArrayLike
    n_experts: ArrayLike
    n_active: ArrayLike
    expert_width: ArrayLike
    expert_input_width: ArrayLike
    matrices: ArrayLike
    shared_width: ArrayLike

    @classmethod
    def of(cls, architecture: Architecture) -> MoeShape | None:
        """Shape of an architecture's own routed layers. None for a dense model."""
        moe = architecture.moe
        if moe is None:
            return None
        sizes = (moe.expert_width, moe.expert_input_width, moe.matrices, moe.shared_width)
        return cls(moe.count, moe.n_experts, effective_n_active(moe), *sizes)


@dataclass(frozen=True)
class StepTime:
    """Seconds of one forward pass by component, each broadcast over the arguments. `total` is their
    sum."""

    components: Mapping[str, Array]

    @property
    def total(self) -> Array:
        """Time of the whole pass. [s]"""
        return np.asarray(sum(self.components.values()))


DECODING_ONLY = ("attention", "reread", "lm_head")
"""Components that rows of padding have no part in: they attend to nothing, and their logits are not
asked for."""


def in_graph(decoding: StepTime, computed: StepTime) -> StepTime:
    """Time of the step `decoding` in a captured graph that holds as many sequences as
    `computed`."""
    decoding_only = {
        name: decoding.components[name] for name in DECODING_ONLY if name in decoding.components
    }
    return StepTime({**computed.components, **decoding_only})


# Launches of one layer that are GEMMs: fused QKV and output; latent attention adds its two absorbed
# products and the second query projection; gated linear attention adds its gates.
PROJECTION_GEMMS = {"full": 2, "sliding": 2, "sparse": 6, "mla": 5, "linear": 3, "none": 0}
EIGHT_BIT_DISPATCH = ("fp8", "fp8_block", "int8", "nvfp4", "mxfp4")
"""Formats of experts whose tokens travel to them in 8 bits, as DeepEP's dispatch sends them by
default (assumed of all that quantise activations); others in 16, and all come back in 16."""
MODULE_LAUNCHES = 0.5
"""Share of a layer's small launches that a measured attention leaves: those of its feed-forward
half, which has a norm and glue of its own (assumed; 0 and 1 serve the plain-decode points as well,
within 0.1 points). [-]"""


def step_time(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    *,
    batch_size: ArrayLike,
    tokens_per_sequence: ArrayLike,
    context_tokens: ArrayLike,
    touched: ArrayLike = 0.0,
    kv_bytes_per_element: float = 2.0,
    moe: MoeShape | None = None,
) -> StepTime:
    """Time of one forward pass over B sequences x q tokens each.

    batch_size : sequences in the instance, B. [-]
    tokens_per_sequence : tokens of each in this pass, q: 1 for plain decode, K+1 to verify. [-]
    context_tokens : cached tokens per sequence, c. [-]
    touched : distinct routed experts touched per layer, U, from `touched_experts`. [-]
    kv_bytes_per_element : 2 for a 16-bit cache, 1 for fp8. [B]
    moe : replaces the architecture's routed layers by arrays of shapes (design search).

    Each component (`advisor.physics.components`) is a law of `advisor.physics.laws`; this module
    maps names and shapes to their symbols. KV is read once per sequence and pass whatever q is, but
    for `reread`.
    """
    batch, q, context, touched = arrays(batch_size, tokens_per_sequence, context_tokens, touched)
    shape = moe or MoeShape.of(architecture)
    # Data-parallel groups share the batch: each attends to its own part, while the experts see the
    # tokens of all.
    group_batch = batch / placement.attention_groups
    rows = group_batch * q
    load = AttentionLoad(group_batch, q, context, kv_bytes_per_element, placement.tensor_parallel)
    attention = attention_layers(architecture, costs, load)
    dtype = architecture.dtypes.routed
    uneven = (
        None
        if shape is None
        else slowest_rank(costs.routed, placement, shape, batch, q, touched, dtype)
    )
    tokens = np.asarray(laws.step_tokens(batch, q))
    weights = weights_time(architecture, costs, placement, rows, tokens, touched, shape, uneven)
    attention_s = sum(
        (layer.time_s for layer in attention), np.zeros(np.broadcast(batch, q, context).shape)
    )
    with within("lm_head"):
        logits_s = lm_head(architecture, costs, placement).time_s(rows)
    parts: dict[str, Array] = {
        "host": np.asarray(costs.host_per_step_s),
        "launch": np.asarray(
            laws.launches(costs.launch_per_layer_s, launched_layers(architecture, costs))
        ),
        "attention_projection": weights.pop("attention_projection")
        + laws.norms(**norm_symbols(architecture, costs)),
        "attention": attention_s,
        **weights,
        "lm_head": logits_s,
    }
    if costs.between_graphs_s:
        launched = laws.between_graphs(costs.between_graphs_s, attending_layers(architecture))
        parts["between_graphs"] = np.asarray(np.where(q > 1, launched, 0.0))
    # Only where kernels read the cache for every query (sm_120, sm_121): no data-centre row asks
    # for it (decision 0015).
    if kappa := reread_share(architecture, costs):
        parts["reread"] = np.asarray(laws.reread(kappa, q, cached_s(attention, attention_s.shape)))
    return StepTime(parts)


def weights_time(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    rows: Floats,
    n_tokens: Floats,
    touched: Floats,
    shape: MoeShape | None,
    uneven: Uneven | None = None,
    for_prompt: bool = False,
) -> dict[str, Array]:
    """Time of everything in the layers but the attention core, by component. [s]

    rows : tokens of one attention group. [-]
    n_tokens, touched : tokens of the whole instance, and the experts that they touch together. [-]
    shape : dimensions of the routed layers; None for a dense model.
    uneven : the slowest rank, counted; None: assumed. [-]
    for_prompt : whether a chunk of a prompt is among the tokens, as `exchanges` has it.

    The part of a step that grows with tokens and not with context: `laws.gemm`,
    `laws.routed_layers`, `laws.all_reduces`.
    """
    messages = exchanges(architecture, costs, placement, rows, shape, uneven, for_prompt)
    parts = {}
    for name, items in matrix_products(architecture, costs, placement, shape).items():
        with within(name):
            parts[name] = sum((term.time_s(rows) for term in items), np.zeros_like(rows))
    if mixing := mixing_symbols(architecture, costs):
        parts["attention_projection"] = parts["attention_projection"] + laws.stream_mixing(
            M=rows, **mixing
        )
    parts["communication"] = sum((term.time_s for term in messages), np.zeros_like(rows))
    if shape is not None:
        dtype = architecture.dtypes.routed
        parts["routed"] = routed_time(
            costs.routed, placement, shape, n_tokens, touched, dtype, shape.count, uneven
        )
    return parts


def launched_layers(architecture: Architecture, costs: KernelCosts) -> float:
    """Layers whose launches are charged, half of one for each whose measured attention contains its
    own. [-]

    Shared experts add theirs where no graph of the engine's is known to hold them.
    """
    charged = {True: MODULE_LAUNCHES, False: 1.0}
    moe = architecture.moe
    shared = 0.0 if moe is None or not moe.n_shared else moe.count * costs.shared_launches
    return float(
        sum(mixer.count * charged[mixer in costs.modules] for mixer in architecture.mixers) + shared
    )


def norm_symbols(architecture: Architecture, costs: KernelCosts) -> dict[str, float]:
    """Arguments of `laws.norms` by symbol, [s] and [-]. Whole measured attention layers contain
    theirs."""
    normed = [
        mixer
        for mixer in architecture.mixers
        if mixer.query_key_norm and mixer not in costs.modules
    ]
    return {"c_q": costs.query_key_norm_s, "L_q": float(sum(mixer.count for mixer in normed))}


def mixing_symbols(architecture: Architecture, costs: KernelCosts) -> dict[str, float]:
    """Arguments of `laws.stream_mixing` but the rows, [-], [s] and [B/s]. Empty where none are
    mixed, or untimed."""
    mixed = [mixer for mixer in architecture.mixers if mixer.mixed_streams]
    if not mixed or costs.stream_mixing is None:
        return {}
    streams = mixed[0].mixed_streams
    layers = sum(mixer.count for mixer in mixed)
    sizes = {"L_x": float(layers), "n": float(streams), "h": float(architecture.hidden_size)}
    return sizes | {
        "t_x": costs.stream_mixing.t0_s,
        "BW_x": costs.stream_mixing.bandwidth_bytes_per_s,
    }


def n_layers(architecture: Architecture) -> int:
    """Layers of one pass. [-]"""
    return sum(mixer.count for mixer in architecture.mixers)


@dataclass(frozen=True)
class Products:
    """Matrix products of `layers` layers, each of `launches` launches that share `weights` weights.
    All [-]."""

    cost: GemmCost
    weights: ArrayLike
    dtype: WeightDtype
    launches: int
    layers: ArrayLike

    def symbols(self, rows: Floats) -> dict[str, Any]:
        """Arguments of `laws.gemm` for `rows` rows on this rank, by symbol. SI units; rows and
        weights in [-]."""
        weights = {"W": np.asarray(self.weights, float), "b": BYTES_PER_WEIGHT[self.dtype]}
        return {
            "L": np.asarray(self.layers, float),
            "n": self.launches,
            **weights,
            "M": rows,
            **self.cost.symbols,
        }

    def time_s(self, rows: Floats) -> Array:
        """Time of the products over `rows` rows, broadcast: `laws.gemm`. [s]"""
        return np.asarray(laws.gemm(**self.symbols(rows)))


def matrix_products(
    architecture: Architecture, costs: KernelCosts, placement: Placement, shape: MoeShape | None
) -> dict[str, tuple[Products, ...]]:
    """Products with weights in the layers, by component, but for the routed experts.

    Tensor-parallel ranks split the weights but those that a mixer replicates, and the router.
    """
    d = architecture.hidden_size
    tp = placement.tensor_parallel
    dtypes = architecture.dtypes
    projections = []
    for mixer in architecture.mixers:
        if mixer in costs.modules:
            continue  # measured with its projections
        weights = (mixer.projection_params - mixer.replicated_params) / tp + mixer.replicated_params
        product = (weights, dtypes.attention, PROJECTION_GEMMS[mixer.kind], mixer.count)
        projections.append(Products(costs.attention_projection, *product))
    products = {
        "attention_projection": tuple(projections),
        "dense": tuple(
            Products(
                costs.dense, block.matrices * d * block.width / tp, dtypes.dense, 2, block.count
            )
            for block in architecture.dense
        ),
    }
    if shape is not None:
        count, experts, matrices, width = arrays(
            shape.count, shape.n_experts, shape.matrices, shape.shared_width
        )
        # Every rank scores all experts for its own tokens, with weights that stay in 16 bits: no
        # activation is quantised for it.
        router = costs.router or costs.lm_head
        products["router"] = (Products(router, experts * d, "bf16", 1, count),)
        # Designs without a shared expert stand in one array with those that have one: they run no
        # such layer.
        products["shared"] = (
            Products(
                costs.shared, matrices * d * width / tp, dtypes.shared, 2, count * (width > 0)
            ),
        )
    return products


def lm_head(architecture: Architecture, costs: KernelCosts, placement: Placement) -> Products:
    """The product that gives a token's logits."""
    weights = architecture.vocab_size * architecture.hidden_size / placement.tensor_parallel
    return Products(costs.lm_head, weights, architecture.dtypes.embedding, 1, 1)


def gemm_time(
    cost: GemmCost, rows: ArrayLike, weights: ArrayLike, dtype: WeightDtype, launches: int
) -> Array:
    """Time of `launches` GEMMs with `weights` elements in all, applied to `rows` rows: `laws.gemm`.
    [s]"""
    return Products(cost, weights, dtype, launches, 1.0).time_s(np.asarray(rows, float))


def routed_time(
    cost: MoeCost,
    placement: Placement,
    shape: MoeShape,
    n_tokens: ArrayLike,
    touched: ArrayLike,
    dtype: WeightDtype,
    layers: ArrayLike = 1.0,
    uneven: Uneven | None = None,
) -> Array:
    """Time of `layers` routed layers on the slowest rank: `laws.routed_layers`. [s]

    n_tokens : tokens of the whole instance, M. [-]
    touched : routed experts that they touch together, U. [-]
    layers : routed layers that run alike, L. [-]
    uneven : what the slowest rank does, where that was counted; else `local_experts` assumes the
        experts it reads, each
    with the rows of a mean one. [-]

    Where `cost` holds measured rows of this very shape, they scale the sum in place of the
    correction curve.
    """
    # Off zero, as designs without experts pass 0 and rows per expert must stay finite.
    tokens, touched, active = arrays(n_tokens, np.maximum(touched, 1e-9), shape.n_active)
    experts, count = arrays(shape.n_experts, layers)
    ranks = placement.expert_parallel
    # All ranks wait for the slowest, so what it reads and serves decides.
    share: Floats = ranks
    if uneven is not None and ranks > 1:
        experts = np.asarray(uneven.slots)
        share = 1.0
        active = np.asarray(laws.rank_choices(active, uneven.pairs, ranks))
        on_rank = np.maximum(laws.counted_experts(uneven.touched, touched, ranks, experts), 1e-9)
        rows_each = laws.rows_per_expert(tokens, active, on_rank)
    else:
        on_rank = local_experts(touched, experts, ranks) if ranks > 1 else touched
        rows_each = laws.rows_per_expert(tokens, active, touched)
    step = {
        "tokens": tokens,
        "n_active": active,
        "rows_per_expert": rows_each,
        "touched": on_rank,
        "ranks": share,
    }
    work = expert_work(
        **step, bytes_per_weight=BYTES_PER_WEIGHT[dtype], **expert_sizes(shape, placement)
    )
    # Rows of this very shape err by 1.2 to 1.4 %, the curve over all shapes by 1.7 to 4.6 % (left
    # out, decision 0005).
    if cost.measured is not None and expert_shape(shape, placement) == cost.measured.shape:
        factor = cost.measured.factor(tokens)
    else:
        factor = cost.correction(rows_each)
    return np.asarray(
        laws.routed_layers(L=count, c=factor, N=experts, ep=ranks, **work, **cost.symbols)
    )


@dataclass(frozen=True, eq=False)
class RoutedLayer:
    """One routed layer as its kernels run it under a placement."""

    cost: MoeCost
    placement: Placement
    shape: MoeShape
    dtype: WeightDtype

    def rank_seconds(self, layout: Layout, counts: RankCounts, batch: int) -> Array:
        """Time of each rank by what it reads and serves, [1, t, layers, R]. [s]

        The largest over ranks is what a layer takes: neither the rank that reads most experts nor
        the one with most rows need be the slowest, so the two are not maximised apart. Source:
        docs/decisions/history.md (0017).
        """
        from advisor.physics.expert_ranks import Uneven  # few answers count ranks

        steps = np.arange(1, len(counts.pairs) + 1)[:, None, None]
        touched_overall = counts.touched_overall[..., None]
        pairs = counts.pairs / counts.pairs.mean(axis=2, keepdims=True)
        touched = counts.touched / (touched_overall / layout.n_ranks)
        uneven = Uneven(touched, pairs, pairs, float(layout.n_slots))
        tokens = batch * steps
        time = routed_time(
            self.cost,
            self.placement,
            self.shape,
            tokens,
            touched_overall,
            self.dtype,
            uneven=uneven,
        )
        return time[None]


@unrecorded()
def slowest_rank(
    cost: MoeCost,
    placement: Placement,
    shape: MoeShape,
    batch: Floats,
    tokens_per_sequence: Floats,
    touched: Floats,
    dtype: WeightDtype,
) -> Uneven | None:
    """Load of the rank that a routed layer waits for. None where ranks were not counted.

    batch, tokens_per_sequence, touched : B, q and U of the whole instance, broadcast. [-]

    Of the ranks that were counted as slowest by different measures, the one that takes longest with
    these kernels.
    """
    if placement.balance is None or placement.expert_parallel == 1:
        return None
    candidates = placement.balance.at(batch, tokens_per_sequence)
    if len(candidates) == 1:
        return candidates[0]
    step = (cost, placement, shape, batch * tokens_per_sequence, touched, dtype)
    slow = np.stack([routed_time(*step, uneven=candidate) for candidate in candidates]).argmax(
        axis=0
    )

    def of_slowest(name: str) -> Array:
        loads = [getattr(candidate, name) for candidate in candidates]
        loads_by_candidate = np.stack([np.broadcast_to(load, slow.shape) for load in loads])
        return np.asarray(np.take_along_axis(loads_by_candidate, slow[None], 0)[0])

    from advisor.physics.expert_ranks import Uneven  # few answers count ranks

    touched_by = of_slowest("touched")
    served_by = of_slowest("pairs")
    return Uneven(touched_by, served_by, candidates[0].received, candidates[0].slots)


def expert_sizes(shape: MoeShape, placement: Placement) -> dict[str, Array]:
    """Widths h and I and matrices n_mat of one expert on one rank, by symbol of
    `laws.routed_layers`. [-]"""
    h, width, matrices = arrays(shape.expert_input_width, shape.expert_width, shape.matrices)
    return {"h": h, "I": width / placement.expert_tensor_parallel, "n_mat": matrices}


def expert_work(
    *,
    tokens: Floats,
    n_active: Floats,
    rows_per_expert: Floats,
    touched: Floats,
    h: Floats,
    I: Floats,  # noqa: E741
    n_mat: Floats,
    bytes_per_weight: float,
    ranks: Floats = 1.0,
) -> dict[str, Floats]:
    """Bytes, operations and experts of a routed layer on one rank, by symbol of
    `laws.routed_layers`.

    Parameters
    ----------
    tokens, n_active : M, tokens of the step on all ranks, and k of each, or the part of k that this
        rank serves. [-]
    rows_per_expert : mean rows of an expert that is touched. [-]
    touched : distinct experts touched on this rank, U. [-]
    h, I, n_mat : as `expert_sizes`. [-]
    bytes_per_weight : storage of one weight. [B]
    ranks : ranks that share the choices of `n_active` evenly. [-]
    """
    return {
        "U": touched,
        "W": laws.expert_weight_bytes(n_mat, h, I, bytes_per_weight, touched),
        "F": laws.expert_flops(n_mat, h, I, touched, rows_per_expert),
        "A": laws.expert_activation_bytes(tokens, n_active, h, n_mat, I, ranks),
    }


def expert_shape(shape: MoeShape, placement: Placement) -> ExpertShape | None:
    """Shape of one routed layer as a kernel sees it. None for arrays of shapes, which are all
    predicted by the form."""
    sizes = (
        shape.expert_input_width,
        shape.expert_width,
        shape.n_active,
        shape.n_experts,
        shape.matrices,
    )
    if any(np.size(size) != 1 for size in sizes):
        return None
    numbers = [float(np.asarray(size).item()) for size in sizes]
    h, width, active, experts, matrices = numbers
    return (
        h,
        width / placement.expert_tensor_parallel,
        active,
        experts,
        matrices,
        float(placement.expert_parallel),
    )


@dataclass(frozen=True)
class Exchange:
    """The messages of one kind between the GPUs of an instance."""

    kind: Literal["all-reduce", "expert exchange"]
    cost: StreamCost
    law: Callable[..., Floats]
    symbols: Mapping[str, Any]
    """What the law takes. SI units."""

    @property
    def time_s(self) -> Array:
        """Time of all of a pass. [s]"""
        return np.asarray(self.law(**self.symbols))


def exchanges(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    rows: Floats,
    shape: MoeShape | None,
    uneven: Uneven | None = None,
    for_prompt: bool = False,
) -> tuple[Exchange, ...]:
    """Exchanges of one pass between GPUs, over `rows` rows [-] in each attention group.

    Between nodes a step that decodes sends a token to each of its experts, one with a chunk of a
    prompt (`for_prompt`) once to each node: engines take the kernels that suit. Where it was
    counted how `uneven` ranks are loaded, an expert exchange waits for the rank that receives most.

    Raises AdvisorError where the accelerator has no cost for them.
    """
    messages = []
    message = laws.message_bytes(rows, architecture.hidden_size)
    tp = placement.tensor_parallel
    if tp > 1:
        reduce = stream_cost(costs.all_reduce, tp)
        if reduce is None:
            advice = "give its link speed, or use one GPU (tensor_parallel=1)"
            raise AdvisorError(
                f"what GPUs of this accelerator take to add up their results is not known; {advice}"
            )
        values = {
            "L": n_layers(architecture),
            "X": message,
            "r": reduce.factor(message),
            **reduce.symbols,
        }
        messages.append(Exchange("all-reduce", reduce, laws.all_reduces, values))
    if shape is not None and placement.attention_groups > 1:
        exchange = stream_cost(costs.all_to_all, placement.expert_parallel)
        if exchange is None:
            raise AdvisorError(
                "no all-to-all cost for this accelerator; choose expert_parallel <= tensor_parallel"
            )
        count, active = arrays(shape.count, shape.n_active)
        if uneven is not None:
            rows = np.asarray(laws.fullest_rows(rows, uneven.received))
            message = laws.message_bytes(rows, architecture.hidden_size)
        factor = exchange.factor(laws.sent_bytes(message, active, tp))
        values = {"L": count, "X": message, "k": active, "tp": tp, "r": factor, **exchange.symbols}
        law: Callable[..., Floats] = laws.expert_exchange
        if (network := costs.network) is not None:
            narrow = architecture.dtypes.routed in EIGHT_BIT_DISPATCH
            out = laws.fp8_messages(rows, architecture.hidden_size) if narrow else message
            share = laws.other_nodes(network.ranks_per_node, placement.expert_parallel)
            copies: Floats = active
            if for_prompt:
                copies = laws.nodes_reached(
                    network.ranks_per_node, placement.expert_parallel, active
                )
                law = laws.prompt_exchange
            values |= {
                "X_net": laws.wire_bytes(out, message, copies, tp),
                "s": share,
                **network.symbols,
            }
        messages.append(Exchange("expert exchange", exchange, law, values))
    return tuple(messages)
