"""What a config.json says that is not read or not modelled, each with what it may come to in GB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.catalog.hf.fields import Fields, shown
from advisor.catalog.hf.layers import EXPERT_COUNT_KEYS, EXPERT_WIDTH_KEYS, LATENT_WIDTH_KEYS, TOP_K_KEYS, expert_fields
from advisor.physics.architecture import (
    BYTES_PER_WEIGHT,
    Architecture,
    WeightDtype,
    expert_params,
    kv_bytes,
    table_bytes,
    weight_bytes,
    weight_bytes_by_component,
)

OF_EXPERTS = re.compile(r"expert|moe|router|routed")
OF_MTP = re.compile(r"mtp|nextn|dspark|medusa|eagle")
_TRAINED_WITH = re.compile(r"loss|coef|jitter|dropout|capacity|_eps|softcap|warmup|(?:^|_)lr$|init|balanc")
_CHOICE_OF_EXPERTS = frozenset(
    {
        *("norm_topk_prob", "output_router_logits", "moe_renormalize", "moe_normalize_expert_weights", "moe_norm_min"),
        *("moe_router_dtype", "router_dtype", "moe_router_use_sigmoid", "moe_router_activation"),
        *("moe_router_activation_func", "moe_router_score_function", "expert_selection_fn", "score_func"),
        *("routed_scaling_factor", "router_scaling_factor", "moe_routed_scaling_factor", "moe_router_scaling_factor"),
        *("moe_router_topk_scaling_factor", "num_expert_group", "num_expert_groups", "moe_n_group", "moe_topk_group"),
        *("use_moe_router_bias", "moe_router_enable_expert_bias", "use_expert_bias", "router_bias"),
        *("moe_apply_router_weight_on_input", "shared_expert_combination_strategy", "shared_moe_mode"),
        *("moe_shared_expert_overlap", "enable_moe_fp32_combine", "latent_moe_use_norm", "zero_expert_type"),
        *("use_shared_expert_sigmoid", "use_moe", "moe_use_aux_free", "index_share_for_mtp_iteration"),
    }
)
"""Keys that say which experts a token takes and how they are added up, and change no weight worth a line."""
_PLACEMENT = frozenset(
    {
        *("moe_layer_freq", "moe_layers_enum", "moe_layers", "interleave_moe_layer_step", "expert_layer_period"),
        *("expert_layer_offset", "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"),
        *("moe_layer_num_skipped", "enable_moe_block", "is_moe", "use_mtp"),
        *("mtp_layer_types", "mtp_mlp_layer_types", "dspark_block_size", "dspark_noise_token_id"),
        *("dspark_target_layer_ids", "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok"),
        *(*EXPERT_COUNT_KEYS, *TOP_K_KEYS, *EXPERT_WIDTH_KEYS, *LATENT_WIDTH_KEYS),
    }
)
"""Keys that are read where no earlier one settles the matter, and those that `gaps` speaks of."""
_AS_COUNTED: Mapping[str, tuple[Any, ...]] = {
    "mtp_transformer_layers": (1,),
    "mtp_layers_block_type": (["attention", "moe"],),
    "mtp_hybrid_override_pattern": ("*E",),
}
"""Values at which a key says what is counted anyway."""
_GROUP: dict[WeightDtype, int] = {"int4": 128, "nvfp4": 16, "mxfp4": 32}
"""Weights that share a scale, as BYTES_PER_WEIGHT counts them. [-]"""
_OF_QUANTISATION = frozenset(
    {
        *("fmt", "scale_fmt", "producer", "quantization_status", "version", "checkpoint_format", "packing_format"),
        *("desc_act", "sym", "zero_point", "true_sequential", "static_groups", "damp_percent", "meta", "backend"),
        *("dataset", "model_name_or_path", "model_seqlen", "tokenizer", "pad_token_id", "batch_size", "iters"),
        *("nsamples", "seqlen", "autoround_version", "lm_head", "modules_in_block_to_quantize", "exllama_config"),
        *("use_exllama", "max_input_length", "block_name_to_quantize", "to_quant_block_names", "run_compressed"),
        *("global_compression_ratio", "sparsity_config", "transform_config", "format", "activation_scheme"),
        *("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "exclude", "config_groups"),
        *("quantized_layers", "global_quant_config", "layer_quant_config", "layer_type_quant_config", "export"),
        *("kv_cache_quant_algo", "kv_cache_scheme", "kv_cache_quant_config", "kv_cache_post_rope", "algo_config"),
        *("quant_algo", "quant_mode", "softmax_quant_spec", "quant_type", "has_zero_point", "pre_quant_scale"),
    }
)
_OF_BITSANDBYTES = re.compile(r"_?(?:bnb_4bit|llm_int8|load_in)_")


def unread(fields: Fields, architecture: Architecture) -> list[str]:
    """A sentence for each key of the expert, draft and quantisation blocks that nothing was read from."""
    sizes = weight_bytes_by_component(architecture)
    experts = f"the {gb(sizes['routed'])} of routed experts" if architecture.moe else "experts that are not counted"
    said = []
    for source in {id(each): each for each in (fields, expert_fields(fields))}.values():
        for key, value in _in_doubt(source, _PLACEMENT | _CHOICE_OF_EXPERTS):
            if OF_MTP.search(key):
                said.append((key, value, f"the {gb(sizes['mtp'])} of multi-token-prediction modules"))
            elif OF_EXPERTS.search(key):
                said.append((key, value, experts))
    block = fields.block("quantization_config")
    if block is not None:
        for key, value in _in_doubt(block, _OF_QUANTISATION):
            if not _OF_BITSANDBYTES.match(key) and not _repeats(key, value, architecture):
                what = f"the {gb(weight_bytes(architecture, include_mtp=True))} of weights"
                said.append((f"quantization_config.{key}", value, what))
    return [
        *(f"{key} ({shown(value)}) is not read: it may change {what}" for key, value, what in said),
        *_contradictions(expert_fields(fields)),
    ]


def _in_doubt(fields: Fields, known: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Keys that were not looked up, are not `known` and say something."""
    for key, value in fields.values.items():
        if key in fields.read or key in known or value in _AS_COUNTED.get(key, ()) or _TRAINED_WITH.search(key):
            continue
        if value or (isinstance(value, (int, float)) and not isinstance(value, bool) and value):
            yield key, value


