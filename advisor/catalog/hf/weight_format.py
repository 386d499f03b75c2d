"""Storage format of each part of a checkpoint, from dtype, quantization_config and the list of
modules left out."""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import Field

from advisor.catalog.hf.dialects import (
    Dialect,
    Layers,
    component_of,
    is_output_head,
    kept_parts,
    kept_projections,
    projection_of,
    speaks_of_mtp,
)
from advisor.catalog.hf.fields import Fields
from advisor.physics.architecture import (
    MATRICES,
    ActivationScheme,
    CacheDtype,
    WeightDtype,
    WeightDtypes,
)

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
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_LATENT_PROJECTIONS = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")


class CheckpointFormats(WeightDtypes):
    """Formats of a checkpoint's parts as its files state them. Where a part has several, that of
    most of its layers."""

    lm_head: WeightDtype = "bf16"
    mtp: WeightDtype = "bf16"
    """Multi-token-prediction modules, where the model has any."""
    attention_projections: dict[str, WeightDtype] = Field(default_factory=dict)
    """Attention projections in another format than `attention`, by their name in the checkpoint."""
    kv_cache: CacheDtype | None = None
    """What the checkpoint was calibrated for; None where it names none."""
    activation_scheme: ActivationScheme | None = None
    """Of its 8-bit products; None where it says nothing."""

    @property
    def weight_dtypes(self) -> WeightDtypes:
        """The formats as predictions take them: embedding and output head in one."""
        return WeightDtypes(**{name: getattr(self, name) for name in WeightDtypes.model_fields})


def checkpoint_formats(
    fields: Fields, dialect: Dialect, layers: Layers, n_layers: int, warnings: list[str]
) -> CheckpointFormats:
    """Formats by part. Raises AdvisorError for values of the wrong type; an unknown method is a
    warning."""
    base = _base_dtype(fields, warnings)
    formats: dict[str, WeightDtype] = dict.fromkeys((*WeightDtypes.model_fields, "lm_head"), base)
    projections: dict[str, WeightDtype] = {}
    block = fields.block("quantization_config")
    cache = None
    scheme = None
    if block is not None and block.values:
        whole_block = (
            ("shared",) if dialect.shared == "parallel_mlp" else ("routed", "shared", "dense")
        )
        formats.update(_quantised(block, base, layers, whole_block, warnings))
        latent = fields.find("kv_lora_rank") is not None
        projections = _projections(block, base, formats["attention"], layers, latent)
        cache = _cache_dtype(block)
        scheme = _activation_scheme(block)
    dtype_source = next(
        (
            source
            for source in (fields, block)
            if source is not None and source.find("expert_dtype", "store_dtype")
        ),
        fields,
    )
    # DeepSeek-V4.1 and MiMo-V2.6 (store_dtype) have it in quantization_config.
    key = dtype_source.find("expert_dtype", "store_dtype") or "expert_dtype"
    expert = dtype_source.text(key).lower()
    if expert:
        if expert not in _FLOATS:
            dtype_source.fail(key, f"one of {', '.join(_FLOATS)}")
        blocked = formats["attention"] == "fp8_block"
        if formats["routed"] not in ("nvfp4", "mxfp4", "int4"):
            formats["routed"] = (
                "fp8_block" if _FLOATS[expert] == "fp8" and blocked else _FLOATS[expert]
            )
    formats["mtp"] = formats["routed" if layers["routed"] else "dense"]
    if block is not None and speaks_of_mtp(_ignored(block), n_layers):
        # A release that quantises the experts of an fp8 checkpoint once more leaves the rest of it
        # as it was.
        formats["mtp"] = (
            _FLOATS[expert] if expert else formats["attention"] if _on_top_of_fp8(block) else base
        )
    return CheckpointFormats(
        **formats, attention_projections=projections, kv_cache=cache, activation_scheme=scheme
    )


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
    block: Fields,
    base: WeightDtype,
    layers: Layers,
    whole_block: tuple[str, ...],
    warnings: list[str],
) -> dict[str, WeightDtype]:
    """The parts that are not in 16 bits. `whole_block`: what a pattern that names all of `mlp`
    speaks of."""
    method = block.text("quant_method").lower()
    layered = _by_layer_names(block)
    if layered:
        start = _named_format(block, method) if _on_top_of_fp8(block) else None
        return {**(dict.fromkeys(MATRICES, start) if start else {}), **layered}
    block_dtype = _named_format(block, method)
    if block_dtype is None:
        warnings.append(
            f"quantisation method {method[:40]!r} is not known; the weights are counted as {base}"
        )
        return {}
    ignored = _ignored(block)
    formats = dict.fromkeys(("routed",) if method == "mxfp4" else MATRICES, block_dtype)
    if method == "compressed-tensors" and not any(is_output_head(name) for name in ignored):
        formats["lm_head"] = block_dtype
    unquantized = kept_parts(ignored, layers, whole_block)
    return {name: dtype for name, dtype in formats.items() if name not in unquantized}


def _on_top_of_fp8(block: Fields) -> bool:
    """Whether the block lists layers in another format over a checkpoint that is in fp8 as a
    whole."""
    return (
        block.text("quant_method").lower() == "fp8"
        and block.get("quantized_layers", "config_groups") is not None
    )


