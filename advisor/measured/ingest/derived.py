"""Quantities that rows do not state but imply, and the run without drafts that each run with drafts
is held against.

Pure functions; docs/formats.md lists them with their limits. Times in seconds, rates in tokens/s;
NaN is unknown and stays so. What a run and its baseline both state must agree; where one of them
says nothing of load or build, the other is believed for both, if only one baseline fits. Where the
model ran must be stated alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from advisor.measured.ingest.columns import COLUMNS, Numbers, true_in
from advisor.measured.ingest.result import ReadNote, noted, rows_noted, shorten
from advisor.measured.ingest.side_by_side import METRICS, ROUND_TIME, open_pairs, value_direction
from advisor.predict.scenario_fields import mean_context

MEAN_RUNNING = "mean_running"
"""Kind of a batch that is a mean over a run, not a limit on its requests."""
CHUNK_TOLERANCE = 0.10
"""Two accounts of the accepted length may differ by this share before a streamed chunk stops
counting as one step. Means over chunks and means over requests weigh long requests differently, so
exact agreement is not to be expected."""


def accepted_length_from_counts(accepted_tokens: Any, drafts: Any) -> np.ndarray:
    """Tokens per round, 1 + accepted / drafts. [tokens]; NaN where no draft was counted."""
    accepted = np.asarray(accepted_tokens, float)
    rounds = np.asarray(drafts, float)
    return np.where(rounds > 0, 1.0 + accepted / np.where(rounds > 0, rounds, 1.0), np.nan)


def accepted_length_from_latencies(chunk_latency_s: Any, token_latency_s: Any) -> np.ndarray:
    """Tokens per streamed chunk, chunk latency / token latency. [tokens]

    Equals the accepted length when each chunk carries exactly one decoding step. NaN where a time
    is unknown or the ratio is below 1, which a stream of whole steps cannot give.
    """
    chunk = np.asarray(chunk_latency_s, float)
    token = np.asarray(token_latency_s, float)
    ratio = np.divide(
        chunk, token, out=np.full(np.broadcast(chunk, token).shape, np.nan), where=token > 0
    )
    return np.where(ratio >= 1.0, ratio, np.nan)


WHOLE_TOKEN = 0.02
"""A streamed chunk this near one token is one: no drafter's round accepts so little. [-]"""
SEVERAL_TOKENS = 1.15
"""Tokens of a chunk from which it is a round of speculation. Own choice. [-]"""


def plain_by_chunks(frame: pd.DataFrame) -> np.ndarray:
    """Runs that must be the baseline though none says its K, [rows].

    Their chunks hold one token, and several in another run of the model.
    """
    values = Numbers(frame)
    with np.errstate(invalid="ignore", divide="ignore"):
        tokens = values["itl_s"] / values["tpot_s"]
    unsaid = np.isnan(values["draft_tokens_k"]) & np.isnan(values["accepted_length"])
    models = frame["model_id"].fillna("")
    beside = models.isin(models[unsaid & (tokens >= SEVERAL_TOKENS)]).to_numpy(dtype=bool)
    return np.asarray(unsaid & beside & (np.abs(tokens - 1.0) <= WHOLE_TOKEN))


