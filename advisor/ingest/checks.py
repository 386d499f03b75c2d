"""Rules that tie columns together, and columns that look as if they had changed places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.ingest.canonical import COLUMNS, MEASURED_COLUMNS, TableKind
from advisor.ingest.contradictions import Contradiction, contradictions
from advisor.ingest.derived import lower_is_better, speedup_from_values
from advisor.ingest.result import Reject, Swap
from advisor.ingest.table import FileTable

SPEEDUP_TOLERANCE = 0.05
"""A stated speedup may differ from the ratio of the two stated values by this share: figures are printed rounded."""

MAX_PLAUSIBLE_SPEEDUP = 20.0
"""A stated speedup above is taken for a percentage: 1.2 as 120. [-]"""

SWAP_SHARE = 0.5
"""Two columns are called swapped when more than this share of the rows break a rule that all of those then keep."""

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class CheckRule:
    """Rule that marks broken rows, `broken(values)` [bool]. Comparisons with an unknown value are never broken."""

    columns: tuple[str, ...]
    broken: Callable[[Values], np.ndarray]
    reason: str


def _more(first: str, second: str, slack: float = 0.0) -> Callable[[Values], np.ndarray]:
    return lambda v: v[first] > v[second] * (1 + 1e-9) + slack


def _not_divisible(v: Values) -> np.ndarray:
    return np.asarray(np.mod(v["gpu_count"], v["tensor_parallel"]) > 0)


POINT_RULES = (
    CheckRule(("n_active", "n_experts"), _more("n_active", "n_experts"), "n_active (k) exceeds n_experts (N)"),
    CheckRule(
        ("accepted_length", "draft_tokens_k"),
        _more("accepted_length", "draft_tokens_k", 1.0),
        "accepted_length exceeds K + 1, the most a round can emit",
    ),
    CheckRule(("tensor_parallel", "gpu_count"), _not_divisible, "tensor_parallel does not divide gpu_count"),
    CheckRule(
        ("expert_parallel", "gpu_count"), _more("expert_parallel", "gpu_count"), "expert_parallel exceeds gpu_count"
    ),
    CheckRule(
        ("ttft_s", "request_latency_s"),
        _more("ttft_s", "request_latency_s"),
        "the first token comes after the whole request; check the units",
    ),
)
SPEEDUP_SLACK = 1.1
"""A round is no faster than a plain step, so no speedup exceeds the tokens of a round; baselines scatter. [-]"""


def _above_round(v: Values) -> np.ndarray:
    return np.asarray(v["speedup"] > SPEEDUP_SLACK * np.fmin(v["accepted_length"], v["draft_tokens_k"] + 1.0))


KERNEL_RULES = (CheckRule(("topk", "num_experts"), _more("topk", "num_experts"), "topk exceeds num_experts"),)
RULES: dict[TableKind, tuple[CheckRule, ...]] = {"points": POINT_RULES, "kernels": KERNEL_RULES}


def numeric_values(frame: pd.DataFrame, names: Iterable[str]) -> Values:
    """Columns as float arrays with NaN for unknown."""
    return {name: frame[name].to_numpy(dtype=float, na_value=np.nan) for name in names}


@dataclass(frozen=True)
class Checked:
    """Mask of rows to keep [rows], with what was found wrong or odd.

    One Reject per broken rule and row, and the columns that look swapped.
    """

    keep: np.ndarray
    rejects: list[Reject]
    swaps: list[Swap]
    warnings: list[str]


def check_rows(frame: pd.DataFrame, kind: TableKind, measured: bool = True) -> Checked:
    """Hold the rows of a typed frame against every rule. `measured`: also that each measures something."""
    keep = np.ones(len(frame), dtype=bool)
    rejects: list[Reject] = []
    swaps: list[Swap] = []
    warnings: list[str] = []
    lines = frame.index.to_numpy()
    for rule in RULES[kind]:
        if any(frame[name].isna().all() for name in rule.columns):
            continue
        values = numeric_values(frame, rule.columns)
        with np.errstate(invalid="ignore"):
            broken = rule.broken(values)
        if not broken.any():
            continue
        hint = _swap_hint(rule, values, broken)
        if hint:
            swaps.append(Swap((rule.columns[0], rule.columns[1]), hint))
        rejects += _list_rejects(rule.columns, values, broken, lines, rule.reason + (f"; {hint}" if hint else ""))
        keep &= ~broken
    if kind == "points":
        impossible, odd = contradictions(frame)
        above = _above_round(numeric_values(frame, ("speedup", "accepted_length", "draft_tokens_k")))
        impossible.append(
            Contradiction(("speedup", "accepted_length", "draft_tokens_k"), above, _speedup_reason(frame, above))
        )
        warnings += odd
        for one in impossible:
            rejects += _list_rejects(one.columns, numeric_values(frame, one.columns), one.rows, lines, one.reason)
            keep &= ~one.rows
        contradicted = _speedup_contradicted(frame)
        names = ("speedup", "sd_value", "baseline_value")
        if contradicted.any():
            reason = "speedup is not the ratio of sd_value and baseline_value"
            rejects += _list_rejects(names, numeric_values(frame, names), contradicted, lines, reason)
            keep &= ~contradicted
    empty = frame[list(MEASURED_COLUMNS[kind])].isna().all(axis=1).to_numpy()
    if measured and empty.any():
        reason = f"nothing measured: fill at least one of {', '.join(MEASURED_COLUMNS[kind])}"
        rejects += [Reject(int(line), "", "", reason) for line in lines[empty]]
        keep &= ~empty
    return Checked(keep, rejects, swaps, warnings)


def _speedup_reason(frame: pd.DataFrame, above: np.ndarray) -> str:
    reason = "the speedup exceeds the tokens of a round, which no drafting can"
    typical = float(np.median(frame["speedup"].to_numpy(dtype=float, na_value=np.nan)[above])) if above.any() else 0.0
    return f"{reason}; it looks like a percentage" if typical > MAX_PLAUSIBLE_SPEEDUP else f"{reason}; check the column"


def _list_rejects(
    columns: tuple[str, ...], values: Values, broken: np.ndarray, lines: np.ndarray, reason: str
) -> list[Reject]:
    rows = np.flatnonzero(broken)
    shown = [[f"{number:.12g}" for number in values[name][rows]] for name in columns]
    name = " / ".join(columns)
    return [
        Reject(int(line), name, " / ".join(cells), reason)
        for line, cells in zip(lines[rows], zip(*shown, strict=True), strict=True)
    ]


def _swap_hint(rule: CheckRule, values: Values, broken: np.ndarray) -> str:
    """A sentence when most rows break a rule that they would all keep with the two columns exchanged."""
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
        f"{first} and {second} look swapped: {int(broken.sum()):,} of {int(known.sum()):,} rows fit only the other way "
        "round; exchange the two headers"
    )


def _speedup_contradicted(frame: pd.DataFrame) -> np.ndarray:
    values = numeric_values(frame, ("speedup", "sd_value", "baseline_value"))
    metric = frame["metric"].fillna("")
    expected = speedup_from_values(values["baseline_value"], values["sd_value"], lower_is_better(metric))
    with np.errstate(invalid="ignore"):
        off = np.abs(values["speedup"] / expected - 1.0) > SPEEDUP_TOLERANCE
    return off & (metric != "").to_numpy()


def misplaced_columns(table: FileTable, mapped: dict[str, tuple[int, float]], kind: TableKind) -> list[Swap]:
    """A numeric column full of words beside a text column full of numbers (first 200 rows)."""
    spec = COLUMNS[kind]
    share: dict[str, float] = {}
    for name, (index, _) in mapped.items():
        cells = [cell.strip() for cell in table.columns[index][:200].to_pylist() if cell and cell.strip()]
        if cells:
            share[name] = sum(_is_number(cell) for cell in cells) / len(cells)
    words = [name for name, part in share.items() if spec[name].numeric and part < SWAP_SHARE]
    numbers = [name for name, part in share.items() if _is_name(name, kind) and part > 1 - SWAP_SHARE]
    if len(words) == 1 and len(numbers) == 1:
        reason = f"{words[0]} holds words and {numbers[0]} holds numbers: they look swapped; exchange the two headers"
        return [Swap((words[0], numbers[0]), reason)]
    return []


def _is_name(name: str, kind: TableKind) -> bool:
    return not COLUMNS[kind][name].numeric and name not in ("engine_version", "version", "date", "point_id", "notes")


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True
