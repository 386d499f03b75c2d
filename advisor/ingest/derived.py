"""Quantities that files do not state but imply. Each is a pure function; docs/formats.md lists them with their limits.

Times in seconds, lengths in tokens, rates in tokens/s. NaN means unknown and stays so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from advisor.scenario import mean_context
from advisor.text import counted

CHUNK_TOLERANCE = 0.10
"""Two accounts of the accepted length may differ by this share before a streamed chunk stops counting as one step.
Means over chunks and means over requests weigh long requests differently, so exact agreement is not to be expected."""


def accepted_length_from_counts(accepted_tokens: Any, drafts: Any) -> np.ndarray:
    """Tokens per round, 1 + accepted / drafts. [tokens]; NaN where no draft was counted."""
    accepted, rounds = np.asarray(accepted_tokens, float), np.asarray(drafts, float)
    return np.where(rounds > 0, 1.0 + accepted / np.where(rounds > 0, rounds, 1.0), np.nan)


def accepted_length_from_latencies(chunk_latency_s: Any, token_latency_s: Any) -> np.ndarray:
    """Tokens per streamed chunk, chunk latency / token latency. [tokens]

    Equals the accepted length when each chunk carries exactly one decoding step. NaN where a time is unknown or the
    ratio is below 1, which a stream of whole steps cannot give.
    """
    chunk, token = np.asarray(chunk_latency_s, float), np.asarray(token_latency_s, float)
    ratio = np.divide(chunk, token, out=np.full(np.broadcast(chunk, token).shape, np.nan), where=token > 0)
    return np.where(ratio >= 1.0, ratio, np.nan)


def step_time_from_latencies(chunk_latency_s: Any, token_latency_s: Any, accepted_length: Any) -> np.ndarray:
    """Time of one round. [s]

    Chunk latency where it is known and agrees, within CHUNK_TOLERANCE, with token latency x accepted length (one step
    per chunk) or where that product is unknown; otherwise the product.
    """
    chunk, token = np.asarray(chunk_latency_s, float), np.asarray(token_latency_s, float)
    product = token * np.asarray(accepted_length, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        agrees = np.abs(chunk / product - 1.0) <= CHUNK_TOLERANCE
    return np.where(np.isnan(product) | agrees, chunk, product)


def output_rate_from_latency(batch_size: Any, output_tokens: Any, request_latency_s: Any) -> np.ndarray:
    """Generated tokens per second of one batch run to its end, prefill included. [tokens/s]"""
    return np.asarray(batch_size, float) * np.asarray(output_tokens, float) / np.asarray(request_latency_s, float)


def output_rate_from_total(total_tok_per_s: Any, input_tokens: Any, output_tokens: Any) -> np.ndarray:
    """Generated tokens per second, from prompt and generated tokens per second. [tokens/s]"""
    generated, prompt = np.asarray(output_tokens, float), np.asarray(input_tokens, float)
    return np.asarray(total_tok_per_s, float) * generated / (prompt + generated)


def lower_is_better(metric: pd.Series) -> np.ndarray:
    """Whether smaller values of a metric are faster, from its name [rows]: times are, rates are not."""
    rate = metric.str.contains(r"tok|per_s|/s|rate|throughput", case=False, regex=True)
    time = metric.str.contains(r"latency|_ms|_s$|time|tpot|itl|ttft", case=False, regex=True)
    named = metric.str.contains(r"tpot|itl|ttft|per_output_token", case=False, regex=True)
    return np.asarray(((time & ~rate) | named).to_numpy(dtype=bool, na_value=False))


def speedup_from_values(baseline_value: Any, sd_value: Any, lower: Any) -> np.ndarray:
    """Speedup from two values, with drafting over without, as a rate. [-] Of times (`lower` true) the inverse ratio."""
    ratio = np.asarray(sd_value, float) / np.asarray(baseline_value, float)
    return np.where(lower, 1.0 / ratio, ratio)


def acceptance_by_position_text(rates: Any) -> str | None:
    """Text `0.8;0.6;0.4` of a list of shares in [0, 1] of rounds. None when it is no such list."""
    if not isinstance(rates, list | tuple) or not rates:
        return None
    if not all(isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate <= 1 for rate in rates):
        return None
    return ";".join(f"{rate:.6g}" for rate in rates)


@dataclass(frozen=True)
class Computed:
    """Cells that `derive_rows` filled in, left empty or took otherwise, by column. Masks of rows, [rows]."""

    filled: dict[str, np.ndarray]
    otherwise: dict[str, np.ndarray]

    def notes(self, keep: np.ndarray) -> list[str]:
        """Sentences for the user with counts over the rows that `keep` marks, [rows]."""
        out = []
        for name, how in _HOW.items():
            n_filled, n_otherwise = (
                int(masks[name][keep].sum()) if name in masks else 0 for masks in (self.filled, self.otherwise)
            )
            if n_filled:
                out.append(f"{name} computed in {counted(n_filled, 'row')} from {how}")
            if n_otherwise:
                out.append(_OTHERWISE[name].format(rows=counted(n_otherwise, "row")))
        return out


_HOW = {
    "accepted_length": "chunk latency / token latency; true only if each chunk is one step",
    "step_time_s": "latency between chunks, or token latency x accepted length; includes host time",
    "context_tokens": "prompt length + half the output length",
    "output_tok_per_s": "total rate or whole-batch latency and the lengths; includes prefill",
    "speedup": "sd_value and baseline_value; for times the inverse ratio",
}
_OTHERWISE = {
    "accepted_length": "accepted_length and step_time_s left empty in {rows}: chunk latency / token latency exceeds "
    "K + 1, so chunks are not single steps or the token counts are the client's own",
    "step_time_s": "in {rows} chunks are not single steps (chunk latency differs from token latency x accepted length "
    f"by over {CHUNK_TOLERANCE:.0%}); the product was taken as step time",
}


def derive_rows(frame: pd.DataFrame) -> tuple[pd.DataFrame, Computed]:
    """Fill the empty cells of a points frame that follow from others of their row. Never overwrites.

    Filled are accepted_length, step_time_s, context_tokens, output_tok_per_s and speedup. Returns a new frame whose
    `derived` column names what was computed, and where that was.
    """
    values = {name: frame[name].to_numpy(dtype=float, na_value=np.nan) for name in _INPUTS}
    done: dict[str, np.ndarray] = {}
    out = frame.copy(deep=False)

    drafting = values["draft_tokens_k"] != 0  # unknown K counts as drafting: chunk and token latency then tell
    from_chunks = accepted_length_from_latencies(values["itl_s"], values["tpot_s"])
    wanted = np.isnan(values["accepted_length"]) & drafting & ~np.isnan(from_chunks)
    too_long = wanted & (from_chunks > values["draft_tokens_k"] + 1 + 1e-9)
    _fill(out, values, done, "accepted_length", from_chunks, wanted & ~too_long)

    stated = np.where(values["draft_tokens_k"] == 0, 1.0, values["accepted_length"])
    step = step_time_from_latencies(values["itl_s"], values["tpot_s"], stated)
    step_ok = np.isnan(values["step_time_s"]) & ~np.isnan(step) & ~too_long
    product_used = step_ok & ~np.isnan(values["itl_s"]) & (step != values["itl_s"])
    _fill(out, values, done, "step_time_s", step, step_ok)

    context = mean_context(values["input_tokens"], values["output_tokens"])
    _fill(out, values, done, "context_tokens", context, np.isnan(values["context_tokens"]) & ~np.isnan(context))

    total = output_rate_from_total(values["total_tok_per_s"], values["input_tokens"], values["output_tokens"])
    _fill(out, values, done, "output_tok_per_s", total, np.isnan(values["output_tok_per_s"]) & ~np.isnan(total))
    whole = output_rate_from_latency(values["batch_size"], values["output_tokens"], values["request_latency_s"])
    fixed = (frame["batch_kind"] == "batch").to_numpy(dtype=bool, na_value=False)
    wanted = np.isnan(values["output_tok_per_s"]) & ~np.isnan(whole) & fixed
    _fill(out, values, done, "output_tok_per_s", whole, wanted)

    named = frame["metric"].notna().to_numpy() & (values["draft_tokens_k"] != 0)
    lower = lower_is_better(frame["metric"].fillna(""))
    ratio = speedup_from_values(values["baseline_value"], values["sd_value"], lower)
    _fill(out, values, done, "speedup", ratio, np.isnan(values["speedup"]) & ~np.isnan(ratio) & named)

    out["derived"] = merge_names(frame["derived"], done)
    return out, Computed(done, {"accepted_length": too_long, "step_time_s": product_used})


_INPUTS = (
    "draft_tokens_k",
    "itl_s",
    "tpot_s",
    "accepted_length",
    "step_time_s",
    "input_tokens",
    "output_tokens",
    "context_tokens",
    "batch_size",
    "request_latency_s",
    "total_tok_per_s",
    "output_tok_per_s",
    "baseline_value",
    "sd_value",
    "speedup",
)


def _fill(
    out: pd.DataFrame,
    values: dict[str, np.ndarray],
    done: dict[str, np.ndarray],
    name: str,
    computed: np.ndarray,
    mask: np.ndarray,
) -> None:
    if not mask.any():
        return
    values[name] = np.where(mask, computed, values[name])
    out[name] = values[name]
    done[name] = mask | done.get(name, np.zeros(len(mask), dtype=bool))


def merge_names(existing: pd.Series, done: dict[str, np.ndarray]) -> pd.Series:
    """The `derived` column with the newly computed names added, without a Python loop over rows."""
    if not done:
        return existing
    code = np.zeros(len(existing), dtype=np.int64)
    names = list(done)
    for bit, name in enumerate(names):
        code |= done[name].astype(np.int64) << bit
    words = np.array(
        [";".join(n for bit, n in enumerate(names) if value >> bit & 1) for value in range(1 << len(names))],
        dtype=object,
    )
    fresh = pa.DictionaryArray.from_arrays(pa.array(code), pa.array(words, pa.large_string())).dictionary_decode()
    if existing.notna().any():
        # Joined without nulls: Arrow's join that skips nulls drops the rows where every part is null.
        old = pc.fill_null(pa.array(existing, pa.large_string()), "")
        joined = pc.binary_join_element_wise(old, fresh, pa.scalar(";", pa.large_string()))
        fresh = pc.utf8_trim(joined, characters=";")
    fresh = pc.if_else(pc.equal(fresh, ""), None, fresh)
    return pd.Series(fresh.to_pandas(), dtype="str").set_axis(existing.index)
