"""Any Hugging Face config.json of a decoder-only model -> Architecture, with every assumption and
its size in GB.

The language-model block is unwrapped first, then each topic is read by its own module: `mixers`,
`layers`, `weight_format`. A key that a type's own configuration class defines by another key (the
width of Mixtral's experts) is no assumption where the published files of that type leave it out
too.

What is not read or not modelled is named too, each key with what it may come to in GB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from advisor.catalog.engines import engines
from advisor.catalog.hf.dialects import (
    NESTED_KEYS,
    Dialect,
    LayerKind,
    Layers,
    dialects,
    model_types,
    refused,
)
from advisor.catalog.hf.fields import (
    MAX_CONTEXT,
    MAX_LAYERS,
    MAX_VOCABULARY,
    Fields,
    parse_json,
    shown,
)
from advisor.catalog.hf.layers import (
    EXPERT_COUNT_KEYS,
    EXPERT_WIDTH_KEYS,
    LATENT_WIDTH_KEYS,
    PLAIN_WIDTH_KEYS,
    SHARED_COUNT_KEYS,
    SHARED_TOTAL_KEYS,
    TOP_K_KEYS,
    FfnKind,
    build_dense,
    build_moe,
    expert_count,
    expert_fields,
    ffn_kinds,
    is_compressed,
    is_longcat,
    layer_kinds,
)
from advisor.catalog.hf.mixers import build_mixers
from advisor.catalog.hf.weight_format import checkpoint_formats
from advisor.physics.architecture import (
    BYTES_PER_WEIGHT,
    Architecture,
    Moe,
    MtpBlock,
    WeightDtype,
    expert_params,
    kv_bytes,
    parameter_counts,
    table_bytes,
    weight_bytes,
    weight_bytes_by_component,
)
from advisor.prediction import AdvisorError

OF_EXPERTS = re.compile(r"expert|moe|router|routed")
OF_MTP = re.compile(r"mtp|nextn|dspark|medusa|eagle")
_TRAINED_WITH = re.compile(
    r"loss|coef|jitter|dropout|capacity|_eps|softcap|warmup|(?:^|_)lr$|init|balanc"
)
_SAID_ELSEWHERE = frozenset(
    {*EXPERT_COUNT_KEYS, *TOP_K_KEYS, *EXPERT_WIDTH_KEYS, *LATENT_WIDTH_KEYS}
)
_AS_COUNTED: Mapping[str, tuple[Any, ...]] = {
    "mtp_transformer_layers": (1,),
    "mtp_layers_block_type": (["attention", "moe"],),
    "mtp_hybrid_override_pattern": ("*E",),
}
"""Values at which a key says what is counted anyway."""
_GROUP: dict[WeightDtype, int] = {"int4": 128, "nvfp4": 16, "mxfp4": 32}
"""Weights that share a scale, as BYTES_PER_WEIGHT counts them. [-]"""
_OF_BITSANDBYTES = re.compile(r"_?(?:bnb_4bit|llm_int8|load_in)_")


def unread(fields: Fields, architecture: Architecture) -> list[str]:
    """A sentence for each key of the expert, draft and quantisation blocks that nothing was read
    from."""
    sizes = weight_bytes_by_component(architecture)
    experts = (
        f"the {gb(sizes['routed'])} of routed experts"
        if architecture.moe
        else "experts that are not counted"
    )
    unread_keys = []
    known = model_types()
    for source in {id(each): each for each in (fields, expert_fields(fields))}.values():
        for key, value in _in_doubt(
            source, known.placement | known.choice_of_experts | _SAID_ELSEWHERE
        ):
            if OF_MTP.search(key):
                unread_keys.append(
                    (key, value, f"the {gb(sizes['mtp'])} of multi-token-prediction modules")
                )
            elif OF_EXPERTS.search(key):
                unread_keys.append((key, value, experts))
    block = fields.block("quantization_config")
    if block is not None:
        for key, value in _in_doubt(block, known.of_quantisation):
            if not _OF_BITSANDBYTES.match(key) and not _repeats(key, value, architecture):
                what = f"the {gb(weight_bytes(architecture, include_mtp=True))} of weights"
                unread_keys.append((f"quantization_config.{key}", value, what))
    return [
        *(
            f"{key} ({shown(value)}) is not read: it may change {what}"
            for key, value, what in unread_keys
        ),
        *_contradictions(expert_fields(fields)),
    ]


def _in_doubt(fields: Fields, known: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Keys that were not looked up, are not `known` and say something."""
    for key, value in fields.values.items():
        if (
            key in fields.read
            or key in known
            or value in _AS_COUNTED.get(key, ())
            or _TRAINED_WITH.search(key)
        ):
            continue
        if value:
            yield key, value


