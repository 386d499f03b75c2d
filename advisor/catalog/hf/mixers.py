"""Mixers of a config.json: parameters, cache and recurrent state of one attention or linear layer,
in elements."""

from __future__ import annotations

from advisor.catalog.hf.dialects import Dialect, LayerKind
from advisor.catalog.hf.fields import MAX_CONTEXT, MAX_HEADS, Fields
from advisor.catalog.hf.layers import compress_ratios, is_compressed
from advisor.physics.architecture import Mixer, MixerKind

_DEFAULT_COMPRESSION = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def build_mixers(
    fields: Fields, dialect: Dialect, hidden: int, kinds: list[LayerKind]
) -> tuple[Mixer, ...]:
    """Mixers grouped over equal layers, in order of first appearance. Raises AdvisorError."""
    shared_index = _shared_index_layers(fields, len(kinds))
    sparse_layers = _block_sparse_layers(fields, len(kinds))
    ratios = compress_ratios(fields, len(kinds))
    streams = _low_rank_streams(fields, hidden)
    sharing = _cache_sharing_layers(fields, kinds)
    heads_by_layer: list[int] = []
    if fields.get("num_attention_heads_per_layer") is not None:  # Laguna
        most = {"minimum": 1, "maximum": MAX_HEADS, "length": len(kinds)}
        heads_by_layer = fields.integers("num_attention_heads_per_layer", **most)
    groups: dict[Mixer, int] = {}
    built: dict[tuple[object, ...], Mixer] = {}
    for i, kind in enumerate(kinds):
        ratio = ratios[i] if ratios else None
        heads = heads_by_layer[i] if heads_by_layer else None
        key = (kind, i in shared_index, i in sparse_layers, ratio, heads, i in sharing)
        if key not in built:
            layer_mixer = _one_mixer(
                fields, dialect, hidden, kind, i in shared_index, i in sparse_layers, ratio, heads
            )
            layer_mixer = (
                _without_cache(fields, hidden, layer_mixer) if i in sharing else layer_mixer
            )
            wider = {
                name: getattr(layer_mixer, name) + streams
                for name in ("projection_params", "replicated_params")
            }
            built[key] = layer_mixer.model_copy(update=wider) if streams else layer_mixer
        groups[built[key]] = groups.get(built[key], 0) + 1
    return tuple(mixer.model_copy(update={"count": count}) for mixer, count in groups.items())


def _low_rank_streams(fields: Fields, hidden: int) -> int:
    """Weights that mix the residual streams of one layer, before its mixer and its feed-forward:
    Qwen3.8-Flash-Next.

    Each mix is a norm of all streams, a product down to `hc_lowrank` and one up again, and an
    injection; every rank reads it whole. Source: transformers 5.23, qwen4_exp (GatedResidual).
    """
    streams = fields.optional_count("hc_count", maximum=MAX_HEADS) or 0
    rank = fields.optional_count("hc_lowrank", maximum=MAX_HEADS) or 0
    return 2 * (1 + 2 * rank + streams) * streams * hidden if rank else 0


def _cache_sharing_layers(fields: Fields, kinds: list[LayerKind]) -> set[int]:
    """Layers that read an earlier layer's cache: the last ones (Gemma 4), or all but the named
    (DeepSeek-V4.1)."""
    if fields.find("kv_source_layer_ids"):
        sources = fields.integers("kv_source_layer_ids", maximum=len(kinds) - 1)
        return {i for i, kind in enumerate(kinds) if kind in ("csa", "hca") and i not in sources}
    return set(range(len(kinds) - (fields.optional_count("num_kv_shared_layers") or 0), len(kinds)))


def _without_cache(fields: Fields, hidden: int, mixer: Mixer) -> Mixer:
    """A layer that keeps no growing cache, and has no projections into one."""
    entry = mixer.kv_elements_per_token
    if is_compressed(fields):
        overlap = 2 if mixer.kind == "sparse" else 1
        unused = _compressor(hidden, entry, overlap, round(mixer.compression))
        replicated = mixer.replicated_params - unused
    else:
        tied = (
            mixer.kind == "full"
            and fields.find("global_head_dim") is not None
            and fields.flag("attention_k_eq_v")
        )
        unused = hidden * entry // (2 if tied else 1)
        replicated = mixer.replicated_params
    params = mixer.projection_params - unused
    return mixer.model_copy(
        update={"projection_params": params, "replicated_params": replicated, "shares_cache": True}
    )


