"""Names as tools write them, brought to ours."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from advisor.catalog import engine_called, resolve_model_name
from advisor.drafter import drafter_ids
from advisor.text import name_key

_DTYPES = {
    "bfloat16": "bf16",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "float8": "fp8",
    "fp8_w8a8": "fp8",
    "int8_w8a16": "int8",
    "int4_w4a16": "int4",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "modelopt_mxfp8": "fp8",
    "modelopt_fp8": "fp8",
    "petit_nvfp4": "nvfp4",
    "fp_quant": "mxfp4",
    "w8a8_fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "ptpc_fp8": "fp8",
    "mxfp8": "fp8",
    "w8a8_int8": "int8",
    "experts_int8": "int8",
    "w4afp8": "int4",
    "awq": "int4",
    "awq_marlin": "int4",
}
_UNSAID = frozenset({"", "auto", "none", "null", "compressed_tensors", "modelopt", "quark", "gguf", "bitsandbytes"})
"""What engines call a choice left to the checkpoint, and ways of quantising that come in several formats."""
_METHODS = {
    "nextn": "mtp",
    "frozen_kv_mtp": "mtp",
    "standalone": "draft_model",
    "draft": "draft_model",
    "vanilla": "draft_model",
    "ngram_gpu": "ngram",
    "prompt_lookup": "ngram",
    "p_eagle": "p-eagle",
    "eagle_3": "eagle3",
    "eagle2": "eagle",
}
"""Drafters under other names: SGLang's algorithms (NEXTN, STANDALONE), vLLM's methods, TensorRT-LLM's words."""
_NOISE = frozenset(
    {
        "nvidia",
        "amd",
        "intel",
        "google",
        "instinct",
        "geforce",
        "tensor",
        "core",
        "gpu",
        "accelerator",
        "graphics",
        "generation",
        "edition",
        "workstation",
        "server",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
    }
)


def engine_name(text: str) -> str:
    """The id of the engine where the text is one of its spellings. Else the text as it is."""
    engine = engine_called(text)
    return engine.id if engine else text


def weight_dtype(text: str) -> str | None:
    """Our name of a weight type where the text is another spelling of it or an engine's `--quantization`. Else lower
    case, and None where the text leaves the format to the checkpoint (`auto`, `compressed-tensors`)."""
    key = name_key(text)
    return None if key in _UNSAID else _DTYPES.get(key, text.strip().lower())


def drafter_name(text: str) -> str:
    """Our name of a drafter (`EAGLE3` is `eagle3`, `NEXTN` and `deepseek_mtp` are `mtp`). Else lower case."""
    key = name_key(text)
    if key.endswith("_mtp"):
        return "mtp"
    known = {name_key(drafter_id): drafter_id for drafter_id in drafter_ids()}
    return _METHODS.get(key) or known.get(key, text.strip().lower())


def match_hardware(text: str, ids: Collection[str]) -> str | None:
    """Hardware id that a free name means (`NVIDIA H200` is `h200-sxm`).

    None when none or several fit.

    An id fits when the words of the text that are no vendor or filler all occur in it. Of several, the one whose
    only further word is `sxm` is taken: tools print data-centre parts without it.
    """
    words = {re.sub(r"^sxm\d$", "sxm", word) for word in name_key(text).split("_")} - _NOISE - {""}
    if not words:
        return None
    # Drivers add the memory size to names that need none ("H100 80GB HBM3"): it counts only where some id has it.
    without_size = {word for word in words if not re.fullmatch(r"\d+g(i?b)?", word)}
    for wanted in (words, without_size):
        fits = [item for item in ids if wanted and wanted <= set(name_key(item).split("_"))]
        exact = [item for item in fits if set(name_key(item).split("_")) - wanted <= {"sxm"}]
        chosen = exact if len(exact) == 1 else fits
        if chosen:
            return chosen[0] if len(chosen) == 1 else None
    return None


def match_model(text: str, ids: Iterable[str]) -> str | None:
    """The model id that a checkpoint name means (`Qwen/Qwen3-30B-A3B-FP8` is `qwen3-30b-a3b`), or None.

    The profile whose dimensions the name says, else the longest id that the last part of the name begins with.
    """
    known, named = tuple(ids), resolve_model_name(text)
    if named is not None and named.model_id in known:
        return named.model_id
    words = name_key(text.rstrip("/").rsplit("/", 1)[-1]).split("_")
    fits = [item for item in known if name_key(item).split("_") == words[: len(name_key(item).split("_"))]]
    return max(fits, key=lambda item: len(name_key(item)), default=None)


def named_format(text: str) -> tuple[str | None, str]:
    """Weight format that a checkpoint name says, in a table's words, with remarks on the name.

    None where the name says no format.
    """
    named = resolve_model_name(text)
    if named is None:
        return None, "not known as a checkpoint; a profile's id that it begins with stands for it"
    if named.weight_format is None:
        return None, named.note
    return named.weight_format.removesuffix("_block"), named.note