def _repeats(key: str, value: object, architecture: Architecture) -> bool:
    """Whether a key of the quantisation block says what was read from others."""
    formats = set(architecture.dtypes.model_dump().values())
    if key == "group_size":
        grouped = {_GROUP[each] for each in formats if each in _GROUP}
        return value == -1 or not grouped or value in grouped
    return key == "moe_quant_algo" and str(value).lower().startswith(
        architecture.dtypes.routed.partition("_")[0]
    )


def _contradictions(fields: Fields) -> Iterator[str]:
    """Of the keys that count experts the later ones that differ from the first, which is read."""
    for keys in (EXPERT_COUNT_KEYS, TOP_K_KEYS):
        first = fields.find(*keys)
        for key in keys:
            if first is not None and fields.values.get(key) not in (None, fields.values[first]):
                theirs = shown(fields.values[key])
                ours = shown(fields.values[first])
                yield f"{key} ({theirs}) differs from {first} ({ours}), which is read"


def gaps(fields: Fields, architecture: Architecture) -> list[str]:
    """A sentence for each part of the model that changes memory or time and is not modelled."""
    sentences = []
    if fields.flag("use_cla"):
        cache = gb(float(kv_bytes(architecture, 1_000_000)))
        sentences.append(
            "layers that share one KV cache are counted with a cache of their own: at most "
            f"{cache} per million tokens, in 16 bits"
        )
    if fields.get("per_layer_config"):
        sentences.append(
            "per_layer_config is not read: all layers are taken to have the sizes of the other keys"
        )
    if fields.get("ple_layer_ids") and not fields.get("hc_lowrank"):
        sentences.append(
            "hyper-connections are not counted: hc_count and hc_lowrank are not stated"
        )
    if architecture.table_params:
        sentences.append(
            f"n-gram tables hold {gb(table_bytes(architecture))} in the format of attention, of "
            "GPU memory unless the engine keeps them in the host's, as vLLM does by itself; "
            "looking them up takes no time here"
        )
    stages = dspark_stages(fields)
    moe = architecture.moe
    if stages and moe is not None:
        experts = fields.optional_count("dspark_n_routed_experts", minimum=1) or moe.n_experts
        size = stages * experts * expert_params(moe) * BYTES_PER_WEIGHT[architecture.dtypes.routed]
        sentences.append(
            f"its {stages} DSpark stages draft a block at once and are no multi-token-prediction "
            f"modules: take the drafter dspark, which leaves out their {gb(size)} of experts "
            f"({experts} a stage)"
        )
    return sentences


def dspark_stages(fields: Fields) -> int:
    """Stages of a DSpark drafter in the checkpoint: what its MTP key then counts. 0 without one.
    [-]"""
    if not fields.optional_count("dspark_block_size"):
        return 0
    return fields.optional_count("num_nextn_predict_layers", "num_mtp_layers", maximum=64) or 0


def gb(size_bytes: float) -> str:
    """A size in GB, three digits."""
    return f"{size_bytes / 1e9:,.3g} GB"


OWN = "own"
"""Id of an architecture that was read from a configuration: a name says nothing of what is in
it."""
_INHERITED_KEYS = (
    "tie_word_embeddings",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "_name_or_path",
)
_MTP_KEYS = (
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
)
_SIZE_IN_NAME = re.compile(
    r"(?<![\w.])(\d{1,5}(?:\.\d{1,3})?)[bB]-[aA](\d{1,5}(?:\.\d{1,3})?)([bBmM])(?![a-zA-Z])"
)
_NAME_TOLERANCE = {True: 0.10, False: 0.05}
"""Of a known and of an unknown model_type: names round, and a known type's counting is held to
published sizes."""
DESIGN_SUFFIX = re.compile(r"(-n\d+k\d+s[\d.]+w\d+(-\d{1,3})?)+$")
"""How the name of a design ends (`design.handoff.design_name`), with the number that tells equal
names apart."""


