"""Models as architectures: shipped profiles by id or name, in the format of a release, and
config.json files on disk.

A profile holds a published configuration and the publisher's own size, which is only compared with:
parameters are counted from the configuration.
"""

import difflib
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field, ValidationError

from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.hf.dialects import NESTED_KEYS, model_types
from advisor.catalog.hf.fields import MAX_FILE_BYTES, parse_json
from advisor.catalog.hf.weight_format import CheckpointFormats
from advisor.physics.architecture import Architecture, WeightDtype, WeightDtypes, with_dtype
from advisor.prediction import AdvisorError, Confidence, Frozen
from advisor.profiles import PROFILES, read_file
from advisor.text import name_key


def load_model(id_or_path: str | Path) -> Architecture:
    """A shipped model by id or repository name, or the config.json at a path (or in a folder).

    An hf_quant_config.json beside it, which NVIDIA's releases use to name the weight format, is
    read as well. A repository name may say a format (`nvidia/DeepSeek-V3.1-NVFP4`): the model is
    then in it. Raises AdvisorError for an unknown id (with close matches) or an unreadable file.
    Reads what the caller may read: a server must not pass on a visitor's text unchecked.
    """
    text = str(id_or_path)
    if text in model_ids() and isinstance(id_or_path, str):
        return _shipped(text)
    if not text or "\x00" in text:
        raise AdvisorError(unknown_model(text))
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            if not (path / "config.json").is_file():
                raise AdvisorError(
                    f"{path}: holds no config.json; give the folder of a downloaded model or the "
                    "file itself"
                )
            path /= "config.json"
        if path.is_file():
            return own_model(
                with_quantisation_file(path, _read(path)), checkpoint_name(path), path.name
            )
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AdvisorError(
            f"{text[:120]}: cannot be read ({reason}); give a readable config.json"
        ) from None
    resolved = resolve_model_name(text) if text.count("/") < 2 or "models--" in text else None
    if resolved is None:
        raise AdvisorError(unknown_model(text))
    return _of_name(resolved)


@functools.cache
def _shipped(model_id: str) -> Architecture:
    """A shipped model as its profile has it, read once: architectures do not change."""
    return _from_profile(model_profile(model_id))


def _of_name(named: "ModelName") -> Architecture:
    """The architecture that a name means, in the format it says. What was concluded is a
    warning."""
    architecture = _shipped(named.model_id)
    notes = [named.note] if named.note else []
    if named.checkpoint is not None:
        architecture = published_architecture(named.model_id, named.checkpoint)
    elif named.weight_format is not None:
        try:
            architecture = published_architecture(named.model_id, named.weight_format)
        except AdvisorError:
            architecture = with_dtype(architecture, named.weight_format)
            notes.append(
                f"every matrix taken to be in {named.weight_format}, no release in it being known"
            )
    warnings = tuple(f"by its name: {note}" for note in notes)
    return architecture.model_copy(update={"warnings": (*architecture.warnings, *warnings)})


def published_architecture(model_id: str, release: str) -> Architecture:
    """Shipped model in the format of one of its releases. Parts that the release leaves in 16 bits
    stay so.

    `release` is a weight format, of which the newest release counts (`fp8` is the blocks of 128 x
    128 where the model is published in nothing else), or a release's repository; the profile's own
    format and repository are releases too. Raises AdvisorError for an unknown model, and for a
    format that no known release has.
    """
    profile = model_profile(model_id)
    profile_format = _from_profile(profile)
    own_format = stored_format(profile_format)
    for format_or_name in (release, "fp8_block") if release == "fp8" else (release,):
        if format_or_name in (profile.hf_repo, own_format):
            return profile_format
        for published in reversed(profile.published_formats):
            if format_or_name in (published.checkpoint, published.weight_format):
                return profile_format.model_copy(
                    update={
                        "dtypes": published.parts.weight_dtypes,
                        "kv_cache_dtype": published.parts.kv_cache,
                        "activation_scheme": published.parts.activation_scheme,
                        "sources": (*profile_format.sources, published.source),
                    }
                )
    releases = ", ".join(
        f"{published.checkpoint} ({published.weight_format})"
        for published in profile.published_formats
    )
    raise AdvisorError(
        f"{profile.name}: no release in {release[:80]} is known, only {profile.hf_repo} "
        f"({own_format}){releases and ', '}{releases}; give the release's config.json, or a "
        "weight format for the whole model"
    )


