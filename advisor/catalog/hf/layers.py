"""Layers of a config.json: which mixer and which feed-forward block each has, and the widths of
these blocks."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from advisor.catalog.hf.dialects import Dialect, LayerKind, layer_names, model_types
from advisor.catalog.hf.fields import MAX_EXPERTS, MAX_LAYERS, MAX_WIDTH, Fields
from advisor.physics.architecture import DenseFfn, Moe
from advisor.prediction import AdvisorError

_PATTERN_LETTERS: dict[str, LayerKind] = {"M": "linear", "*": "full", "E": "none", "-": "none"}


def is_compressed(fields: Fields) -> bool:
    """DeepSeek-V4's compressed attention, in either generation of key names."""
    return fields.find("compress_ratios", "compress_rates", "o_lora_rank") is not None


def layer_kinds(fields: Fields, dialect: Dialect, n_layers: int) -> list[LayerKind]:
    """The kind of each layer's mixer, from whichever of a dozen spellings the file uses. Raises
    AdvisorError."""
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
        return _kimi_delta_layers(block, n_layers)
    if fields.find("full_attention_layers"):
        attending = set(fields.integers("full_attention_layers", maximum=n_layers - 1))
        return ["full" if i in attending else "linear" for i in range(n_layers)]
    if "attn_layer_indices" in fields.values:  # Bamba; without any, no layer attends
        listed = fields.get("attn_layer_indices")
        attending = (
            set(fields.integers("attn_layer_indices", maximum=n_layers - 1)) if listed else set()
        )
        return ["full" if i in attending else "linear" for i in range(n_layers)]
    if fields.find("attn_type_list"):
        softmax = fields.integers("attn_type_list", maximum=1, length=n_layers)
        return ["full" if flag else "linear" for flag in softmax]
    key = fields.find("layer_types", "layers_block_type")
    if key is not None:
        kinds: list[LayerKind] = []
        for i, name in enumerate(_without_predict_layers(fields, key, n_layers)):
            kind = layer_names().get(name) if isinstance(name, str) else None
            if kind is None:
                fields.refuse(
                    f"{key}[{i}] is {str(name)[:40]!r}, expected one of "
                    f"{', '.join(sorted(layer_names()))}; write the nearest kind that this list "
                    "knows"
                )
            kinds.append(kind)
        return kinds
    if fields.find("hybrid_layer_pattern"):
        flags = fields.integers("hybrid_layer_pattern", maximum=1, length=n_layers)
        return ["sliding" if flag else "full" for flag in flags]
    if ratios := compress_ratios(fields, n_layers):
        return ["sliding" if r == 0 else ("csa" if r <= 16 else "hca") for r in ratios[:n_layers]]
    return None


def compress_ratios(fields: Fields, n_layers: int) -> list[int]:
    """Tokens per cache entry of each layer, or an empty list (DeepSeek-V4, where an MTP layer may
    follow)."""
    if not fields.find("compress_ratios"):
        return []
    ratios = fields.integers("compress_ratios", maximum=1_000_000)
    if len(ratios) < n_layers:
        fields.fail("compress_ratios", f"a list of at least {n_layers} entries, one per layer")
    return ratios


def _kimi_delta_layers(block: Fields, n_layers: int) -> list[LayerKind]:
    """Layers of `linear_attn_config`, which Kimi counts from 1 and GLM-5.3-Flash from 0: a 0 in
    either list says so."""
    linear = block.integers("kda_layers", maximum=n_layers)
    full = (
        block.integers("full_attn_layers", maximum=n_layers)
        if block.find("full_attn_layers")
        else []
    )
    first = 0 if 0 in (*linear, *full) else 1
    if any(layer > n_layers - 1 + first for layer in (*linear, *full)):
        block.refuse(
            f"kda_layers and full_attn_layers name both layer 0 and layer {n_layers} of "
            f"{n_layers} layers; expected {first} to {n_layers - 1 + first}; correct the lists"
        )
    return ["linear" if i + first in linear else "full" for i in range(n_layers)]


def _without_predict_layers(fields: Fields, key: str, n_layers: int) -> list[object]:
    """The list, less the entries that Step-3.5 appends to its lists for its multi-token-prediction
    layers."""
    listed = fields.get(key)
    more = fields.optional_count("num_nextn_predict_layers", maximum=64) or 0
    if isinstance(listed, list) and more and len(listed) == n_layers + more:
        return listed[:n_layers]
    return fields.sequence(key, n_layers)