def architecture_from_config(
    config: Mapping[str, Any] | str | bytes,
    name: str | None = None,
    file_name: str = "config.json",
    *,
    published: bool = False,
) -> Architecture:
    """Read a model's dimensions from its Hugging Face configuration.

    Parameters
    ----------
    config : the parsed object, or the JSON text of config.json (not a path; see
        `catalog.load_model`).
    name : how to call the model; by default the file's _name_or_path, else its model_type.
    file_name : what messages call the file.
    published : the configuration is a shipped model's, held to its published sizes: what it leaves
        out is known.

    Returns
    -------
    Architecture, with every assumption in `warnings`: keys that are missing, with what they come to
    in GB, an unknown model_type (read as plain grouped-query attention), parts that are not
    modelled, and totals that contradict an "-XXB-AYB" pattern in the name.

    Raises
    ------
    AdvisorError : broken JSON, a key that is missing or out of range, or a model that is no
        decoder.

    References
    ----------
    Configuration classes of huggingface/transformers v5.23.0.
    """
    warnings: list[str] = []
    fields = _language_model(config, file_name, warnings)
    label = (
        name or fields.text("_name_or_path") or fields.text("model_type") or "imported model"
    ).strip("/ ")
    fields.where = f"config.json of {label[-80:]}" if file_name == "config.json" else file_name
    try:
        architecture = _build(fields, label, warnings)
    except ValidationError as error:
        first = error.errors()[0]
        raise AdvisorError(
            f"{fields.where}: {'.'.join(map(str, first['loc']))} is not usable ({first['msg']}); "
            "correct the file or download it again"
        ) from None
    all_warnings = (*architecture.warnings, *gaps(fields, architecture))
    if not published:
        all_warnings = (
            *all_warnings,
            *assumptions(fields, architecture),
            *unread(fields, architecture),
        )
    architecture = architecture.model_copy(update={"warnings": all_warnings})
    known = fields.text("model_type") in dialects()
    return _checked_against_name(architecture, (label, fields.text("_name_or_path")), known)


def _language_model(
    config: Mapping[str, Any] | str | bytes, file_name: str, warnings: list[str]
) -> Fields:
    """The language model's keys of a configuration, parsed or as text."""
    if isinstance(config, (str, bytes)):
        config = parse_json(config, file_name)
    elif not isinstance(config, Mapping):
        raise AdvisorError(
            f"{file_name}: got a value of type {type(config).__name__}, expected an object; give "
            "the parsed config.json or its text"
        )
    _refuse_other_files(Fields(config, file_name))
    return _unwrapped(Fields(config, file_name), warnings)


def _part_layers(kinds: list[LayerKind], ffns: list[FfnKind]) -> Layers:
    """Numbers of the layers that hold each part."""
    routed = frozenset(i for i, kind in enumerate(ffns) if kind == "moe")
    dense = frozenset(i for i, kind in enumerate(ffns) if kind == "dense")
    attention = frozenset(i for i, kind in enumerate(kinds) if kind != "none")
    linear = frozenset(i for i, kind in enumerate(kinds) if kind == "linear")
    return {"routed": routed, "shared": routed, "dense": dense} | {
        "attention": attention,
        "linear": linear,
    }


def _refuse_other_files(fields: Fields) -> None:
    """Files that are often mistaken for a model's config.json, told apart by their keys."""
    values = fields.values
    remedy = "give the config.json of the model's Hugging Face repository"
    if "_class_name" in values or "_diffusers_version" in values:
        fields.refuse(
            f"this describes a diffusers pipeline component, expected a language model; {remedy}"
        )
    if "peft_type" in values:
        fields.refuse(
            f"this is an adapter_config.json, expected the base model's config.json; {remedy}"
        )
    sized = any(key in values for key in (*_HIDDEN_KEYS, *NESTED_KEYS))
    if not sized and (
        "tokenizer_class" in values or "added_tokens_decoder" in values or "chat_template" in values
    ):
        fields.refuse(f"this is a tokenizer_config.json, expected config.json; {remedy}")
    if not sized and "weight_map" in values:
        fields.refuse(f"this is a weight index, expected config.json; {remedy}")
    if not sized and "dim" in values and "n_layers" in values:
        fields.refuse(
            f"this is a params.json in the publisher's own format, expected config.json; {remedy}"
        )
    if not sized and not values:
        fields.refuse(f"the object is empty, expected the keys of a model; {remedy}")


