"""Rules that tie the columns of a row together: what cannot be is refused, what is odd or looks
swapped is named.

Per-GPU rates, times with the prefill in them, times of a round under the header of a token and
inverted speedups all keep within each column's own range. They show where a second column of the
row tells the same quantity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.measured.ingest.cells import FileTable
from advisor.measured.ingest.columns import COLUMNS, MEASURED_COLUMNS, Numbers, TableKind
from advisor.measured.ingest.derived import match_baselines, speedup_from_values
from advisor.measured.ingest.result import ReadNote, Reject, at_lines, warned
from advisor.text import counted, number_of

SPEEDUP_TOLERANCE = 0.05
"""A stated speedup may differ from the ratio of the two stated values by this share: figures are
printed rounded."""
MAX_PLAUSIBLE_SPEEDUP = 20.0
"""A stated speedup above is taken for a percentage: 1.2 as 120. [-]"""
SWAP_SHARE = 0.5
"""Two columns are called swapped when more than this share of the rows break a rule that all of
those then keep."""
Values = Mapping[str, np.ndarray]
Odd = tuple[np.ndarray, ReadNote]
"""Rows [rows], and the warning of them."""


@dataclass(frozen=True)
class CheckRule:
    """Rule that marks broken rows, `broken(values)` [bool]. Comparisons with an unknown value are
    never broken."""

    columns: tuple[str, ...]
    broken: Callable[[Values], np.ndarray]
    reason: str


def _more(first: str, second: str, slack: float = 0.0) -> Callable[[Values], np.ndarray]:
    return lambda v: v[first] > v[second] * (1 + 1e-9) + slack


POINT_RULES = (
    CheckRule(
        ("n_active", "n_experts"),
        _more("n_active", "n_experts"),
        "n_active (k) exceeds n_experts (N)",
    ),
    CheckRule(
        ("accepted_length", "draft_tokens_k"),
        _more("accepted_length", "draft_tokens_k", 1.0),
        "accepted_length exceeds K + 1, the most a round can emit",
    ),
    CheckRule(
        ("tensor_parallel", "gpu_count"),
        lambda v: np.asarray(np.mod(v["gpu_count"], v["tensor_parallel"]) > 0),
        "tensor_parallel does not divide gpu_count",
    ),
    CheckRule(
        ("expert_parallel", "gpu_count"),
        _more("expert_parallel", "gpu_count"),
        "expert_parallel exceeds gpu_count",
    ),
    CheckRule(
        ("ttft_s", "request_latency_s"),
        _more("ttft_s", "request_latency_s"),
        "the first token comes after the whole request; check the units",
    ),
)
ABOVE_ROUND = "the speedup exceeds the tokens of a round, which drafting alone cannot"
"""Why such a row is refused far above, and what is asked about slightly above."""
SPEEDUP_SLACK = 1.1
"""A speedup above the tokens of a round by this factor is named. It is not impossible: over a
baseline on another attention kernel 3.06x was measured at 2.72 tokens. [-]"""


KERNEL_RULES = (
    CheckRule(("topk", "num_experts"), _more("topk", "num_experts"), "topk exceeds num_experts"),
)
RULES: dict[TableKind, tuple[CheckRule, ...]] = {"points": POINT_RULES, "kernels": KERNEL_RULES}


@dataclass(frozen=True)
class Checked:
    """Mask of rows to keep [rows], a Reject per broken rule and row, warnings of what is odd."""

    keep: np.ndarray
    rejects: list[Reject]
    notes: list[ReadNote]


def check_rows(frame: pd.DataFrame, kind: TableKind, measured: bool = True) -> Checked:
    """Hold the rows of a typed frame against every rule. `measured`: also that each measures
    something."""
    findings: list[Contradiction] = []
    notes: list[ReadNote] = []
    lines = frame.index.to_numpy()
    values = Numbers(frame)
    for rule in RULES[kind]:
        if any(frame[name].isna().all() for name in rule.columns):
            continue
        with np.errstate(invalid="ignore"):
            broken = rule.broken(values)
        if hint := _swap_hint(rule, values, broken) if broken.any() else "":
            first, second = rule.columns
            notes.append(warned("exchanged", first=first, second=second, reason=hint))
        findings.append(
            Contradiction(rule.columns, broken, rule.reason + (f"; {hint}" if hint else ""))
        )
    if kind == "points":
        impossible, odd = contradictions(frame)
        notes += odd
        findings += [*impossible, *_speedup_contradicted(frame)]
    keep = np.ones(len(frame), dtype=bool)
    rejects: list[Reject] = []
    for finding in findings:
        rejects += _list_rejects(finding, frame)
        keep &= ~finding.rows
    empty = frame[list(MEASURED_COLUMNS[kind])].isna().all(axis=1).to_numpy()
    if measured and empty.any():
        reason = f"nothing measured: fill at least one of {', '.join(MEASURED_COLUMNS[kind])}"
        rejects += [Reject(int(line), "", "", reason) for line in lines[empty]]
        keep &= ~empty
    return Checked(keep, rejects, notes)


def _list_rejects(contradiction: Contradiction, frame: pd.DataFrame) -> list[Reject]:
    values = Numbers(frame.loc[contradiction.rows, list(contradiction.columns)])
    rejects = []
    for place, line in enumerate(frame.index[contradiction.rows]):
        cells = {name: values[name][place] for name in contradiction.columns}
        known = {name: f"{cell:.12g}" for name, cell in cells.items() if not np.isnan(cell)}
        reason = contradiction.reason
        rejects.append(Reject(int(line), " / ".join(known), " / ".join(known.values()), reason))
    return rejects


def _swap_hint(rule: CheckRule, values: Values, broken: np.ndarray) -> str:
    """A sentence when most rows break a rule that they would all keep with the two columns
    exchanged."""
    first, second = rule.columns
    known = ~np.isnan(values[first]) & ~np.isnan(values[second])
    if broken.sum() <= SWAP_SHARE * known.sum():
        return ""
    swapped = {first: values[second], second: values[first]}
    spec = COLUMNS["points"].get(first) or COLUMNS["kernels"][first]
    low = spec.low if spec.low is not None else 0.0
    with np.errstate(invalid="ignore"):
        still = rule.broken(swapped)[known] | (values[second][known] < low)
    if still.any():
        return ""
    return (
        f"{first} and {second} look swapped: {int(broken.sum()):,} of {int(known.sum()):,} rows "
        "fit only the other way round; exchange the two headers"
    )


def _speedup_contradicted(frame: pd.DataFrame) -> Iterator[Contradiction]:
    """Speedups beyond the tokens of a round, and such as are not the ratio of the two values beside
    them."""
    v = Numbers(frame)
    above = _per_round(v) > IMPOSSIBLE
    expected = speedup_from_values(
        v["baseline_value"], v["sd_value"], frame["metric"].fillna(""), v["accepted_length"]
    )
    stated = v["speedup"][above & np.isnan(expected)]  # others follow from two values
    percent = stated.size > 0 and float(np.median(stated)) > MAX_PLAUSIBLE_SPEEDUP
    hint = "it looks like a percentage" if percent else "check the values"
    reason = f"{ABOVE_ROUND}; {hint}"
    yield Contradiction(("speedup", "accepted_length", "draft_tokens_k"), above, reason)
    with np.errstate(invalid="ignore"):
        apart = np.asarray(np.abs(v["speedup"] / expected - 1.0) > SPEEDUP_TOLERANCE)
    reason = "speedup is not the ratio of sd_value and baseline_value"
    yield Contradiction(("speedup", "sd_value", "baseline_value"), apart, reason)


def _per_round(v: Values) -> np.ndarray:
    """Speedups over the tokens of a round. [-]"""
    return np.asarray(v["speedup"] / np.fmin(v["accepted_length"], v["draft_tokens_k"] + 1.0))


def _speedup_above_round(v: Values) -> Iterator[Odd]:
    share = _per_round(v)
    yield (share > SPEEDUP_SLACK) & (share <= IMPOSSIBLE), warned("above_round")


def misplaced_columns(
    table: FileTable, mapped: dict[str, tuple[int, float]], kind: TableKind
) -> list[ReadNote]:
    """A warning of a numeric column full of words beside a text column full of numbers (first 200
    rows)."""
    spec = COLUMNS[kind]
    share: dict[str, float] = {}
    for name, (index, _) in mapped.items():
        cells = [
            cell.strip() for cell in table.columns[index][:200].to_pylist() if cell and cell.strip()
        ]
        if cells:
            share[name] = sum(
                number_of(cell.replace(",", ".")) is not None for cell in cells
            ) / len(cells)
    words = [name for name, part in share.items() if spec[name].numeric and part < SWAP_SHARE]
    coded = {"engine_version", "version", "date", "point_id", "notes"}
    names = {name for name, column in spec.items() if not column.numeric} - coded
    numbers = [name for name, part in share.items() if name in names and part > 1 - SWAP_SHARE]
    if len(words) == 1 and len(numbers) == 1:
        return [warned("misplaced", first=words[0], second=numbers[0])]
    return []


IMPOSSIBLE = 1.5
"""A bound is broken when it is exceeded by this factor: means and medians over requests mix in
files. [-]"""
LOW_RATE = 0.5
"""A rate below this share of batch / time per token is named: batches drain, prefill interrupts,
seldom so long. [-]"""
QUEUED = 0.5
"""Requests before their first token, over those that decode: more is named. [-]"""
_NEAR_THOUSAND = 0.4
"""Powers of ten within which a factor is taken for a thousand: a factor of 2.5. Own choice. [-]"""
SHORTEST_PROMPT = 16.0
"""Chat templates alone are longer, so shorter prompts are asked about. [tokens]"""
QUICKEST_S = 1e-4
"""No served model gives a token sooner: a step launches hundreds of kernels of some microseconds.
Own choice. [s]"""
NEAR = 0.15
"""Values are alike within this share. [-]"""
_MOST = 0.5  # of the rows that tell
_LINES = 3


@dataclass(frozen=True)
class Contradiction:
    """Columns that contradict each other in the rows marked [rows], and why."""

    columns: tuple[str, ...]
    rows: np.ndarray
    reason: str


def contradictions(frame: pd.DataFrame) -> tuple[list[Contradiction], list[ReadNote]]:
    """Impossible rows of a points frame, and warnings of what is odd in most of the rows that tell
    it."""
    v = Numbers(frame)
    stated = ~frame["derived"].str.contains("output_tok_per_s", na=False).to_numpy(dtype=bool)
    counts_all = (frame["batch_kind"] != "requests_per_rank").to_numpy(dtype=bool, na_value=True)
    with np.errstate(all="ignore"):
        impossible = [
            *_rate_above_batch(v, stated & counts_all),
            *_thousand_apart(v, stated & counts_all),
            *_parts_above_whole(v),
            *_latency_apart(v),
        ]
        odd = [
            *_rate_below_batch(v, stated & counts_all),
            *_prefill_in_token_time(v),
            *_round_as_token(frame, v),
            *_full_acceptance(v),
            *_short_prompts(v),
            *_seconds_as_ms(v),
            *_stated_speedups(frame, v),
            *_speedup_above_round(v),
            *_queued(frame, v),
        ]
    broken = [contradiction for contradiction in impossible if contradiction.rows.any()]
    notes = [at_lines(note, frame.index[rows].tolist(), _LINES) for rows, note in odd if rows.any()]
    return broken, notes


def _per_token_share(v: Values) -> np.ndarray:
    """The rate of a row over what its batch gives at its time per token. The first token has no
    time of its own."""
    with_first = np.where(
        v["output_tokens"] > 1, v["output_tokens"] / (v["output_tokens"] - 1.0), 1.0
    )
    return np.asarray(v["output_tok_per_s"] * v["tpot_s"] / (v["batch_size"] * with_first))


def _rate_above_batch(v: Values, eligible: np.ndarray) -> Iterator[Contradiction]:
    share = _per_token_share(v)
    broken = eligible & (share > IMPOSSIBLE)
    if not broken.any():
        return
    factor = float(np.median(share[broken]))
    reason = (
        f"the rate is {factor:,.3g} times batch_size / tpot_s in the median of "
        f"{counted(int(broken.sum()), 'row')}, more than the batch can give; "
        f"{_hint(v, broken, factor)}"
    )
    yield Contradiction(("output_tok_per_s", "tpot_s", "batch_size"), broken, reason)


def _thousand_apart(v: Values, eligible: np.ndarray) -> Iterator[Contradiction]:
    share = _per_token_share(v)
    broken = eligible & (np.abs(np.log10(share) + 3.0) <= _NEAR_THOUSAND)
    if broken.any():
        reason = (
            "the rate is a thousandth of batch_size / tpot_s: the times look like seconds under a "
            "header in ms; correct the header of the one that is wrong"
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


def _rate_below_batch(v: Values, eligible: np.ndarray) -> Iterator[Odd]:
    share = _per_token_share(v)
    comparable = eligible & np.isfinite(share)
    low = comparable & (share < LOW_RATE)
    if not low.any() or low.sum() <= _MOST * comparable.sum():
        return
    per_gpu = low & (v["gpu_count"] > 1) & (np.abs(share * v["gpu_count"] - 1.0) <= NEAR)
    yield (
        low,
        warned(
            "rate_low",
            share=float(np.median(share[low])),
            per_gpu=bool(per_gpu.sum() > _MOST * low.sum()),
        ),
    )


def _parts_above_whole(v: Values) -> Iterator[Contradiction]:
    for part in ("verify_time_s", "draft_time_s"):
        broken = v[part] > v["step_time_s"] * IMPOSSIBLE
        yield Contradiction(
            (part, "step_time_s"),
            broken,
            f"{part} is longer than the round it is part of; check the units",
        )
    broken = v["output_tok_per_s"] > v["total_tok_per_s"] * (1.0 + NEAR)
    reason = "more generated tokens per second than tokens in all; exchange the headers"
    yield Contradiction(("output_tok_per_s", "total_tok_per_s"), broken, reason)


def _latency_apart(v: Values) -> Iterator[Contradiction]:
    """Whole requests against first token and tokens: means over requests of several lengths differ,
    not threefold."""
    built = v["ttft_s"] + (v["output_tokens"] - 1.0) * v["tpot_s"]
    broken = np.abs(np.log(v["request_latency_s"] / built)) > np.log(2.0 * IMPOSSIBLE)
    reason = (
        "the latency of a request is not its first token and tpot_s for each further one; check "
        "the units"
    )
    yield Contradiction(("request_latency_s", "ttft_s", "tpot_s", "output_tokens"), broken, reason)


def _prefill_in_token_time(v: Values) -> Iterator[Odd]:
    spread = v["request_latency_s"] / v["output_tokens"]
    decode = (v["request_latency_s"] - v["ttft_s"]) / (v["output_tokens"] - 1.0)
    distinguishable = (v["output_tokens"] > 1) & (np.abs(spread / decode - 1.0) > 2.0 * NEAR)
    holds = distinguishable & (np.abs(v["tpot_s"] / spread - 1.0) <= 0.5 * NEAR)
    if holds.sum() > _MOST * distinguishable.sum():
        yield holds, warned("prefill_in_time")


def _round_as_token(frame: pd.DataFrame, v: Values) -> Iterator[Odd]:
    stated = ~frame["derived"].str.contains("step_time_s", na=False).to_numpy(dtype=bool)
    ratio = v["step_time_s"] / v["tpot_s"]
    comparable = (
        stated
        & np.isfinite(ratio)
        & (v["accepted_length"] > 1.0 + 2.0 * NEAR)
        & (v["draft_tokens_k"] > 0)
    )
    same = comparable & (np.abs(ratio - 1.0) <= NEAR)
    if same.sum() > _MOST * comparable.sum():
        yield same, warned("round_as_token")
    apart = comparable & ~same & (np.abs(np.log(ratio / v["accepted_length"])) > np.log(IMPOSSIBLE))
    if apart.sum() > _MOST * comparable.sum():
        yield apart, warned("round_apart")


def _queued(frame: pd.DataFrame, v: Values) -> Iterator[Odd]:
    """Open loads: requests before their first token beside those that decode, both by Little's
    law."""
    computed = frame["derived"].str.contains("batch_size", na=False).to_numpy(dtype=bool)
    waiting = v["output_tok_per_s"] / v["output_tokens"] * v["ttft_s"]
    queued = computed & (waiting > QUEUED * v["batch_size"])
    if queued.any():
        typical = float(np.median((waiting / v["batch_size"])[queued]))
        yield queued, warned("requests_queued", waiting=typical)


def _full_acceptance(v: Values) -> Iterator[Odd]:
    full = (v["draft_tokens_k"] > 0) & (
        np.abs(v["accepted_length"] - v["draft_tokens_k"] - 1.0) < 1e-9
    )
    yield full, warned("all_accepted")


def _short_prompts(v: Values) -> Iterator[Odd]:
    known = np.isfinite(v["input_tokens"])
    short = known & (v["input_tokens"] > 0) & (v["input_tokens"] < SHORTEST_PROMPT)
    if short.sum() > _MOST * known.sum():
        yield short, warned("prompts_short")


def _seconds_as_ms(v: Values) -> Iterator[Odd]:
    for name in ("tpot_s", "itl_s", "step_time_s"):
        known = np.isfinite(v[name])
        if (quick := known & (v[name] < QUICKEST_S)).sum() > _MOST * known.sum():
            yield quick, warned("time_too_short", name=name.removesuffix("_s"))
            return


def _stated_speedups(frame: pd.DataFrame, v: Values) -> Iterator[Odd]:
    """Stated speedups against those over the file's own baseline rows."""
    computed = frame["derived"].str.contains("speedup", na=False).to_numpy(dtype=bool)
    stated = np.isfinite(v["speedup"]) & (v["draft_tokens_k"] > 0) & ~computed
    if not stated.any() or not (v["draft_tokens_k"] == 0).any():
        return
    matched, _ = match_baselines(frame.assign(speedup=np.nan), unstated_fits=False)
    matched_speedup = Numbers(matched)["speedup"]
    comparable = stated & np.isfinite(matched_speedup) & (np.abs(np.log(matched_speedup)) > NEAR)
    inverse = comparable & (np.abs(v["speedup"] * matched_speedup - 1.0) <= NEAR)
    apart = comparable & ~inverse & (np.abs(v["speedup"] / matched_speedup - 1.0) > 2.0 * NEAR)
    if inverse.sum() > _MOST * comparable.sum():
        yield inverse, warned("speedup_inverse")
    elif apart.any():
        yield apart, warned("speedup_apart")
