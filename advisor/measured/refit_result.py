"""What a refit says: each constant before and after, how far predictions are off, and the words for
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.measured.points import Prompts, Refused
from advisor.measured.readings import ExpertTime
from advisor.predict.curve import draft_odds, recommended
from advisor.prediction import Array
from advisor.text import counted


@dataclass(frozen=True)
class Errors:
    """Errors |predicted / measured - 1| over n rows, as shares. None where no row could be judged.
    [-]

    Where rows name their source, every source counts alike, however many rows it brought.
    """

    n: int
    median_ape: float | None = None
    """Median absolute percentage error."""
    mape: float | None = None
    """Mean absolute percentage error."""
    p90_ape: float | None = None
    """What nine of ten errors stay below."""
    sign_accuracy: float | None = None
    """Share of rows placed on the right side of 1; None for times, which have no such side."""
    sign_accuracy_below_one: float | None = None
    """The same, of rows measured below 1."""
    coverage: float | None = None
    """Share of measured values inside the 80 % band."""
    mean_band_width: float | None = None
    """Mean of (high - low) / predicted."""
    bias: float | None = None
    """Geometric mean of predicted / measured, minus 1."""
    n_sources: int | None = None


def errors_of(
    rows: pd.DataFrame,
    predicted: str = "predicted",
    low: str = "low",
    high: str = "high",
    source: str = "source",
    *,
    ratio: bool = True,
) -> Errors:
    """Errors of rows with `measured` and the column `predicted`.

    Band and sources are judged where the rows have those columns. `ratio`: values below 1 are worse
    than no change.
    """
    if rows.empty:
        return Errors(0)
    error = relative_error(rows, predicted)
    measured = rows["measured"].to_numpy(float)
    value = rows[predicted].to_numpy(float)
    weight = _source_weights(rows, source)
    right = (value > 1.0) == (measured > 1.0)
    slower = measured < 1.0
    banded = low in rows and high in rows
    ends = [rows[name].to_numpy(float) for name in ((low, high) if banded else ())]

    def mean(values: Array) -> float:
        return float(np.average(values, weights=weight))

    def below_one() -> float:
        return float(np.average(right[slower], weights=_source_weights(rows[slower], source)))

    sign_accuracy_below_one = below_one() if ratio and slower.any() else None
    coverage = mean((measured >= ends[0]) & (measured <= ends[1])) if banded else None
    mean_band_width = mean((ends[1] - ends[0]) / value) if banded else None
    log_bias = mean(np.log(value / measured))
    return Errors(
        n=len(rows),
        median_ape=_quantile(error, weight, 0.5),
        mape=mean(error),
        p90_ape=_quantile(error, weight, 0.9),
        sign_accuracy=mean(right) if ratio else None,
        sign_accuracy_below_one=sign_accuracy_below_one,
        coverage=coverage,
        mean_band_width=mean_band_width,
        bias=float(np.exp(log_bias) - 1.0),
        n_sources=int(rows[source].nunique()) if source in rows else None,
    )


def _source_weights(rows: pd.DataFrame, source: str = "source") -> Array:
    """Weight of each row, 1 in all: every source alike, and every row of one. Every row alike
    without that column."""
    if source not in rows:
        return np.full(len(rows), 1.0 / len(rows))
    return 1.0 / (
        rows[source].nunique() * rows.groupby(source)[source].transform("size").to_numpy(float)
    )


def _quantile(values: Array, weight: Array, share: float) -> float:
    """Weighted quantile, between values in the middle of their weights. Numpy's own where all weigh
    the same."""
    if np.allclose(weight, weight[0]):
        return float(np.quantile(values, share))
    order = np.argsort(values)
    central = np.cumsum(weight[order]) - weight[order] / 2.0
    return float(np.interp(share, central, values[order]))


def relative_error(rows: pd.DataFrame, predicted: str = "predicted") -> Array:
    """Relative error |predicted / measured - 1| of each row. [-]"""
    return np.abs(rows[predicted].to_numpy(float) / rows["measured"].to_numpy(float) - 1.0)


def k_grids(
    rows: pd.DataFrame, keys: Sequence[str], n_draft: str = "n_draft"
) -> list[pd.DataFrame]:
    """Groups of rows that differ in K alone, K (column `n_draft`) increasing.

    Each comes with what the columns `keys` have in common.

    A group with two rows of one K differs in something that `keys` do not name (another draft head,
    another run), so that it compares more than K: it is no grid. Neither is a group of a single K.
    """
    groups = (group.sort_values(n_draft) for _, group in rows.groupby(list(keys), dropna=False))
    return [group for group in groups if len(group) > 1 and group[n_draft].is_unique]


def k_regret(
    grid: pd.DataFrame, draws: str = "draws", n_draft: str = "n_draft", always: int | None = None
) -> float:
    """Loss of the recommended K against the K measured best. [-]

    Among the K measured and plain decoding (K = 0).

    Recommended is the K of least expected loss, as in an answer; `draws` names the column of the
    predicted speedup under each draw. With `always`, the regret of that K in place of the
    recommended one: of the nearest one measured.
    """
    measured = np.array([1.0, *grid["measured"].to_numpy(float)])
    if always is None:
        odds = draft_odds(np.stack([np.ones_like(grid[draws].iloc[0]), *grid[draws]], axis=-1))
        recommended_index = int(recommended(odds.loss, odds.noise))
    else:
        recommended_index = int(np.abs(np.array([0, *grid[n_draft]]) - always).argmin())
    return float(1.0 - measured[recommended_index] / measured.max())


def best_k_regret(
    rows: pd.DataFrame, keys: Sequence[str], draws: str = "draws", n_draft: str = "n_draft"
) -> tuple[float | None, int]:
    """Mean `k_regret` over the `k_grids`, None where there are none, and how many there are. [-]"""
    regrets = [k_regret(grid, draws, n_draft) for grid in k_grids(rows, keys, n_draft)]
    return (float(np.mean(regrets)) if regrets else None), len(regrets)


MAX_BASELINE_MOVE = 0.32
"""A baseline step that moves by more at the median batch that rows reach is asked about. A longer
host moves small batches alone, by any share of their short steps; a factor moves all. Right files
move it by 28 % at most, harmful ones that nothing else holds back by 37 % at least (synthetic
truths, tests/hostile/refit_corpus.py). [-]"""
LEAST_MOVE = 0.01
"""A constant that moved by less is not named. [-]"""
MAX_ERROR = 0.08
"""Above this mean error on rows that it did not see, a refit does not fit its rows: scatter of 6 %
a row gives 4.8 % for times and 6.8 % for ratios. [-]"""
MAX_OWN_ERROR = 0.15
MAX_OWN_MOVE = 0.5
"""The same two limits on an accelerator of the user's own, whose kernels and host nobody
measured. [-]"""


_NAMED = 3
"""Rows that are named to be measured again, where those left out come out wrong: the furthest.
[-]"""


@dataclass(frozen=True)
class RefitParameter:
    """One constant before and after. `unit` s or per token: the constant; 1: a factor on shipped
    kernel times."""

    name: str
    meaning: str
    unit: str
    before: float
    after: float
    factor: float
    """after / before, as a scenario carries it. [-]"""
    log_stderr: float
    """Posterior standard deviation of log(factor). [-]"""
    prior_log_sd: float
    at_bound: bool
    identified: bool
    """False where the data leave the prior as wide as it was, or have nothing to say."""


QUANTITY_WORDS = {
    "speedup": "speedup",
    "step_time_s": "time of a step",
    "tpot_s": "time per output token",
    "verify_time_s": "time of a verification",
    "draft_time_s": "time of drafting",
}
"""Measured quantities as sentences name them."""


@dataclass(frozen=True)
class KindErrors:
    """Errors of the values of one quantity, before and each predicted without its own row."""

    quantity: str
    before: Errors
    after: Errors


@dataclass(frozen=True)
class OwnErrors:
    """Errors on all of the user's own values but outliers. Each row of `after` is predicted by a
    refit without it."""

    before: Errors
    after: Errors
    kinds: tuple[KindErrors, ...] = ()
    """The same apart by quantity."""

    @property
    def agrees_already(self) -> bool:
        """Whether the shipped constants predict the values as well as a refit does."""
        before, after = self.means
        return before <= min(after, MAX_ERROR)

    @property
    def means(self) -> tuple[float, float]:
        """Mean error of all values before and after. [-]"""
        return float(self.before.mape or 0.0), float(self.after.mape or 0.0)


@dataclass(frozen=True)
class BaselineMove:
    """Step without drafts of one server over batches [nB], before and after a refit. [s]"""

    model_id: str
    batches: Array
    before_s: Array
    after_s: Array
    surprising_s: Array
    """As `after_s`, of recorded rows of an accelerator of the user's own without its host, which
    nobody has measured: a first refit moves that far. Typed rows are as often misread
    (docs/decisions/history.md (0022))."""

    @property
    def moves(self) -> Array:
        """Factors above 1 by which the step grows or shrinks, less 1 [nB]. [-]"""
        return np.exp(np.abs(np.log(self.surprising_s / self.before_s))) - 1.0

    @property
    def furthest(self) -> int:
        """Place of the batch whose step moves furthest."""
        return int(self.moves.argmax())


@dataclass(frozen=True)
class Bend:
    """Residuals of one K that follow the batch, which no constant explains."""

    n_draft: int
    batch_size: float
    """Where they are largest. [sequences]"""
    error: float
    """Predicted over measured there, minus 1. [-]"""


@dataclass(frozen=True)
class Repeats:
    """Rows that repeat a setting, and the log scatter of one run around the mean of its setting.
    [-]"""

    n_rows: int
    n_settings: int
    log_sd: float

    @property
    def text(self) -> str:
        """Sentence on how repeated rows count."""
        return (
            f"{counted(self.n_rows, 'row')} are runs of {counted(self.n_settings, 'setting')}: "
            f"each counts once, with the mean of its runs, which scatter by {self.log_sd:.1%}."
        )


@dataclass(frozen=True)
class RefitResult:
    """Verdict of one accelerator's and engine's points on the constants. Immutable; dropping it is
    the undo."""

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
    baseline: BaselineMove
    """Of the server whose step moves furthest."""
    rows: pd.DataFrame
    """One row per quantity: line, batch_size, n_draft, model_id, drafter, quantity, measured,
    before, after, left_out (predicted by a refit without this line), used."""
    questions: tuple[str, ...] = ()
    """What the rows make one ask: units and columns (`advisor.measured.point_checks`), or else
    another reading that explains them better (`advisor.measured.readings`)."""
    own: str = ""
    """Digest of the figures of the user's own accelerator, empty for a shipped one."""
    experts: ExpertTime | None = None
    """Time per touched expert that the rows ask for, taken or not; None where they were not
    asked."""
    few_layers: tuple[str, ...] = ()
    """Words of rows that are carried from the first layers of a model."""
    repeats: Repeats | None = None
    """Runs of the same setting, None where every row is a setting of its own."""
    prompts: Prompts | None = None
    """How the rows' times were read, None where both readings are one."""
    bend: Bend | None = None
    """Residuals with a shape along the batch, None where there are none."""

    @property
    def reasons_against(self) -> tuple[str, ...]:
        """Reasons why the shipped constants should stay, each with what to do next. Empty when
        nothing says so."""
        reasons = list(self.questions)
        if self.far_off:
            next_step = "" if self.questions else f" {self._next}"
            reasons.insert(
                0,
                f"Values left out of the fit are {self.own_errors.means[1]:.1%} off in the mean, "
                f"over the limit of {self.max_error:.0%}: most {self._furthest}.{next_step}",
            )
        within = self.baseline.batches <= self.rows.loc[self.rows["used"], "batch_size"].max()
        most = MAX_OWN_MOVE if self.own else MAX_BASELINE_MOVE
        if not np.median(self.baseline.moves[within]) <= most:
            at = int(np.where(within, self.baseline.moves, -np.inf).argmax())
            rates = "the rates, " if self.own else ""
            reasons.append(
                f"The baseline step would go from {1e3 * self.baseline.before_s[at]:.3g} to "
                f"{1e3 * self.baseline.after_s[at]:.3g} ms at batch {self.baseline.batches[at]:g}, "
                f"more than an engine explains: are {rates}batch, K, placement, model and unit "
                "those of the run, and ran its steps in CUDA graphs?"
            )
        if bound := ", ".join(item.meaning for item in self.parameters if item.at_bound):
            reasons.append(f"Ended at their bound: {bound}; something else is wrong.")
        return tuple(reasons)

    @property
    def max_error(self) -> float:
        """Most that values left out may be off in the mean. [-]"""
        return MAX_OWN_ERROR if self.own else MAX_ERROR

    @property
    def far_off(self) -> bool:
        """Whether the values left out are further off than that."""
        return not self.own_errors.means[1] <= self.max_error

    @property
    def _next(self) -> str:
        """What to do about values that are far off: a length that is not of these runs is at fault
        before they are."""
        if self.length_factor is None:
            return "Measure these again, and batches between them."
        factor = f"{self.length_factor:.2f}"
        return (
            f"The fit asks for {factor} of the accepted length: state that of these very runs at "
            "every K, or say that those given are theirs (accepted_length_same_run = 1)."
        )

    @property
    def _furthest(self) -> str:
        """The rows furthest off when left out: `batch 8 at K = 3 (31%)`."""
        rows = self.rows[self.rows["used"]]
        rows = rows.assign(off=relative_error(rows, "left_out")).nlargest(_NAMED, "off")
        cells = zip(rows["batch_size"], rows["n_draft"], rows["off"], strict=True)
        return ", ".join(f"batch {batch:g} at K = {k} ({off:.0%})" for batch, k, off in cells)

    @property
    def learnt(self) -> list[RefitParameter]:
        """Multipliers that the data move, the farthest first."""
        moved_parameters = [
            parameter
            for parameter in self.parameters
            if parameter.identified and abs(parameter.factor - 1.0) >= LEAST_MOVE
        ]
        return sorted(moved_parameters, key=lambda parameter: -abs(np.log(parameter.factor)))

    @property
    def length_factor(self) -> float | None:
        """Factor on accepted lengths, which are not said to be of these runs. None where they are,
        or are not moved."""
        return next((item.factor for item in self.learnt if item.name == "accepted_length"), None)
