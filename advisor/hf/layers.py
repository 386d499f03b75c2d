"""Which kind of mixer each layer has, from the dozen spellings that config.json files use."""

from __future__ import annotations

from typing import Literal

from advisor.hf.dialects import Dialect
from advisor.hf.fields import MAX_LAYERS, Fields

LayerKind = Literal["full", "sliding", "linear", "csa", "hca", "none"]

_LAYER_NAMES: dict[str, LayerKind] = {
    **dict.fromkeys(
        ("full_attention", "attention", "full", "global", "global_attention", "softmax", "sparse", "sparse_attention"),
        "full",
    ),
    **dict.fromkeys(("deepseek_sparse_attention", "dsa", "minimax_m3_sparse", "indexed_attention"), "full"),
    **dict.fromkeys(("qwen_sparse_attention", "hybrid_indexed"), "full"),
    **dict.fromkeys(
        ("sliding_attention", "sliding", "sliding_window_attention", "local", "local_attention", "chunked_attention"),
        "sliding",
    ),
    **dict.fromkeys(
        ("linear_attention", "linear", "mamba", "mamba2", "lightning", "kda", "gdn", "conv", "recurrent"), "linear"
    ),
    "compressed_sparse_attention": "csa",
    "heavily_compressed_attention": "hca",
    **dict.fromkeys(("moe", "mlp", "ffn", "none"), "none"),
}
_PATTERN_LETTERS: dict[str, LayerKind] = {"M": "linear", "*": "full", "E": "none", "-": "none"}


def is_compressed(fields: Fields) -> bool:
    """DeepSeek-V4's compressed attention, in either generation of key names."""
    return fields.find("compress_ratios", "compress_rates", "o_lora_rank") is not None


def layer_kinds(fields: Fields, dialect: Dialect, n_layers: int) -> list[LayerKind]:
    """The kind of each layer's mixer, from whichever of a dozen spellings the file uses. Raises AdvisorError."""
    for reader in (_listed, _hybrid_intervals, _chunked):
        kinds = reader(fields, n_layers)
        if kinds is not None:
            return kinds
    return _windowed(fields, dialect, n_layers)


def _listed(fields: Fields, n_layers: int) -> list[LayerKind] | None:
    """Kinds written down layer by layer."""
    pattern = fields.text("hybrid_override_pattern")
    if pattern:
        unknown = set(pattern) - set(_PATTERN_LETTERS)
        if unknown or len(pattern) != n_layers:
            fields.fail("hybrid_override_pattern", f"{n_layers} letters out of M, E, * and -")
        return [_PATTERN_LETTERS[letter] for letter in pattern]
    block = fields.block("linear_attn_config")
    if block is not None and block.find("kda_layers"):
        counted_from_one = set(block.integers("kda_layers", minimum=1, maximum=n_layers))
        return ["linear" if i + 1 in counted_from_one else "full" for i in range(n_layers)]
    if fields.find("attn_type_list"):
        softmax = fields.integers("attn_type_list", maximum=1, length=n_layers)
        return ["full" if flag else "linear" for flag in softmax]
    key = fields.find("layer_types", "layers_block_type")
    if key is not None:
        kinds: list[LayerKind] = []
        for i, name in enumerate(_without_predict_layers(fields, key, n_layers)):
            kind = _LAYER_NAMES.get(name) if isinstance(name, str) else None
            if kind is None:
                fields.refuse(
                    f"{key}[{i}] is {str(name)[:40]!r}, expected one of {', '.join(sorted(_LAYER_NAMES))}; "
                    "write the nearest kind that this list knows"
                )
            kinds.append(kind)
        return kinds
    if fields.find("hybrid_layer_pattern"):
        flags = fields.integers("hybrid_layer_pattern", maximum=1, length=n_layers)
        return ["sliding" if flag else "full" for flag in flags]
    if fields.find("compress_ratios"):
        ratios = fields.integers("compress_ratios", maximum=1_000_000)
        if len(ratios) < n_layers:
            fields.fail("compress_ratios", f"a list of at least {n_layers} entries, one per layer")
        return ["sliding" if r == 0 else ("csa" if r <= 16 else "hca") for r in ratios[:n_layers]]
    return None


