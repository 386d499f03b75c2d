"""Transformer architectures as the cost model sees them: dimensions, parameters and bytes by component.

Layers are grouped: a `Mixer` stands for `count` attention (or linear-attention) layers of one kind, a `DenseFfn` for
`count` dense feed-forward blocks, `Moe` for all routed layers. Sums over groups replace loops over layers.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.prediction import Confidence, Frozen

WeightDtype = Literal["fp32", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "mxfp4", "int4"]
MixerKind = Literal["full", "sliding", "mla", "sparse", "linear", "none"]

BYTES_PER_WEIGHT: dict[WeightDtype, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4.0 / (128 * 128),  # one fp32 scale per 128 x 128 block
    "int8": 1.0,
    "nvfp4": 0.5 + 1.0 / 16,  # one fp8 scale per 16 weights
    "mxfp4": 0.5 + 1.0 / 32,  # one e8m0 scale per 32 weights
    "int4": 0.5 + 2.0 / 128,  # one 16-bit scale per group of 128
}


class WeightDtypes(Frozen):
    """Storage format by component; never one number for a whole model."""

    routed: WeightDtype = "bf16"
    shared: WeightDtype = "bf16"
    attention: WeightDtype = "bf16"
    dense: WeightDtype = "bf16"
    embedding: WeightDtype = "bf16"


class Mixer(Frozen):
    """`count` sequence-mixing layers of one kind. Sizes are elements, per layer."""

    kind: MixerKind
    count: int = Field(ge=1)
    projection_params: int = Field(ge=0)
    """Weights of all projections of one layer (norms and biases included)."""
    replicated_params: int = Field(default=0, ge=0)
    """The part of projection_params that tensor parallelism does not split (MLA down-projections)."""
    kv_elements_per_token: int = Field(default=0, ge=0)
    """Cache elements one token adds, K and V together; 0 for linear layers."""
    kv_shards: int = Field(default=1, ge=1)
    """KV heads: tensor parallelism splits the cache at most this often (1 for latent caches: replicated)."""
    attend_flops_per_query_key: int = Field(default=0, ge=0)
    """Operations for one query position against one cached position: 2 heads (d_qk + d_v)."""
    window_tokens: int | None = Field(default=None, ge=1)
    """At most this many positions are read (sliding window, or the top-k of sparse attention)."""
    index_elements_per_token: int = Field(default=0, ge=0)
    """Sparse attention: index keys read for every cached token, before the top-k choice."""
    state_elements: int = Field(default=0, ge=0)
    """Recurrent state read and written each pass, per sequence; 0 for softmax attention."""
    compression: float = Field(default=1.0, ge=1.0)
    """Cached positions per stored entry where the cache is compressed along the sequence."""


class DenseFfn(Frozen):
    """`count` dense feed-forward blocks of one width (also a dense block that runs beside the experts)."""

    count: int = Field(ge=1)
    width: int = Field(ge=1)
    matrices: int = Field(default=3, ge=2, le=3)


class Moe(Frozen):
    """The routed layers. Symbols: n_experts N, n_active k, expert_width I, expert_input_width h."""

    count: int = Field(ge=1)
    n_experts: int = Field(ge=2)
    n_active: int = Field(ge=1)
    expert_width: int = Field(ge=1)
    expert_input_width: int = Field(ge=1)
    """Width an expert reads and writes: hidden_size, or the latent width where there is one."""
    matrices: int = Field(default=3, ge=2, le=3)
    n_shared: int = Field(default=0, ge=0)
    shared_width: int = Field(default=0, ge=0)
    """Total intermediate width of the always-active shared experts, s times their width; they read hidden_size."""
    zero_experts: int = Field(default=0, ge=0)
    """Identity experts a token may choose; they cost nothing and lower the effective k."""


class Architecture(Frozen):
    """A decoder-only transformer, MoE or dense."""

    id: str
    name: str
    hidden_size: int = Field(ge=1)
    vocab_size: int = Field(ge=1)
    tie_embeddings: bool = False
    mixers: tuple[Mixer, ...]
    dense: tuple[DenseFfn, ...] = ()
    moe: Moe | None = None
    mtp_modules: int = Field(default=0, ge=0)
    dtypes: WeightDtypes = WeightDtypes()
    max_context_tokens: int | None = None
    confidence: Confidence = "medium"
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extra_params: int = 0
    """Parameters outside the groups above (final norm, latent projections): counted, negligible in time."""
