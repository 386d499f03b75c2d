"""What a refit says: each constant before and after, errors on the user's own rows, and the words for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.points.errors import Errors
from advisor.points.points import Refused

_NO_CHANGE = 0.02
"""Errors nearer than this share of each other are alike. [-]"""
MAX_ERROR = 0.30
"""Above this mean error on rows that it did not see, a refit is not called better than anything. [-]"""


@dataclass(frozen=True)
class RefitParameter:
    """One constant before and after. `unit` s or per sequence: the constant; 1: a factor on shipped kernel times."""

    name: str
    meaning: str
    unit: str
    before: float
    after: float
    factor: float
    """after / before. [-]"""
    log_stderr: float
    """Posterior standard deviation of log(factor). [-]"""
    prior_log_sd: float
    at_bound: bool
    identified: bool
    """False where the data leave the prior as wide as it was, or have nothing to say."""


@dataclass(frozen=True)
class OwnErrors:
    """Errors on the user's own rows, outliers left out. Each row predicted without itself in `after`."""

    before: Errors
    after: Errors

    @property
    def better(self) -> bool:
        """Whether the refit predicts unseen rows better than the shipped constants do, and well enough."""
        assert self.before.mape is not None
        assert self.after.mape is not None
        return not self.far_off and self.after.mape < (1.0 - _NO_CHANGE) * self.before.mape

    @property
    def far_off(self) -> bool:
        """Whether rows that it did not see stay off by more than MAX_ERROR in the mean."""
        assert self.after.mape is not None
        return not self.after.mape <= MAX_ERROR


@dataclass(frozen=True)
class RefitResult:
    """Verdict of one accelerator's and engine's points on the constants. Immutable; dropping it is the undo."""

    hardware_id: str
    engine: str
    engine_class: str
    """Engine with its vintage, whose shipped overheads are the constants before."""
    data: str
    """Twelve hex digits of a hash of the rows that were fitted."""
    n_points: int
    parameters: tuple[RefitParameter, ...]
    correlation: tuple[tuple[float, ...], ...]
    """Posterior correlation in the order of `parameters`."""
    outliers: tuple[Refused, ...]
    refused: tuple[Refused, ...]
    own_errors: OwnErrors
    noise_log_sd: float
    """Scatter of the rows around the refit, log standard deviation. [-]"""
    moved: float
    """Median of |after / before - 1| of the predictions of the rows used. [-]"""
    rows: pd.DataFrame
    """One row per quantity: line, batch_size, k_draft, model_id, drafter, quantity, measured, before, after,
    left_out (predicted by a refit without this line), used."""
    success: bool
    message: str
    questions: tuple[str, ...] = ()
    """What the rows make one ask about their units and columns, see `advisor.points.units`."""

    @property
    def reasons_against(self) -> tuple[str, ...]:
        """Reasons why the shipped constants should stay, one sentence each.

        Empty when nothing speaks against the refit.
        """
        said = list(self.questions)
        if self.own_errors.far_off:
            said.append(f"Rows left out of the fit are off by {self.own_errors.after.mape:.0%} in the mean.")
        elif not self.own_errors.better:
            said.append("Rows left out of the fit are predicted no better than by the shipped constants.")
        if self.at_bound:
            said.append(f"Ended at their bound: {self._meanings(self.at_bound)}; something else is wrong.")
        return tuple(said)

    def _meanings(self, names: tuple[str, ...]) -> str:
        return ", ".join(item.meaning for item in self.parameters if item.name in names)

    @property
    def sentence(self) -> str:
        """Summary of the refit: changes, points, those set aside, and whether it predicts unseen ones better."""
        return _sentence(self)

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Names of multipliers that ended at their bound."""
        return tuple(item.name for item in self.parameters if item.at_bound)

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Names of multipliers that the data do not determine."""
        return tuple(item.name for item in self.parameters if not item.identified)


def _sentence(result: RefitResult) -> str:
    learnt = [item for item in result.parameters if item.identified]
    learnt.sort(key=lambda item: -abs(np.log(item.factor)) / item.prior_log_sd)
    moved = " and ".join(f"{item.meaning} by {item.factor - 1.0:+.0%}" for item in learnt[:3])
    text = f"Your data moved {moved}" if moved else "Your data moved no constant beyond what was known"
    text += f": {result.n_points} points of {result.hardware_id} with {result.engine_class}"
    if result.outliers:
        first = result.outliers[0]
        plural = "s" if len(result.outliers) > 1 else ""
        text += f", {len(result.outliers)} set aside as outlier{plural} because in line {first.line} {first.reason}"
    else:
        text += ", none set aside"
    errors = result.own_errors
    off = f"still more than {MAX_ERROR:.0%} off: keep the shipped constants and look for what else is wrong"
    verdict = "better" if errors.better else off if errors.far_off else "no better: keep the shipped constants"
    text += (
        f". Predictions of these points change by {result.moved:.1%} in the median; points left out of the fit "
        f"are predicted {verdict} (mean error {errors.before.mape:.1%} before, {errors.after.mape:.1%} after)."
    )
    length = next((item for item in learnt if item.name == "accepted_length"), None)
    if length is None:
        return text
    return (
        f"{text} The accepted length stays the scenario's own: multiply it by {length.factor:.2f} there to predict "
        "these points, or mark rows whose accepted length was counted in the same run (accepted_length_same_run = 1)."
    )


PARAMETER_COLUMNS = (
    "Constant",
    "Before",
    "After",
    "Change",
    "Known before to",
    "Known after to",
    "Learnt from your data",
)
"""The last says whether your data narrowed what was known before (`refit.UNIDENTIFIED`), however well that was."""


def parameter_rows(result: RefitResult) -> list[tuple[str, ...]]:
    """One row per constant, under PARAMETER_COLUMNS."""
    return [
        (
            item.meaning.capitalize(),
            _amount(item, item.before),
            _amount(item, item.after),
            f"{round(item.factor - 1.0, 2) + 0.0:+.0%}",  # adding 0.0 makes a negative zero positive
            f"±{item.prior_log_sd:.0%}",
            f"±{item.log_stderr:.0%}",
            "at its bound" if item.at_bound else "yes" if item.identified else "no",
        )
        for item in result.parameters
    ]


def _amount(item: RefitParameter, value: float) -> str:
    if item.unit == "s":
        return f"{value * 1e6:,.1f} \N{MICRO SIGN}s"
    return f"{value:.2f}x" if item.unit == "1" else f"{value:.2g} {item.unit}"


def notes(result: RefitResult) -> list[str]:
    """Remarks on the data of a refit: constants they cannot determine, K they hold.

    What speaks against the refit is said apart.
    """
    said = []
    if result.unidentified:
        names = result._meanings(result.unidentified)
        said = [f"Cannot be determined from these data, so they stay near their values before: {names}."]
    held = sorted({int(k) for k in result.rows["k_draft"] if k > 0})
    if held:
        listed = ", ".join(map(str, held))
        said.append(
            f"Your points hold K = {listed}; odds between other K are the model's, your points do not test them."
        )
    return said