def release_names(model_id: str) -> tuple[list[str], list[str]]:
    """Repositories of the very model, its profile's own first, and of relatives. The newest come
    before older ones."""
    profile = model_profile(model_id)
    plain_names = list[str]()
    released = [
        profile.hf_repo,
        *(published.checkpoint for published in reversed(profile.published_formats)),
    ]
    for name in released:
        words = (
            word for word in _words(short_name(name)) if word not in model_types().format_words
        )
        plain_names.append(" ".join(word for word in words if not _HOW_QUANTISED.fullmatch(word)))
    is_own = dict(zip(released, (name == plain_names[0] for name in plain_names), strict=True))
    return [name for name in is_own if is_own[name]], [name for name in is_own if not is_own[name]]


def _from_profile(profile: "ModelProfile") -> Architecture:
    architecture = architecture_from_config(profile.config, profile.hf_repo, published=True)
    changes: dict[str, Any] = {
        "id": profile.id,
        "name": profile.name,
        "confidence": profile.config_confidence,
        "sources": (profile.config_source,),
    }
    if profile.weight_dtypes is not None:
        changes["dtypes"] = profile.weight_dtypes
    if profile.drafter is not None and profile.drafter.config is not None:
        changes["assistant"] = _assistant(profile.drafter, profile.drafter.config, architecture)
    return architecture.model_copy(update=changes)


def _assistant(
    drafter: "ModelDrafter", config: Mapping[str, Any], target: Architecture
) -> Architecture:
    """The layers of an assistant, with the products that take the target's hidden state and
    embedding in and give a hidden state back."""
    layers = architecture_from_config(config, drafter.checkpoint, published=True)
    products = 3 * layers.hidden_size * target.hidden_size
    return layers.model_copy(
        update={
            "id": short_name(drafter.checkpoint),
            "name": short_name(drafter.checkpoint),
            "extra_params": layers.extra_params + products,
            "sources": (drafter.source,),
        }
    )


def own_model(
    config: Mapping[str, Any] | str | bytes, name: str, file_name: str = "config.json"
) -> Architecture:
    """Architecture of a user's configuration, known by what it says and never by what it is called.

    Its id is that of the shipped model with the same dimensions, whose releases, routing and
    accepted lengths then count as its own; where there is none it stays OWN. Where several have
    them, the multi-token-prediction modules decide. Raises AdvisorError as
    `architecture_from_config` does.
    """
    architecture = architecture_from_config(config, name, file_name)
    alike = _shipped_by_dimensions().get(_dimensions(architecture), ())
    if not alike:
        return architecture
    shipped = next(
        (
            shipped_model
            for shipped_model in alike
            if shipped_model.mtp_modules == architecture.mtp_modules
        ),
        alike[0],
    )
    origin = (
        f"the configuration given; its dimensions are those of {shipped.name}, whose releases and "
        "routing count"
    )
    return architecture.model_copy(
        update={"id": shipped.id, "sources": (origin,), "assistant": shipped.assistant}
    )


