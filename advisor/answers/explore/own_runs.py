"""What a user's first own runs do to error and band, as shipped data: the study behind it takes minutes.

Why a user's own points all lie on one side of the curve: the accepted length that would explain it, the context.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from advisor.answers.advice import Advice
from advisor.catalog.fit_records import rounded
from advisor.physics.hardware import of_data_centre
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES
from advisor.text import counted

if TYPE_CHECKING:
    import pandas as pd

OWN_RUNS = PROFILES / "validation" / "own_runs.json"
OWN_ROWS = 4
"""Runs of one's own that a refit is judged after: from here on it takes the scatter of the user's own rows. [-]"""


@dataclass(frozen=True)
class OwnRuns:
    """Figures before and after a refit on OWN_ROWS rows of a configuration, on its other rows. Shares. [-]

    Means over laboratories; widths are medians of (high - low) / predicted; slopes are log error on log2 batch.
    """

    kind: str
    """Which rows: data centre, workstation, all, or one laboratory."""
    n_rows: int
    n_laboratories: int
    error_before: float
    error_after: float
    coverage_before: float
    coverage_after: float
    width_before: float
    width_after: float
    slope_before: float
    slope_after: float


def write_own_runs(found: Iterable[OwnRuns], data_and_fits: str, path: Path = OWN_RUNS) -> Path:
    """Write the figures by kind of part, with the hash of the data and fits behind them."""
    kinds = {one.kind: rounded({name: value for name, value in asdict(one).items() if name != "kind"}) for one in found}
    lines = ",\n".join(f'"{kind}": {json.dumps(figures)}' for kind, figures in kinds.items())
    path.write_text(f'{{"data_and_fits": "{data_and_fits}", "kinds": {{\n{lines}\n}}}}\n', encoding="utf-8")
    return path


@lru_cache(maxsize=1)
def read_own_runs(path: Path = OWN_RUNS) -> tuple[str, dict[str, OwnRuns]]:
    """(hash of data and fits, figures by kind). Raises AdvisorError when the file is missing or damaged."""
    try:
        nan, content = float("nan"), json.loads(path.read_text(encoding="utf-8"))
        kinds = {
            # A slope without three batches is no number.
            kind: OwnRuns(**{"kind": kind} | {name: nan if value is None else value for name, value in figures.items()})
            for kind, figures in content["kinds"].items()
        }
        return str(content["data_and_fits"]), kinds
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdvisorError(
            f"profiles/validation/{path.name} cannot be read ({error}); run `make validation`"
        ) from error


def half_width_after(low: float, value: float, high: float, study: OwnRuns) -> tuple[float, float]:
    """Half the band's width over its value, now and after OWN_ROWS runs of one's own. [-] Narrower as in the study."""
    now = (high - low) / (2.0 * value)
    return now, now * min(study.width_after / study.width_before, 1.0)


def own_runs_text(advice: Advice) -> str:
    """Sentence on what a first own run would do to the band.

    Empty where the scenario has a refit already, where nothing is drafted, or where the shipped figures cannot be read.
    """
    if advice.scenario.refit or not advice.curve_k:
        return ""
    try:
        _, kinds = read_own_runs()
    except AdvisorError:
        return ""
    kind = "data centre" if of_data_centre(advice.setup.hardware) else "workstation"
    study = kinds.get(kind) or kinds["all"]
    at = advice.batch_index, advice.curve_column
    curve = advice.curve
    now, after = half_width_after(float(curve.low[at]), float(curve.speedup[at]), float(curve.high[at]), study)
    return (
        f"Band ±{now:.0%} at K = {advice.curve_k}; about ±{after:.0%} once refitted to {OWN_ROWS} benchmark runs of "
        f"your own, which took the error from {study.error_before:.0%} to {study.error_after:.0%} "
        f"(on {study.n_rows} rows of {counted(study.n_laboratories, 'laboratory', 'laboratories')})."
    )


GAP_COLUMNS = ("batch_size", "n_draft", "speedup", "drafter", "accepted_length", "context_tokens")
"""What is asked of the points: canonical columns, K as `n_draft`; empty cells where a file does not say it."""
_LEAST_POINTS = 2
_LEAST_GAP = 0.02
"""Choice of this project: points nearer to the curve in the median are on it. [-]"""
_SAME_LENGTH = 0.01
"""Accepted lengths nearer to each other are one: they are shown with two decimals. [-]"""
_SAME_CONTEXT = 0.1
"""Contexts nearer to each other are one: means over requests are seldom round. [-]"""


@dataclass(frozen=True)
class OwnGap:
    """Points of one K that all lie on one side of its curve."""

    n_draft: int
    n_points: int
    nearest: float
    """Measured over predicted speedup of the point nearest to the curve; `farthest` and `middle` likewise. [-]"""
    farthest: float
    middle: float
    accepted_length: float
    """The scenario's at this K. [tokens]"""
    implied_length: float
    """Accepted length that puts the middle of the points on the curve: a speedup is proportional to it. [tokens]"""
    stated_length: float | None
    """The points' own, median; None where their file does not say it, or says the scenario's. [tokens]"""
    says_the_same: bool
    """Whether their file states the scenario's accepted length."""
    context_tokens: int
    """The scenario's. [tokens]"""
    own_context: int | None
    """The points' median, where it is another. [tokens]"""

    @property
    def length_to_try(self) -> float | None:
        """Accepted length to try: the file's, else the implied one where a K can reach it. [tokens]"""
        if self.stated_length is not None:
            return self.stated_length
        reachable = 1.0 < self.implied_length <= self.n_draft + 1
        return None if self.says_the_same or not reachable else self.implied_length


