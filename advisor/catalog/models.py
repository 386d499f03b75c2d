"""Models as architectures: shipped ones by id or name, in the format of a release, and config.json files on disk."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from advisor.architecture import Architecture, with_dtype
from advisor.catalog.engines import implied_mtp
from advisor.catalog.names import ModelName, resolve_model_name, short_name
from advisor.catalog.shipped import ModelProfile, model_ids, model_profile, unknown_model
from advisor.hf import MAX_FILE_BYTES, NESTED_KEYS, architecture_from_config, parse_json
from advisor.prediction import AdvisorError
from advisor.profiles import read_file


def load_model(id_or_path: str | Path) -> Architecture:
    """A shipped model by id or repository name, or the config.json at a path (or in a folder).

    An hf_quant_config.json beside it, which NVIDIA's releases use to name the weight format, is read as well. A
    repository name may say a format (`nvidia/DeepSeek-V3.1-NVFP4`): the model is then in it.
    Raises AdvisorError for an unknown id (with close matches) or an unreadable file. Reads what the caller may read:
    a server must not pass on a visitor's text unchecked.
    """
    text = str(id_or_path)
    if text in model_ids() and isinstance(id_or_path, str):
        return _shipped(text)
    if not text or "\x00" in text:
        raise AdvisorError(unknown_model(text))
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return _from_folder(path)
        if path.is_file():
            return _from_file(path, checkpoint_name(path))
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AdvisorError(f"{text[:120]}: cannot be read ({reason}); give a readable config.json") from None
    named = resolve_model_name(text) if text.count("/") < 2 or "models--" in text else None
    if named is None:
        raise AdvisorError(unknown_model(text))
    return _of_name(named)


@functools.cache
def _shipped(model_id: str) -> Architecture:
    """A shipped model as its profile has it, read once: architectures do not change."""
    return _from_profile(model_profile(model_id))


def _of_name(named: ModelName) -> Architecture:
    """The architecture that a name means, in the format it says. What was concluded is a warning."""
    architecture, notes = _shipped(named.model_id), [named.note] if named.note else []
    release = named.checkpoint or named.weight_format
    if release is not None:
        try:
            architecture = published_architecture(named.model_id, release)
        except AdvisorError:
            assert named.weight_format is not None
            architecture = with_dtype(architecture, named.weight_format)
            notes.append(f"every matrix taken to be in {named.weight_format}, no release in it being known")
    warnings = tuple(f"by its name: {note}" for note in notes)
    return architecture.model_copy(update={"warnings": (*architecture.warnings, *warnings)})


def published_architecture(model_id: str, release: str) -> Architecture:
    """Shipped model in the format of one of its releases.

    Parts that the release leaves in 16 bits stay so.

    `release` is a weight format, of which the newest release counts (`fp8` is the blocks of 128 x 128 where the model
    is published in nothing else), or a release's repository; the profile's own format and repository are releases too.
    Raises AdvisorError for an unknown model, and for a format that no known release has.
    """
    profile = model_profile(model_id)
    own = _from_profile(profile)
    own_format = own.dtypes.routed if own.moe else own.dtypes.dense
    for wanted in (release, "fp8_block") if release == "fp8" else (release,):
        if wanted in (profile.hf_repo, own_format):
            return own
        for each in reversed(profile.published_formats):
            if wanted in (each.checkpoint, each.weight_format):
                return own.model_copy(
                    update={
                        "dtypes": each.parts.weight_dtypes,
                        "kv_cache_dtype": each.parts.kv_cache,
                        "activation_scheme": each.parts.activation_scheme,
                        "sources": (*own.sources, each.source),
                    }
                )
    named = ", ".join(f"{each.checkpoint} ({each.weight_format})" for each in profile.published_formats)
    raise AdvisorError(
        f"{profile.name}: no release in {release[:80]} is known, only {profile.hf_repo} ({own_format}){named and ', '}"
        f"{named}; give the release's config.json, or a weight format for the whole model"
    )


def _from_profile(profile: ModelProfile) -> Architecture:
    architecture = architecture_from_config(profile.config, profile.hf_repo, published=True)
    changes: dict[str, Any] = {
        "id": profile.id,
        "name": profile.name,
        "confidence": profile.config_confidence,
        "sources": (profile.config_source,),
    }
    if profile.weight_dtypes is not None:
        changes["dtypes"] = profile.weight_dtypes
    implied = implied_mtp(str(profile.config.get("model_type", "")))
    if not architecture.mtp_modules and implied:
        changes["mtp_modules"] = implied
    return architecture.model_copy(update=changes)


def _read(path: Path) -> bytes:
    return read_file(path, MAX_FILE_BYTES, "a config.json", "give the config.json, not the weights")


def _from_folder(folder: Path) -> Architecture:
    path = folder / "config.json"
    if not path.is_file():
        raise AdvisorError(f"{folder}: holds no config.json; give the folder of a downloaded model or the file itself")
    return _from_file(path, checkpoint_name(path))


def checkpoint_name(path: Path) -> str:
    """Name of a model whose configuration lies at a path.

    After its folder, after the file where that is named otherwise than config.json, and after the repository in a
    Hugging Face cache.
    """
    if "models--" in str(path):
        return short_name(str(path))
    return path.parent.resolve().name if path.name == "config.json" else path.stem


def _from_file(path: Path, name: str) -> Architecture:
    content = _read(path)
    return architecture_from_config(with_quantisation_file(path, content), name, path.name)


def with_quantisation_file(path: Path, content: str | bytes) -> str | bytes:
    """Text of the config.json at `path`, completed by the hf_quant_config.json beside it.

    The file's block counts where the configuration has none; of its own block only the cache format is filled in.
    Without such a file the content comes back as it is. Raises AdvisorError for an unreadable file.
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
    own = next((each["quantization_config"] for each in holders if each.get("quantization_config")), None)
    if own is None:
        config["quantization_config"] = {"quant_method": "modelopt", **block}
    elif isinstance(own, dict) and not (own.get("kv_cache_quant_algo") or own.get("kv_cache_scheme")):
        own["kv_cache_quant_algo"] = block.get("kv_cache_quant_algo")
    return json.dumps(config)