def _hybrid_intervals(fields: Fields, n_layers: int) -> list[LayerKind] | None:
    """One attention layer per period, the others linear."""
    if fields.find("attn_layer_period"):
        period = fields.count("attn_layer_period", maximum=MAX_LAYERS)
        offset = fields.optional_count("attn_layer_offset", maximum=MAX_LAYERS) or 0
        return ["full" if i % period == offset % period else "linear" for i in range(n_layers)]
    if fields.find("full_attention_interval", "layer_group_size"):
        period = fields.count("full_attention_interval", "layer_group_size", maximum=MAX_LAYERS)
        whole = n_layers // period * period
        return [
            "full" if (i + 1) % period == 0 or i >= whole else "linear" for i in range(n_layers)
        ]
    return None


def _chunked(fields: Fields, n_layers: int) -> list[LayerKind] | None:
    """Llama 4: layers with rotary embedding attend within chunks, the others to everything."""
    if not fields.find("attention_chunk_size") or fields.find("hybrid_layer_pattern"):
        return None
    if fields.get("no_rope_layers"):
        return [
            "sliding" if flag else "full"
            for flag in fields.integers("no_rope_layers", maximum=1, length=n_layers)
        ]
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
            fields.fail(
                "sliding_window_pattern", "a whole number or a text of L (window) and G (full)"
            )
        letters = pattern.upper()
        return ["sliding" if letters[i % len(letters)] == "L" else "full" for i in range(n_layers)]
    every = fields.optional_count(
        "sliding_window_pattern", "global_attn_every_n_layers", minimum=1, maximum=MAX_LAYERS
    )
    if every is None and dialect.window == "every_nth_full":
        every = dialect.full_every
    if every is None and dialect.window == "alternate":
        every = 2
    if every is not None:
        # Cohere2-MoE: leading dense layers see the whole context by default, and the pattern starts
        # after them
        first = _leading_dense(fields) if fields.values.get("model_type") == "cohere2_moe" else 0
        return [
            "full" if i < first or (i - first + 1) % every == 0 else "sliding"
            for i in range(n_layers)
        ]
    if fields.find("max_window_layers"):
        first = fields.count("max_window_layers", minimum=0, maximum=MAX_LAYERS)
        return ["sliding" if i >= first else "full" for i in range(n_layers)]
    return ["sliding"] * n_layers


def _leading_dense(fields: Fields) -> int:
    listed = fields.get("mlp_layer_types")
    if isinstance(listed, list):
        return next((i for i, name in enumerate(listed) if name != "dense"), len(listed))
    return fields.optional_count("first_k_dense_replace", maximum=MAX_LAYERS) or 0


