"""Time of one forward pass over B sequences x q tokens, by component. Never sees acceptance; opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.architecture import BYTES_PER_WEIGHT, Architecture, Mixer, WeightDtype, effective_n_active
from advisor.kernel_costs import ExpertShape, GemmCost, KernelCosts, MoeCost, stream_cost
from advisor.prediction import AdvisorError
from advisor.routing import local_experts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Placement:
    """How one model instance is spread. Extra GPUs beyond max(tp, ep) are further independent instances.

    ep <= tp: the experts are split ep ways and each expert tp/ep ways. ep > tp: attention runs as ep/tp data-parallel
    groups that share the batch, and every rank holds N/ep whole experts.
    """

    tensor_parallel: int = 1
    expert_parallel: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one instance. [1]"""
        return max(self.tensor_parallel, self.expert_parallel)

    @property
    def attention_groups(self) -> int:
        """Data-parallel attention groups that share the batch. [1]"""
        return max(1, self.expert_parallel // self.tensor_parallel)

    @property
    def expert_tensor_parallel(self) -> int:
        """Ways in which one expert's width is split. [1]"""
        return max(1, self.tensor_parallel // self.expert_parallel)


@dataclass(frozen=True)
class MoeShape:
    """Dimensions of the routed layers as arrays, so that one call costs one design or a million. All [1]."""

    count: ArrayLike
    n_experts: ArrayLike
    n_active: ArrayLike
    expert_width: ArrayLike
    expert_input_width: ArrayLike
    matrices: ArrayLike
    shared_width: ArrayLike

    @classmethod
    def of(cls, architecture: Architecture) -> MoeShape | None:
        """Shape of an architecture's own routed layers; None for a dense model."""
        moe = architecture.moe
        if moe is None:
            return None
        return cls(
            moe.count,
            moe.n_experts,
            effective_n_active(moe),
            moe.expert_width,
            moe.expert_input_width,
            moe.matrices,
            moe.shared_width,
        )


@dataclass(frozen=True)
class StepTime:
    """Seconds of one forward pass by component, each broadcast over the arguments; `total` is their sum."""

    components: Mapping[str, Array]

    @property
    def total(self) -> Array:
        """Time of the whole pass. [s]"""
        return np.asarray(sum(self.components.values()))


# Launches of one layer that are GEMMs: fused QKV and output; latent attention adds its two absorbed products and the
# second query projection; gated linear attention adds its gates.
PROJECTION_GEMMS = {"full": 2, "sliding": 2, "sparse": 6, "mla": 5, "linear": 3, "none": 0}
_STATE_BYTES = 4.0  # recurrent states are kept in fp32
_ACTIVATION_BYTES = 2.0
_TILE_ROWS = 16.0  # rows to which an expert's token block is padded at least
_TILE_PADDING = 7.5  # mean rows added by padding a block to the next multiple of 16
_INDEX_BYTES = 1.0  # sparse attention keeps its index keys in fp8


def step_time(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    *,
    batch_size: ArrayLike,
    tokens_per_sequence: ArrayLike,
    context_tokens: ArrayLike,
    distinct: ArrayLike = 0.0,
    kv_bytes_per_element: float = 2.0,
    moe: MoeShape | None = None,
) -> StepTime:
    """Time of one forward pass over B sequences x q tokens each.

    Parameters
    ----------
    architecture : dimensions and weight formats.
    costs : kernel constants of the accelerator and engine.
    placement : tensor and expert parallelism of the instance.
    batch_size : sequences in the instance, B. [1]
    tokens_per_sequence : tokens of each in this pass: 1 for plain decode, K+1 to verify. [1]
    context_tokens : cached tokens per sequence, c. [1]
    distinct : distinct routed experts touched per layer, U, from `routing.distinct_experts`. [1]
    kv_bytes_per_element : 2 for a 16-bit cache, 1 for fp8. [B]
    moe : replaces the architecture's routed layers by arrays of shapes (design search).

    Returns
    -------
    StepTime with components host, launch, attention_projection, attention, router, routed, shared, dense,
    communication, lm_head; times in seconds, broadcast over all arguments.

    Notes
    -----
    The form is that of docs/model.md, section "Step cost". KV is read once per sequence and pass whatever q is.
    """
    batch, q, context, touched = (
        np.asarray(value, float) for value in (batch_size, tokens_per_sequence, context_tokens, distinct)
    )
    shape = moe or MoeShape.of(architecture)
    group_batch = batch / placement.attention_groups
    rows = group_batch * q
    n_layers = sum(mixer.count for mixer in architecture.mixers)
    parts: dict[str, Array] = {
        "host": np.asarray(costs.host_per_step_s),
        "launch": np.asarray(costs.launch_per_layer_s * n_layers),
        "attention_projection": _projection_time(architecture, costs, placement, rows),
        "attention": _attention_time(architecture, costs, placement, group_batch, q, context, kv_bytes_per_element),
        "dense": _dense_time(architecture, costs, placement, rows),
        "communication": _communication_time(architecture, costs, placement, rows, shape, n_layers),
        "lm_head": gemm_time(
            costs.lm_head,
            rows,
            architecture.vocab_size * architecture.hidden_size / placement.tensor_parallel,
            architecture.dtypes.embedding,
            1,
        ),
    }
    if shape is not None:
        parts |= _moe_times(architecture, costs, placement, shape, batch * q, rows, touched)
    return StepTime(parts)


def _moe_times(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    shape: MoeShape,
    n_tokens: Array,
    rows: Array,
    touched: Array,
) -> dict[str, Array]:
    """Seconds of all layers' routers, routed and shared experts. Only routed experts see other groups' tokens."""
    hidden, count = architecture.hidden_size, np.asarray(shape.count, float)
    router_weights = np.asarray(shape.n_experts, float) * hidden
    width = np.asarray(shape.shared_width, float)
    shared_weights = np.asarray(shape.matrices, float) * hidden * width / placement.tensor_parallel
    shared = gemm_time(costs.shared, rows, shared_weights, architecture.dtypes.shared, 2)
    routed = routed_time(costs.routed, placement, shape, n_tokens, touched, architecture.dtypes.routed)
    return {
        "router": count * gemm_time(costs.attention_projection, rows, router_weights, "bf16", 1),
        "routed": count * routed,
        "shared": count * np.where(width > 0, shared, 0.0),
    }


def gemm_time(cost: GemmCost, rows: ArrayLike, weights: ArrayLike, dtype: WeightDtype, launches: int) -> Array:
    """Time of `launches` GEMMs with `weights` elements in all, applied to `rows` rows. [s]

    n t0 + ((bytes / BW)^p + (2 rows weights / F)^p)^(1/p): weights are read once, arithmetic grows with the rows.
    """
    elements = np.asarray(weights, float)
    stream = elements * BYTES_PER_WEIGHT[dtype] / cost.bandwidth_bytes_per_s
    arithmetic = 2.0 * np.asarray(rows, float) * elements / cost.flops_per_s
    return np.asarray(launches * cost.t0_s + _p_norm(stream, arithmetic, cost.sharpness))


def routed_time(
    cost: MoeCost, placement: Placement, shape: MoeShape, n_tokens: ArrayLike, distinct: ArrayLike, dtype: WeightDtype
) -> Array:
    """Time of one routed layer on the slowest rank. [s]

    `n_tokens` M is the whole instance's, `distinct` U the experts they touch together. Terms: weights of the touched
    experts, a cost per touched expert, arithmetic padded to tiles, 16-bit activations, a cost per resident expert.
    Where `cost` holds measured rows of this very shape, they scale the sum in place of the correction curve.
    """
    tokens, touched = np.asarray(n_tokens, float), np.maximum(np.asarray(distinct, float), 1e-9)
    experts, active = np.asarray(shape.n_experts, float), np.asarray(shape.n_active, float)
    ranks = placement.expert_parallel
    local = local_experts(touched, experts, ranks) if ranks > 1 else touched
    terms = moe_terms(
        tokens=tokens,
        rows=tokens * active / ranks,
        rows_per_expert=tokens * active / touched,
        touched=local,
        expert_width=np.asarray(shape.expert_width, float) / placement.expert_tensor_parallel,
        input_width=np.asarray(shape.expert_input_width, float),
        matrices=np.asarray(shape.matrices, float),
        bytes_per_weight=BYTES_PER_WEIGHT[dtype],
    )
    if cost.measured is not None and expert_shape(shape, placement) == cost.measured.shape:
        factor = cost.measured.factor(tokens)
    else:
        factor = cost.correction(tokens * active / touched)
    return factor * (
        cost.t0_s
        + terms.weight_bytes / cost.bandwidth_bytes_per_s
        + local * cost.per_expert_s
        + terms.flops / cost.flops_per_s
        + terms.activation_bytes / cost.activation_bandwidth_bytes_per_s
        + experts / ranks * cost.per_resident_expert_s
    )


def expert_shape(shape: MoeShape, placement: Placement) -> ExpertShape | None:
    """What a kernel sees of one routed layer; None for arrays of shapes, which are all predicted by the form."""
    sizes = (shape.expert_input_width, shape.expert_width, shape.n_active, shape.n_experts, shape.matrices)
    if any(np.size(size) != 1 for size in sizes):
        return None
    h, width, active, experts, matrices = (float(np.asarray(size).item()) for size in sizes)
    return (h, width / placement.expert_tensor_parallel, active, experts, matrices, float(placement.expert_parallel))


@dataclass(frozen=True)
class MoeTerms:
    """What a routed layer moves and computes on one rank: the features that `MoeCost` is linear in."""

    weight_bytes: Array
    flops: Array
    activation_bytes: Array


def moe_terms(
    *,
    tokens: ArrayLike,
    rows: ArrayLike,
    rows_per_expert: ArrayLike,
    touched: ArrayLike,
    expert_width: ArrayLike,
    input_width: ArrayLike,
    matrices: ArrayLike,
    bytes_per_weight: float,
) -> MoeTerms:
    """Bytes and operations of one routed layer on one rank.

    Parameters
    ----------
    tokens : M, tokens of the step. [1]
    rows : token-expert pairs on this rank, M k at ep = 1. [1]
    rows_per_expert : M k / U, mean rows of a touched expert. [1]
    touched : distinct experts touched on this rank, U. [1]
    expert_width, input_width : I/tp and h. [1]
    matrices : 3 for gated experts, 2 otherwise. [1]
    bytes_per_weight : storage of one weight. [B]

    Notes
    -----
    W = U mats h I b; F = 2 mats h I U max(16, M k / U + 7.5); A = rows (4 h + 2 mats I) + 4 M h (docs/model.md).
    """
    u, h, width, mats = (np.asarray(x, float) for x in (touched, input_width, expert_width, matrices))
    elements = u * mats * h * width
    padded = np.maximum(_TILE_ROWS, np.asarray(rows_per_expert, float) + _TILE_PADDING)
    return MoeTerms(
        weight_bytes=elements * bytes_per_weight,
        flops=2.0 * elements * padded,
        activation_bytes=np.asarray(rows, float) * _ACTIVATION_BYTES * (2.0 * h + mats * width)
        + 2.0 * _ACTIVATION_BYTES * np.asarray(tokens, float) * h,
    )


def _p_norm(a: Array, b: Array, sharpness: float) -> Array:
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = np.divide(low, high, out=np.zeros(np.broadcast_shapes(low.shape, high.shape)), where=high > 0)
    return np.asarray(high * (1.0 + ratio**sharpness) ** (1.0 / sharpness))


def _projection_time(architecture: Architecture, costs: KernelCosts, placement: Placement, rows: Array) -> Array:
    total = np.zeros_like(rows)
    for mixer in architecture.mixers:
        split = (mixer.projection_params - mixer.replicated_params) / placement.tensor_parallel
        total = total + mixer.count * gemm_time(
            costs.attention_projection,
            rows,
            split + mixer.replicated_params,
            architecture.dtypes.attention,
            PROJECTION_GEMMS[mixer.kind],
        )
    return total


def _attention_time(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    batch: Array,
    q: Array,
    context: Array,
    kv_bytes: float,
) -> Array:
    total = np.zeros(np.broadcast_shapes(batch.shape, q.shape, context.shape))
    for mixer in architecture.mixers:
        if mixer.kind == "none":
            continue
        latent = mixer.kind in ("mla", "sparse")
        cost = costs.mla if latent and costs.mla is not None else costs.attention
        read, flops = attention_work(mixer, batch, q, context, placement.tensor_parallel, kv_bytes)
        stream = read / cost.bandwidth_bytes_per_s
        total = total + mixer.count * (cost.t0_s + _p_norm(stream, flops / costs.attention_flops_per_s, 2.0))
    return total


def attention_work(
    mixer: Mixer, batch: Array, q: Array, context: Array, tensor_parallel: int, kv_bytes: float
) -> tuple[Array, Array]:
    """Bytes read and operations of one layer's attention core on one rank: (bytes, flops).

    Softmax attention reads the visible cache once per sequence, whatever q is; sparse attention lets each query choose
    its own positions, after one pass over the index keys. A recurrent layer reads its state once and writes one per
    verified token, so that rejected tokens can be rolled back.
    """
    if mixer.kind == "linear":
        moved = batch * mixer.state_elements * _STATE_BYTES * (1.0 + q) / tensor_parallel
        return np.asarray(moved), np.asarray(2.0 * moved / _STATE_BYTES)
    stored = (context + q) / mixer.compression
    visible = stored if mixer.window_tokens is None else np.minimum(stored, mixer.window_tokens)
    per_query = q if mixer.kind == "sparse" else 1.0
    entries = np.minimum(visible * per_query, stored) + np.minimum(context + q, mixer.local_window_tokens)
    shards = min(tensor_parallel, mixer.kv_shards)
    read = batch * (
        entries * mixer.kv_elements_per_token * kv_bytes / shards
        + stored * mixer.index_elements_per_token * _INDEX_BYTES
    )
    flops = batch * q * visible * mixer.attend_flops_per_query_key / tensor_parallel
    return np.asarray(read), np.asarray(flops)


def _dense_time(architecture: Architecture, costs: KernelCosts, placement: Placement, rows: Array) -> Array:
    total = np.zeros_like(rows)
    for block in architecture.dense:
        weights = block.matrices * architecture.hidden_size * block.width / placement.tensor_parallel
        total = total + block.count * gemm_time(costs.dense, rows, weights, architecture.dtypes.dense, 2)
    return total


def _communication_time(
    architecture: Architecture,
    costs: KernelCosts,
    placement: Placement,
    rows: Array,
    shape: MoeShape | None,
    n_layers: int,
) -> Array:
    message = rows * architecture.hidden_size * _ACTIVATION_BYTES
    total = np.zeros_like(rows)
    reduce = stream_cost(costs.all_reduce, placement.tensor_parallel)
    if placement.tensor_parallel > 1:
        if reduce is None:
            raise AdvisorError(
                "no all-reduce cost for this accelerator; choose tensor_parallel=1 or give its link speed"
            )
        total = total + 2.0 * n_layers * reduce.time_s(message)
    if shape is not None and placement.attention_groups > 1:
        exchange = stream_cost(costs.all_to_all, placement.expert_parallel)
        if exchange is None:
            raise AdvisorError("no all-to-all cost for this accelerator; choose expert_parallel <= tensor_parallel")
        sent = message / placement.tensor_parallel * np.asarray(shape.n_active, float)
        total = total + 2.0 * np.asarray(shape.count, float) * exchange.time_s(sent)
    return total