def step_time_from_latencies(
    chunk_latency_s: Any, token_latency_s: Any, accepted_length: Any
) -> np.ndarray:
    """Time of one round. [s]

    Chunk latency where it is known and agrees, within CHUNK_TOLERANCE, with token latency x
    accepted length (one step per chunk) or where that product is unknown; otherwise the product.
    """
    chunk = np.asarray(chunk_latency_s, float)
    token = np.asarray(token_latency_s, float)
    product = token * np.asarray(accepted_length, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        agrees = np.abs(chunk / product - 1.0) <= CHUNK_TOLERANCE
    return np.where(np.isnan(product) | agrees, chunk, product)


def output_rate_from_latency(
    batch_size: Any, output_tokens: Any, request_latency_s: Any
) -> np.ndarray:
    """Generated tokens per second of one batch run to its end, prefill included. [tokens/s]"""
    return (
        np.asarray(batch_size, float)
        * np.asarray(output_tokens, float)
        / np.asarray(request_latency_s, float)
    )


def batch_from_rate(output_tok_per_s: Any, token_latency_s: Any, output_tokens: Any) -> np.ndarray:
    """Sequences that decode together on average, by Little's law. [sequences]

    Output rate x time per token, less the first token of each request where their length is known:
    that token has no time of its own. Requests that wait for a turn or are prefilled are not among
    them.
    """
    length = np.asarray(output_tokens, float)
    decoded = np.where(length > 1.0, 1.0 - 1.0 / np.where(length > 1.0, length, 2.0), 1.0)
    return np.asarray(
        np.asarray(output_tok_per_s, float) * np.asarray(token_latency_s, float) * decoded
    )


def output_rate_from_total(
    total_tok_per_s: Any, input_tokens: Any, output_tokens: Any
) -> np.ndarray:
    """Generated tokens per second, from prompt and generated tokens per second. [tokens/s]"""
    generated = np.asarray(output_tokens, float)
    prompt = np.asarray(input_tokens, float)
    return np.asarray(total_tok_per_s, float) * generated / (prompt + generated)


def speedup_from_values(
    baseline_value: Any, sd_value: Any, metric: pd.Series, accepted_length: Any = np.nan
) -> np.ndarray:
    """Speedup from two values, with drafting over without, as a rate [rows]. [-] Of times the
    inverse ratio.

    Of a plain step and a whole round, the inverse ratio x accepted length. NaN where the metric's
    name says neither time nor rate.
    """
    ratio = np.asarray(sd_value, float) / np.asarray(baseline_value, float)
    lower, has_direction = value_direction(metric)
    rounds = true_in(metric.str.contains(ROUND_TIME, case=False, regex=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        speedup = np.where(lower, 1.0 / ratio, ratio) * np.where(
            rounds, np.asarray(accepted_length, float), 1.0
        )
    return np.where(has_direction, speedup, np.nan)


def acceptance_by_position_text(rates: Any) -> str | None:
    """Text `0.8;0.6;0.4` of a list of shares in [0, 1] of rounds. None when it is no such list."""
    if not isinstance(rates, list | tuple) or not rates:
        return None
    if not all(
        isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate <= 1
        for rate in rates
    ):
        return None
    return ";".join(f"{rate:.6g}" for rate in rates)


@dataclass(frozen=True)
class Computed:
    """Cells that `derive_rows` filled in, left empty or took otherwise, by column. Masks of rows,
    [rows]."""

    filled: dict[str, np.ndarray]
    otherwise: dict[str, np.ndarray]

    def notes(self, keep: np.ndarray) -> list[ReadNote]:
        """Notes for the user, with counts over the rows that `keep` marks, [rows]."""
        computed = {f"computed_{name}": rows[keep] for name, rows in self.filled.items()}
        otherwise = {f"otherwise_{name}": rows[keep] for name, rows in self.otherwise.items()}
        return rows_noted(**computed, **otherwise)


def derive_rows(frame: pd.DataFrame) -> tuple[pd.DataFrame, Computed]:
    """Fill the empty cells of a points frame that follow from others of their row.

    Nothing is overwritten, but gaps between chunks that no round can have become times per token.
    Filled are tpot_s, accepted_length, step_time_s, context_tokens, output_tok_per_s, batch_size
    and speedup. Returns a new frame whose `derived` column names what was computed, and where that
    was.
    """
    values = Numbers(frame)
    done: dict[str, np.ndarray] = {}
    out = frame.copy(deep=False)
    _fill_from_pairs(out, values, done)
    per_token = _token_gaps(frame, values)
    if per_token.any():
        values["tpot_s"] = np.where(per_token, values["itl_s"], values["tpot_s"])
        values["itl_s"] = np.where(per_token, np.nan, values["itl_s"])
        out["tpot_s"] = values["tpot_s"]
        out["itl_s"] = values["itl_s"]

    # unknown K counts as drafting: chunk and token latency then tell
    drafting = values["draft_tokens_k"] != 0
    from_chunks = accepted_length_from_latencies(values["itl_s"], values["tpot_s"])
    streamed = np.isnan(values["accepted_length"]) & (from_chunks <= 1.0 + WHOLE_TOKEN)
    from_chunks = np.where(streamed, np.nan, from_chunks)  # token by token, whatever was accepted
    too_long = (
        np.isnan(values["accepted_length"])
        & drafting
        & (from_chunks > values["draft_tokens_k"] + 1 + 1e-9)
    )
    _fill(out, values, done, "accepted_length", from_chunks, drafting & ~too_long)

    stated = np.where(values["draft_tokens_k"] == 0, 1.0, values["accepted_length"])
    step = step_time_from_latencies(values["itl_s"], values["tpot_s"], stated)
    no_round = too_long | (streamed & (values["draft_tokens_k"] > 0))
    step_ok = _fill(out, values, done, "step_time_s", step, ~no_round)
    product_used = step_ok & ~np.isnan(values["itl_s"]) & (step != values["itl_s"])

    _fill(
        out,
        values,
        done,
        "context_tokens",
        mean_context(values["input_tokens"], values["output_tokens"]),
    )
    rate_from_total = output_rate_from_total(
        values["total_tok_per_s"], values["input_tokens"], values["output_tokens"]
    )
    _fill(out, values, done, "output_tok_per_s", rate_from_total)
    rate_from_latency = output_rate_from_latency(
        values["batch_size"], values["output_tokens"], values["request_latency_s"]
    )
    fixed = true_in(frame["batch_kind"] == "batch")
    _fill(out, values, done, "output_tok_per_s", rate_from_latency, fixed)

    running = batch_from_rate(values["output_tok_per_s"], values["tpot_s"], values["output_tokens"])
    open_load = _fill(
        out,
        values,
        done,
        "batch_size",
        running,
        (running > 0.0) & frame["batch_kind"].isna().to_numpy(),
    )
    if open_load.any():
        out["batch_kind"] = out["batch_kind"].mask(open_load, MEAN_RUNNING)

    baseline = values["baseline_value"]
    sd = values["sd_value"]
    length = values["accepted_length"]
    ratio = speedup_from_values(baseline, sd, frame["metric"].fillna(""), length)
    _fill(out, values, done, "speedup", ratio, drafting)

    out["derived"] = merge_names(frame["derived"], done)
    otherwise = {"accepted_length": too_long, "step_time_s": product_used, "tpot_s": per_token}
    otherwise["length_per_request"] = true_in(frame["accepted_length_per_request"] == 1)
    return out, Computed(done, otherwise)


_SHORTER = 0.97
"""A round this much shorter than a plain step at its batch is none. [-]"""


def _token_gaps(frame: pd.DataFrame, values: Numbers) -> np.ndarray:
    """Rows whose time between streamed chunks is one between tokens, [rows].

    Of a table without times per token, where it is shorter with drafts than without at some batch:
    a round holds a plain step's work and more, a token of it may be quicker.
    """
    itl = values["itl_s"]
    k = values["draft_tokens_k"]
    open_ = ~np.isnan(itl) & np.isnan(values["tpot_s"])
    if not (open_ & (k > 0)).any() or not (open_ & (k == 0)).any():
        return np.zeros(len(frame), dtype=bool)
    keys = [frame[name] for name in ("hardware_id", "model_id", "engine", "batch_size")]
    plain_s = (
        pd.Series(np.where(open_ & (k == 0), itl, np.nan), frame.index)
        .groupby(keys, dropna=False)
        .transform("min")
    )
    return open_ & bool((open_ & (k > 0) & (itl < _SHORTER * plain_s.to_numpy())).any())


def _fill_from_pairs(out: pd.DataFrame, values: Numbers, done: dict[str, np.ndarray]) -> None:
    """The value with drafts of a row that states it beside the plain one, under the column that its
    metric names."""
    pair = (
        ~np.isnan(values["sd_value"])
        & ~np.isnan(values["baseline_value"])
        & (values["draft_tokens_k"] != 0)
    )
    if not pair.any():
        return
    for name, metric in METRICS.items():
        if metric.column:
            here = pair & true_in(out["metric"] == name)
            computed = (
                1.0 / values["sd_value"] if metric.per_second else values["sd_value"] * metric.scale
            )
            _fill(out, values, done, metric.column, computed, here)


def _fill(
    out: pd.DataFrame,
    values: Numbers,
    done: dict[str, np.ndarray],
    name: str,
    computed: np.ndarray,
    where: np.ndarray | bool = True,
) -> np.ndarray:
    """Fill empty cells of a column with what was computed for them. The cells filled, [rows]."""
    mask = np.asarray(np.isnan(values[name]) & ~np.isnan(computed) & where)
    if mask.any():
        values[name] = np.where(mask, computed, values[name])
        out[name] = values[name]
        done[name] = mask | done.get(name, np.zeros(len(mask), dtype=bool))
    return mask


def merge_names(existing: pd.Series, done: dict[str, np.ndarray]) -> pd.Series:
    """The `derived` column with the newly computed names added, without a Python loop over rows."""
    if not done:
        return existing
    code = np.zeros(len(existing), dtype=np.int64)
    names = list(done)
    for bit, name in enumerate(names):
        code |= done[name].astype(np.int64) << bit
    words = np.array(
        [
            ";".join(n for bit, n in enumerate(names) if value >> bit & 1)
            for value in range(1 << len(names))
        ],
        dtype=object,
    )
    fresh = pa.DictionaryArray.from_arrays(
        pa.array(code), pa.array(words, pa.large_string())
    ).dictionary_decode()
    if existing.notna().any():
        # Joined without nulls: Arrow's join that skips nulls drops the rows where every part is
        # null.
        old = pc.fill_null(pa.array(existing, pa.large_string()), "")
        joined = pc.binary_join_element_wise(old, fresh, pa.scalar(";", pa.large_string()))
        fresh = pc.utf8_trim(joined, characters=";")
    fresh = pc.if_else(pc.equal(fresh, ""), None, fresh)
    return pd.Series(fresh.to_pandas(), dtype="str").set_axis(existing.index)


LENGTH_TOLERANCE = 0.05
"""Prompt and output lengths of a run and its baseline may differ by this share (sampled prompts,
natural stops)."""
LENGTHS = ("input_tokens", "output_tokens")
PLACE_COLUMNS = (
    *(
        "hardware_id",
        "hardware_json",
        "gpu_count",
        "tensor_parallel",
        "expert_parallel",
        "data_parallel",
    ),
    *(
        "decode_context_parallel",
        "engine",
        "model_id",
        "model_config_json",
        "weight_dtype",
        "batch_size",
    ),
)
"""What a baseline must share with a run; unknown matches only unknown."""
LOAD_COLUMNS = (
    *("engine_version", "kv_dtype", "captured", "async_scheduling", "routing"),
    *("n_experts", "n_active", "batch_kind", "dataset"),
)
"""What it must not contradict, like the two lengths."""
MATCH_COLUMNS = (*PLACE_COLUMNS, *LOAD_COLUMNS)
MAX_CANDIDATES = 8
"""Runs without drafts of one place and batch, counted once for each load, that a row which states
less is held against; among more, nobody would say that only one was meant. [-]"""
_COMPARED = ("tpot_s", "output_tok_per_s")
_NAMED = 3
_PER_RANK = "requests_per_rank"


@dataclass(frozen=True)
class _Found:
    """tpot_s and output_tok_per_s of each row's baseline, NaN where none [rows, 2]; columns that
    one side left open."""

    values: pd.DataFrame
    unstated: tuple[str, ...] = ()
    unstated_rows: tuple[int, ...] = ()
    """Positions of the rows that took a baseline so."""


def match_baselines(
    frame: pd.DataFrame, unstated_fits: bool = True
) -> tuple[pd.DataFrame, list[ReadNote]]:
    """Speedup of each row with K > 0 over its baseline with K = 0, and notes for the user.

    A baseline is otherwise the same: MATCH_COLUMNS equal and both lengths within LENGTH_TOLERANCE.
    With `unstated_fits`, a row without such a baseline takes the one that nothing which both state
    of LOAD_COLUMNS and lengths contradicts. The ratio is of tpot_s where both rows have it, else of
    output_tok_per_s; several equal baselines count with their median. Rows that state a speedup
    keep it.
    """
    k = Numbers(frame)["draft_tokens_k"]
    known = frame["speedup"].notna().to_numpy()
    stated = known & ~frame["derived"].str.contains("speedup", na=False).to_numpy(dtype=bool)
    timed = frame[list(_COMPARED)].notna().any(axis=1).to_numpy()
    drafting = (k > 0) & ~known
    wanted = drafting & timed & frame["batch_size"].notna().to_numpy()
    notes = rows_noted(speedup_stated=stated & ~(k == 0))
    out = frame
    if (drafting & timed).any():
        baselines = _baselines(frame, np.flatnonzero(wanted), unstated_fits)
        out, ok = _with_speedups(frame, baselines.values)
        notes += _matched(ok, baselines)
        notes += _unmatched(frame, np.flatnonzero(drafting & timed & ~ok))
    unsaid = open_pairs(frame)
    untimed = drafting & ~timed & ~unsaid
    notes += rows_noted(metric_open=unsaid, untimed=untimed, k_unknown=np.isnan(k))
    notes = notes or rows_noted(both_in_row=(k > 0) & known & ~stated)
    return out, notes or [noted("no_drafts")]


def _with_speedups(frame: pd.DataFrame, baselines: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """The frame with speedups over the baselines found, and where there are some [rows]."""
    out = frame.copy(deep=False)
    before = Numbers(frame)
    ratio, base, with_drafts, use_tpot = _ratios(before, baselines)
    ok = np.isfinite(ratio) & (ratio > 0)
    for name, values in (("speedup", ratio), ("baseline_value", base), ("sd_value", with_drafts)):
        out[name] = np.where(ok, values, before[name])
    compared_metric = pc.if_else(pa.array(use_tpot), "tpot_ms", "output_tok_per_s").cast(
        pa.large_string()
    )
    metric = pc.if_else(pa.array(ok), compared_metric, pa.array(frame["metric"], pa.large_string()))
    out["metric"] = pd.Series(metric.to_pandas(), dtype="str").set_axis(frame.index)
    out["derived"] = merge_names(frame["derived"], {"speedup": ok} if ok.any() else {})
    return out, ok


def _baselines(frame: pd.DataFrame, rows: np.ndarray, unstated_fits: bool) -> _Found:
    """The baselines of `rows` (positions): equal ones first, then the one that nothing stated
    contradicts."""
    best = _nearest_baseline(frame, rows)
    left = rows[best.iloc[rows].isna().all(axis=1).to_numpy()]
    plain = _plain(frame)
    if not unstated_fits or not len(left) or not plain.any():
        return _Found(best)
    matches, open_columns = _uncontradicted(frame, left, np.flatnonzero(plain))
    taken = matches["tpot_s"].notna().to_numpy() | matches["output_tok_per_s"].notna().to_numpy()
    best.loc[left[taken], list(_COMPARED)] = matches[taken].to_numpy()
    unstated = tuple(name for name, rows_open in open_columns.items() if (rows_open & taken).any())
    return _Found(best, unstated, tuple(left[taken].tolist()))


def _plain(frame: pd.DataFrame) -> np.ndarray:
    """Rows without drafts that a speedup can be taken over [rows]."""
    plain = true_in(frame["draft_tokens_k"] == 0)
    return np.asarray(
        plain
        & frame["batch_size"].notna().to_numpy()
        & frame[list(_COMPARED)].notna().any(axis=1).to_numpy()
    )


def _uncontradicted(
    frame: pd.DataFrame, rows: np.ndarray, plain: np.ndarray
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Values of the one baseline of the same place that does not contradict each of `rows`, and by
    column where only one of the two states it; NaN where none fits, or several loads do."""
    table = _described(frame)
    by = ["group", *LOAD_COLUMNS, *LENGTHS]
    candidates = (
        table.iloc[plain].groupby(by, as_index=False, dropna=False)[list(_COMPARED)].median()
    )
    candidates["rank"] = candidates.groupby("group").cumcount()
    n_loads = candidates.groupby("group").size()
    wanted = table.iloc[rows].reset_index(drop=True)
    ours = wanted[[*LOAD_COLUMNS, *LENGTHS]]
    few = (n_loads.reindex(wanted["group"]).fillna(0) <= MAX_CANDIDATES).to_numpy()
    first = pd.DataFrame(np.nan, index=wanted.index, columns=ours.columns)
    taken = np.zeros(len(wanted), dtype=bool)
    several = np.zeros(len(wanted), dtype=bool)
    values = []
    for rank in range(min(int(n_loads.max()), MAX_CANDIDATES)):
        candidate = (
            candidates[candidates["rank"] == rank]
            .set_index("group")
            .reindex(wanted["group"])
            .reset_index()
        )
        fits = few & candidate["rank"].notna().to_numpy() & _compatible(ours, candidate, frame)
        several |= fits & taken & ~_alike(first, candidate)
        fresh = fits & ~taken
        first.loc[fresh] = candidate.loc[fresh, list(first.columns)].to_numpy(float)
        taken |= fits
        values.append(candidate[list(_COMPARED)].where(pd.Series(fits)).to_numpy(float))
    stacked = np.stack(values)
    known = taken & ~several
    out = np.full((len(wanted), len(_COMPARED)), np.nan)
    for place in range(len(_COMPARED)):
        some = known & ~np.isnan(stacked[:, :, place]).all(axis=0)
        out[some, place] = np.nanmedian(stacked[:, some, place], axis=0)
    open_columns = {name: (_unknown(ours[name]) != _unknown(first[name])) & known for name in ours}
    return pd.DataFrame(out, columns=list(_COMPARED)), open_columns


def _described(frame: pd.DataFrame) -> pd.DataFrame:
    """Each row's place as one number, its load as numbers with NaN for unknown, and what is
    compared."""
    table = pd.DataFrame({"group": _group_codes(frame, PLACE_COLUMNS)})
    for name in LOAD_COLUMNS:
        code, _ = pd.factorize(frame[name])
        table[name] = np.where(code < 0, np.nan, code)
    numbers = Numbers(frame)
    for name in LENGTHS:
        table[name] = np.log(np.maximum(numbers[name], 0.5))
    return table.assign(**{name: numbers[name] for name in _COMPARED})


def _unknown(column: pd.Series) -> np.ndarray:
    return column.isna().to_numpy()


def _compatible(ours: pd.DataFrame, theirs: pd.DataFrame, frame: pd.DataFrame) -> np.ndarray:
    """Whether nothing that both state differs [rows]; a batch that counts requests per rank is
    never taken for one that does not say what it counts."""
    kinds = pd.Index(pd.factorize(frame["batch_kind"])[1])
    per_rank = kinds.get_loc(_PER_RANK) if _PER_RANK in kinds else -1
    fits = np.ones(len(ours), dtype=bool)
    for name in ours:
        our_values = ours[name].to_numpy(float)
        their_values = theirs[name].to_numpy(float)
        near = np.log1p(LENGTH_TOLERANCE) if name in LENGTHS else 0.0
        fits &= (
            np.isnan(our_values)
            | np.isnan(their_values)
            | (np.abs(our_values - their_values) <= near)
        )
        if name == "batch_kind":
            fits &= (our_values == per_rank) == (their_values == per_rank)
    return fits


def _alike(first: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Whether two candidates state the same load, lengths within the tolerance [rows]."""
    same = np.ones(len(first), dtype=bool)
    for name in first:
        first_values = first[name].to_numpy(float)
        other_values = other[name].to_numpy(float)
        near = np.log1p(LENGTH_TOLERANCE) if name in LENGTHS else 0.0
        same &= (np.isnan(first_values) & np.isnan(other_values)) | (
            np.abs(first_values - other_values) <= near
        )
    return same


def _matched(ok: np.ndarray, baselines: _Found) -> list[ReadNote]:
    """What to say of rows that got a speedup, and of those of them whose baseline leaves something
    open."""
    if not ok.any():
        return []
    notes = [noted("speedup_matched", n=int(ok.sum()))]
    if n_unstated := int(ok[list(baselines.unstated_rows)].sum()):
        names = tuple(map(_title, baselines.unstated))
        notes.append(noted("baseline_unstated", n=n_unstated, names=names))
    return notes


def _unmatched(frame: pd.DataFrame, rows: np.ndarray) -> list[ReadNote]:
    """Why rows (positions) have no baseline: in what the nearest run without drafts differs from
    the first of them."""
    if not len(rows):
        return []
    plain = np.flatnonzero(_plain(frame))
    if not len(plain) or pd.isna(frame["batch_size"].iloc[rows[0]]):
        return [noted("baseline_missing", n=len(rows))]
    row = frame.iloc[rows[0]]
    differs = {
        name: _differs(frame.iloc[plain][name], row[name], name)
        for name in (*MATCH_COLUMNS, *LENGTHS)
    }
    number = np.sum(list(differs.values()), axis=0)
    apart = np.abs(
        np.log(frame["batch_size"].iloc[plain].to_numpy(float) / float(row["batch_size"]))
    )
    nearest = int(np.lexsort((apart, number))[0])
    other = frame.iloc[plain[nearest]]
    names = [name for name, rows_differ in differs.items() if rows_differ[nearest]]
    facts = {"n": len(rows), "line": int(row.name), "plain_line": int(other.name)}
    if not names and not any(pd.notna(other[name]) and pd.notna(row[name]) for name in _COMPARED):
        return [noted("baseline_no_figure", **facts)]
    if not names:
        return [noted("baseline_several", **facts)]
    first = tuple((_title(name), _cell(other[name]), _cell(row[name])) for name in names[:_NAMED])
    n_more = max(len(names) - _NAMED, 0)
    return [noted("baseline_differs", **facts, differences=first, n_more=n_more)]


def _differs(theirs: pd.Series, ours: Any, name: str) -> np.ndarray:
    """Where a column of runs without drafts keeps them from being a row's baseline [rows]."""
    unknown = _unknown(theirs)
    if pd.isna(ours):
        per_rank = true_in(theirs == _PER_RANK)
        return ~unknown if name in PLACE_COLUMNS else np.asarray(per_rank & (name == "batch_kind"))
    if name in LENGTHS:
        length = theirs.to_numpy(dtype=float, na_value=np.nan)
        apart = np.abs(np.log(np.maximum(length, 0.5) / max(float(ours), 0.5)))
        return np.asarray(apart > np.log1p(LENGTH_TOLERANCE))
    other = ~true_in(theirs == ours)
    strict = name in PLACE_COLUMNS or (name == "batch_kind" and ours == _PER_RANK)
    return other if strict else np.asarray(other & ~unknown)


def _title(name: str) -> str:
    return COLUMNS["points"][name].in_text


def _cell(value: Any) -> str | None:
    if pd.isna(value):
        return None
    return shorten(value)[:40] if isinstance(value, str) else f"{float(value):g}"


def _nearest_baseline(frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """tpot_s and output_tok_per_s of each row's baseline; NaN where none, and outside `rows`
    (positions)."""
    numbers = Numbers(frame)
    table = pd.DataFrame(
        {"group": _group_codes(frame, MATCH_COLUMNS), **{name: numbers[name] for name in _COMPARED}}
    )
    for name in LENGTHS:  # unknown lengths share one far-off value
        length = numbers[name]
        table[name.removesuffix("_tokens")] = np.where(
            np.isnan(length), -1e3, np.log(np.maximum(length, 0.5))
        )
    baselines = table[_plain(frame)].groupby(["group", "input", "output"], as_index=False).median()
    wanted = table.iloc[rows][["group", "input", "output"]].assign(row=rows)
    best = pd.DataFrame(np.nan, index=np.arange(len(frame)), columns=list(_COMPARED))
    if baselines.empty or wanted.empty:
        return best
    # Equal prompt lengths first, then equal output lengths, then both near: another shape is never
    # nearer.
    for exact, near in (("input", "output"), ("output", "input"), (None, "output")):
        left = wanted[best.iloc[rows].isna().all(axis=1).to_numpy()]
        joined = _join_near(left, baselines, exact, near)
        best.loc[joined.index, list(_COMPARED)] = joined[list(_COMPARED)]
    return best


def _join_near(
    wanted: pd.DataFrame, baselines: pd.DataFrame, exact: str | None, near: str
) -> pd.DataFrame:
    """Baselines of the same group, equal in `exact`, nearest in `near`, both lengths within
    tolerance; index `row`."""
    tolerance = float(np.log1p(LENGTH_TOLERANCE))
    other = exact or ("input" if near == "output" else "output")
    by = ["group", exact] if exact else ["group"]
    right = baselines.assign(base_other=baselines[other])
    if not exact:
        right = right.drop(columns=other)
    joined = pd.merge_asof(
        wanted.sort_values(near),
        right.sort_values(near),
        on=near,
        by=by,
        tolerance=tolerance,
        direction="nearest",
    )
    return joined[(joined[other] - joined["base_other"]).abs() <= tolerance].set_index("row")


def _group_codes(frame: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """One integer per unique combination of some columns [rows]; unknown is a value of its own."""
    code = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        column_codes, unique = pd.factorize(frame[name])
        code = code * (len(unique) + 1) + column_codes + 1
        # Renumbered from 0 each time, so the product cannot overflow: it stays below rows x unique
        # values.
        code, _ = pd.factorize(code)
    return np.asarray(code)


def _ratios(
    numbers: Numbers, baselines: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Speedup, baseline value, value with drafts, and whether tpot_ms is the metric (else
    output_tok_per_s)."""
    tpot = numbers["tpot_s"] * 1e3
    rate = numbers["output_tok_per_s"]
    base_tpot = baselines["tpot_s"].to_numpy() * 1e3
    base_rate = baselines["output_tok_per_s"].to_numpy()
    use_tpot = ~np.isnan(base_tpot / tpot)
    ratio = np.where(use_tpot, base_tpot / tpot, rate / base_rate)
    return ratio, np.where(use_tpot, base_tpot, base_rate), np.where(use_tpot, tpot, rate), use_tpot
