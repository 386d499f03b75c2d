"""Storage format of each component from dtype, quantization_config and ignore lists.

A component keeps the 16-bit format when the ignore list names it for every layer, or for at least half of them by
number. Patterns are matched by the words they contain, never run as regular expressions: a file may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from advisor.architecture import MATRICES, WeightDtype, WeightDtypes
from advisor.hf.dialects import Dialect
from advisor.hf.fields import Fields

_FLOATS: dict[str, WeightDtype] = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "float": "fp32",
    "fp8": "fp8",
    "float8_e4m3fn": "fp8",
    "fp4": "mxfp4",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "int8": "int8",
    "int4": "int4",
}
_LAYER_NUMBER = re.compile(r"layers?\.(\d{1,6})(?:\D|$)")
_ATTENTION_WORDS = ("attn", "attention", "mixer", "mamba", "q_proj", "k_proj", "v_proj", "o_proj")
_NOT_MATRICES = ("norm", "bias", "conv1d", "rotary", "sink", "a_log", "dt_", "vision", "visual", "mtp", "indexer")


def weight_dtypes(fields: Fields, dialect: Dialect, n_layers: int, warnings: list[str]) -> WeightDtypes:
    """Formats by component. Raises AdvisorError for values of the wrong type; an unknown method is a warning."""
    base = _base_dtype(fields, warnings)
    formats: dict[str, WeightDtype] = dict.fromkeys(WeightDtypes.model_fields, base)
    block = fields.block("quantization_config")
    if block is not None and block.values:
        whole_block = ("shared",) if dialect.shared == "parallel_mlp" else ("routed", "shared", "dense")
        formats.update(_quantised(block, base, n_layers, whole_block, warnings))
    expert = fields.text("expert_dtype").lower()
    if expert:
        if expert not in _FLOATS:
            fields.fail("expert_dtype", f"one of {', '.join(_FLOATS)}")
        blocked = formats["attention"] == "fp8_block"
        if formats["routed"] not in ("nvfp4", "mxfp4", "int4"):
            formats["routed"] = "fp8_block" if _FLOATS[expert] == "fp8" and blocked else _FLOATS[expert]
    return WeightDtypes(**formats)


def _base_dtype(fields: Fields, warnings: list[str]) -> WeightDtype:
    key = fields.find("dtype", "torch_dtype")
    if key is None:
        return "bf16"
    name = fields.values[key]
    if not isinstance(name, str):
        fields.fail(key, "a text such as bfloat16")
    known = _FLOATS.get(name.removeprefix("torch.").lower())
    if known is None:
        warnings.append(f"{key} is not a known format; bf16 is assumed")
        return "bf16"
    return known


def _quantised(
    block: Fields, base: WeightDtype, n_layers: int, whole_block: tuple[str, ...], warnings: list[str]
) -> dict[str, WeightDtype]:
    """The components that are not in 16 bits. `whole_block`: what a pattern that names all of `mlp` speaks of."""
    method = block.text("quant_method").lower()
    layered = _by_layer_names(block)
    if layered:
        start = _named_format(block, method) if method == "fp8" else None
        return {**(dict.fromkeys(MATRICES, start) if start else {}), **layered}
    found = _named_format(block, method)
    if found is None:
        warnings.append(f"quantisation method {method[:40]!r} is not known; the weights are counted as {base}")
        return {}
    formats = dict.fromkeys(("routed",) if method == "mxfp4" else MATRICES, found)
    kept = _kept_components(_ignored(block), n_layers, whole_block)
    return {name: dtype for name, dtype in formats.items() if name not in kept}


def _named_format(block: Fields, method: str) -> WeightDtype | None:
    """The one low-bit format of a block, from method, algorithm or the first weight group."""
    algorithm = block.text("quant_algo").upper()
    if method == "fp8" or algorithm.startswith("FP8") or algorithm in ("MXFP8", "W8A8_FP8"):
        blocked = block.get("weight_block_size") is not None or "BLOCK" in algorithm
        return "fp8_block" if blocked else "fp8"
    by_algorithm: dict[str, WeightDtype] = {
        "NVFP4": "nvfp4",
        "NVFP4_AWQ": "nvfp4",
        "W4A16_NVFP4": "nvfp4",
        "MXFP4": "mxfp4",
        "W4A8_MXFP4_FP8": "mxfp4",
        "W4A16_AWQ": "int4",
        "W4A8_AWQ": "int4",
        "INT4_AWQ": "int4",
        "W8A16": "int8",
        "INT8_SQ": "int8",
        "W8A8_SQ_PER_CHANNEL": "int8",
    }
    if algorithm in by_algorithm:
        return by_algorithm[algorithm]
    if method in ("mxfp4", "nvfp4"):
        return "mxfp4" if method == "mxfp4" else "nvfp4"
    if method in ("fbgemm_fp8", "finegrained_fp8"):
        return "fp8"
    if method in ("awq", "gptq", "auto-round", "intel/auto-round", "hqq"):
        return "int8" if block.optional_count("bits", "w_bit", maximum=64) == 8 else "int4"
    if method == "bitsandbytes":
        return "int4" if block.flag("load_in_4bit", "_load_in_4bit") else "int8"
    return _group_format(block)


def _group_format(block: Fields) -> WeightDtype | None:
    """compressed-tensors, ModelOpt and Quark: number type and width of the first weight group."""
    groups = block.block("config_groups")
    candidates: list[Any] = list(groups.values.values()) if groups else []
    nested = block.block("global_quant_config")
    if nested is not None:
        candidates.append({"weights": nested.get("weight")})
    for group in candidates:
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            continue
        fields = Fields(weights, f"{block.where}, weights")
        style = (block.text("format") + " " + str(group.get("format") or "")).lower()
        number = (str(weights.get("type") or "") + " " + str(weights.get("dtype") or "")).lower()
        bits = fields.optional_count("num_bits", maximum=64) or (4 if "4" in number else 8 if "8" in number else 0)
        if bits == 8:
            blocked = weights.get("strategy") == "block" or weights.get("block_structure") is not None
            return "int8" if "int" in number else ("fp8_block" if blocked else "fp8")
        if bits == 4 and "int" in number:
            return "int4"
        if bits == 4:
            small = weights.get("group_size") == 32 or "mxfp4" in style
            return "mxfp4" if small else "nvfp4"
    return None


def _named_layers(block: Fields) -> Iterable[tuple[str, WeightDtype | None]]:
    """Module names with their format: ModelOpt's quantized_layers, or weight groups that list their targets."""
    layers = block.block("quantized_layers")
    if layers is not None:
        for name, how in layers.values.items():
            yield name, _named_format(Fields(how, block.where), "") if isinstance(how, dict) else None
        return
    groups = block.block("config_groups")
    for group in groups.values.values() if groups else ():
        targets = group.get("targets") if isinstance(group, dict) else None
        if isinstance(targets, list):
            alone = {"config_groups": {"group": group}, "format": block.get("format")}
            found = _group_format(Fields(alone, block.where))
            yield from ((target, found) for target in targets if isinstance(target, str))