def _without_predict_layers(fields: Fields, key: str, n_layers: int) -> list[object]:
    """The list, less the entries that Step-3.5 appends for its multi-token-prediction layers."""
    listed, more = fields.get(key), fields.optional_count("num_nextn_predict_layers", maximum=64) or 0
    if isinstance(listed, list) and more and len(listed) == n_layers + more:
        return listed[:n_layers]
    return fields.sequence(key, n_layers)


def _hybrid_intervals(fields: Fields, n_layers: int) -> list[LayerKind] | None:
    """One attention layer per period, the others linear."""
    if fields.find("attn_layer_indices"):
        attention = set(fields.integers("attn_layer_indices", maximum=n_layers - 1))
        return ["full" if i in attention else "linear" for i in range(n_layers)]
    if fields.find("attn_layer_period"):
        period = fields.count("attn_layer_period", maximum=MAX_LAYERS)
        offset = fields.optional_count("attn_layer_offset", maximum=MAX_LAYERS) or 0
        return ["full" if i % period == offset % period else "linear" for i in range(n_layers)]
    if fields.find("full_attention_interval", "layer_group_size"):
        period = fields.count("full_attention_interval", "layer_group_size", maximum=MAX_LAYERS)
        whole = n_layers // period * period
        return ["full" if (i + 1) % period == 0 or i >= whole else "linear" for i in range(n_layers)]
    return None


def _chunked(fields: Fields, n_layers: int) -> list[LayerKind] | None:
    """Llama 4: layers with rotary embedding attend within chunks, the others to everything."""
    if not fields.find("attention_chunk_size") or fields.find("hybrid_layer_pattern"):
        return None
    if fields.get("no_rope_layers"):
        return ["sliding" if flag else "full" for flag in fields.integers("no_rope_layers", maximum=1, length=n_layers)]
    period = fields.optional_count("no_rope_layer_interval", minimum=1, maximum=MAX_LAYERS) or 4
    return ["full" if (i + 1) % period == 0 else "sliding" for i in range(n_layers)]


def _windowed(fields: Fields, dialect: Dialect, n_layers: int) -> list[LayerKind]:
    """A sliding window with its pattern, or plain full attention."""
    full: list[LayerKind] = ["full"] * n_layers
    if not fields.get("sliding_window", "sliding_window_size"):
        return full
    enabled = fields.flag("use_sliding_window", default=dialect.window != "when_enabled")
    if not enabled:
        return full
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, str):
        if not pattern or set(pattern.upper()) - {"L", "G"}:
            fields.fail("sliding_window_pattern", "a whole number or a text of L (window) and G (full)")
        letters = pattern.upper()
        return ["sliding" if letters[i % len(letters)] == "L" else "full" for i in range(n_layers)]
    every = fields.optional_count("sliding_window_pattern", "global_attn_every_n_layers", minimum=1, maximum=MAX_LAYERS)
    if every is None and dialect.window == "every_nth_full":
        every = dialect.full_every
    if every is None and dialect.window == "alternate":
        every = 2
    if every is not None:
        # Cohere2-MoE: leading dense layers see the whole context by default, and the pattern starts after them
        first = _leading_dense(fields) if fields.values.get("model_type") == "cohere2_moe" else 0
        return ["full" if i < first or (i - first + 1) % every == 0 else "sliding" for i in range(n_layers)]
    if fields.find("max_window_layers"):
        first = fields.count("max_window_layers", minimum=0, maximum=MAX_LAYERS)
        return ["sliding" if i >= first else "full" for i in range(n_layers)]
    return ["sliding"] * n_layers


def _leading_dense(fields: Fields) -> int:
    listed = fields.get("mlp_layer_types")
    if isinstance(listed, list):
        return next((i for i, name in enumerate(listed) if name != "dense"), len(listed))
    return fields.optional_count("first_k_dense_replace", maximum=MAX_LAYERS) or 0
