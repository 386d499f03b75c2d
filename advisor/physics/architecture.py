"""Transformer architectures as the cost model sees them: dimensions, parameters and bytes by
component.

Layers are grouped: a `Mixer` stands for `count` attention (or linear-attention) layers of one kind,
a `DenseFfn` for `count` dense feed-forward blocks, `Moe` for all routed layers. Sums over groups
replace loops over layers.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from advisor.physics.notes import Note
from advisor.prediction import AdvisorError, Confidence, Frozen

Numbers = npt.ArrayLike
Floats = npt.NDArray[np.float64]
WeightDtype = Literal["fp32", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "mxfp4", "int4"]
CacheDtype = Literal["bf16", "fp8", "int8", "nvfp4"]
ActivationScheme = Literal["static", "dynamic"]
"""How the activations of 8-bit products get their scale: calibrated, or found on every call."""
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
    """Storage format by component. Never one number for a whole model."""

    routed: WeightDtype = "bf16"
    shared: WeightDtype = "bf16"
    attention: WeightDtype = "bf16"
    dense: WeightDtype = "bf16"
    embedding: WeightDtype = "bf16"


MATRICES = tuple(name for name in WeightDtypes.model_fields if name != "embedding")
"""Weights that quantised releases store in a narrower format; embeddings keep theirs."""


class Mixer(Frozen):
    """Sequence-mixing layers of one kind, `count` of them. Sizes are elements, per layer."""

    kind: MixerKind
    count: int = Field(ge=1)
    projection_params: int = Field(ge=0)
    """Weights of all projections of one layer: biases, input norm, output gate, sparse indexer and
    cache compressor included; the query and key norm vectors (< 0.001 % of a layer) are not."""
    replicated_params: int = Field(default=0, ge=0)
    """The part of projection_params that tensor parallelism does not split (MLA down-projections,
    sparse indexer)."""
    kv_elements_per_token: int = Field(default=0, ge=0)
    """Elements of one cache entry, K and V together; 0 for linear layers. With compression 1 a
    token adds one entry."""
    kv_shards: int = Field(default=1, ge=1)
    """KV heads: tensor parallelism splits the cache at most this often (1 for latent caches:
    replicated)."""
    query_heads: int = Field(default=0, ge=0)
    """Heads of one query position; 0 for linear layers."""
    flops_per_head_and_key: int = Field(default=0, ge=0)
    """Operations of one query head against one cache entry: 2 (d_qk + d_v)."""
    prompt_flops_per_head_and_key: int = Field(default=0, ge=0)
    """The same within a prompt, where latent attention expands keys and values; 0: as
    flops_per_head_and_key."""
    query_key_norm: bool = False
    """Queries and keys are normalised before they meet: small kernels of their own in some
    engines."""
    mixed_streams: int = Field(default=0, ge=0)
    """Residual streams that hyper-connections mix before it and before the feed-forward; 0: one,
    which is added to."""
    has_sinks: bool = False
    """Each head attends to a learnt logit too, an attention sink: FlashAttention 2 knows none (vllm
    issue 22331)."""
    window_tokens: int | None = Field(default=None, ge=1)
    """At most this many entries are read. `sliding`: older ones are dropped too. `sparse`: the
    top-k, all are kept."""
    local_window_tokens: int = Field(default=0, ge=0)
    """Uncompressed recent positions kept and read beside a compressed cache (DeepSeek-V4)."""
    index_elements_per_token: int = Field(default=0, ge=0)
    """Sparse attention: index-key elements of one cache entry, all read before the top-k choice."""
    shares_cache: bool = False
    """Its growing cache is an earlier layer's: read, and not kept once more. A local window stays
    its own."""
    state_elements: int = Field(default=0, ge=0)
    """Recurrent state read and written each pass, per sequence; 0 for softmax attention."""
    compression: float = Field(default=1.0, ge=1.0)
    """Positions per cache entry where the cache is compressed along the sequence: c tokens hold c /
    compression entries of kv_elements_per_token + index_elements_per_token elements."""


class DenseFfn(Frozen):
    """Dense feed-forward blocks of one width, `count` of them, such as one that runs beside the
    experts."""

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
    """Total intermediate width of the always-active shared experts, s times their width; they read
    hidden_size."""
    zero_experts: int = Field(default=0, ge=0)
    """Identity experts a token may choose; they cost nothing and lower the effective k."""
    expert_bias_params: int = Field(default=0, ge=0)
    """Bias elements of one expert (gpt-oss); 0 for most models."""


class MtpBlock(Frozen):
    """Block of one multi-token-prediction module where it is not built like the target's layers
    (Step-3.5)."""

    dense_width: int = Field(ge=1)
    """Intermediate width of the dense block that stands in place of experts."""
    windowed: bool
    """Whether it attends to a window, as the target's window layers do."""


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
    mtp_block: MtpBlock | None = None
    """What one of them is made of; None: of the target's own attention and feed-forward block."""
    assistant: "Architecture | None" = None
    """A checkpoint of its own that engines load as the multi-token-prediction module: its layers
    read the target's cache and keep none (Gemma 4)."""
    dtypes: WeightDtypes = WeightDtypes()
    kv_cache_dtype: CacheDtype | None = None
    """Format of the KV cache that the checkpoint names, None where it names none; a scenario says
    what is used."""
    activation_scheme: ActivationScheme | None = None
    """What the checkpoint says of its 8-bit products, None where it says nothing."""
    max_context_tokens: int | None = None
    confidence: Confidence = "medium"
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Assumptions made in reading its configuration."""
    notes: tuple[Note, ...] = ()
    extra_params: int = 0
    """Parameters outside the groups above (final norm, latent projections): counted, negligible in
    time."""
    lookup_params: int = Field(default=0, ge=0)
    """Rows beside the input table of which a token looks up one for each layer (Gemma's per-layer
    inputs): resident, in the embeddings' format, and not read as a whole."""
    table_params: int = Field(default=0, ge=0)
    """Rows of n-gram tables (engram), in attention's format: looked up by hash, counted apart by
    their releases, on the GPUs or in host memory as the engine keeps them. 0 once it is known that
    they lie on the host."""

    @property
    def routed(self) -> Moe:
        """The mixture of experts. Raises AdvisorError for a dense model."""
        if self.moe is None:
            raise AdvisorError(f"{self.name} is dense; give a mixture-of-experts model")
        return self.moe