def _repeats(key: str, value: object, architecture: Architecture) -> bool:
    """Whether a key of the quantisation block says what was read from others."""
    formats = set(architecture.dtypes.model_dump().values())
    if key == "group_size":
        grouped = {_GROUP[each] for each in formats if each in _GROUP}
        return value == -1 or not grouped or value in grouped
    return key == "moe_quant_algo" and str(value).lower().startswith(architecture.dtypes.routed.partition("_")[0])


def _contradictions(fields: Fields) -> Iterator[str]:
    """Of the keys that count experts the later ones that differ from the first, which is read."""
    for keys in (EXPERT_COUNT_KEYS, TOP_K_KEYS):
        first = fields.find(*keys)
        for key in keys:
            if first is not None and fields.values.get(key) not in (None, fields.values[first]):
                theirs, ours = shown(fields.values[key]), shown(fields.values[first])
                yield f"{key} ({theirs}) differs from {first} ({ours}), which is read"


def gaps(fields: Fields, architecture: Architecture) -> list[str]:
    """A sentence for each part of the model that changes memory or time and is not modelled."""
    said = []
    if fields.flag("use_cla"):
        cache = gb(float(kv_bytes(architecture, 1_000_000)))
        said.append(
            "layers that share one KV cache are counted with a cache of their own: "
            f"at most {cache} per million tokens, in 16 bits"
        )
    if fields.get("per_layer_config"):
        said.append("per_layer_config is not read: all layers are taken to have the sizes of the other keys")
    if fields.get("ple_layer_ids"):
        said.append("hyper-connections are not counted")
    if architecture.table_params:
        said.append(
            f"n-gram tables hold {gb(table_bytes(architecture))} in the format of attention, of GPU memory unless the "
            "engine keeps them in the host's, as vLLM does by itself; looking them up takes no time here"
        )
    return said + _dspark(fields, architecture)


def _dspark(fields: Fields, architecture: Architecture) -> list[str]:
    """DSpark stages: blocks that draft together, which are no MTP modules."""
    stages, moe = dspark_stages(fields), architecture.moe
    if not stages or moe is None:
        return []
    experts = fields.optional_count("dspark_n_routed_experts", minimum=1) or moe.n_experts
    size = stages * experts * expert_params(moe) * BYTES_PER_WEIGHT[architecture.dtypes.routed]
    return [
        f"its {stages} DSpark stages draft a block at once and are no multi-token-prediction modules: take the drafter "
        f"dspark, which leaves out their {gb(size)} of experts ({experts} a stage)"
    ]


def dspark_stages(fields: Fields) -> int:
    """Stages of a DSpark drafter in the checkpoint: what its MTP key then counts. 0 without one. [-]"""
    if not fields.optional_count("dspark_block_size"):
        return 0
    return fields.optional_count("num_nextn_predict_layers", "num_mtp_layers", maximum=64) or 0


def gb(size_bytes: float) -> str:
    """A size in GB, three digits."""
    return f"{size_bytes / 1e9:,.3g} GB"