_HIDDEN_KEYS = ("hidden_size", "d_model", "n_embd", "model_dim")
_LAYER_KEYS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")


def _unwrapped(outer: Fields, warnings: list[str]) -> Fields:
    """The language-model block, with what only the outer level says copied down."""
    fields = outer
    for _ in range(3):  # Qwen-Omni nests text_config in thinker_config
        _refuse_model_type(fields)
        key = fields.find(*NESTED_KEYS)
        inner = None if key is None or fields.find(*_HIDDEN_KEYS) else fields.block(key)
        if inner is None:
            break
        if fields.find("vision_config", "audio_config", "vision_tower"):
            warnings.append("text tower only: the vision or audio encoder is not counted")
        merged = dict(inner.values)
        of_drafts = [
            name for name in fields.values if OF_MTP.search(name) or OF_EXPERTS.search(name)
        ]
        for name in (*_INHERITED_KEYS, *of_drafts):
            if merged.get(name) in (None, "") and fields.values.get(name) is not None:
                merged[name] = fields.values[name]
        if merged.get("model_type") is None and fields.values.get("model_type") is not None:
            merged["model_type"] = fields.values["model_type"]
        fields = Fields(merged, f"{outer.where}, {key}")
    _refuse_model_type(fields)
    return fields


def _refuse_model_type(fields: Fields) -> None:
    model_type = fields.text("model_type")
    if model_type in refused():
        fields.refuse(
            f"model_type {model_type} cannot be imported: {refused()[model_type]}; expected a "
            "decoder-only language model; choose another model"
        )
    if fields.flag("is_encoder_decoder"):
        fields.refuse(
            "is_encoder_decoder is true, expected a decoder-only language model, because an "
            "encoder-decoder's step also attends to an encoder; choose another model"
        )
    if fields.get("block_configs") is not None:
        fields.refuse(
            f"the file has block_configs: {refused()['nemotron-nas']}; choose another model"
        )


def _layer_count(fields: Fields) -> int:
    """Number of layers. Files that only list them by kind count as long as their list."""
    n_layers = fields.optional_count(*_LAYER_KEYS, minimum=1, maximum=MAX_LAYERS)
    if n_layers is not None:
        return n_layers
    pattern = fields.text("hybrid_override_pattern")
    if pattern:
        return len(pattern)
    key = fields.find("layers_block_type", "layer_types")
    if key is not None:
        listed = fields.sequence(key, at_least=1)
        if len(listed) <= MAX_LAYERS:
            return len(listed)
    return fields.count(*_LAYER_KEYS, maximum=MAX_LAYERS)


def _dialect(fields: Fields, warnings: list[str]) -> Dialect:
    """What the model_type leaves unsaid: plain attention and standard names, with a warning, where
    it is not known."""
    model_type = fields.text("model_type")
    dialect = dialects().get(model_type)
    if dialect is None:
        warnings.append(
            f"model_type {model_type[:60] or '(none)'} is not known: imported as plain attention "
            "and standard key names; check the totals against the model card"
        )
        dialect = Dialect()
    if dialect.quirk:
        warnings.append(dialect.quirk)
    return dialect