def _compressor(hidden: int, entry: int, overlap: int, ratio: int) -> int:
    """Parameters that make one entry of `ratio` positions: projections, position weights and a
    norm."""
    return 2 * hidden * overlap * entry + ratio * overlap * entry + entry


def _one_mixer(
    fields: Fields,
    dialect: Dialect,
    hidden: int,
    kind: LayerKind,
    index_shared: bool,
    block_sparse: bool,
    ratio: int | None,
    heads: int | None,
) -> Mixer:
    if kind == "none":
        return Mixer(kind="none", count=1, projection_params=0)
    if kind == "linear":
        return linear_mixer(fields, hidden)
    if is_compressed(fields):
        return _compressed(fields, hidden, kind, ratio, index_shared)
    if fields.find("kv_lora_rank") and fields.flag("use_mla", default=True):
        return _latent(fields, dialect, hidden, kind == "sliding", index_shared)
    return _grouped_query(fields, dialect, hidden, kind, block_sparse, heads)


def _shared_index_layers(fields: Fields, n_layers: int) -> set[int]:
    """Layers that reuse the top-k choice of an earlier layer and hold no index keys (GLM-5.3,
    DeepSeek-V4.1), or attention blocks of LongCat-2.0, of which cli_factor have one choice."""
    if factor := fields.optional_count("cli_factor", maximum=n_layers):
        return {i for i in range(n_layers) if i % factor}
    if fields.find("index_source_layer_ids"):
        return set(range(n_layers)) - set(
            fields.integers("index_source_layer_ids", maximum=n_layers - 1)
        )
    if fields.get("indexer_types") is None:
        return set()
    return {
        i for i, name in enumerate(fields.sequence("indexer_types", n_layers)) if name == "shared"
    }


def _block_sparse_layers(fields: Fields, n_layers: int) -> set[int]:
    """Layers with block-sparse grouped-query attention (MiniMax-M3)."""
    block = fields.block("sparse_attention_config")
    if block is None or not block.flag("use_sparse_attention", default=False):
        return set()
    if block.get("sparse_attention_freq") is None:
        return set(range(n_layers))
    flags = block.integers("sparse_attention_freq", maximum=1, length=n_layers)
    return {i for i, flag in enumerate(flags) if flag}


def window_of(fields: Fields) -> int:
    """Positions a window layer sees. Raises AdvisorError when no key gives it."""
    return fields.count(
        "sliding_window",
        "sliding_window_size",
        "attention_chunk_size",
        minimum=1,
        maximum=MAX_CONTEXT,
    )


def query_heads(fields: Fields) -> int:
    """Number of query heads, H."""
    return fields.count("num_attention_heads", "n_heads", "n_head", "num_heads", maximum=MAX_HEADS)


def _key_value_heads(fields: Fields, heads: int, *first: str) -> int:
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1  # Falcon states num_kv_heads all the same
    block = fields.block("attn_config")
    nested = block.optional_count("kv_n_heads", minimum=1, maximum=MAX_HEADS) if block else None
    kv_heads = fields.optional_count(
        *first,
        "num_key_value_heads",
        "num_attention_groups",
        "num_kv_heads",
        "n_kv_heads",
        minimum=1,
        maximum=MAX_HEADS,
    )
    return kv_heads or nested or heads


def _head_dim(fields: Fields, hidden: int, heads: int, *first: str) -> int:
    explicit = fields.optional_count(
        *first, "head_dim", "attention_head_dim", "kv_channels", minimum=1
    )
    if explicit is not None:
        return explicit
    if hidden % heads:
        fields.refuse(
            f"hidden_size {hidden} is not divisible by num_attention_heads {heads} and head_dim "
            "is missing; expected one of the two; add head_dim or correct the head count"
        )
    return hidden // heads


