"""Logs of how many experts each forward pass activated (MoE-CAP's JSON lines) -> passes by sequences and tokens.

A line has batch_size, forward_mode (decode or prefill) and expert_activation: experts with at least one token, mean
over layers. A decode pass brings one token of each sequence. Passes with more tokens are called prefill, speculative
verification among them; they count where per_req_info says how many tokens each sequence brought.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.ingest.upload import Sample, open_upload
from advisor.prediction import AdvisorError

MAX_TOKENS = 16
"""Passes with more tokens per sequence are prefill: they touch nearly all experts and tell nothing. [-]"""
_KEYS = frozenset({"batch_size", "forward_mode", "expert_activation"})
_MAX_SEQUENCES = 65_536


@dataclass(frozen=True)
class ActivationLog:
    """Usable passes in the order of the log, [passes] each, and what was left out, by reason."""

    sequences: NDArray[np.int64]
    tokens_per_sequence: NDArray[np.int64]
    experts: NDArray[np.float64]
    """Distinct routed experts touched, mean over layers. [-]"""
    left_out: tuple[tuple[str, int], ...]
    file_name: str


def is_activation_log(record: Any) -> bool:
    """Whether a record is a line of such a log."""
    return isinstance(record, dict) and record.keys() >= _KEYS


def open_activation_log(name: str, data: bytes) -> ActivationLog | None:
    """The log in a file, or None when it is of another kind. Raises AdvisorError for one without a usable pass."""
    if data.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        return None
    sample: Sample = open_upload(name, data)
    if not any(is_activation_log(record) for record in sample.records):
        return None
    return read_passes(name, sample.records)


def read_passes(name: str, records: Iterable[Any]) -> ActivationLog:
    """Passes of the log's lines. Raises AdvisorError when none is usable, with the reasons."""
    rows: list[tuple[int, int, float]] = []
    left_out: Counter[str] = Counter()
    for record in records:
        found = _pass_of(record)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            rows.append(found)
    reasons = tuple(left_out.most_common())
    if not rows:
        why = "; ".join(f"{count:,} passes: {reason}" for reason, count in reasons)
        raise AdvisorError(f"{name} holds no pass that tells how experts are chosen ({why or 'it is empty'})")
    columns = np.array(rows, float).T
    return ActivationLog(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2], reasons, name)


def _pass_of(record: Any) -> tuple[int, int, float] | str:
    """(sequences, tokens of each, experts), or why the pass is of no use."""
    if not is_activation_log(record):
        return "without batch_size, forward_mode and expert_activation"
    experts = _number(record["expert_activation"])
    if experts is None or experts <= 0:
        return "no activated experts recorded"
    if record["forward_mode"] == "decode":
        batch = _number(record["batch_size"])
        if batch is None or batch != math.floor(batch) or not 1 <= batch <= _MAX_SEQUENCES:
            return "batch_size is no count of sequences"
        return int(batch), 1, experts
    lengths = _lengths(record)
    if lengths is None:
        return "several tokens per sequence, how many is not said (per_req_info)"
    if len(set(lengths)) > 1:
        return "sequences with different numbers of tokens in one pass"
    if lengths[0] > MAX_TOKENS:
        return f"prefill: more than {MAX_TOKENS} tokens per sequence touch nearly all experts"
    return len(lengths), lengths[0], experts


def _lengths(record: dict[str, Any]) -> list[int] | None:
    """Tokens of each sequence of a pass. None unless they add up to the tokens that were scheduled."""
    info = record.get("per_req_info")
    if not isinstance(info, list) or not 1 <= len(info) <= _MAX_SEQUENCES:
        return None
    lengths = [_number(item.get("extend_len")) if isinstance(item, dict) else None for item in info]
    if any(length is None or length < 1 or length != math.floor(length) for length in lengths):
        return None
    whole = [int(length) for length in lengths if length is not None]
    scheduled = _number(record.get("scheduled_tokens", record.get("seq_lens_sum")))
    return whole if scheduled == sum(whole) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
