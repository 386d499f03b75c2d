"""The plain run beside a speculative one, and the settings in which the two differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.ingest import MATCH_COLUMNS

SAME_LENGTH = 0.05
"""Prompt and output lengths that differ by no more are the same, as for ingest's baselines. [-]"""
_EXACT = (
    *(name for name in MATCH_COLUMNS if name not in ("n_experts", "n_active")),
    "max_num_seqs",
    "max_running_requests",
    "graphs_off",
    "data_parallel",
    "temperature",
    "request_rate",
)
_WITHIN = ("input_tokens", "output_tokens")
_THE_SAME = ("model_id", "hardware_id", "batch_size", "dataset")
_TOLD = ("model_id", "hardware_id", "batch_size", "dataset", "engine_version", "gpu_count")


def differences(facts: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    """Settings that both runs state and that are not the same, as `name: plain -> speculative`."""
    out = []
    for name in (*_EXACT, *_WITHIN):
        here, other = facts.get(name), plain.get(name)
        if here is None or other is None or here == other:
            continue
        if name in _WITHIN and abs(float(here) - float(other)) <= SAME_LENGTH * float(other):
            continue
        out.append(f"{name}: {_shown(other)} -> {_shown(here)}")
    return out


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def plain_beside(
    facts: Mapping[str, Any], plain: Sequence[Mapping[str, Any]], a_pair: bool = False
) -> Mapping[str, Any]:
    """Plain run that a speculative one is compared with. The one most like it of all without speculation.

    One for another model, accelerator, batch or data set is none, except where the two are all there is (`a_pair`):
    then they were meant for each other. Empty where none fits.
    """
    fitting = plain if a_pair else [row for row in plain if all(row.get(n) in (None, facts.get(n)) for n in _THE_SAME)]
    return min(fitting, key=lambda row: sum(row.get(name) != facts.get(name) for name in _TOLD), default={})