def _grouped_query(
    fields: Fields,
    dialect: Dialect,
    hidden: int,
    kind: LayerKind,
    block_sparse: bool,
    heads_of_layer: int | None,
) -> Mixer:
    """Multi-head, grouped-query or multi-query attention: q d H e, k d G e, v d G e_v, output H e_v
    d."""
    sliding = kind == "sliding"
    has_global = fields.find("global_head_dim") is not None
    heads = heads_of_layer or query_heads(fields)
    prefixes: tuple[str, ...] = ("swa_",) if sliding else (("global_",) if has_global else ())
    other = fields.block("attention_other_setting") if sliding else None
    if other is not None:
        heads = other.optional_count("num_attention_heads", minimum=1, maximum=MAX_HEADS) or heads
        groups = _key_value_heads(other, heads) if other.find("num_attention_groups") else None
    else:
        groups = None
    if sliding:
        heads = (
            fields.optional_count("swa_num_attention_heads", minimum=1, maximum=MAX_HEADS) or heads
        )
    head_dim = _head_dim(fields, hidden, heads, *(f"{prefix}head_dim" for prefix in prefixes))
    group_keys = (
        ("swa_num_key_value_heads",)
        if sliding
        else (("num_global_key_value_heads",) if has_global else ())
    )
    groups = groups or _key_value_heads(fields, heads, *group_keys)
    if heads % groups:
        fields.refuse(
            f"num_attention_heads {heads} is not a multiple of num_key_value_heads {groups}; "
            "expected equal groups of query heads; correct one of them"
        )
    value_dim = (
        fields.optional_count(*(("swa_v_head_dim",) if sliding else ()), "v_head_dim", minimum=1)
        or head_dim
    )
    tied_values = not sliding and has_global and fields.flag("attention_k_eq_v")
    gate = fields.flag("attn_output_gate", "attention_output_gate", default=dialect.output_gate)
    query = heads * head_dim
    key = groups * head_dim
    value = groups * value_dim
    params = (
        hidden * (query * (2 if gate else 1) + key + (0 if tied_values else value))
        + heads * value_dim * hidden
    )
    params += hidden
    if fields.flag("attention_bias", "use_bias", "qkv_bias", default=dialect.qkv_bias):
        params += query + key + value
    mixer = Mixer(
        kind="sliding" if sliding else "full",
        count=1,
        projection_params=params,
        kv_elements_per_token=key + value,
        kv_shards=groups,
        query_heads=heads,
        flops_per_head_and_key=2 * (head_dim + value_dim),
        query_key_norm=fields.flag("use_qk_norm", default=dialect.query_key_norm),
        has_sinks=dialect.attention_sinks,
        window_tokens=window_of(fields) if sliding else None,
    )
    if sliding:
        return mixer
    if fields.find("indexer_n_heads"):
        return _with_token_index(fields, hidden, mixer)
    block = fields.block("sparse_attention_config") if block_sparse else None
    return mixer if block is None else _with_block_index(block, hidden, mixer)


