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

LENGTH_TOLERANCE = 0.05
"""Prompt and output lengths of a run and its baseline may differ by this share (sampled prompts, natural stops)."""

MATCH_COLUMNS = (
    "hardware_id",
    "gpu_count",
    "tensor_parallel",
    "expert_parallel",
    "engine",
    "engine_version",
    "model_id",
    "weight_dtype",
    "n_experts",
    "n_active",
    "batch_size",
    "batch_kind",
    "dataset",
)
"""What a baseline must share with a run, besides the two lengths. Unknown matches only unknown."""


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

    out["derived"] = _merge_names(frame["derived"], done)
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


def _merge_names(existing: pd.Series, done: dict[str, np.ndarray]) -> pd.Series:
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


_COMPARED = ("tpot_s", "output_tok_per_s")


def match_baselines(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Speedup of each row with K > 0 over an otherwise equal row with K = 0, and a sentence for the user.

    Same means MATCH_COLUMNS equal and both lengths within LENGTH_TOLERANCE. The ratio is of tpot_s where both rows
    have it, else of output_tok_per_s; several equal baselines count with their median. Rows that state a speedup keep
    it.
    """
    k = frame["draft_tokens_k"].to_numpy(dtype=float, na_value=np.nan)
    stated = frame["speedup"].notna().to_numpy()
    wanted = (k > 0) & ~stated & frame["batch_size"].notna().to_numpy()
    n_stated = int((stated & ~(k == 0)).sum())
    timed = frame[list(_COMPARED)].notna().any(axis=1).to_numpy()
    n_drafting = int(((k > 0) & ~stated & timed).sum())
    n_untimed = int(((k > 0) & ~stated & ~timed).sum())
    wanted &= timed
    if n_drafting == 0:
        return frame, _matching_note(0, 0, n_stated, n_untimed, bool(np.isnan(k).any()))
    found = _nearest_baseline(frame, np.flatnonzero(wanted))
    out = frame.copy(deep=False)
    ratio, base, with_drafts, use_tpot = _ratios(frame, found)
    ok = np.isfinite(ratio) & (ratio > 0)
    for name, values in (("speedup", ratio), ("baseline_value", base), ("sd_value", with_drafts)):
        out[name] = np.where(ok, values, frame[name].to_numpy(dtype=float, na_value=np.nan))
    named = pc.if_else(pa.array(use_tpot), "tpot_ms", "output_tok_per_s").cast(pa.large_string())
    metric = pc.if_else(pa.array(ok), named, pa.array(frame["metric"], pa.large_string()))
    out["metric"] = pd.Series(metric.to_pandas(), dtype="str").set_axis(frame.index)
    out["derived"] = _merge_names(frame["derived"], {"speedup": ok} if ok.any() else {})
    matched = int(ok.sum())
    return out, _matching_note(matched, n_drafting - matched, n_stated, n_untimed, bool(np.isnan(k).any()))


def _nearest_baseline(frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """tpot_s and output_tok_per_s of each row's baseline. NaN where none, and outside `rows` (positions)."""
    table = pd.DataFrame(
        {
            "group": _group_codes(frame),
            "input": _log_length(frame["input_tokens"]),
            "output": _log_length(frame["output_tokens"]),
            "tpot_s": frame["tpot_s"].to_numpy(dtype=float, na_value=np.nan),
            "output_tok_per_s": frame["output_tok_per_s"].to_numpy(dtype=float, na_value=np.nan),
        }
    )
    plain = (frame["draft_tokens_k"] == 0).to_numpy(dtype=bool, na_value=False)
    plain &= frame["batch_size"].notna().to_numpy()
    plain &= table["tpot_s"].notna().to_numpy() | table["output_tok_per_s"].notna().to_numpy()
    baselines = table[plain].groupby(["group", "input", "output"], as_index=False).median()
    wanted = table.iloc[rows][["group", "input", "output"]].assign(row=rows)
    best = pd.DataFrame({"tpot_s": np.nan, "output_tok_per_s": np.nan}, index=np.arange(len(frame)))
    if baselines.empty or wanted.empty:
        return best
    # Equal prompt lengths first, then equal output lengths, then both near: another shape is never nearer.
    for exact, near in (("input", "output"), ("output", "input"), (None, "output")):
        left = wanted[best.iloc[rows].isna().all(axis=1).to_numpy()]
        joined = _join_near(left, baselines, exact, near)
        best.loc[joined.index, ["tpot_s", "output_tok_per_s"]] = joined[["tpot_s", "output_tok_per_s"]]
    return best


def _join_near(wanted: pd.DataFrame, baselines: pd.DataFrame, exact: str | None, near: str) -> pd.DataFrame:
    """Baselines of the same group, equal in `exact`, nearest in `near`, both lengths within tolerance. Index `row`."""
    tolerance = float(np.log1p(LENGTH_TOLERANCE))
    other = exact or ("input" if near == "output" else "output")
    by = ["group", exact] if exact else ["group"]
    right = baselines.assign(base_other=baselines[other])
    if not exact:
        right = right.drop(columns=other)
    joined = pd.merge_asof(
        wanted.sort_values(near), right.sort_values(near), on=near, by=by, tolerance=tolerance, direction="nearest"
    )
    return joined[(joined[other] - joined["base_other"]).abs() <= tolerance].set_index("row")


def _group_codes(frame: pd.DataFrame) -> np.ndarray:
    """One integer per distinct combination of MATCH_COLUMNS [rows]. Unknown is a value of its own."""
    code = np.zeros(len(frame), dtype=np.int64)
    for name in MATCH_COLUMNS:
        one, distinct = pd.factorize(frame[name])
        code = code * (len(distinct) + 1) + one + 1
        # Renumbered from 0 each time, so the product cannot overflow: it stays below rows x distinct values.
        code, _ = pd.factorize(code)
    return np.asarray(code)


def _log_length(column: pd.Series) -> np.ndarray:
    """Logarithm of a length, so that a share becomes a difference. Unknown lengths share one far-off value."""
    values = column.to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isnan(values), -1e3, np.log(np.maximum(values, 0.5)))