def _projections(
    block: Fields, base: WeightDtype, attention: WeightDtype, layers: Layers, latent: bool
) -> dict[str, WeightDtype]:
    """Attention projections in another format than most of attention. `latent`: multi-head latent
    attention."""
    ignored = _ignored(block)
    unquantized = kept_projections(ignored, layers)
    formats: dict[str, WeightDtype] = dict.fromkeys(unquantized, base)
    for projection, tally in _tally(block, projection_of).items():
        formats[projection] = max(tally, key=lambda dtype: tally[dtype])
    block_dtype = _named_format(block, block.text("quant_method").lower())
    ignores_all_attention = any(
        component_of(name) == "attention" and projection_of(name) is None for name in ignored
    )
    if block_dtype is not None and unquantized and attention == base and not ignores_all_attention:
        all_projections = _LATENT_PROJECTIONS if latent else _PROJECTIONS
        formats.update(
            dict.fromkeys(
                (name for name in all_projections if name not in unquantized), block_dtype
            )
        )
    return {name: dtype for name, dtype in sorted(formats.items()) if dtype != attention}


def _cache_dtype(block: Fields) -> CacheDtype | None:
    """ModelOpt's kv_cache_quant_algo, or compressed-tensors' kv_cache_scheme. None for what is not
    known."""
    scheme = block.get("kv_cache_quant_algo", "kv_cache_scheme")
    if isinstance(scheme, str):
        known: dict[str, CacheDtype] = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}
        return known.get(scheme.upper())
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        return "int8" if "int" in str(scheme.get("type") or "").lower() else "fp8"
    return None


_SCHEME_OF: dict[str, ActivationScheme] = {
    "FP8": "static",
    "FP8_PER_CHANNEL_PER_TOKEN": "dynamic",
    "MXFP8": "dynamic",
    "fbgemm_fp8": "dynamic",
    "finegrained_fp8": "dynamic",
}
"""By ModelOpt's algorithm, or by a method that has one way alone: scales of tensors are calibrated,
those of tokens and blocks are found in the product."""


def _activation_scheme(block: Fields) -> ActivationScheme | None:
    """activation_scheme as stated. Else of the first 8-bit group (compressed-tensors, Quark), else
    of the method."""
    stated: dict[str, ActivationScheme] = {"static": "static", "dynamic": "dynamic"}
    if scheme := stated.get(block.text("activation_scheme").lower()):
        return scheme
    for weights, inputs in _groups(block):
        if weights.get("num_bits") == 8 or "8" in str(weights.get("dtype") or ""):
            on_call = inputs.get("dynamic", inputs.get("is_dynamic"))
            return None if on_call is None else "dynamic" if on_call else "static"
    methods = block.text("quant_algo").upper(), block.text("quant_method").lower()
    return next((_SCHEME_OF[name] for name in methods if name in _SCHEME_OF), None)


def _groups(block: Fields) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """(weights, activations) of each group of compressed-tensors and ModelOpt, then of Quark. {}
    for what is absent."""
    groups = block.block("config_groups")
    nested = block.block("global_quant_config")
    for group in groups.values.values() if groups else ():
        if isinstance(group, dict):
            yield _dict(group.get("weights")), _dict(group.get("input_activations"))
    if nested is not None:
        yield _dict(nested.get("weight")), _dict(nested.get("input_tensors"))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


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
        bits = fields.optional_count("num_bits", maximum=64) or (
            4 if "4" in number else 8 if "8" in number else 0
        )
        if bits == 8:
            blocked = (
                weights.get("strategy") == "block" or weights.get("block_structure") is not None
            )
            return "int8" if "int" in number else ("fp8_block" if blocked else "fp8")
        if bits == 4 and "int" in number:
            return "int4"
        if bits == 4:
            small = weights.get("group_size") == 32 or "mxfp4" in style
            return "mxfp4" if small else "nvfp4"
    return None


def _named_layers(block: Fields) -> Iterable[tuple[str, WeightDtype | None]]:
    """Module names with their format: ModelOpt's quantized_layers, or weight groups that list their
    targets."""
    layers = block.block("quantized_layers")
    if layers is not None:
        for name, how in layers.values.items():
            yield (
                name,
                _named_format(Fields(how, block.where), "") if isinstance(how, dict) else None,
            )
        return
    groups = block.block("config_groups")
    for group in groups.values.values() if groups else ():
        targets = group.get("targets") if isinstance(group, dict) else None
        if isinstance(targets, list):
            single_group = {"config_groups": {"group": group}, "format": block.get("format")}
            dtype = _group_format(Fields(single_group, block.where))
            yield from ((target, dtype) for target in targets if isinstance(target, str))


def _tally(
    block: Fields, part_of: Callable[[str], str | None]
) -> dict[str, dict[WeightDtype, int]]:
    """How often each part that `part_of` finds in a name is listed in each format."""
    tally: dict[str, dict[WeightDtype, int]] = {}
    for name, dtype in _named_layers(block):
        part = part_of(name)
        if part is not None and dtype is not None:
            counts = tally.setdefault(part, {})
            counts[dtype] = counts.get(dtype, 0) + 1
    return tally


def _by_layer_names(block: Fields) -> dict[str, WeightDtype]:
    """Mixed precision by module name. The most frequent format of a part counts for all of it."""
    tally = _tally(block, lambda name: "lm_head" if is_output_head(name) else component_of(name))
    return {
        part: max(counts, key=lambda dtype: counts[dtype])
        for part, counts in tally.items()
        if part in (*MATRICES, "lm_head")
    }


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
