"""The question: hardware, model, batch, drafter, engine. Frozen, hashable; round-trips through JSON and a URL."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

from pydantic import Field, ValidationError, model_validator

from advisor.architecture import WeightDtype
from advisor.catalog import EngineChoice
from advisor.prediction import AdvisorError, Frozen, explain

KvDtype = Literal["bf16", "fp8"]

MAX_BATCH = 65536
MAX_CONTEXT = 10_000_000
MAX_CONFIG_BYTES = 1_000_000
"""Largest config.json a link may carry. [B]"""
PACKED = ("model_config_json", "hardware_json")
"""Fields that hold a document of the user's own; a link carries them compressed."""


class Scenario(Frozen):
    """What the user chose. `acceptance` is one string: `X@K`, a list `a1,a2,...`, or the id of a measured curve."""

    hardware_id: str = "h200-sxm"
    hardware_json: str | None = None
    """An accelerator given by the user (docs/scenarios.md); it then replaces the profile of `hardware_id`."""
    n_gpus: int = Field(default=1, ge=1, le=1024)
    tensor_parallel: int = Field(default=1, ge=1, le=1024)
    expert_parallel: int = Field(default=1, ge=1, le=1024)
    model_id: str = "qwen3-30b-a3b"
    model_config_json: str | None = None
    """A Hugging Face config.json given by the user; it then replaces the profile of `model_id`."""
    batch_size: int = Field(default=16, ge=1, le=MAX_BATCH)
    context_tokens: int = Field(default=2048, ge=1, le=MAX_CONTEXT)
    drafter_id: str = "eagle3"
    acceptance: str = Field(min_length=1)
    """Required: how much is accepted is the user's to say (`2.4@3`, `0.7,0.5,0.4`, or a measured curve's id)."""
    engine: EngineChoice = "vllm"
    k_max: int = Field(default=8, ge=1, le=32)
    weight_dtype: WeightDtype | None = None
    """Format of all matrix weights. None: as the checkpoint stores them, component by component."""
    expert_dtype: WeightDtype | None = None
    """Format of the routed experts alone, over weight_dtype."""
    kv_dtype: KvDtype = "bf16"
    routing: str = "auto"
    """A routing preset's id, `uniform`, `auto` (the model's own measured preset, else its class default), or what a
    routing trace gave: load_cv/low/high,affinity/low/high,stickiness/low/high."""
    input_tokens: int | None = Field(default=None, ge=1, le=MAX_CONTEXT)
    output_tokens: int | None = Field(default=None, ge=1, le=MAX_CONTEXT)
    max_tpot_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    refit: str | None = Field(default=None, max_length=1000)
    """Corrections that the user's own measurements gave to the shipped constants, as `fit` prints them."""

    @model_validator(mode="after")
    def _placement(self) -> Scenario:
        if self.n_gpus % self.tensor_parallel:
            raise ValueError(
                f"tensor_parallel={self.tensor_parallel} does not divide n_gpus={self.n_gpus}; choose a divisor"
            )
        if self.expert_parallel > self.n_gpus or self.n_gpus % self.expert_parallel:
            raise ValueError(
                f"expert_parallel={self.expert_parallel} does not divide n_gpus={self.n_gpus}; choose a divisor"
            )
        if (self.input_tokens is None) != (self.output_tokens is None):
            raise ValueError("input_tokens and output_tokens go together; give both or neither")
        return self

    @property
    def hash(self) -> str:
        """Twelve hex digits that name this scenario; equal scenarios have equal hashes."""
        values = self.model_dump(mode="json")
        for name in ("hardware_json", "refit"):  # younger than the first reports, whose hashes stay valid
            if values[name] is None:
                del values[name]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def is_private(self) -> bool:
        """Whether it carries a model, an accelerator or a refit of the user's own: no shared cache may keep those."""
        return any(getattr(self, name) is not None for name in (*PACKED, "refit"))

    def to_query(self) -> str:
        """URL query string with every field that differs from its default."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return urlencode({name: pack(value) if name in PACKED else value for name, value in values.items()})

    @classmethod
    def from_query(cls, query: str) -> Scenario:
        """Inverse of `to_query`. Raises AdvisorError naming the parameter that is wrong."""
        values: dict[str, Any] = dict(parse_qsl(query.lstrip("?"), keep_blank_values=True))
        return build_scenario(**{name: unpack(name, text) if name in PACKED else text for name, text in values.items()})


def build_scenario(**values: Any) -> Scenario:
    """Scenario from loose values. Raises AdvisorError: one sentence per wrong field, with what to do."""
    try:
        return Scenario(**values)
    except ValidationError as error:
        raise AdvisorError(explain(error)) from error


def pack(text: str) -> str:
    """A document as a link carries it: compressed, in the letters of an address."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(name: str, text: str) -> str:
    """Inverse of `pack`. Raises AdvisorError naming the parameter when the text is damaged or unpacks to too much."""
    try:
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(base64.b64decode(text, altchars=b"-_", validate=True), MAX_CONFIG_BYTES)
        if not unpacker.eof:
            raise ValueError("incomplete or too large")
        return unpacked.decode()
    except (ValueError, zlib.error) as error:
        raise AdvisorError(f"{name} in the link is damaged or too large; copy the whole link again") from error
