"""Ratios between choices: how right a comparison is, on pairs of silicon points that differ in one
choice alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.ratios import ChoiceKind, RatioRecord
from studies.validation.silicon import SETTINGS
from studies.validation.tables import markdown_table, percent

FORMATS = ("bf16", "fp8", "int4", "fp4")
"""Weight formats from wide to narrow: a change goes this way."""
BEYOND = (0.05, 0.10)
"""Measured differences from which on a direction is judged; below lies the noise between runs.
[-]"""
GROUPED_BY = ("model_id", "hardware_id", "weight_dtype", "engine")
"""Pairs of one group share a server and its errors, so groups are counted beside pairs."""
BAND = (0.1, 0.9)
_HEADER = (
    *("change", "pairs", "groups", "measured", "predicted", "median error", "p90"),
    *(f"direction beyond {beyond:.0%}" for beyond in BEYOND),
)
SOURCE = (
    "silicon_sample.csv of aiconfigurator-core, after the quarantine; pairs that differ in this "
    "choice alone"
)


@dataclass(frozen=True)
class RatioChoice:
    """A column in which the two points of a pair differ, everything else but its companions
    equal."""

    column: str
    same_version: bool = True
    doublings: tuple[int, ...] = ()
    """How often the value doubles from before to after: first as the choice is judged, then further
    distances, each judged apart; empty: any other value, in the order of `order`."""
    order: tuple[str, ...] = ()
    """Values from before to after; empty: alphabetical."""


CHOICES: Mapping[ChoiceKind, RatioChoice] = {
    "engine": RatioChoice("engine", same_version=False),
    "weights": RatioChoice("weight_dtype", order=FORMATS),
    "tensor parallel": RatioChoice("tensor_parallel", doublings=(1, 2, 3)),
    "expert parallel": RatioChoice("spread"),
    "accelerator": RatioChoice("hardware_id"),
    "batch": RatioChoice("batch_size", doublings=(2, 1, 3, 4, 5, 6)),
}
"""The choices judged, by the name that records and pages have for them."""


def pairs(rows: pd.DataFrame, kind: ChoiceKind, doublings: int | None = None) -> pd.DataFrame:
    """Pairs of points that differ in one choice of CHOICES alone, points of one setting at their
    median.

    `doublings`: how often a number doubles in a pair; None: as the choice is judged.

    Columns: the settings kept, before, after (the choice's values), measured and predicted (time
    after over time before), and the same end to end.
    """
    choice = CHOICES[kind]
    rows = _with_spread(rows, kind)
    if kind == "tensor parallel":  # experts over the same ranks move with them: another choice
        rows = rows[(rows["expert_parallel"] == 1) & (rows["attention_groups"] == 1)]
    keys = [name for name in (*SETTINGS, "version") if name != choice.column]
    keys = [name for name in keys if choice.same_version or name != "version"]
    if kind == "expert parallel":
        keys.remove("expert_parallel")
    columns = ["measured_s", "predicted_s", "end_to_end_s", "predicted_end_to_end_s"]
    points = rows.groupby([*keys, choice.column], observed=True)[columns].median().reset_index()
    both = points.merge(points, on=keys, suffixes=("_before", "_after"))
    before = both[f"{choice.column}_before"]
    after = both[f"{choice.column}_after"]
    if choice.doublings:
        wanted = after == before * 2 ** (doublings or choice.doublings[0])
    elif choice.order:
        place = {value: rank for rank, value in enumerate(choice.order)}
        wanted = before.map(place) < after.map(place)
    else:
        wanted = before.astype(str) < after.astype(str)
    both = both[wanted]
    before = before[wanted]
    after = after[wanted]
    ratios = {
        name: both[f"{column}_after"] / both[f"{column}_before"]
        for name, column in zip(
            ("measured", "predicted", "whole", "predicted_whole"), columns, strict=True
        )
    }
    return both[keys].assign(before=before, after=after, **ratios).reset_index(drop=True)


def _with_spread(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Rows with the choice of spreading experts: over no ranks, or over all that tensor parallelism
    has."""
    if kind != "expert parallel":
        return rows
    tp = rows["tensor_parallel"]
    ep = rows["expert_parallel"]
    either = rows[(rows["attention_groups"] == 1) & (tp > 1) & ((ep == 1) | (ep == tp))]
    return either.assign(spread=np.where(either["expert_parallel"] == 1, "1", "all"))