def _build(fields: Fields, label: str, warnings: list[str]) -> Architecture:
    dialect = _dialect(fields, warnings)
    hidden = fields.count(*_HIDDEN_KEYS)
    n_layers = _layer_count(fields)
    vocabulary = fields.count("vocab_size", maximum=MAX_VOCABULARY)
    n_experts = expert_count(fields, n_layers, warnings)
    if fields.text("model_type") == "doge" and n_experts:
        fields.refuse(
            "Doge's product-key experts are not modelled; expected is_moe false or another model"
        )
    kinds = layer_kinds(fields, dialect, n_layers)
    # LongCat: two attention blocks in each layer
    mixers = build_mixers(fields, dialect, hidden, kinds * (2 if is_longcat(fields) else 1))
    ffns = ffn_kinds(fields, n_experts, n_layers)
    moe = build_moe(fields, dialect, hidden, n_experts, ffns, warnings)
    if not any(mixer.kind != "none" for mixer in mixers):
        fields.refuse(
            "no layer attends to the context; expected at least one attention layer; correct the "
            "layer list"
        )
    if is_compressed(fields):
        warnings.append(
            "compressed attention: shapes are inferred from the config keys, not read from "
            "published code"
        )
    formats = checkpoint_formats(fields, dialect, _part_layers(kinds, ffns), n_layers, warnings)
    if formats.attention_projections:
        others = ", ".join(
            f"{name} in {dtype}" for name, dtype in formats.attention_projections.items()
        )
        warnings.append(
            f"attention is counted as {formats.attention} throughout; the checkpoint has {others}"
        )
    tie_embeddings = fields.flag("tie_word_embeddings", default=dialect.tie_embeddings)
    dense = build_dense(fields, dialect, n_experts, ffns)
    mtp_modules = _mtp_modules(fields)
    mtp_block = _mtp_block(fields, dialect, n_layers)
    max_context_tokens = fields.optional_count(
        "max_position_embeddings",
        "model_max_length",
        "max_seq_len",
        "n_positions",
        minimum=1,
        maximum=MAX_CONTEXT,
    )
    return Architecture(
        id=OWN,
        name=label,
        hidden_size=hidden,
        vocab_size=vocabulary,
        tie_embeddings=tie_embeddings,
        mixers=mixers,
        dense=dense,
        moe=moe,
        mtp_modules=mtp_modules,
        mtp_block=mtp_block,
        dtypes=formats.weight_dtypes,
        kv_cache_dtype=formats.kv_cache,
        activation_scheme=formats.activation_scheme,
        max_context_tokens=max_context_tokens,
        warnings=tuple(dict.fromkeys(warnings)),
        extra_params=_extra_params(fields, hidden, ffns, moe),
        lookup_params=_lookup_params(fields, n_layers),
        table_params=_table_params(fields, hidden),
    )


def _extra_params(fields: Fields, hidden: int, ffns: list[Any], moe: Moe | None) -> int:
    """Norms of the feed-forward blocks and of the output, the projections into and out of a latent
    expert width, the scalar gate of Qwen's shared expert, and what brings Gemma's per-layer inputs
    into each layer."""
    norms = hidden * (1 + sum(kind != "none" for kind in ffns))
    latent = (
        2 * hidden * moe.expert_input_width * moe.count
        if moe and moe.expert_input_width != hidden
        else 0
    )
    gate = (
        hidden * moe.count
        if moe and moe.n_shared and fields.find("shared_expert_intermediate_size")
        else 0
    )
    per_layer = fields.optional_count("hidden_size_per_layer_input") or 0
    return norms + latent + gate + len(ffns) * (3 * hidden * per_layer + hidden) * bool(per_layer)


def _lookup_params(fields: Fields, n_layers: int) -> int:
    """Table of Gemma's per-layer inputs: a row for each token and layer."""
    width = fields.optional_count("hidden_size_per_layer_input") or 0
    rows = fields.optional_count("vocab_size_per_layer_input", maximum=MAX_VOCABULARY)
    return (
        width
        * n_layers
        * (fields.count("vocab_size", maximum=MAX_VOCABULARY) if rows is None else rows)
    )


