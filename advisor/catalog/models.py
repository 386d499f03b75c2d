"""Shipped model profiles (profiles/models/<id>.json) and config.json files on disk.

A profile holds a published configuration with its origin and the publisher's own size, which is kept only to be
compared with: every parameter count is computed from the configuration.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from advisor.architecture import Architecture, WeightDtypes
from advisor.hf import MAX_FILE_BYTES, architecture_from_config, parse_json
from advisor.prediction import AdvisorError, Confidence, Frozen

PROFILE_FOLDER = Path(__file__).resolve().parents[2] / "profiles" / "models"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")

Counting = Literal["all", "all minus input embedding", "non-embedding"]


class PublishedSize(Frozen):
    """What the publisher says; null where nothing was found."""

    total_params_b: float | None
    active_params_b: float | None
    counting: Counting | None = None
    """The active-count convention nearest to the published figure."""
    source: str = Field(min_length=3)
    confidence: Confidence
    note: str = ""
    """Why the computed count may differ."""


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
    """Set where the release's format is not in its config; else read from quantization_config and dtype."""
    native_weight_format: str = ""
    """In words: the formats the model is released in."""
    published: PublishedSize
    notes: tuple[str, ...] = ()


@functools.cache
def model_ids() -> tuple[str, ...]:
    """Ids of all shipped profiles, sorted. Lists the folder; reads no file."""
    return tuple(sorted(path.stem for path in PROFILE_FOLDER.glob("*.json")))


def model_profile(model_id: str) -> ModelProfile:
    """The shipped profile of one model: configuration, published size and sources. Reads one file.

    Raises AdvisorError for an unknown id, naming close ones, and for a damaged file.
    """
    path = PROFILE_FOLDER / f"{model_id}.json"
    if not _ID.fullmatch(model_id) or not path.is_file():
        raise AdvisorError(unknown_model(model_id))
    try:
        profile = ModelProfile.model_validate(parse_json(path.read_bytes(), f"profiles/models/{path.name}"))
    except ValidationError as error:
        first = error.errors()[0]
        raise AdvisorError(
            f"profiles/models/{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}; restore the file"
        ) from None
    if profile.id != model_id:
        raise AdvisorError(f"profiles/models/{path.name}: id is {profile.id}, expected {model_id}; restore the file")
    return profile


def load_model(id_or_path: str | Path) -> Architecture:
    """A shipped model by id or repository name, or the config.json at a path (or in a folder).

    A folder may also hold hf_quant_config.json, which NVIDIA's releases use to name the weight format.
    Raises AdvisorError for an unknown id (with close matches) or an unreadable file. Reads what the caller may read:
    a server must not pass on a visitor's text unchecked.
    """
    text = str(id_or_path)
    if text in model_ids() and isinstance(id_or_path, str):
        return _from_profile(model_profile(text))
    if not text or "\x00" in text:
        raise AdvisorError(unknown_model(text))
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return _from_folder(path)
        if path.is_file():
            name = path.resolve().parent.name if path.name == "config.json" else path.stem
            return architecture_from_config(_read(path), name, path.name)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AdvisorError(f"{text[:120]}: cannot be read ({reason}); give a readable config.json") from None
    repository_name = text.rsplit("/", 1)[-1].lower()
    if text.count("/") < 2 and repository_name in model_ids():
        return _from_profile(model_profile(repository_name))
    raise AdvisorError(unknown_model(text))


def _from_profile(profile: ModelProfile) -> Architecture:
    architecture = architecture_from_config(profile.config, profile.hf_repo)
    changes: dict[str, Any] = {
        "id": profile.id,
        "name": profile.name,
        "confidence": profile.config_confidence,
        "sources": (profile.config_source,),
    }
    if profile.weight_dtypes is not None:
        changes["dtypes"] = profile.weight_dtypes
    return architecture.model_copy(update=changes)


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise AdvisorError(
            f"{path.name}: the file has {path.stat().st_size} bytes, expected a config.json of at most "
            f"{MAX_FILE_BYTES}; give the config.json, not the weights"
        )
    return path.read_bytes()


def _from_folder(folder: Path) -> Architecture:
    path = folder / "config.json"
    if not path.is_file():
        raise AdvisorError(f"{folder}: holds no config.json; give the folder of a downloaded model or the file itself")
    config = parse_json(_read(path))
    quantised = folder / "hf_quant_config.json"
    if not config.get("quantization_config") and quantised.is_file():
        block = parse_json(_read(quantised), quantised.name).get("quantization")
        if isinstance(block, dict):
            config["quantization_config"] = {"quant_method": "modelopt", **block}
    return architecture_from_config(config, folder.resolve().name)


def unknown_model(model_id: str) -> str:
    shown = json.dumps(model_id[:120])
    close = difflib.get_close_matches(model_id.rsplit("/", 1)[-1].lower(), model_ids(), n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {len(model_ids())} shipped models."
    return (
        f"{shown} is neither a shipped model nor a file; {hint} "
        "Expected a model id, or the path of a config.json or of a folder that holds one; "
        "list the ids with `python -m advisor models`"
    )