def _with_token_index(fields: Fields, hidden: int, mixer: Mixer) -> Mixer:
    """Qwen4-Exp: index keys, each the mean of a few tokens', pick the tokens to attend to within a
    budget."""
    index_dim = fields.count("indexer_head_dim")
    key_heads = fields.count("indexer_kv_heads", maximum=MAX_HEADS)
    index = hidden * index_dim * (fields.count("indexer_n_heads", maximum=MAX_HEADS) + key_heads)
    tokens_per_key = fields.count("indexer_compress_ratio", maximum=MAX_CONTEXT)
    budget = fields.count("indexer_budget", maximum=MAX_CONTEXT)
    return _with_index(mixer, index, budget, -(-index_dim * key_heads // tokens_per_key))


def _with_block_index(block: Fields, hidden: int, mixer: Mixer) -> Mixer:
    """MiniMax-M3: an index key per token picks blocks of tokens to attend to, as its `block` of
    keys says."""
    index_dim = block.count("sparse_index_dim")
    index_heads = block.count("sparse_num_index_heads", maximum=MAX_HEADS)
    chosen = block.count("sparse_topk_blocks") + (block.optional_count("sparse_local_block") or 0)
    index = hidden * index_dim * (index_heads + 1)
    return _with_index(mixer, index, chosen * block.count("sparse_block_size"), index_dim)


def _with_index(mixer: Mixer, index: int, window_tokens: int, elements: int) -> Mixer:
    """A mixer that attends to `window_tokens` tokens by an index of so many weights and elements of
    a token."""
    params = {"projection_params": mixer.projection_params + index, "replicated_params": index}
    chosen = {
        "kind": "sparse",
        "window_tokens": window_tokens,
        "index_elements_per_token": elements,
    }
    return mixer.model_copy(update=params | chosen)


def _index_params(fields: Fields, hidden: int, query_input: int) -> int:
    """Lightning indexer: queries from the query latent, one key per token, one weight per head
    (DeepSeek-V3.2)."""
    index_heads = fields.count("index_n_heads", maximum=MAX_HEADS)
    index_dim = fields.count("index_head_dim")
    return (
        query_input * index_heads * index_dim + hidden * (index_dim + index_heads) + 2 * index_dim
    )


def _latent(
    fields: Fields, dialect: Dialect, hidden: int, sliding: bool, index_shared: bool
) -> Mixer:
    """Multi-head latent attention. Decode runs absorbed, so each head meets the latent itself.

    Cache: kv_lora_rank + rope elements per token, the same on every rank. Operations for one query
    and position: 2 H ((kv_lora + rope) for the scores + kv_lora for the values). With index_topk,
    DeepSeek's sparse attention.
    """
    heads = query_heads(fields)
    latent = fields.count("kv_lora_rank")
    nope = fields.count("qk_nope_head_dim")
    rope = fields.optional_count("qk_rope_head_dim") or 0
    value_dim = fields.count("v_head_dim")
    query_rank = fields.optional_count("q_lora_rank") or 0
    if query_rank:
        query_down = hidden * query_rank + query_rank
        query_up = query_rank * heads * (nope + rope)
    else:
        query_down = 0
        query_up = hidden * heads * (nope + rope)
    key_value_down = hidden * (latent + rope) + latent
    params = (
        query_down
        + query_up
        + key_value_down
        + latent * heads * (nope + value_dim)
        + heads * value_dim * hidden
    )
    if fields.flag("mla_use_output_gate", "gated_attention", default=dialect.output_gate):
        params += hidden * heads * value_dim
    sparse = fields.find("index_topk") is not None and not sliding
    index = (
        _index_params(fields, hidden, query_rank or hidden) if sparse and not index_shared else 0
    )
    # Tokens of one index key.
    pooled = fields.optional_count("index_kpool", minimum=1, maximum=MAX_CONTEXT) or 1
    kind: MixerKind = "mla"
    window_tokens = None
    if sparse:
        kind = "sparse"
        window_tokens = fields.count("index_topk")
    elif sliding:
        kind = "sliding"
        window_tokens = window_of(fields)
    index_elements = -(-fields.count("index_head_dim") // pooled) if index else 0
    return Mixer(
        kind=kind,
        count=1,
        projection_params=params + index + hidden,
        replicated_params=query_down + key_value_down + index,
        kv_elements_per_token=latent + rope,
        kv_shards=1,
        query_heads=heads,
        flops_per_head_and_key=2 * (2 * latent + rope),
        prompt_flops_per_head_and_key=0 if sparse else 2 * (nope + rope + value_dim),
        window_tokens=window_tokens,
        index_elements_per_token=index_elements,
    )


def _compressed(
    fields: Fields, hidden: int, kind: LayerKind, ratio: int | None, index_shared: bool
) -> Mixer:
    """DeepSeek-V4 attention: one key-value head whose entry serves as key and value, grouped
    low-rank output.

    Every layer keeps a window of raw entries. CSA layers add one entry per few tokens and read a
    top-k of them by index keys; HCA layers add one entry per many tokens and read all of them. The
    shapes are inferred from the config keys; they reproduce the published totals (284B and 1.6T),
    of which attention is 2 %.
    """
    heads = query_heads(fields)
    entry = fields.count("head_dim")
    query_rank = fields.count("q_lora_rank")
    groups = fields.count("o_groups", maximum=MAX_HEADS)
    output_rank = fields.count("o_lora_rank")
    query_down = hidden * query_rank + query_rank
    key_value = hidden * entry + entry
    split = query_rank * heads * entry + heads * entry * output_rank + groups * output_rank * hidden
    streams = fields.optional_count("hc_mult", maximum=64) or 0
    hyper = 2 * (2 + streams) * streams * streams * hidden
    params = query_down + key_value + split + hyper + hidden
    replicated = query_down + key_value + hyper
    index_dim = 0
    window = window_of(fields)
    raw = Mixer(
        kind="sliding",
        count=1,
        projection_params=params,
        replicated_params=replicated,
        kv_elements_per_token=entry,
        query_heads=heads,
        flops_per_head_and_key=2 * 2 * entry,
        mixed_streams=streams,
        window_tokens=window,
    )
    if kind == "sliding":
        return raw
    if not ratio:
        ratio = _compression_rate(fields, kind)
    overlap = 2 if kind == "csa" else 1
    extra = _compressor(hidden, entry, overlap, ratio)
    if kind == "csa" and not index_shared:
        index_dim = fields.count("index_head_dim")
        index_heads = fields.count("index_n_heads", maximum=MAX_HEADS)
        extra += query_rank * index_heads * index_dim + hidden * index_heads
        extra += _compressor(hidden, index_dim, overlap, ratio)
    changes = {
        "kind": "sparse" if kind == "csa" else "full",
        "projection_params": params + extra,
        "replicated_params": replicated + extra,
        "window_tokens": fields.count("index_topk") if kind == "csa" else None,
        "local_window_tokens": window,
        "index_elements_per_token": index_dim,
        "compression": float(ratio),
    }
    return raw.model_copy(update=changes)


def _compression_rate(fields: Fields, kind: LayerKind) -> int:
    """Tokens per entry in the transformers v5 spelling, a rate per kind of layer."""
    name = {"csa": "compressed_sparse_attention", "hca": "heavily_compressed_attention"}.get(kind)
    if name is None:
        fields.refuse(
            "a layer of full attention stands among compressed ones; expected "
            "compressed_sparse_attention, heavily_compressed_attention or sliding_attention in "
            "layer_types; correct the list"
        )
    rates = fields.block("compress_rates")
    rate = rates.optional_count(name, minimum=1, maximum=1_000_000) if rates else None
    return rate or _DEFAULT_COMPRESSION[name]


def linear_mixer(fields: Fields, hidden: int) -> Mixer:
    """The linear layer the file describes, told apart by its dimension keys. AdvisorError when
    there are none."""
    if fields.find("linear_num_value_heads"):
        return _gated_delta_net(fields, hidden)
    nested = fields.block("linear_attn_config")
    if nested is not None and nested.find("head_dim"):
        return _kimi_delta(nested, hidden)
    if fields.find("linear_num_heads", "no_kda_lora", "kda_safe_gate"):  # the last two: Ling 3.0
        return _kimi_delta(fields, hidden)
    if fields.find("mamba_num_heads", "mamba_n_heads"):
        return _mamba2(fields, hidden)
    if fields.find("mamba_d_state"):
        return _mamba1(fields, hidden)
    if fields.find("conv_L_cache"):
        return _short_convolution(fields, hidden)
    lightning = fields.find("attn_type_list", "layer_group_size") or "minimax" in fields.text(
        "model_type"
    )
    if not lightning:
        fields.refuse(
            "there are linear-attention layers but none of the keys that size them "
            "(linear_num_value_heads, linear_attn_config, linear_num_heads, mamba_num_heads, "
            "mamba_d_state, conv_L_cache); add them, or download the model's complete config.json"
        )
    return _lightning(fields, hidden)


def _mixer(params: int, hidden: int, state: int, shards: int) -> Mixer:
    return Mixer(
        kind="linear",
        count=1,
        projection_params=params + hidden,
        state_elements=state,
        kv_shards=shards,
    )


def _gated_delta_net(fields: Fields, hidden: int) -> Mixer:
    """Gated DeltaNet (arXiv 2412.06464) as in Qwen3-Next: state of value heads x key dim x value
    dim."""
    value_heads = fields.count("linear_num_value_heads", maximum=MAX_HEADS)
    key_heads = fields.count("linear_num_key_heads", maximum=MAX_HEADS)
    key_dim = fields.count("linear_key_head_dim")
    value_dim = fields.count("linear_value_head_dim")
    kernel = fields.count("linear_conv_kernel_dim", maximum=1024)
    keys = key_heads * key_dim
    values = value_heads * value_dim
    convolved = 2 * keys + values
    params = (
        hidden * (2 * keys + 2 * values + 2 * value_heads) + convolved * kernel + values * hidden
    )
    params += 2 * value_heads + value_dim
    state = value_heads * key_dim * value_dim + convolved * (kernel - 1)
    return _mixer(params, hidden, state, value_heads)


def _kimi_delta(fields: Fields, hidden: int) -> Mixer:
    """Kimi Delta Attention (arXiv 2510.26692): per-channel decay and output gate through low-rank
    pairs, or whole products (Ling 3.0: no_kda_lora; vLLM 0.33, bailing_moe_v3.py)."""
    heads = fields.count("linear_num_heads", "num_heads", "num_attention_heads", maximum=MAX_HEADS)
    dim = fields.count("linear_head_dim", "head_dim")
    conv_keys = ("linear_conv_kernel_dim", "short_conv_kernel_size")
    kernel = fields.optional_count(*conv_keys, minimum=1, maximum=1024) or 4
    width = heads * dim
    low_rank = hidden * dim + dim * width
    whole = hidden * width
    is_whole = fields.flag("no_kda_lora")
    params = (
        4 * whole
        + (whole if is_whole else low_rank)
        + (whole if is_whole or fields.flag("use_full_rank_gate") else low_rank)
        + hidden * heads
        + 3 * width * kernel
        + width
        + heads
        + dim
    )
    return _mixer(params, hidden, width * dim + 3 * width * (kernel - 1), heads)


def _mamba1(fields: Fields, hidden: int) -> Mixer:
    """Mamba (arXiv 2312.00752) as in Jamba: selective scan of inner width x state size."""
    inner = fields.count("mamba_expand", maximum=64) * hidden
    state = fields.count("mamba_d_state")
    kernel = fields.count("mamba_d_conv", maximum=1024)
    rank = (
        -(-hidden // 16)
        if fields.get("mamba_dt_rank") in (None, "auto")
        else fields.count("mamba_dt_rank")
    )
    params = (
        hidden * 2 * inner
        + inner * (kernel + 1)
        + inner * (rank + 2 * state)
        + rank * inner
        + inner
    )
    params += inner * state + inner + inner * hidden + rank + 2 * state
    return _mixer(params, hidden, inner * (state + kernel - 1), inner)


def _mamba2(fields: Fields, hidden: int) -> Mixer:
    """Mamba-2 (arXiv 2405.21060) as in Nemotron-H and Granite 4: scalar decay per head, grouped B
    and C."""
    heads = fields.count("mamba_num_heads", "mamba_n_heads", maximum=MAX_HEADS)
    dim_key = fields.find("mamba_head_dim", "mamba_d_head")
    if dim_key is None or fields.values[dim_key] == "auto":
        inner = (
            fields.optional_count("mamba_expand", "expand", minimum=1, maximum=64) or 2
        ) * hidden
        if inner % heads:
            fields.refuse(
                f"{heads} Mamba heads do not divide the inner width {inner}; add mamba_head_dim"
            )
        dim = inner // heads
    else:
        dim = fields.count(dim_key)
    state = fields.count("ssm_state_size", "mamba_d_state")
    groups = fields.optional_count("n_groups", "mamba_n_groups", minimum=1, maximum=MAX_HEADS) or 1
    kernel = fields.optional_count("conv_kernel", "mamba_d_conv", minimum=1, maximum=1024) or 4
    inner = heads * dim
    convolved = inner + 2 * groups * state
    params = (
        hidden * (inner + convolved + heads)
        + convolved * (kernel + 1)
        + 3 * heads
        + inner
        + inner * hidden
    )
    return _mixer(params, hidden, inner * state + convolved * (kernel - 1), heads)


def _lightning(fields: Fields, hidden: int) -> Mixer:
    """Lightning attention (arXiv 2401.04658) as in MiniMax-Text-01: q, k, v, output and output gate
    of equal size."""
    heads = fields.count("num_attention_heads", maximum=MAX_HEADS)
    dim = fields.optional_count("head_dim", minimum=1) or max(1, hidden // heads)
    width = heads * dim
    return _mixer(5 * hidden * width + width, hidden, width * dim, heads)


def _short_convolution(fields: Fields, hidden: int) -> Mixer:
    """Gated short convolution of LFM2: three input projections, a depthwise filter, one output
    projection."""
    kernel = fields.count("conv_L_cache", maximum=1024)
    return _mixer(4 * hidden * hidden + hidden * kernel, hidden, hidden * (kernel - 1), hidden)