def _by_layer_names(block: Fields) -> dict[str, WeightDtype]:
    """Mixed precision by module name; the most frequent format of a component counts for all of it."""
    tally: dict[str, dict[WeightDtype, int]] = {}
    for name, found in _named_layers(block):
        component = component_of(name)
        if component in MATRICES and found is not None:
            counts = tally.setdefault(component, {})
            counts[found] = counts.get(found, 0) + 1
    return {component: max(counts, key=lambda dtype: counts[dtype]) for component, counts in tally.items()}


def _ignored(block: Fields) -> list[str]:
    names: list[str] = []
    for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "exclude"):
        value = block.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            block.fail(key, "a list of module names")
        names.extend(value)
    return names


def component_of(pattern: str) -> str | None:
    """The component a module name or pattern speaks of: routed, shared, attention, dense, embedding, ffn or None."""
    name = pattern.removeprefix("re:").replace("\\", "").lower()
    if any(word in name for word in _NOT_MATRICES):
        return None
    if re.search(r"(?:^|[._*])(?:mlp\.|moe\.|ffn\.)?(?:gate|router|shared_expert_gate)\*?$", name):
        return None
    if "shared_expert" in name or "shared_mlp" in name:
        return "shared"
    if "expert" in name:
        return "routed"
    if any(word in name for word in _ATTENTION_WORDS):
        return "attention"
    if "embed" in name or "lm_head" in name:
        return "embedding"
    if re.search(r"(?:mlp|ffn|feed_forward|block_sparse_moe)[.*]*$", name):
        return "ffn"
    if "mlp" in name or "ffn" in name or "feed_forward" in name:
        return "dense"
    return None


def _kept_components(names: Iterable[str], n_layers: int, whole_block: tuple[str, ...]) -> set[str]:
    """Components that an ignore list keeps in 16 bits in at least half of the layers."""
    everywhere: set[str] = set()
    layers: dict[str, set[str]] = {}
    for name in names:
        component = component_of(name)
        if component is None:
            continue
        number = _LAYER_NUMBER.search(name.replace("\\", ""))
        targets = whole_block if component == "ffn" else (component,)
        for target in targets:
            if number is None:
                everywhere.add(target)
            else:
                layers.setdefault(target, set()).add(number.group(1))
    return everywhere | {target for target, found in layers.items() if 2 * len(found) >= n_layers}
