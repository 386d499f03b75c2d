"""What a user's first own runs do to error and band, as shipped data: the study behind it takes minutes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from advisor.answers.advice import Advice
from advisor.physics.hardware import of_data_centre
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES
from advisor.text import counted

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
        f"Likely range ±{now:.0%} at K = {advice.curve_k}; about ±{after:.0%} once refitted to {OWN_ROWS} benchmark "
        f"runs of your own, which took the error from {study.error_before:.0%} to {study.error_after:.0%} "
        f"(on {study.n_rows} rows of {counted(study.n_laboratories, 'laboratory', 'laboratories')})."
    )