class ParameterCounts(Frozen):
    """Parameters in elements. The components add up to `total`; `mtp` stands apart, outside
    `total`."""

    total: int
    active_all: float
    """Read for one token: everything but the routed experts it does not choose."""
    active_without_input_embedding: float
    """As active_all, without the input table (untied models; a tied table is also the output head,
    so it stays)."""
    active_nonembedding: float
    """As active_all, without either embedding table."""
    routed: int
    shared: int
    attention: int
    dense: int
    embedding: int
    router: int
    other: int
    mtp: int
    """Multi-token-prediction modules: each one block and a 2 d^2 projection, sharing the
    embeddings. Approximate."""


def expert_params(moe: Moe) -> int:
    """Parameters of one routed expert in one layer: matrices x input width x width, plus biases.
    [-]"""
    return moe.matrices * moe.expert_input_width * moe.expert_width + moe.expert_bias_params


def effective_n_active(moe: Moe) -> float:
    """Mean number of *computing* experts per token, k N / (N + zero experts). [-] Zero experts are
    chosen evenly."""
    return moe.n_active * moe.n_experts / (moe.n_experts + moe.zero_experts)


def mtp_mixer(architecture: Architecture) -> Mixer | None:
    """Attention of an MTP module: the model's own softmax layer, a window where its block says
    so."""
    block = architecture.mtp_block
    growing = ("full", "mla", "sparse")
    window = ("sliding",)
    for kinds in (
        *((window, growing) if block is not None and block.windowed else (growing, window)),
        ("linear",),
    ):
        for mixer in architecture.mixers:
            if mixer.kind in kinds:
                return mixer
    return None


