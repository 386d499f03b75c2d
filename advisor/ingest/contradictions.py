"""Columns of a row that say the same thing twice, held against each other: what cannot be is refused, the odd named.

Per-GPU rates, times with the prefill in them, times of a round under the header of a token and inverted speedups all
keep within each column's own range. They show where a second column of the row tells the same quantity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.ingest.baselines import match_baselines
from advisor.text import counted

IMPOSSIBLE = 1.5
"""A bound is broken when it is exceeded by this factor: means and medians over requests mix in files. [-]"""
LOW_RATE = 0.5
"""A rate below this share of batch / time per token is named: batches drain, prefill interrupts, seldom so long. [-]"""
SHORTEST_PROMPT = 16.0
"""Chat templates alone are longer, so shorter prompts are asked about. [tokens]"""
NEAR = 0.15
"""Values are alike within this share. [-]"""
_MOST = 0.5  # of the rows that tell
_LINES = 3

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Contradiction:
    """Columns that contradict each other in the rows marked [rows], and why."""

    columns: tuple[str, ...]
    rows: np.ndarray
    reason: str


_USED = (
    "accepted_length",
    "batch_size",
    "draft_time_s",
    "draft_tokens_k",
    "gpu_count",
    "input_tokens",
    "output_tok_per_s",
    "output_tokens",
    "request_latency_s",
    "speedup",
    "step_time_s",
    "total_tok_per_s",
    "tpot_s",
    "ttft_s",
    "verify_time_s",
)


def contradictions(frame: pd.DataFrame) -> tuple[list[Contradiction], list[str]]:
    """Impossible rows of a points frame, one by one, and sentences about what is odd in many.

    Odd is what holds for most of the rows that tell it.
    """
    v = {name: frame[name].to_numpy(dtype=float, na_value=np.nan) for name in _USED if frame[name].notna().any()}
    for name in (name for name in _USED if name not in v):
        v[name] = np.full(len(frame), np.nan)
    stated = ~frame["derived"].str.contains("output_tok_per_s", na=False).to_numpy(dtype=bool)
    whole = (frame["batch_kind"] != "requests_per_rank").to_numpy(dtype=bool, na_value=True)
    with np.errstate(all="ignore"):
        impossible = [*_rate_above_batch(v, stated & whole), *_parts_above_whole(v), *_latency_apart(v)]
        odd = [
            *_rate_below_batch(v, stated & whole),
            *_prefill_in_token_time(v),
            *_round_as_token(frame, v),
            *_full_acceptance(v),
            *_short_prompts(v),
            *_stated_speedups(frame, v),
        ]
    lines = frame.index.to_numpy()
    return [one for one in impossible if one.rows.any()], [_sentence(lines, *one) for one in odd if one[0].any()]


def _sentence(lines: np.ndarray, rows: np.ndarray, text: str) -> str:
    at = lines[rows]
    shown = ", ".join(map(str, at[:_LINES])) + (", ..." if len(at) > _LINES else "")
    return f"{counted(len(at), 'row')} (line {shown}): {text}"


def _per_token_share(v: Values) -> np.ndarray:
    """The rate of a row over what its batch gives at its time per token. The first token has no time of its own."""
    with_first = np.where(v["output_tokens"] > 1, v["output_tokens"] / (v["output_tokens"] - 1.0), 1.0)
    return np.asarray(v["output_tok_per_s"] * v["tpot_s"] / (v["batch_size"] * with_first))


def _rate_above_batch(v: Values, told: np.ndarray) -> Iterator[Contradiction]:
    share = _per_token_share(v)
    broken = told & (share > IMPOSSIBLE)
    if not broken.any():
        return
    factor = float(np.median(share[broken]))
    reason = (
        f"the rate is {factor:,.3g} times batch_size / tpot_s in the median of {counted(int(broken.sum()), 'row')}, "
        f"more than the batch can give; {_hint(v, broken, factor)}"
    )
    yield Contradiction(("output_tok_per_s", "tpot_s", "batch_size"), broken, reason)


def _hint(v: Values, rows: np.ndarray, factor: float) -> str:
    for name, number, meaning in (
        ("gpu_count", v["gpu_count"], "is the batch that of one GPU?"),
        ("the batch", v["batch_size"], "is tpot_s the time over the whole batch?"),
        (
            "the share of generated tokens",
            1.0 + v["input_tokens"] / v["output_tokens"],
            "does the rate count prompt tokens?",
        ),
    ):
        typical = float(np.nanmedian(number[rows])) if np.isfinite(number[rows]).any() else np.nan
        if typical > 1.0 and abs(factor / typical - 1.0) <= NEAR:
            return f"near {name}: {meaning}"
    return "is the unit in the header of tpot_s right, and is the rate one of output tokens?"


def _rate_below_batch(v: Values, told: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    share = _per_token_share(v)
    told = told & np.isfinite(share)
    low = told & (share < LOW_RATE)
    if not low.any() or low.sum() <= _MOST * told.sum():
        return
    text = f"the rate is only {float(np.median(share[low])):.3g} of batch_size / tpot_s; "
    per_gpu = low & (v["gpu_count"] > 1) & (np.abs(share * v["gpu_count"] - 1.0) <= NEAR)
    if per_gpu.sum() > _MOST * low.sum():
        text += "is output_tok_per_s per GPU? It has to be the total of all GPUs"
    else:
        text += "is tpot_s a time per token, was batch_size really running, is the rate the total of all GPUs?"
    yield low, text


def _parts_above_whole(v: Values) -> Iterator[Contradiction]:
    for part in ("verify_time_s", "draft_time_s"):
        broken = v[part] > v["step_time_s"] * IMPOSSIBLE
        yield Contradiction(
            (part, "step_time_s"), broken, f"{part} is longer than the round it is part of; check the units"
        )
    broken = v["output_tok_per_s"] > v["total_tok_per_s"] * (1.0 + NEAR)
    reason = "more generated tokens per second than tokens in all; exchange the headers"
    yield Contradiction(("output_tok_per_s", "total_tok_per_s"), broken, reason)


def _latency_apart(v: Values) -> Iterator[Contradiction]:
    """Whole requests against first token and tokens: means over requests of several lengths differ, not threefold."""
    built = v["ttft_s"] + (v["output_tokens"] - 1.0) * v["tpot_s"]
    broken = np.abs(np.log(v["request_latency_s"] / built)) > np.log(2.0 * IMPOSSIBLE)
    reason = "the latency of a request is not its first token and tpot_s for each further one; check the units"
    yield Contradiction(("request_latency_s", "ttft_s", "tpot_s", "output_tokens"), broken, reason)


def _prefill_in_token_time(v: Values) -> Iterator[tuple[np.ndarray, str]]:
    spread = v["request_latency_s"] / v["output_tokens"]
    decode = (v["request_latency_s"] - v["ttft_s"]) / (v["output_tokens"] - 1.0)
    told = (v["output_tokens"] > 1) & (np.abs(spread / decode - 1.0) > 2.0 * NEAR)
    holds = told & (np.abs(v["tpot_s"] / spread - 1.0) <= 0.5 * NEAR)
    if holds.sum() > _MOST * told.sum():
        yield holds, "tpot_s is request_latency_s / output_tokens, so the prefill is in it; leave the first token out"


def _round_as_token(frame: pd.DataFrame, v: Values) -> Iterator[tuple[np.ndarray, str]]:
    stated = ~frame["derived"].str.contains("step_time_s", na=False).to_numpy(dtype=bool)
    ratio = v["step_time_s"] / v["tpot_s"]
    told = stated & np.isfinite(ratio) & (v["accepted_length"] > 1.0 + 2.0 * NEAR) & (v["draft_tokens_k"] > 0)
    same = told & (np.abs(ratio - 1.0) <= NEAR)
    if same.sum() > _MOST * told.sum():
        yield same, "step_time_s equals tpot_s although a round gives several tokens; one of them is the other's"
    apart = told & ~same & (np.abs(np.log(ratio / v["accepted_length"])) > np.log(IMPOSSIBLE))
    if apart.sum() > _MOST * told.sum():
        yield apart, "step_time_s is not tpot_s x accepted_length; check units and headers"


def _full_acceptance(v: Values) -> Iterator[tuple[np.ndarray, str]]:
    full = (v["draft_tokens_k"] > 0) & (np.abs(v["accepted_length"] - v["draft_tokens_k"] - 1.0) < 1e-9)
    yield (
        full,
        "accepted_length is exactly K + 1: every draft token accepted in every round; is it a count or a setting?",
    )


def _short_prompts(v: Values) -> Iterator[tuple[np.ndarray, str]]:
    told = np.isfinite(v["input_tokens"])
    short = told & (v["input_tokens"] > 0) & (v["input_tokens"] < SHORTEST_PROMPT)
    if short.sum() > _MOST * told.sum():
        yield short, f"input_tokens is below {SHORTEST_PROMPT:g}: is it in thousands of tokens?"


def _stated_speedups(frame: pd.DataFrame, v: Values) -> Iterator[tuple[np.ndarray, str]]:
    """Stated speedups against those over the file's own baseline rows."""
    computed = frame["derived"].str.contains("speedup", na=False).to_numpy(dtype=bool)
    stated = np.isfinite(v["speedup"]) & (v["draft_tokens_k"] > 0) & ~computed
    if not stated.any() or not (v["draft_tokens_k"] == 0).any():
        return
    matched, _ = match_baselines(frame.assign(speedup=np.nan), unstated_fits=False)
    own = matched["speedup"].to_numpy(dtype=float, na_value=np.nan)
    told = stated & np.isfinite(own) & (np.abs(np.log(own)) > NEAR)
    inverse = told & (np.abs(v["speedup"] * own - 1.0) <= NEAR)
    apart = told & ~inverse & (np.abs(v["speedup"] / own - 1.0) > 2.0 * NEAR)
    if inverse.sum() > _MOST * told.sum():
        yield inverse, "speedup is the inverse of what the baseline rows give: time with drafts over time without"
    elif apart.any():
        yield apart, "speedup is not what the baseline rows of this file give; is it a percentage or a gain?"