FfnKind = Literal["moe", "dense", "none"]
EXPERT_COUNT_KEYS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
TOP_K_KEYS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_k",
    "moe_top_k",
    "top_k_experts",
)
EXPERT_WIDTH_KEYS = (
    "moe_intermediate_size",
    "expert_ffn_hidden_size",
    "intermediate_size",
    "ffn_hidden_size",
)
LATENT_WIDTH_KEYS = ("moe_latent_size", "routed_expert_hidden_size", "moe_hidden_size")
DENSE_WIDTH_KEYS = (
    "dense_intermediate_size",
    "prefix_dense_intermediate_size",
    "intermediate_size_mlp",
)
PLAIN_WIDTH_KEYS = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff")
SHARED_TOTAL_KEYS = (
    "shared_expert_intermediate_size",
    "shared_experts_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
SHARED_COUNT_KEYS = (
    "n_shared_experts",
    "num_shared_experts",
    "num_shared_expert",
    "moe_num_shared_experts",
)
_SPARSE_NAMES = ("sparse", "moe", "hash_moe")


def expert_fields(fields: Fields) -> Fields:
    """The object that holds the expert keys: DBRX nests them in ffn_config."""
    nested = fields.block("ffn_config")
    return nested if nested is not None and nested.find(*EXPERT_COUNT_KEYS) else fields


def expert_count(fields: Fields, n_layers: int, warnings: list[str]) -> int:
    """Routed experts per layer, N. 0 where the model is dense (N of 0 or 1, or switched off).
    Raises AdvisorError."""
    source = expert_fields(fields)
    if not fields.flag("enable_moe_block", default=True) or not fields.flag("is_moe", default=True):
        return 0
    n_experts = source.collapsed(
        *EXPERT_COUNT_KEYS, minimum=0, maximum=MAX_EXPERTS, warnings=warnings, n_layers=n_layers
    )
    model_type = fields.text("model_type")
    described = source.find(*TOP_K_KEYS, "moe_intermediate_size")
    if n_experts is None and (described or model_types().routes(model_type)):
        what = f"{described} describes" if described else f"model_type {model_type} has"
        raise AdvisorError(
            f"{source.where}: {what} routed experts, but their number is missing; expected one of "
            f"{', '.join(EXPERT_COUNT_KEYS)}"
        )
    return 0 if n_experts is None or n_experts <= 1 else n_experts


def ffn_kinds(fields: Fields, n_experts: int, n_layers: int) -> list[FfnKind]:
    """Feed-forward block that follows the mixer in each layer. Raises AdvisorError."""
    blocks = _block_pattern(fields, n_layers)
    if blocks is not None:
        return blocks
    if not n_experts:
        return ["dense"] * n_layers
    routed = _routed_layers(fields, n_layers)
    return ["moe" if flag else "dense" for flag in routed]


def _block_pattern(fields: Fields, n_layers: int) -> list[FfnKind] | None:
    """Nemotron-H: each layer is a mixer or a feed-forward block, never both."""
    pattern = fields.text("hybrid_override_pattern")
    if pattern:
        names: dict[str, FfnKind] = {"E": "moe", "-": "dense"}
        return [names.get(letter, "none") for letter in pattern]
    listed = fields.get("layers_block_type")
    if isinstance(listed, list) and any(name in ("moe", "mlp") for name in listed):
        kinds: dict[str, FfnKind] = {"moe": "moe", "mlp": "dense"}
        return [
            kinds.get(str(name), "none") for name in fields.sequence("layers_block_type", n_layers)
        ]
    return None


def _routed_layers(fields: Fields, n_layers: int) -> list[bool]:
    """True for each layer with routed experts, from whichever placement keys the file uses."""
    layers = range(n_layers)
    if fields.find("mlp_layer_types"):
        names = _without_predict_layers(fields, "mlp_layer_types", n_layers)
        for i, name in enumerate(names):
            if name not in (*_SPARSE_NAMES, "dense"):
                fields.refuse(
                    f"mlp_layer_types[{i}] is {str(name)[:40]!r}, expected dense, sparse, moe or "
                    "hash_moe; correct the list"
                )
        return [name in _SPARSE_NAMES for name in names]
    chosen = _enumerated(fields, n_layers)
    if chosen is not None:
        return [i in chosen for i in layers]
    if isinstance(fields.get("moe_layer_freq"), list):
        return [
            bool(flag) for flag in fields.integers("moe_layer_freq", maximum=1, length=n_layers)
        ]
    periodic = _periodic(fields, n_layers)
    if periodic is not None:
        return periodic
    first = fields.optional_count(
        "first_k_dense_replace",
        "num_dense_layers",
        "moe_layer_num_skipped",
        minimum=0,
        maximum=MAX_LAYERS,
    )
    step = fields.optional_count("moe_layer_freq", minimum=1, maximum=MAX_LAYERS) or 1
    return [i >= (first or 0) and i % step == 0 for i in layers]


def _enumerated(fields: Fields, n_layers: int) -> set[int] | None:
    """Layer numbers written out: a list (Llama 4) or a text with commas (Step-3)."""
    listed = fields.get("moe_layers_enum")
    if isinstance(listed, str):
        parts = [part.strip() for part in listed.split(",") if part.strip()]
        if not parts or not all(
            part.isascii() and part.isdigit() and len(part) < 6 for part in parts
        ):
            fields.fail("moe_layers_enum", "layer numbers with commas between them")
        return {int(part) for part in parts}
    if listed is not None:
        return set(fields.integers("moe_layers_enum", maximum=MAX_LAYERS))
    if fields.find("moe_layers"):
        return set(fields.integers("moe_layers", maximum=n_layers - 1))
    return None


def _periodic(fields: Fields, n_layers: int) -> list[bool] | None:
    """One routed layer every so many: Llama 4, Jamba, Qwen, ERNIE."""
    layers = range(n_layers)
    if fields.find("interleave_moe_layer_step"):
        step = fields.count("interleave_moe_layer_step", maximum=MAX_LAYERS)
        return [(i + 1) % step == 0 for i in layers]
    if fields.find("expert_layer_period"):
        period = fields.count("expert_layer_period", maximum=MAX_LAYERS)
        offset = fields.optional_count("expert_layer_offset", maximum=MAX_LAYERS) or 0
        return [i % period == offset % period for i in layers]
    if fields.find("moe_layer_start_index", "moe_layer_interval"):
        start = fields.optional_count("moe_layer_start_index", maximum=MAX_LAYERS) or 0
        end = fields.optional_count("moe_layer_end_index", minimum=-1, maximum=MAX_LAYERS)
        last = n_layers - 1 if end is None or end == -1 else end
        interval = fields.optional_count("moe_layer_interval", minimum=1, maximum=MAX_LAYERS) or 1
        return [start <= i <= last and (i + 1) % interval == 0 for i in layers]
    if fields.find("decoder_sparse_step", "mlp_only_layers"):
        step = fields.optional_count("decoder_sparse_step", minimum=1, maximum=MAX_LAYERS) or 1
        dense = (
            set(fields.integers("mlp_only_layers", maximum=MAX_LAYERS))
            if fields.find("mlp_only_layers")
            else set()
        )
        return [i not in dense and (i + 1) % step == 0 for i in layers]
    return None


def _ffn_matrices(fields: Fields, dialect: Dialect) -> int:
    """2 for an ungated block (squared ReLU), else 3: gate, up and down."""
    ungated = "relu2" in (fields.text("mlp_hidden_act"), fields.text("hidden_act"))
    return dialect.ffn_matrices or (2 if ungated else 3)


def _refuse_shared_banks(fields: Fields, count: int, n_experts: int) -> None:
    """Raise AdvisorError where layers share banks of experts, which `Moe` cannot hold.

    Intern-S2-Mobius: layer i routes among the experts of bank i modulo num_blocks, 4 where it is
    not stated (sglang/srt/models/interns2_mobius.py of 0.5.23, read 2026-11-23).
    """
    of_mobius = fields.text("model_type").startswith("interns2_mobius")
    banks = fields.optional_count("num_blocks", minimum=1) or (4 if of_mobius else 0)
    if 0 < banks < count:
        stated = (
            f"num_blocks ({banks})"
            if fields.find("num_blocks")
            else f"num_blocks (not stated, {banks})"
        )
        fields.refuse(
            f"{stated}: its {count} routed layers share {banks} banks of {n_experts} experts, "
            f"which is not modelled: a bank for each layer would be {count / banks:g} times their "
            "weights; expected experts of each layer's own"
        )


def build_moe(
    fields: Fields,
    dialect: Dialect,
    hidden: int,
    n_experts: int,
    kinds: list[FfnKind],
    warnings: list[str],
) -> Moe | None:
    """The routed layers, or None for a dense model. Raises AdvisorError."""
    count = kinds.count("moe")
    if not n_experts:
        if count:
            fields.refuse(
                f"{count} layers are routed but no expert count above 1 is given; expected one of "
                f"{', '.join(EXPERT_COUNT_KEYS)}; add it"
            )
        return None
    if not count:
        warnings.append(
            f"{n_experts} experts are declared but no layer uses them; imported as a dense model"
        )
        return None
    _refuse_shared_banks(fields, count, n_experts)
    n_layers = len(kinds)
    source = expert_fields(fields)
    active = source.collapsed(
        *TOP_K_KEYS, minimum=1, maximum=MAX_EXPERTS, warnings=warnings, n_layers=n_layers
    )
    if active is None:
        fields.refuse(
            f"there are {n_experts} experts but no number of experts per token; expected one of "
            f"{', '.join(TOP_K_KEYS)}; add it"
        )
    zero = fields.optional_count("zero_expert_num", maximum=MAX_EXPERTS) or 0
    if active > n_experts + zero:
        fields.refuse(
            f"experts per token {active} exceeds the {n_experts} routed experts; expected 1 to "
            f"{n_experts}; correct {source.find(*TOP_K_KEYS)}"
        )
    width = source.collapsed(
        *EXPERT_WIDTH_KEYS, minimum=1, maximum=MAX_WIDTH, warnings=warnings, n_layers=n_layers
    )
    if width is None:
        fields.refuse(
            f"the expert width is missing, expected one of {', '.join(EXPERT_WIDTH_KEYS[:3])}; "
            "add it"
        )
    matrices = _ffn_matrices(fields, dialect)
    latent = fields.optional_count(*LATENT_WIDTH_KEYS, minimum=1) or hidden
    n_shared, shared_width = _shared(source, dialect, width, n_layers, warnings)
    return Moe(
        count=count,
        n_experts=n_experts,
        n_active=active,
        expert_width=width,
        expert_input_width=latent,
        matrices=matrices,
        n_shared=n_shared,
        shared_width=shared_width,
        zero_experts=zero,
        expert_bias_params=2 * width + hidden if dialect.expert_bias else 0,
    )


def is_longcat(fields: Fields) -> bool:
    """Whether the keys are LongCat's, whose layer holds two attention and two dense blocks."""
    keys = fields.find("zero_expert_num", "expert_ffn_hidden_size")
    return keys is not None and fields.find("num_layers") is not None


def _shared(
    fields: Fields, dialect: Dialect, width: int, n_layers: int, warnings: list[str]
) -> tuple[int, int]:
    """Number of shared experts and their total width, from either currency."""
    if dialect.shared == "one_implicit":
        return 1, width
    if dialect.shared == "parallel_mlp":
        return 1, fields.count("intermediate_size")
    limits = {"minimum": 0, "maximum": MAX_WIDTH}
    count = fields.collapsed(*SHARED_COUNT_KEYS, **limits, warnings=warnings, n_layers=n_layers)
    if count is None:
        count = dialect.default_shared or None
    if dialect.shared == "count_only":
        used = count if fields.flag("use_mixed_mlp_moe", default=True) else 0
        return used or 0, (used or 0) * width
    stated_width = fields.optional_count("moe_shared_expert_intermediate_size")
    if dialect.shared == "own_width":
        return count or 0, (count or 0) * (stated_width or width)
    total = fields.collapsed(*SHARED_TOTAL_KEYS, **limits, warnings=warnings, n_layers=n_layers)
    if total is None:
        total = stated_width
    if total is None:
        return count or 0, (count or 0) * width
    if total == 0 or count == 0:
        return 0, 0
    return count or max(1, round(total / width)), total


def build_dense(
    fields: Fields, dialect: Dialect, n_experts: int, kinds: list[FfnKind]
) -> tuple[DenseFfn, ...]:
    """Dense blocks grouped by width, including those that run beside the experts. Raises
    AdvisorError."""
    matrices = _ffn_matrices(fields, dialect)
    widths: Counter[int] = Counter()
    dense_layers = [i for i, kind in enumerate(kinds) if kind == "dense"]
    if dense_layers:
        sharing = len(kinds) - (fields.optional_count("num_kv_shared_layers") or 0)
        for i in dense_layers:
            doubled = i >= sharing and fields.flag("use_double_wide_mlp")
            widths[
                _dense_width(fields, bool(n_experts), i, len(kinds)) * (2 if doubled else 1)
            ] += 1
    if fields.flag("residual_moe"):
        widths[fields.count("intermediate_size")] += kinds.count("moe")
    if is_longcat(fields):
        widths[fields.count("ffn_hidden_size")] += 2 * kinds.count(
            "moe"
        )  # LongCat: two dense blocks beside each MoE
    return tuple(
        DenseFfn(count=count, width=width, matrices=matrices) for width, count in widths.items()
    )


def _dense_width(fields: Fields, beside_experts: bool, layer: int, n_layers: int) -> int:
    special = fields.optional_count(*DENSE_WIDTH_KEYS, minimum=1) if beside_experts else None
    if special is not None:
        return special
    key = fields.find(*PLAIN_WIDTH_KEYS)
    if key is not None and isinstance(fields.values[key], list):
        return fields.integers(key, minimum=1, length=n_layers)[layer]
    width = fields.count("block_ff_dim", *PLAIN_WIDTH_KEYS)
    if not fields.flag("block_auto_adjust_ff_dim"):
        return width
    # LFM2 states the width of an ungated block, which transformers turns into that of a gated one
    # of equal size.
    multiple = fields.optional_count("block_multiple_of", minimum=1) or 1
    factor = fields.get("block_ffn_dim_multiplier")
    width = int((1.0 if factor is None else float(factor)) * int(2 * width / 3))
    return -(-width // multiple) * multiple
