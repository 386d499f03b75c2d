"""Names of models as checkpoints, servers and benchmarks write them, brought to a profile and a weight format."""

from __future__ import annotations

import functools
import re
from pathlib import PurePosixPath

from advisor.architecture import WeightDtype
from advisor.catalog.shipped import model_ids, model_profile
from advisor.prediction import Frozen
from advisor.text import name_key

MAX_NAME_CHARACTERS = 400
_FORMAT_WORDS: dict[str, WeightDtype] = {
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "w4a4": "nvfp4",
    "mxfp4": "mxfp4",
    "fp8": "fp8",
    "mxfp8": "fp8",
    "w4afp8": "int4",
    "w4a16": "int4",
    "w4a8": "int4",
    "int4": "int4",
    "4bit": "int4",
    "awq": "int4",
    "int8": "int8",
    "w8a8": "int8",
    "w8a16": "int8",
    "8bit": "int8",
    "gptq": "int4",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "bf16",
}
"""Most telling first: of several words in one name the first of this list counts, so that GPTQ-Int8 is int8."""
_GUESSED_WORDS = {"fp4": "nvfp4", "awq": "4 bits", "gptq": "4 bits", "w8a8": "integers", "w4a4": "nvfp4"}
_HOW_QUANTISED = re.compile(
    r"dynamic|static|per|pertensor|tensors?|channel|block(?:wise)?|token|weights|only|quant(?:ized|ization)?|a?sym|"
    r"g?(?:32|64|128)g?|auto|round|autoround|modelopt|llmcompressor|compressed|marlin|mixed"
)
_SAME_DIMENSIONS = re.compile(
    r"instruct|chat|base|it|sft|rl|dpo|(?:non)?think(?:ing)?|reasoning|preview|exp|terminus|speciale|zero|hf|latest|"
    r"release|final|model|text|dense|v?\d{1,8}"
)
_ANOTHER_MODEL = re.compile(
    r"distill(?:ed)?|eagle\d?|draft(?:er)?|speculator|dflash|dspark|medusa|hydra|mtp|nextn|reap|pruned?|abliterated|"
    r"merged?|lora|adapter|air|flash|mini|nano|lite|small|tiny|coder|next|vl|omni|vision|audio|plus|pro|max|ultra|super|"
    r"lightning|embedding|reranker|guard|math|moe"
)
_VERSION = re.compile(r"\d{1,2}")
_HASH = re.compile(r"[0-9a-f]{7,64}")
_CACHE_FOLDER = re.compile(r"models--(?:[^/]*?--)?([^/]+)")


class ModelName(Frozen):
    """Model, format and checkpoint that a name says."""

    model_id: str
    """Profile with the model's dimensions."""
    weight_format: WeightDtype | None = None
    """The format the name says, or that of the release it is; None where it says none."""
    checkpoint: str | None = None
    """Repository of the known release that the name is, else None."""
    note: str = ""
    """What was concluded rather than read, as half a sentence; empty where nothing was."""


def resolve_model_name(text: str) -> ModelName | None:
    """The profile and weight format that a name means, or None where no profile has its dimensions.

    Understood are profile ids, names and repositories, the checkpoints that a profile also applies to, any case and
    separators, an organisation in front, paths of a Hugging Face cache (`models--ORG--NAME/snapshots/<hash>`), and
    formats behind (-FP8, -NVFP4, -GPTQ-Int4, -AWQ, -W4A16 ...). A name with words of another model behind the known
    part (`-Distill-Llama-70B`, `-Flash`, `-EAGLE3`) is not that model.
    """
    name = short_name(text)
    if not name or len(text) > MAX_NAME_CHARACTERS:
        return None
    words = _words(name)
    for length in range(len(words), 0, -1):
        model_id = _known_names().get("".join(words[:length]))
        if model_id is not None:
            return _with_rest(model_id, words, length)
    return None


def short_name(text: str) -> str:
    """The part of a repository name or path that names the model."""
    cached = _CACHE_FOLDER.search(text.strip())
    if cached:
        return cached.group(1)
    parts = [part for part in PurePosixPath(text.strip().replace("\\", "/")).parts if part not in ("/", "snapshots")]
    while len(parts) > 1 and (parts[-1] in ("main", "config.json") or _HASH.fullmatch(parts[-1])):
        parts.pop()
    return parts[-1] if parts else ""


def _words(name: str) -> list[str]:
    return name_key(name.replace("+", " plus ")).split("_")


@functools.cache
def _known_names() -> dict[str, str]:
    """Names without separators, each with its profile's id. Formats behind a repository's name are left out."""
    names: dict[str, str] = {}
    for model_id in model_ids():
        profile = model_profile(model_id)
        repository = _words(short_name(profile.hf_repo))
        while repository[-1] in _FORMAT_WORDS:
            repository.pop()
        named = [_words(name) for name in (model_id, profile.name.removesuffix(" (dense)"), *profile.also_applies_to)]
        for words in (repository, *named):
            names.setdefault("".join(words), model_id)
    return names


@functools.cache
def _releases() -> dict[str, tuple[str, WeightDtype]]:
    """Known releases by name without separators: repository and format."""
    return {
        "".join(_words(short_name(each.checkpoint))): (each.checkpoint, each.weight_format)
        for model_id in model_ids()
        for each in model_profile(model_id).published_formats
    }


def _with_rest(model_id: str, words: list[str], length: int) -> ModelName | None:
    """What the words behind the known name add. None where they make it another model."""
    rest = words[length:]
    if any(_ANOTHER_MODEL.fullmatch(word) for word in rest):
        return None
    release = _releases().get("".join(words))
    if release is not None:
        return ModelName(model_id=model_id, weight_format=release[1], checkpoint=release[0])
    formats = [word for word in _FORMAT_WORDS if word in rest]
    notes = []
    found = _FORMAT_WORDS[formats[0]] if formats else None
    if found == "fp8":
        found, block = _fp8_of(model_id, rest)
        if block:
            notes.append("fp8 taken for blocks of 128 x 128, as published")
    if formats and len(formats) == 1 and formats[0] in _GUESSED_WORDS:
        notes.append(f"{formats[0]} taken for {_GUESSED_WORDS[formats[0]]}")
    if found is None and (native := _releases().get("".join(words[:length]))) is not None:
        found = native[1]
        notes.append(f"{native[0]} is released in {found}")
    if rest and _VERSION.fullmatch(rest[0]):
        notes.append(f"version .{rest[0]} taken to have the same dimensions")
    unknown = [word for word in rest if not (word in _FORMAT_WORDS or _is_known(word))]
    if unknown:
        notes.append(f"{' '.join(unknown)[:60]} left out of account")
    return ModelName(model_id=model_id, weight_format=found, note="; ".join(notes))


def _is_known(word: str) -> bool:
    return any(pattern.fullmatch(word) is not None for pattern in (_HOW_QUANTISED, _SAME_DIMENSIONS))


def _fp8_of(model_id: str, rest: list[str]) -> tuple[WeightDtype, bool]:
    """fp8 as the model is published in it, and whether that had to be concluded."""
    if {"block", "blockwise"}.intersection(rest):
        return "fp8_block", False
    if {"dynamic", "static", "tensor", "pertensor", "channel"}.intersection(rest):
        return "fp8", False
    profile = model_profile(model_id)
    published = {each.weight_format for each in profile.published_formats}
    blocks = "fp8_block" in published or "128 x 128 blocks" in profile.native_weight_format
    return ("fp8_block", True) if blocks else ("fp8", False)