def _table_params(fields: Fields, hidden: int) -> int:
    """Numbers in n-gram tables: DeepSeek-V4.1's engram states its rows. Qwen3.8-Flash-Next has
    ngram_vocab_size_base rows for each head and n-gram length, which hold its part of ple_embed_dim
    (transformers 5.23, qwen4_exp). LongCat-2.0's tables have a ratio of the vocabulary in rows, and
    hold parts of the hidden size that add up to it (SGLang 0.5.23, longcat_flash)."""
    most = 10**12
    engram = (
        fields.integers("engram_num_embeddings", maximum=most)
        if fields.get("engram_layer_ids")
        else ()
    )
    params = sum(engram) * (fields.count("engram_head_dim") if engram else 0)
    if layers := fields.get("ple_layer_ids"):
        rows = fields.optional_count("ngram_vocab_size_base", maximum=most) or 20_000_000
        params += len(layers) * rows * (fields.optional_count("ple_embed_dim") or hidden)
    if key := fields.find("oe_vocab_size_ratio", "ngram_vocab_size_ratio"):
        ratio = fields.values[key]
        if not isinstance(ratio, float | int) or not 0 < ratio < most:
            fields.fail(key, "a number above 0")
        params += round(ratio * fields.count("vocab_size", maximum=MAX_VOCABULARY)) * hidden
    return params


def _mtp_modules(fields: Fields) -> int:
    """Multi-token-prediction modules: as stated, else as many as engines load for the family.
    DSpark has none."""
    if dspark_stages(fields):
        return 0
    n_modules = fields.optional_count(*_MTP_KEYS, maximum=64)
    if n_modules is None:
        # Configurations of some families do not state the modules that engines load for them.
        implied = (
            engine.mtp.models.get(fields.text("model_type"), 0)
            for engine in engines()
            if engine.mtp is not None
        )
        n_modules = max(implied, default=0)
    return n_modules if fields.flag("use_mtp", default=True) else 0


def _mtp_block(fields: Fields, dialect: Dialect, n_layers: int) -> MtpBlock | None:
    """Block of a module not built like the target's layers (Step-3.5), listed apart or behind
    theirs, else None."""

    def stated(name: str) -> list[object] | None:
        entries = fields.get(f"mtp_{name}")
        all_layers = fields.get(name)
        if entries is None and isinstance(all_layers, list):
            entries = all_layers[n_layers:]
        return entries if isinstance(entries, list) and entries else None

    blocks = stated("mlp_layer_types")
    kinds = stated("layer_types")
    dense = dialect.mtp != "as the target" if blocks is None else "dense" in blocks
    windowed = dialect.mtp == "dense, windowed" if kinds is None else "sliding_attention" in kinds
    if not dense or fields.flag("nextn_is_sparse"):
        return None
    return MtpBlock(dense_width=fields.count(*PLAIN_WIDTH_KEYS), windowed=windowed)


def _last_place(text: str) -> float:
    """The unit of the last significant digit: 0.1 for "2.5", 1 for "22", 100 for "400"."""
    if "." in text:
        return 10.0 ** -len(text.partition(".")[2])
    return 10.0 ** (len(text) - len(text.rstrip("0")))


def _checked_against_name(
    architecture: Architecture, names: tuple[str, ...], known: bool
) -> Architecture:
    """Add a warning where the computed totals contradict a size such as 30B-A3B in the name.

    The active count passes in any of the three conventions, and where it rounds to the number in
    the name. A design is named after the model it was derived from, whose size it need not have.
    """
    if DESIGN_SUFFIX.search(names[0]):
        return architecture
    matches = (_SIZE_IN_NAME.search(name) for name in names)
    match = next(filter(None, matches), None)
    if match is None:
        return architecture
    total_text, active_text, unit = match.groups()
    total = float(total_text)
    active = float(active_text)
    scale = 1e-9 if unit in "bB" else 1e-6
    counts = parameter_counts(architecture)
    conventions = [
        counts.active_all,
        counts.active_without_input_embedding,
        counts.active_nonembedding,
    ]
    if architecture.mtp_block is not None:
        conventions.append(counts.active_all + counts.mtp)  # dense modules are active as a whole
    contradictions: list[str] = []
    if abs(counts.total * 1e-9 - total) > max(
        _NAME_TOLERANCE[known] * total, 0.5 * min(1.0, _last_place(total_text))
    ):
        contradictions.append(f"{counts.total * 1e-9:.2f}B parameters, the name says {total_text}B")
    allowed = max(_NAME_TOLERANCE[known] * active, 0.5 * _last_place(active_text))
    if all(abs(count * scale - active) > allowed for count in conventions):
        contradictions.append(
            f"{counts.active_all * scale:.2f}{unit} active, the name says {active_text}{unit}"
        )
    if not contradictions:
        return architecture
    warning = (
        "computed size contradicts the name: "
        + "; ".join(contradictions)
        + "; the file may use keys that were not read"
    )
    return architecture.model_copy(update={"warnings": (*architecture.warnings, warning)})


