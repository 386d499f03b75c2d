"""What a user says of the files beside what they hold, and how a run says whose word it was judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.diagnosis.facts import as_number
from advisor.ingest import COLUMNS
from advisor.prediction import AdvisorError

_PLACEMENT = ("gpu_count", "tensor_parallel", "expert_parallel")
"""Columns that tell together on how many accelerators a run was served."""


@dataclass(frozen=True)
class Words:
    """Words of a user about the files. `values` fill and replace names, `columns` rename headers, `otherwise` fills."""

    values: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    otherwise: Mapping[str, str] = field(default_factory=dict)
    source: str = "the scenario"
    """Where `otherwise` is from."""


def filled(own: Mapping[str, Any], words: Words) -> tuple[dict[str, Any], str]:
    """Facts of a run completed by the user's words, and whose word its accelerators are.

    The latter is empty where the files state them.

    A number of accelerators is of one piece: where a run or the user states a part of it, `otherwise` adds nothing.
    Raises AdvisorError for a word on no column of ours, and for no number where one is meant.
    """
    said, others = _typed(words.values), _typed(words.otherwise)
    if any(own.get(name) is not None or name in said for name in _PLACEMENT):
        others = {name: value for name, value in others.items() if name not in _PLACEMENT}

    def whose(*names: str) -> str:
        if any(own.get(name) is not None for name in names):
            return ""
        if any(name in said for name in names):
            return "as given"
        return f"from {words.source}" if any(name in others for name in names) else ""

    accelerator = "as given" if "hardware_id" in said else whose("hardware_id")  # a user's names replace those of files
    return {**others, **said, **own}, _assumed(accelerator, whose(*_PLACEMENT))


def _assumed(accelerator: str, number: str) -> str:
    """`from the bar`, or which of the two is from where."""
    if accelerator == number:
        return accelerator
    named = (("the accelerator", accelerator), ("the number of GPUs", number))
    return ", ".join(f"{what} {origin}" for what, origin in named if origin)


def _typed(values: Mapping[str, str]) -> dict[str, Any]:
    """What a user says of columns, numbers as such. Raises AdvisorError for no column of ours, and for no number."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        column = COLUMNS["points"].get(name)
        if column is None:
            raise AdvisorError(f"{name!r} is no column that can be filled in; see docs/formats.md")
        out[name] = as_number(value) if column.numeric else value
        if out[name] is None:
            raise AdvisorError(f"{name}={value!r} is no number; expected {column.range_text}")
    return out