def mtp_ffn(architecture: Architecture) -> tuple[DenseFfn | None, Moe | None]:
    """The feed-forward block of an MTP module: dense or routed, as its block says or as the target
    has it."""
    if architecture.mtp_block is not None:
        return DenseFfn(count=1, width=architecture.mtp_block.dense_width), None
    if architecture.moe is not None:
        return None, architecture.moe.model_copy(update={"count": 1})
    return (
        architecture.dense[0].model_copy(update={"count": 1}) if architecture.dense else None
    ), None


def _mtp_params(architecture: Architecture) -> int:
    if not architecture.mtp_modules:
        return 0
    hidden = architecture.hidden_size
    mixer = mtp_mixer(architecture)
    (dense, moe) = mtp_ffn(architecture)
    block = 2 * hidden * hidden + (mixer.projection_params if mixer else 0)
    if moe is not None:
        block += moe.n_experts * expert_params(moe) + moe.matrices * hidden * moe.shared_width
        block += hidden * (moe.n_experts + moe.zero_experts)
        if moe.expert_input_width != hidden:
            block += 2 * hidden * moe.expert_input_width
    elif dense is not None:
        block += dense.matrices * hidden * dense.width
    return architecture.mtp_modules * block


def parameter_counts(architecture: Architecture) -> ParameterCounts:
    """Parameters by component, and the active count in the three conventions publishers use.
    [elements]

    Experts: count N (matrices h I + biases); shared: count matrices d width; router: count d (N +
    zero experts); embedding: V d, twice when untied. Active takes k N / (N + zero experts) routed
    experts per layer.
    """
    hidden = architecture.hidden_size
    moe = architecture.moe
    table = architecture.vocab_size * hidden
    embedding = (table if architecture.tie_embeddings else 2 * table) + architecture.lookup_params
    attention = sum(m.count * m.projection_params for m in architecture.mixers)
    dense = sum(f.count * f.matrices * hidden * f.width for f in architecture.dense)
    routed = shared = router = 0
    routed_active = 0.0
    if moe is not None:
        routed = moe.count * moe.n_experts * expert_params(moe)
        routed_active = moe.count * effective_n_active(moe) * expert_params(moe)
        shared = moe.count * moe.matrices * hidden * moe.shared_width
        router = moe.count * hidden * (moe.n_experts + moe.zero_experts)
    other = architecture.extra_params
    always = attention + dense + shared + router + other
    return ParameterCounts(
        total=always + routed + embedding,
        active_all=always + routed_active + embedding,
        active_without_input_embedding=always + routed_active + table,
        active_nonembedding=always + routed_active,
        routed=routed,
        shared=shared,
        attention=attention,
        dense=dense,
        embedding=embedding,
        router=router,
        other=other,
        mtp=_mtp_params(architecture),
    )


def attention_share_of_active(architecture: Architecture) -> float:
    """Share of all sequence-mixing projections in the active parameters without embeddings. [-]"""
    counts = parameter_counts(architecture)
    return counts.attention / counts.active_nonembedding


def weight_bytes_by_component(
    architecture: Architecture, dtypes: WeightDtypes | None = None
) -> dict[str, float]:
    """Bytes of all resident weights by component, block scales included. [byte]

    Keys: routed, shared, attention, dense, embedding, router, other, mtp. `dtypes` defaults to the
    architecture's own. Router and norms are kept in bf16. An MTP module's experts take the routed
    format, as does the rest of its block.
    """
    dtypes = architecture.dtypes if dtypes is None else dtypes
    counts = parameter_counts(architecture)
    width = {name: BYTES_PER_WEIGHT[getattr(dtypes, name)] for name in WeightDtypes.model_fields}
    components = {name: getattr(counts, name) * width[name] for name in width}
    components["router"] = counts.router * BYTES_PER_WEIGHT["bf16"]
    components["other"] = counts.other * BYTES_PER_WEIGHT["bf16"]
    components["mtp"] = counts.mtp * (
        width["routed"] if mtp_ffn(architecture)[1] else width["dense"]
    )
    return components


