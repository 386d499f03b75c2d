"""What a config.json says that is not read or not modelled, each with what it may come to in GB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.catalog.hf.dialects import model_types
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
_LAYER_KEYS = frozenset({*EXPERT_COUNT_KEYS, *TOP_K_KEYS, *EXPERT_WIDTH_KEYS, *LATENT_WIDTH_KEYS})
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
    """A sentence for each key of the expert, draft and quantisation blocks that nothing was read from."""
    sizes = weight_bytes_by_component(architecture)
    experts = f"the {gb(sizes['routed'])} of routed experts" if architecture.moe else "experts that are not counted"
    said, known = [], model_types()
    for source in {id(each): each for each in (fields, expert_fields(fields))}.values():
        for key, value in _in_doubt(source, known.placement | known.choice_of_experts | _LAYER_KEYS):
            if OF_MTP.search(key):
                said.append((key, value, f"the {gb(sizes['mtp'])} of multi-token-prediction modules"))
            elif OF_EXPERTS.search(key):
                said.append((key, value, experts))
    block = fields.block("quantization_config")
    if block is not None:
        for key, value in _in_doubt(block, known.of_quantisation):
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
        if value:
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
