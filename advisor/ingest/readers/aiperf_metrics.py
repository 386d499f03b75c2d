"""What AIPerf's and genai-perf's metrics mean here, whichever of their files they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.canonical import UNIT_FACTORS
from advisor.ingest.cells import Cells
from advisor.ingest.draft import Draft
from advisor.prediction import AdvisorError
from advisor.text import counted

COUNT_TOLERANCE = 0.10
"""Client and server token counts that differ by more make per-token times doubtful."""

_TIMES = {
    "inter_token_latency": "tpot_s",
    "inter_chunk_latency": "itl_s",
    "time_to_first_token": "ttft_s",
    "request_latency": "request_latency_s",
}
_PLAIN = {
    "output_token_throughput": "output_tok_per_s",
    "total_token_throughput": "total_tok_per_s",
    "input_sequence_length": "input_tokens",
    "output_sequence_length": "output_tokens",
    "usage_completion_tokens": "_usage",
    "spec_decode_steps": "_steps",
    "spec_decode_draft_tokens": "_draft_tokens",
    "total_spec_decode_steps": "_total_steps",
    "total_draft_tokens": "_total_draft_tokens",
}
_ACCEPTED = ("spec_decode_token_weighted_acceptance_length", "spec_decode_acceptance_length")
"""Token-weighted first: the mean over requests weighs a short request as much as a long one."""


@dataclass(frozen=True)
class Metric:
    """A metric's mean and its unit, as written."""

    value: Any
    unit: str


def draft_from_metrics(rows: Sequence[Mapping[str, Metric]], lines: Sequence[int]) -> Draft:
    """One row per metric set. Raises AdvisorError on a time in an unknown unit."""
    cells: dict[str, Cells] = {}
    for source, column in _TIMES.items():
        found = [row.get(source) for row in rows]
        if any(metric is not None for metric in found):
            values = [None if metric is None else _seconds(source, metric) for metric in found]
            cells[column] = Cells(values, source)
    for source, column in _PLAIN.items():
        found = [row.get(source) for row in rows]
        if any(metric is not None for metric in found):
            cells[column] = Cells([None if metric is None else metric.value for metric in found], source)
    accepted = [next((row[name].value for name in _ACCEPTED if name in row), None) for row in rows]
    if any(value is not None for value in accepted):
        cells["accepted_length"] = Cells(accepted, _ACCEPTED[0])
    draft = Draft("points", np.array(lines, dtype=np.int64), cells)
    draft.warnings = _count_warnings(rows)
    draft.finish = _finish
    return draft


def _seconds(name: str, metric: Metric) -> Any:
    """The value in seconds; a value that is no number is passed on so that the row is refused."""
    factor = UNIT_FACTORS.get(metric.unit.strip().lower())
    if factor is None:
        raise AdvisorError(f"{name} is in {metric.unit or 'no unit'!r}; expected one of s, ms, us, ns")
    try:
        return float(metric.value) * factor
    except (TypeError, ValueError, OverflowError):
        return metric.value


def _count_warnings(rows: Sequence[Mapping[str, Metric]]) -> list[str]:
    """Where the tool's tokenizer and the server count differently, token latency and what follows from it are off."""
    for row in rows:
        client, server = row.get("output_sequence_length"), row.get("usage_completion_tokens")
        if client is None or server is None:
            continue
        try:
            ours, theirs = float(client.value), float(server.value)
        except (TypeError, ValueError, OverflowError):
            continue
        if theirs > 0 and abs(ours / theirs - 1.0) > COUNT_TOLERANCE:
            return [
                f"the tool counted {ours:g} output tokens per request, the server {theirs:g}: times per token, and an "
                "accepted length computed from them, rest on the tool's own tokenizer; run it with the "
                "model's tokenizer or with server token counts"
            ]
    return []


def _finish(frame: pd.DataFrame) -> list[str]:
    """K from the draft counters, where they divide evenly."""
    frame.loc[frame["accepted_length"].notna(), "accepted_length_same_run"] = 1
    notes: list[str] = []
    for tokens, steps in (("_total_draft_tokens", "_total_steps"), ("_draft_tokens", "_steps")):
        if tokens not in frame or steps not in frame:
            continue
        ratio = (frame[tokens] / frame[steps].where(frame[steps] > 0)).to_numpy(dtype=float)
        whole = np.abs(ratio - np.round(ratio)) <= 1e-3
        empty = frame["draft_tokens_k"].isna().to_numpy() & whole
        if empty.any():
            frame.loc[empty, "draft_tokens_k"] = np.round(ratio[empty]).astype(int)
            notes.append(f"draft_tokens_k taken in {counted(int(empty.sum()), 'row')} from draft tokens / steps")
    return notes