@dataclass(frozen=True)
class Judged:
    """Figures on how right the ratios of some pairs are. Shares are of 1; NaN where no pair is."""

    n: int
    n_groups: int
    measured: float
    """Median of the measured ratios; beside it the predicted one."""
    predicted: float
    median: float
    p90: float
    directions: tuple[tuple[int, float, int, int], ...]
    """For each of BEYOND: pairs further apart, share of them on the right side, groups apart, those
    on the right."""
    low: float
    """Measured over predicted ratio: the ends of its 80 % range."""
    high: float


def judged(found: pd.DataFrame, predicted: str = "predicted", measured: str = "measured") -> Judged:
    """The figures of pairs."""
    if found.empty:
        return Judged(
            0, 0, *(np.nan,) * 4, tuple((0, np.nan, 0, 0) for _ in BEYOND), np.nan, np.nan
        )
    error = np.abs(found[predicted] / found[measured] - 1.0)
    off = np.log(found[measured] / found[predicted])
    low, high = np.exp(np.quantile(off, BAND))
    return Judged(
        len(found),
        len(_group_medians(found, measured)),
        float(found[measured].median()),
        float(found[predicted].median()),
        float(error.median()),
        float(np.quantile(error, 0.9)),
        tuple(_directions(found, predicted, measured, beyond) for beyond in BEYOND),
        float(low),
        float(high),
    )