def config_digest(text: str) -> str:
    """Twelve hex digits of what a configuration says, whatever it is called and however it is
    written."""
    plain = json.dumps(parse_json(text, "config.json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:12]


def _dimensions(architecture: Architecture) -> tuple[object, ...]:
    """What sizes a model. Formats, context limit and drafting modules differ between releases of
    one."""
    of = architecture
    return (
        of.hidden_size,
        of.vocab_size,
        of.tie_embeddings,
        of.mixers,
        of.dense,
        of.moe,
        of.extra_params,
    )


@functools.cache
def _shipped_by_dimensions() -> dict[tuple[object, ...], tuple[Architecture, ...]]:
    """Shipped models by their dimensions. Reads every profile once."""
    by_dimensions: dict[tuple[object, ...], tuple[Architecture, ...]] = {}
    for model_id in model_ids():
        shipped = _shipped(model_id)
        by_dimensions[_dimensions(shipped)] = (
            *by_dimensions.get(_dimensions(shipped), ()),
            shipped,
        )
    return by_dimensions


def _read(path: Path) -> bytes:
    return read_file(path, MAX_FILE_BYTES, "a config.json", "give the config.json, not the weights")


def checkpoint_name(path: Path) -> str:
    """Name of a model by its path: folder, file if not config.json, or repository in a Hugging Face
    cache."""
    if "models--" in str(path):
        return short_name(str(path))
    return path.parent.resolve().name if path.name == "config.json" else path.stem


def with_quantisation_file(path: Path, content: str | bytes) -> str | bytes:
    """Text of the config.json at `path`, completed by the hf_quant_config.json beside it.

    The file's block counts where the configuration has none; of its own block only the cache format
    is filled in. Without such a file the content comes back as it is. Raises AdvisorError for an
    unreadable file.
    """
    if not path.name.endswith("config.json"):
        return content
    beside = path.with_name(path.name.removesuffix("config.json") + "hf_quant_config.json")
    if not beside.is_file():
        return content
    block = parse_json(_read(beside), beside.name).get("quantization")
    if not isinstance(block, dict):
        return content
    config = parse_json(content, path.name)
    holders = [config, *(config[key] for key in NESTED_KEYS if isinstance(config.get(key), dict))]
    user_block = next(
        (holder["quantization_config"] for holder in holders if holder.get("quantization_config")),
        None,
    )
    if user_block is None:
        config["quantization_config"] = {"quant_method": "modelopt", **block}
    elif isinstance(user_block, dict) and not (
        user_block.get("kv_cache_quant_algo") or user_block.get("kv_cache_scheme")
    ):
        user_block["kv_cache_quant_algo"] = block.get("kv_cache_quant_algo")
    return json.dumps(config)


PROFILE_FOLDER = PROFILES / "models"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
Counting = Literal["all", "all minus input embedding", "non-embedding"]


class PublishedSize(Frozen):
    """Parameter counts as the publisher states them. Null where nothing was found."""

    total_params_b: float | None
    active_params_b: float | None
    counting: Counting | None = None
    """The active-count convention nearest to the published figure."""
    source: str = Field(min_length=3)
    confidence: Confidence
    note: str = ""
    """Why the computed count may differ."""


class PublishedFormat(Frozen):
    """One release of a model in another format than its profile's: what each part is stored in."""

    checkpoint: str
    """Repository of the release."""
    weight_format: WeightDtype
    """The format it is named after, that of its experts or of its dense blocks."""
    parts: CheckpointFormats
    source: str = Field(min_length=3)


class ModelDrafter(Frozen):
    """Drafter that ships with a model or that its recipe names, where its configuration does not
    say so."""

    id: str
    """A drafter of profiles/drafters."""
    checkpoint: str = ""
    """Repository of the drafter, where it is no part of the model's."""
    config: dict[str, Any] | None = None
    """Keys of that repository's config.json: an assistant's, whose layers read the model's
    cache."""
    source: str = Field(min_length=3)


class ModelProfile(Frozen):
    """One file of profiles/models."""

    id: str
    name: str
    hf_repo: str
    also_applies_to: tuple[str, ...] = ()
    """Names of checkpoints with the same dimensions; of multimodal ones, their text tower."""
    year: int
    config: dict[str, Any]
    """Keys of the model's config.json that size it, in Hugging Face spelling."""
    config_source: str = Field(min_length=3)
    config_confidence: Confidence
    uncertain_fields: tuple[str, ...] = ()
    """Config keys that are unverified although the rest is not."""
    weight_dtypes: WeightDtypes | None = None
    """Set where the release's format is not in its config; else read from quantization_config and
    dtype."""
    native_weight_format: str = ""
    """In words: the formats the model is released in."""
    published: PublishedSize
    published_formats: tuple[PublishedFormat, ...] = ()
    """Quantised releases, the newest last."""
    drafter: ModelDrafter | None = None
    notes: tuple[str, ...] = ()


@functools.cache
def model_ids() -> tuple[str, ...]:
    """Ids of all shipped profiles, sorted. Lists the folder; reads no file."""
    return tuple(sorted(path.stem for path in PROFILE_FOLDER.glob("*.json")))


def family_of(model_id: str) -> str:
    """The series that a model's id begins with, its version apart: `qwen` of `qwen3.5-35b-a3b`."""
    letters = re.match("[a-z]+", model_id)
    return letters[0] if letters else model_id


@functools.lru_cache(maxsize=64)
def model_profile(model_id: str) -> ModelProfile:
    """The shipped profile of one model. Raises AdvisorError for an unknown id, naming close ones,
    or damage."""
    path = PROFILE_FOLDER / f"{model_id}.json"
    if not _ID.fullmatch(model_id) or not path.is_file():
        raise AdvisorError(unknown_model(model_id))
    try:
        profile = ModelProfile.model_validate(
            parse_json(path.read_bytes(), f"profiles/models/{path.name}")
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise AdvisorError(
            f"profiles/models/{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}; "
            "restore the file"
        ) from None
    if profile.id != model_id:
        raise AdvisorError(
            f"profiles/models/{path.name}: id is {profile.id}, expected {model_id}; restore the "
            "file"
        )
    return profile


@functools.cache
def _other_names() -> dict[str, str]:
    """Ids of models by the lower-case names of others that have the same dimensions. Reads every
    profile once."""
    return {
        name.lower(): known
        for known in model_ids()
        for name in model_profile(known).also_applies_to
    }


def stored_format(architecture: Architecture) -> WeightDtype:
    """Format of the weights that are most of a model: its routed experts', of a dense one all."""
    return architecture.dtypes.routed if architecture.moe else architecture.dtypes.dense


def unknown_model(model_id: str) -> str:
    """Error to raise for a name that is no id, with ids like it. It names the model whose
    dimensions it has, too."""
    quoted = json.dumps(model_id[:120])
    plain = model_id.rsplit("/", 1)[-1].lower()
    also = _other_names()
    close = difflib.get_close_matches(plain, [*model_ids(), *also], n=3, cutoff=0.5)
    near = dict.fromkeys(also.get(name, name) for name in close)
    hint = (
        f"did you mean {', '.join(near)}?"
        if near
        else f"there are {len(model_ids())} shipped models."
    )
    return (
        f"{quoted} is neither a shipped model nor a file; {hint} Expected a model id, or the path "
        "of a config.json or of a folder that holds one; list the ids with `python -m advisor "
        "models`"
    )


MAX_NAME_CHARACTERS = 400
_HOW_QUANTISED = re.compile(
    r"dynamic|static|per|pertensor|tensors?|channel|block(?:wise)?|token|weights|only|quant(?:ized|ization)?|a?sym|"
    r"g?(?:32|64|128)g?|auto|round|autoround|modelopt|llmcompressor|compressed|marlin|mixed|ud|k|x?[sml]|x?xs|nl"
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
    is_short: bool = False
    """Whether the name is short of what tells the model from others, and was taken for it."""


def resolve_model_name(text: str) -> ModelName | None:
    """The profile and weight format that a name means, or None where no profile has its dimensions.

    Understood are profile ids, names and repositories, the checkpoints that a profile also applies
    to, any case and separators, an organisation in front, paths of a Hugging Face cache
    (`models--ORG--NAME/snapshots/<hash>`), and formats behind (-FP8, -NVFP4, -GPTQ-Int4, -AWQ,
    -W4A16 ...), and the active size left out where one profile alone is called so (`qwen3 30b`). A
    name with words of another model behind the known part (`-Distill-Llama-70B`, `-Flash`,
    `-EAGLE3`) is not that model.
    """
    name = short_name(text)
    if not name or len(text) > MAX_NAME_CHARACTERS:
        return None
    words = _words(name)
    for length in range(len(words), 0, -1):
        model_id = _known_names().get("".join(words[:length]))
        if model_id is not None:
            return _with_rest(model_id, words, length)
    for length in range(len(words), 0, -1):
        model_id = _short_names().get("".join(words[:length]))
        if model_id is not None and all(
            word in model_types().format_words or word.isalpha() for word in words[length:]
        ):
            resolved = _with_rest(model_id, words, length)
            note = f"taken for {model_profile(model_id).name}"
            return resolved and resolved.model_copy(
                update={
                    "note": f"{note}; {resolved.note}" if resolved.note else note,
                    "is_short": True,
                }
            )
    return None


def other_checkpoint(text: str) -> str | None:
    """Checkpoint that a name says, where it is not the profile's own. The name itself where no
    repository is known."""
    resolved = None if text in model_ids() else resolve_model_name(text)
    if resolved is None:
        return None
    profile = model_profile(resolved.model_id)
    name = short_name(text)
    organisation, _, repository_name = profile.hf_repo.partition("/")
    maker_match = re.search(r"models--([^/]+?)--", text) or re.fullmatch(
        r"([^/]+)/[^/]+", text.strip()
    )
    maker = maker_match[1] if maker_match else ""
    is_own = _words(name) in map(_words, (repository_name, profile.name, profile.id))
    if (is_own or resolved.is_short) and maker.lower() in ("", organisation.lower()):
        return None
    alias = next(
        (
            f"{organisation}/{checkpoint}"
            for checkpoint in profile.also_applies_to
            if _words(checkpoint) == _words(name)
        ),
        name,
    )
    return f"{maker}/{name}" if maker else resolved.checkpoint or alias


def model_meant(text: str) -> str | None:
    """Id of the model that a cell, a typed name or a checkpoint means (`Qwen/Qwen3-30B-A3B-FP8`),
    or None.

    The profile that the name says, else the longest id that the last part of the name begins with.
    """
    resolved = None if text in model_ids() else resolve_model_name(text)
    if resolved is not None or text in model_ids():
        return text if resolved is None else resolved.model_id
    words = _words(text.rstrip("/").rsplit("/", 1)[-1])
    fits = [
        model_id for model_id in model_ids() if _words(model_id) == words[: len(_words(model_id))]
    ]
    return max(fits, key=lambda item: len(_words(item)), default=None)


def short_name(text: str) -> str:
    """The part of a repository name or path that names the model."""
    cached = _CACHE_FOLDER.search(text.strip())
    if cached:
        return cached.group(1)
    parts = [
        part
        for part in PurePosixPath(text.strip().replace("\\", "/")).parts
        if part not in ("/", "snapshots")
    ]
    while len(parts) > 1 and (parts[-1] in ("main", "config.json") or _HASH.fullmatch(parts[-1])):
        parts.pop()
    return parts[-1] if parts else ""


def _words(name: str) -> list[str]:
    return name_key(name.replace("+", " plus ")).split("_")


@functools.cache
def _spellings() -> tuple[tuple[str, list[str]], ...]:
    """Ids of profiles with the words of each of their names. Formats behind a repository's name are
    left out."""
    out = []
    for model_id in model_ids():
        profile = model_profile(model_id)
        repository = _words(short_name(profile.hf_repo))
        while repository[-1] in model_types().format_words:
            repository.pop()
        names = (model_id, profile.name.removesuffix(" (dense)"), *profile.also_applies_to)
        out += [(model_id, words) for words in (repository, *map(_words, names))]
    return tuple(out)


@functools.cache
def _known_names() -> dict[str, str]:
    """Names without separators, each with its profile's id: the first profile's of several."""
    return {"".join(words): model_id for model_id, words in reversed(_spellings())}


@functools.cache
def _short_names() -> dict[str, str]:
    """Names without separators that leave out the active size at the end, each with the only
    profile called so."""
    meant: dict[str, set[str]] = {}
    for model_id, words in _spellings():
        if re.fullmatch(r"\d+b a\d+b", " ".join(words[-2:])):
            meant.setdefault("".join(words[:-1]), set()).add(model_id)
    return {name: ids.pop() for name, ids in meant.items() if len(ids) == 1}


@functools.cache
def _releases() -> dict[str, tuple[str, WeightDtype]]:
    """Known releases by name without separators: repository and format."""
    return {
        "".join(_words(short_name(release.checkpoint))): (release.checkpoint, release.weight_format)
        for model_id in model_ids()
        for release in model_profile(model_id).published_formats
    }


def _with_rest(model_id: str, words: list[str], length: int) -> ModelName | None:
    """What the words behind the known name add. None where they make it another model."""
    extra_words = words[length:]
    if any(_ANOTHER_MODEL.fullmatch(word) for word in extra_words):
        return None
    release = _releases().get("".join(words))
    if release is not None:
        return ModelName(model_id=model_id, weight_format=release[1], checkpoint=release[0])
    known = model_types()
    formats = [word for word in known.format_words if word in extra_words]
    notes = []
    weight_format = known.format_words[formats[0]] if formats else None
    if weight_format == "fp8":
        weight_format, block = _fp8_of(model_id, extra_words)
        if block:
            notes.append("fp8 taken for blocks of 128 x 128, as published")
    if formats and len(formats) == 1 and formats[0] in known.guessed_words:
        notes.append(f"{formats[0]} taken for {known.guessed_words[formats[0]]}")
    if weight_format is None and (native := _releases().get("".join(words[:length]))) is not None:
        weight_format = native[1]
        notes.append(f"{native[0]} is released in {weight_format}")
    if extra_words and _VERSION.fullmatch(extra_words[0]):
        notes.append(f"version .{extra_words[0]} taken to have the same dimensions")
    patterns = (_HOW_QUANTISED, _SAME_DIMENSIONS)
    unknown = [
        word
        for word in extra_words
        if word not in model_types().format_words
        and not any(pattern.fullmatch(word) for pattern in patterns)
    ]
    if unknown:
        notes.append(f"{' '.join(unknown)[:60]} left out of account")
    return ModelName(model_id=model_id, weight_format=weight_format, note="; ".join(notes))


def _fp8_of(model_id: str, words: list[str]) -> tuple[WeightDtype, bool]:
    """fp8 as the model is published in it, and whether that had to be concluded."""
    if {"block", "blockwise"}.intersection(words):
        return "fp8_block", False
    if {"dynamic", "static", "tensor", "pertensor", "channel"}.intersection(words):
        return "fp8", False
    profile = model_profile(model_id)
    published = {release.weight_format for release in profile.published_formats}
    blocks = "fp8_block" in published or "128 x 128 blocks" in profile.native_weight_format
    return ("fp8_block", True) if blocks else ("fp8", False)