_DENSE_KEYS = ("first_k_dense_replace", "moe_layer_start_index", "mlp_layer_types")
_GROUPS = (
    "num_key_value_heads",
    "num_attention_groups",
    "num_kv_heads",
    "n_kv_heads",
    "attn_config",
    "kv_lora_rank",
)
_HEADS = ("head_dim", "attention_head_dim", "kv_channels", "qk_nope_head_dim", "kv_lora_rank")


def assumptions(fields: Fields, architecture: Architecture) -> list[str]:
    """A sentence for each key that is missing and was assumed, with what the assumption comes
    to."""
    return [
        *_experts(fields, architecture),
        *_attention(fields, architecture),
        *_formats(fields, architecture),
    ]


def _experts(fields: Fields, architecture: Architecture) -> list[str]:
    moe = architecture.moe
    model_type = fields.text("model_type")
    sentences = []
    if moe is None:
        return []
    size = f"{gb(weight_bytes_by_component(architecture)['routed'])} of routed experts"
    own_width = expert_fields(fields).find("moe_intermediate_size", "expert_ffn_hidden_size")
    if own_width is None and model_type not in model_types().width_is_intermediate:
        sentences.append(
            f"moe_intermediate_size is missing: experts are taken to be {moe.expert_width} wide, "
            f"{size}"
        )
    every = fields.get("moe_layer_freq")
    if every not in (None, 1) and not isinstance(every, list):
        sentences.append(f"moe_layer_freq is {every}: one layer in {every} routes, {size}")
    if model_type in model_types().dense_start:
        if fields.find(*_DENSE_KEYS) is None and not isinstance(every, list):
            sentences.append(
                f"first_k_dense_replace is missing: {moe.count} layers, the first among them, are "
                f"taken to route, {size}"
            )
        if fields.find(*SHARED_COUNT_KEYS, *SHARED_TOTAL_KEYS) is None and not moe.n_shared:
            shared_params = moe.count * moe.matrices * architecture.hidden_size * moe.expert_width
            shared_size = gb(shared_params * BYTES_PER_WEIGHT[architecture.dtypes.shared])
            sentences.append(
                "n_shared_experts is missing: none is counted, where one in each layer would be "
                f"{shared_size}"
            )
    return sentences


def _attention(fields: Fields, architecture: Architecture) -> list[str]:
    sentences = []
    model_type = fields.text("model_type")
    if fields.find(*_GROUPS) is None and any(mixer.kind == "full" for mixer in architecture.mixers):
        cache = gb(float(kv_bytes(architecture, 1_000_000)))
        sentences.append(
            f"num_key_value_heads is missing: as many as query heads, {cache} of cache per "
            "million tokens"
        )
    if fields.find(*_HEADS) is None and model_type.startswith(model_types().own_head_dim):
        size = gb(weight_bytes_by_component(architecture)["attention"])
        sentences.append(
            f"head_dim is missing: hidden_size / num_attention_heads is taken, {size} of "
            "attention weights"
        )
    if model_type.startswith("gemma4") and fields.find("global_head_dim") is None:
        sentences.append(
            "global_head_dim is missing: layers that see the whole context are taken to have "
            "heads of head_dim"
        )
    return sentences


def _formats(fields: Fields, architecture: Architecture) -> list[str]:
    sentences = []
    if fields.find("dtype", "torch_dtype", "quantization_config", "compression_config") is None:
        sentences.append(
            "torch_dtype is missing: weights are taken to be in bf16, "
            f"{gb(weight_bytes(architecture))} in all"
        )
    if fields.get("tie_word_embeddings") is None:
        table = (
            architecture.vocab_size
            * architecture.hidden_size
            * BYTES_PER_WEIGHT[architecture.dtypes.embedding]
        )
        how = (
            "one table serves as input and output"
            if architecture.tie_embeddings
            else "the output has its own table"
        )
        sentences.append(f"tie_word_embeddings is missing: {how}, {gb(table)} each")
    return sentences