def _ratios(frame: pd.DataFrame, found: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Speedup, baseline value, value with drafts, and whether tpot_ms is the metric (else output_tok_per_s)."""
    tpot = frame["tpot_s"].to_numpy(dtype=float, na_value=np.nan) * 1e3
    rate = frame["output_tok_per_s"].to_numpy(dtype=float, na_value=np.nan)
    base_tpot = found["tpot_s"].to_numpy() * 1e3
    base_rate = found["output_tok_per_s"].to_numpy()
    use_tpot = ~np.isnan(base_tpot / tpot)
    ratio = np.where(use_tpot, base_tpot / tpot, rate / base_rate)
    return ratio, np.where(use_tpot, base_tpot, base_rate), np.where(use_tpot, tpot, rate), use_tpot


def _matching_note(matched: int, unmatched: int, stated: int, untimed: int, unknown_k: bool) -> str:
    parts = []
    if stated:
        parts.append(f"speedup stated by the file in {counted(stated, 'row')}")
    if matched:
        parts.append(
            f"speedup computed in {counted(matched, 'row')} from a baseline row with K = 0 and otherwise the same"
        )
    if unmatched:
        parts.append(
            f"no baseline found for {counted(unmatched, 'row')} with K > 0: add a run with speculation off (K = 0) on "
            "the same hardware, engine, model, batch and lengths to get their speedup"
        )
    if untimed:
        parts.append(
            f"neither a time per token nor a rate in {counted(untimed, 'row')} with K > 0, so no speedup follows there"
        )
    if unknown_k:
        parts.append("rows whose K is unknown get no speedup until it is filled in")
    return "; ".join(parts) or "no row has K > 0, so there is no speedup to compute"
