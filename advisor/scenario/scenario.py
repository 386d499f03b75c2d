"""The question: hardware, model, batch, drafter, engine. Frozen, hashable; round-trips through JSON and a URL."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import ValidationError, model_validator

from advisor.prediction import AdvisorError, explain
from advisor.scenario.fields import DOCUMENTS, FIELDS, RANK_FIELDS, ScenarioFields, mean_context

MAX_CONFIG_BYTES = 1_000_000
"""Largest config.json a link may carry. [B]"""


class Scenario(ScenarioFields):
    """Choices of the user. `acceptance` is one string: `X@K`, a list `a1,a2,...`, or the id of a measured curve."""

    @model_validator(mode="before")
    @classmethod
    def _context(cls, values: Any) -> Any:
        """The context that the lengths say, where it is left out beside both of them."""
        if not isinstance(values, dict) or "context_tokens" in values:
            return values
        lengths = (values.get("input_tokens"), values.get("output_tokens"))
        if None in lengths:
            return values
        try:
            prompt, output = (int(each or 0) for each in lengths)
        except (TypeError, ValueError, OverflowError):
            return values  # the field's own check says what is wrong
        return values | {"context_tokens": int(mean_context(prompt, output))}

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
        if self.input_tokens is not None and self.context_tokens < self.input_tokens:
            usual = int(mean_context(self.input_tokens, self.output_tokens))
            raise ValueError(
                f"context_tokens={self.context_tokens} is shorter than the prompt, input_tokens={self.input_tokens}; "
                f"give the mean while decoding, prompt and half the output: {usual}"
            )
        return self

    @property
    def hash(self) -> str:
        """Twelve hex digits that name this scenario. Equal scenarios have equal hashes."""
        values = self.model_dump(mode="json")
        for name, row in FIELDS.items():
            if row.is_younger and getattr(self, name) == row.default:
                del values[name]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def is_private(self) -> bool:
        """Whether it carries something of the user's own, which no shared cache may keep."""
        return any(row.is_private and getattr(self, name) is not None for name, row in FIELDS.items())

    def on_assumed_ranks(self) -> Scenario:
        """The scenario without loads and layout of experts, which say nothing of another model's."""
        said = any(getattr(self, name) is not None for name in RANK_FIELDS)
        return self.model_copy(update=dict.fromkeys(RANK_FIELDS)) if said else self

    def to_query(self) -> str:
        """URL query string with every field that differs from its default."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        if self.input_tokens is not None:  # without it the lengths would say another one
            values["context_tokens"] = self.context_tokens
        return urlencode({name: pack(value) if name in DOCUMENTS else value for name, value in values.items()})

    @classmethod
    def from_query(cls, query: str) -> Scenario:
        """Inverse of `to_query`. Raises AdvisorError naming the parameter that is wrong."""
        values: dict[str, Any] = dict(parse_qsl(query.lstrip("?"), keep_blank_values=True))
        return build_scenario(
            **{name: unpack(name, text) if name in DOCUMENTS else text for name, text in values.items()}
        )


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
