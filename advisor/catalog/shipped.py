"""Shipped model profiles (profiles/models/<id>.json).

A profile holds a published configuration with its origin and the publisher's own size, which is kept only to be
compared with: every parameter count is computed from the configuration.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from typing import Any, Literal

from pydantic import Field, ValidationError

from advisor.architecture import WeightDtype, WeightDtypes
from advisor.hf import CheckpointFormats, parse_json
from advisor.prediction import AdvisorError, Confidence, Frozen
from advisor.profiles import PROFILES

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
    published_formats: tuple[PublishedFormat, ...] = ()
    """Quantised releases, the newest last."""
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


@functools.cache
def _other_names() -> dict[str, str]:
    """Ids of models by the lower-case names of others that have the same dimensions. Reads every profile once."""
    return {name.lower(): known for known in model_ids() for name in model_profile(known).also_applies_to}


def unknown_model(model_id: str) -> str:
    """Error to raise for a name that is no id, with ids like it. It names the model whose dimensions it has, too."""
    shown, plain = json.dumps(model_id[:120]), model_id.rsplit("/", 1)[-1].lower()
    also = _other_names()
    close = difflib.get_close_matches(plain, [*model_ids(), *also], n=3, cutoff=0.5)
    near = dict.fromkeys(also.get(name, name) for name in close)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {len(model_ids())} shipped models."
    return (
        f"{shown} is neither a shipped model nor a file; {hint} "
        "Expected a model id, or the path of a config.json or of a folder that holds one; "
        "list the ids with `python -m advisor models`"
    )