def _group_medians(found: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Median log ratios of each group of pairs: one model, accelerator, weights, engine and
    change."""
    keys = [name for name in GROUPED_BY if name in found]
    values = np.log(found[list(columns)]).assign(**{name: found[name] for name in keys})
    if (
        found["before"].dtype == object or found["before"].dtype == "str"
    ):  # names; factors are one change each
        values["changed"] = found["before"].astype(str) + " -> " + found["after"].astype(str)
        keys.append("changed")
    return values.groupby(keys)[list(columns)].median()


def _directions(
    found: pd.DataFrame, predicted: str, measured: str, beyond: float
) -> tuple[int, float, int, int]:
    apart = found[np.abs(np.log(found[measured])) > np.log1p(beyond)]
    groups = _group_medians(found, measured, predicted)
    groups = groups[np.abs(groups[measured]) > np.log1p(beyond)]
    right = (
        float(((apart[measured] > 1.0) == (apart[predicted] > 1.0)).mean())
        if len(apart)
        else np.nan
    )
    return (
        len(apart),
        right,
        len(groups),
        int(((groups[measured] > 0.0) == (groups[predicted] > 0.0)).sum()),
    )


@dataclass(frozen=True)
class RatioLine:
    """One kind of change, or a single change of it, with its figures."""

    kind: str
    """As in CHOICES; empty: printed alone, no record is made of it."""
    before: str
    after: str
    figures: Judged
    doublings: float | None = None
    among: tuple[str, ...] = ()


def judged_choices(rows: pd.DataFrame) -> dict[str, RatioLine]:
    """Each choice, its further distances and its single changes, by the name of a line."""
    found: dict[str, RatioLine] = {}
    for kind, choice in CHOICES.items():
        for doublings in choice.doublings or (None,):
            found |= _lines_at(rows, kind, doublings)
    with_sglang = pairs(rows, "engine")
    touches = (with_sglang["before"] == "sglang") | (with_sglang["after"] == "sglang")
    others = judged(with_sglang[~touches], "predicted_whole", "whole")
    among = _values(with_sglang)
    found["engine, pairs with SGLang"] = RatioLine(
        "engine", "sglang", "", judged(with_sglang[touches]), among=among
    )
    found["engine, TensorRT-LLM and vLLM, end to end"] = RatioLine("", "", "", others)
    return found


def _lines_at(rows: pd.DataFrame, kind: ChoiceKind, doublings: int | None) -> dict[str, RatioLine]:
    """All pairs of a kind at one distance, then its single changes."""
    every = pairs(rows, kind, doublings)
    far = float(doublings) if doublings else None
    among = () if doublings or kind == "expert parallel" else _values(every)
    first = doublings is None or doublings == CHOICES[kind].doublings[0]
    name = kind if first else f"{kind}, x{2 ** (doublings or 0)}"
    found = {name: RatioLine(kind, "", "", judged(every), far, among)}
    if kind in ("batch", "expert parallel", "accelerator"):
        return found
    for (before, after), group in every.groupby(["before", "after"]):
        found[f"{kind} {before} -> {after}"] = RatioLine(
            kind, str(before), str(after), judged(group), far
        )
    return found


def _values(found: pd.DataFrame) -> tuple[str, ...]:
    """What pairs were between, as a setup names it: an accelerator by whose kernels it has."""
    values = {str(value) for value in {*found["before"], *found["after"]}}
    return tuple(sorted(_device(value) for value in values))


def _device(value: str) -> str:
    return (load_hardware(value).kernel_table_device or value) if value in hardware_ids() else value


def ratio_records(rows: pd.DataFrame) -> list[RatioRecord]:
    """Records that "try next" and comparisons read, the spread and direction of each kind of
    change."""
    found = []
    for line in judged_choices(rows).values():
        figures = line.figures
        if line.kind and figures.n:
            apart, right, *_ = figures.directions[0]
            record = RatioRecord(
                kind=line.kind,
                before=line.before,
                after=line.after,
                n=figures.n,
                n_groups=figures.n_groups,
                n_apart=apart,
                right=right if apart else None,
                low=figures.low,
                high=figures.high,
                doublings=line.doublings,
                among=line.among,
            )
            found.append(record)
    return found


def ratios_section(rows: pd.DataFrame, by_scales: Mapping[str, pd.DataFrame]) -> str:
    """The section of docs/validation.md.

    `rows`: judged plain decode, each measurement once; `by_scales`: the same by how much of
    TensorRT-LLM's nvfp4 excess is taken off.
    """
    return (
        "## Ratios between choices\n\nWhat a comparison says: time after a change over time "
        "before it, on pairs of "
        "plain-decode points that differ in this choice alone (same engine version on both sides, "
        "but between "
        "engines). Measured and predicted: medians. Direction: of pairs measured further apart, "
        "how many are predicted "
        "on that side; in brackets by groups (model, accelerator, weights, engine). Over several "
        "doublings errors "
        "neither add up nor add as independent ones, so each distance is judged by pairs of its "
        "own, and comparisons "
        "take the range at theirs.\n\n"
        + ratios_table(rows)
        + "\n\nTensorRT-LLM's nvfp4 products take longer than vLLM's of the same shape, for a "
        "reason that no table "
        "tells; half is assumed away, and the direction between the two hangs on it. By the share "
        "taken off:\n\n"
        + markdown_table(_HEADER, [_line(name, each) for name, each in _scale_lines(by_scales)])
    )


OFFERED_FROM = "trtllm"
OFFERED_TO = "vllm"
"""The two engines between which the share of nvfp4 time that is taken off decides."""


def _scale_lines(by_scales: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Judged]]:
    for name, rows in by_scales.items():
        engines = pairs(rows, "engine")
        weights = pairs(rows, "weights")
        yield (
            f"{name}: engine {OFFERED_FROM} -> {OFFERED_TO}",
            judged(engines[_is_change(engines, OFFERED_FROM, OFFERED_TO)]),
        )
        yield f"{name}: weights fp8 -> fp4", judged(weights[_is_change(weights, "fp8", "fp4")])


def _is_change(found: pd.DataFrame, before: str, after: str) -> pd.Series:
    return (found["before"] == before) & (found["after"] == after)


def ratios_table(rows: pd.DataFrame) -> str:
    """Every choice and its single changes, a line each."""
    lines = [_line(name, line.figures) for name, line in judged_choices(rows).items()]
    return markdown_table(_HEADER, lines)


def _line(name: str, figures: Judged) -> tuple[Any, ...]:
    directions = (
        f"{percent(share, 0)} of {n} ({right} of {groups})" if n else "-"
        for n, share, groups, right in figures.directions
    )
    ratios = (
        f"{value:.2f}" if figures.n else "-" for value in (figures.measured, figures.predicted)
    )
    return (
        name,
        figures.n,
        figures.n_groups,
        *ratios,
        percent(figures.median),
        percent(figures.p90),
        *directions,
    )