def table_bytes(architecture: Architecture) -> float:
    """Size of the n-gram tables. [B] Definition: their numbers in attention's format."""
    return architecture.table_params * BYTES_PER_WEIGHT[architecture.dtypes.attention]


def weight_bytes(
    architecture: Architecture, dtypes: WeightDtypes | None = None, *, include_mtp: bool = False
) -> float:
    """Bytes of all resident weights, by default without MTP modules (loaded only when they draft).
    [byte]"""
    components = weight_bytes_by_component(architecture, dtypes)
    return sum(size for name, size in components.items() if include_mtp or name != "mtp")


def with_dtype(architecture: Architecture, weight_dtype: WeightDtype) -> Architecture:
    """Model with every matrix weight (experts, attention, dense) in one format, all else as it was.

    The embeddings keep the format they have, and router and norms stay bf16, as in published
    quantised releases. What the checkpoint says of its activations holds as long as its format
    does.
    """
    matrices: dict[str, WeightDtype] = dict.fromkeys(MATRICES, weight_dtype)
    dtypes = architecture.dtypes.model_copy(update=matrices)
    scheme = architecture.activation_scheme if dtypes == architecture.dtypes else None
    return architecture.model_copy(update={"dtypes": dtypes, "activation_scheme": scheme})


def _kept_elements(mixer: Mixer, context: Floats) -> Floats:
    """Cache elements one layer keeps for one sequence (index keys included)."""
    entry = float(mixer.kv_elements_per_token)
    if mixer.shares_cache:
        return entry * np.minimum(
            context, mixer.local_window_tokens
        ) + mixer.index_elements_per_token * (context / mixer.compression)
    if mixer.kind == "sliding" and mixer.window_tokens is not None:
        return entry * np.minimum(context, mixer.window_tokens)
    local = entry * np.minimum(context, mixer.local_window_tokens)
    return (entry + mixer.index_elements_per_token) * context / mixer.compression + local


def state_bytes(architecture: Architecture, batch_size: Numbers = 1) -> Floats:
    """Recurrent and convolution state of the linear layers, whatever the context. [byte]

    In fp32, the dtype hybrid releases name in their configs (mamba_ssm_cache_dtype,
    mamba_ssm_dtype).
    """
    elements = float(sum(m.count * m.state_elements for m in architecture.mixers))
    return elements * np.asarray(batch_size, dtype=np.float64) * BYTES_PER_WEIGHT["fp32"]


def kv_bytes(
    architecture: Architecture,
    context_tokens: Numbers,
    batch_size: Numbers = 1,
    kv_dtype_bytes: Numbers = 2.0,
) -> Floats:
    """Cache memory of a batch, over all layers and before any split over accelerators. [byte]

    Parameters
    ----------
    context_tokens : cached positions per sequence, c. Broadcasts. [-]
    batch_size : sequences, B. Broadcasts. [-]
    kv_dtype_bytes : bytes per cache element. [byte]

    Window layers stop at their window; sparse layers keep every entry and its index keys; linear
    layers keep a state. Raises AdvisorError for a negative or NaN context.
    """
    context = np.asarray(context_tokens, dtype=np.float64)
    if np.any(~(context >= 0)):  # NaN too
        raise AdvisorError(
            "context_tokens must be 0 or more tokens per sequence; give the number of cached "
            "positions"
        )
    elements = sum(
        (m.count * _kept_elements(m, context) for m in architecture.mixers), np.zeros_like(context)
    )
    cache = (
        elements
        * np.asarray(batch_size, dtype=np.float64)
        * np.asarray(kv_dtype_bytes, dtype=np.float64)
    )
    return cache + state_bytes(architecture, batch_size)