def own_gap(advice: Advice, points: pd.DataFrame) -> OwnGap | None:
    """The gap between points and the answer's curve of their K.

    None where they lie on both sides of the curve, or on it.

    points : GAP_COLUMNS of this accelerator and model. Of several K, the one with most points; of other drafters, none.
    """
    curve, scenario = advice.curve, advice.scenario
    near = points["drafter"].isna() | (points["drafter"] == scenario.drafter_id)
    near &= points["batch_size"].between(float(curve.batches[0]), float(curve.batches[-1]))
    near &= points["n_draft"].isin([int(k) for k in curve.drafts if k > 0])
    found = points[near]
    if not len(found):
        return None
    k = int(found["n_draft"].mode().iloc[0])
    found = found[found["n_draft"] == k]
    column = curve.column(k)
    batch = found["batch_size"].to_numpy(float)
    predicted = np.exp(np.interp(np.log(batch), np.log(curve.batches), np.log(curve.speedup[:, column])))
    ratio = found["speedup"].to_numpy(float) / predicted
    middle = float(np.median(ratio))
    if len(ratio) < _LEAST_POINTS or (ratio.min() - 1.0) * (ratio.max() - 1.0) <= 0.0 or abs(middle - 1.0) < _LEAST_GAP:
        return None
    below = middle < 1.0
    length = float(curve.accepted_length[column])
    stated, context = (_median(found[name]) for name in ("accepted_length", "context_tokens"))
    same = stated is not None and abs(stated / length - 1.0) < _SAME_LENGTH
    other = context is not None and abs(context / scenario.context_tokens - 1.0) > _SAME_CONTEXT
    return OwnGap(
        n_draft=k,
        n_points=len(ratio),
        nearest=float(ratio.max() if below else ratio.min()),
        farthest=float(ratio.min() if below else ratio.max()),
        middle=middle,
        accepted_length=length,
        implied_length=length * middle,
        stated_length=None if same else stated,
        says_the_same=same,
        context_tokens=scenario.context_tokens,
        own_context=max(round(context), 1) if context is not None and other else None,
    )


def _median(values: pd.Series) -> float | None:
    stated = values.dropna().to_numpy(float)
    return float(np.median(stated)) if len(stated) else None


def own_gap_text(gap: OwnGap) -> str:
    """Sentences on where the points lie and what would explain it.

    An accepted length that their file does not state is said to be inferred.
    """
    side = "below" if gap.middle < 1.0 else "above"
    ends = [f"{abs(end - 1.0):.0%}" for end in (gap.nearest, gap.farthest)]
    size = ends[0] if ends[0] == ends[1] else f"{ends[0].removesuffix('%')} to {ends[1]}"
    said = [f"Your {counted(gap.n_points, 'point')} lie {size} {side} the curve of K = {gap.n_draft}"]
    k, length = gap.n_draft, gap.accepted_length
    explain = f"An accepted length {gap.middle:.2f} times as long would explain it"
    if gap.stated_length is not None:
        said.append(
            f"{explain}; your file states {gap.stated_length:.2f} at K = {k}, {gap.stated_length / length:.2f} times "
            f"the {length:.2f} used here"
        )
    elif gap.says_the_same:
        said.append(f"The accepted length does not explain it: your file states the {length:.2f} used here")
    elif gap.length_to_try is None:
        said.append(f"No accepted length explains it: {gap.implied_length:.2f} at K = {k} would be needed")
    else:
        said.append(
            f"{explain}: {gap.implied_length:.2f} instead of {length:.2f} at K = {k}, inferred from your points, not "
            "counted"
        )
    if gap.own_context is not None:
        said.append(f"They were measured at context {gap.own_context:,}; this is for {gap.context_tokens:,}")
    return ". ".join(said) + "."
