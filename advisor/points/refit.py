"""A user's own points move the overhead and efficiency constants, from the shipped ones as far as the points justify.

Each constant gets a multiplier with a lognormal prior around 1: the spread of the shipped fit it comes from. The
multipliers are the maximum of prior times a robust (soft-L1) likelihood of log speedups and log times, so a handful of
points helps a little and cannot wreck much. Nothing is kept here: to undo a refit, drop its result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.calibration import Adjustment, adjusted, check_adjustment
from advisor.components import FACTORS, JOINT, OVERHEADS
from advisor.points.points import NAMES, TIME_NAMES, RefitPoint, Refused, refit_points
from advisor.points.prior import MEANINGS, PriorSpread, prior_spread
from advisor.points.solve import Posterior, Problem, log_predicted, problem_of, solve
from advisor.prediction import AdvisorError
from advisor.setup import Setup
from advisor.text import counted

Array = NDArray[np.float64]

MIN_POINTS = 3
"""Fewer rows are not fitted. [1]"""
OUTLIER_SIGMAS = 3.5
OUTLIER_MIN_LOG = 0.2
"""A row is set aside when it is off by more than OUTLIER_SIGMAS of the scatter and by more than 22 %. [1]"""
OUTLIER_SHARE = 0.25
"""At most this share of the rows is set aside, and none of fewer than 5. [1]"""
UNIDENTIFIED = 0.9
"""A multiplier whose posterior spread exceeds this share of its prior's was not learnt from the data. [1]"""
MAX_FOLDS = 40
ENOUGH_FOR_SCATTER = 10
"""From this many rows on, the band takes the scatter of the user's own rows. [1]"""
_BOUND_SIGMAS = 3.0


@dataclass(frozen=True)
class RefitParameter:
    """One constant before and after. `unit` s: the constant itself; 1: a factor on the shipped kernel times."""

    name: str
    meaning: str
    unit: str
    before: float
    after: float
    factor: float
    """after / before. [1]"""
    log_stderr: float
    """Posterior standard deviation of log(factor). [1]"""
    prior_log_sd: float
    at_bound: bool
    identified: bool
    """False where the data leave the prior as wide as it was, or have nothing to say."""

    @property
    def stderr(self) -> float:
        """Standard error of `after`, in its unit."""
        return self.after * self.log_stderr


_NO_CHANGE = 0.02
"""Errors nearer than this share of each other are alike. [1]"""


@dataclass(frozen=True)
class OwnErrors:
    """Relative errors on the user's own rows, outliers left out; each row predicted without itself in `after`. [1]"""

    n: int
    median_before: float
    median_after: float
    mean_before: float
    mean_after: float

    @property
    def better(self) -> bool:
        """Whether the refit predicts rows that it did not see better than the shipped constants do."""
        return self.mean_after < (1.0 - _NO_CHANGE) * self.mean_before


@dataclass(frozen=True)
class RefitResult:
    """What one accelerator's and engine's points say. Immutable; dropping it is the undo."""

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
    """Scatter of the rows around the refit, log standard deviation. [1]"""
    moved: float
    """Median of |after / before - 1| of the predictions of the rows used. [1]"""
    rows: pd.DataFrame
    """One row per quantity: line, batch_size, k_draft, model_id, drafter, quantity, measured, before, after,
    left_out (predicted by a refit without this line), used."""
    sentence: str
    success: bool
    message: str

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Names of multipliers that ended at their bound."""
        return tuple(item.name for item in self.parameters if item.at_bound)

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Names of multipliers that the data do not determine."""
        return tuple(item.name for item in self.parameters if not item.identified)


def refit(
    frame: pd.DataFrame,
    *,
    hardware_id: str | None = None,
    engine: str | None = None,
    acceptance: str | None = None,
    configs: Mapping[str, str] | None = None,
) -> RefitResult:
    """Refit on the rows of one accelerator and engine.

    Parameters
    ----------
    frame : canonical points (`advisor.ingest`), index: line.
    hardware_id, engine : which rows; None takes the pair with the most usable rows.
    acceptance : as in a scenario; stands in for rows without an accepted length.
    configs : config.json texts of models without a profile, by the name the rows use.

    Raises
    ------
    AdvisorError : fewer than MIN_POINTS usable rows, with the reasons of those refused.
    """
    options = {"hardware_id": hardware_id, "engine": engine, "acceptance": acceptance}
    return refit_chosen(*select_points(frame, configs=configs, **options))


def select_points(
    frame: pd.DataFrame,
    *,
    hardware_id: str | None = None,
    engine: str | None = None,
    acceptance: str | None = None,
    configs: Mapping[str, str] | None = None,
) -> tuple[list[RefitPoint], list[Refused]]:
    """The rows that `refit` uses, and the others with the reason; arguments and errors as there."""
    points, refused = refit_points(frame, acceptance, configs)
    chosen, others = _one_group(points, hardware_id, engine)
    if len(chosen) < MIN_POINTS:
        raise AdvisorError(_too_few(len(chosen), refused, points, hardware_id, engine))
    return chosen, [*refused, *others]


def refit_chosen(points: Sequence[RefitPoint], refused: Iterable[Refused] = ()) -> RefitResult:
    """Refit on usable rows of one accelerator and engine, at least MIN_POINTS of them."""
    spread = prior_spread(points)
    problem = problem_of(points, spread.log_sd, spread.covariance, spread.residual_log_sd, _BOUND_SIGMAS)
    lines = np.array([point.line for point in points])
    posterior, aside = _without_outliers(problem, lines)
    used = ~np.isin(problem.line, list(aside))
    left_out = _left_out(problem, used)
    rows = _rows(points, problem, posterior, left_out, used)
    parameters = _parameters(points[0].setup, posterior, spread, problem)
    keep = [i for i, name in enumerate(NAMES) if name in {item.name for item in parameters}]
    sds = np.sqrt(np.diag(posterior.covariance))[keep]
    correlation = posterior.covariance[np.ix_(keep, keep)] / np.outer(sds, sds)
    errors = _own_errors(rows)
    moved = float(np.median(np.abs(rows.loc[rows["used"], "after"] / rows.loc[rows["used"], "before"] - 1.0)))
    outliers = tuple(Refused(line, reason) for line, reason in sorted(aside.items()))
    result = RefitResult(
        hardware_id=points[0].setup.hardware.id,
        engine=points[0].scenario.engine,
        engine_class=points[0].engine_class,
        data=_fingerprint(points, aside),
        n_points=len(points) - len(outliers),
        parameters=parameters,
        correlation=tuple(tuple(float(x) for x in row) for row in correlation),
        outliers=outliers,
        refused=tuple(refused),
        own_errors=errors,
        noise_log_sd=posterior.scale,
        moved=moved,
        rows=rows,
        sentence="",
        success=posterior.success,
        message=posterior.message,
    )
    return replace(result, sentence=_sentence(result))


def refitted(setup: Setup, result: RefitResult) -> Setup:
    """`setup` with the refit's constants and their spread. Raises AdvisorError for another accelerator or engine."""
    adjustment = adjustment_of(result)
    check_adjustment(adjustment, setup.hardware.id, setup.scenario.engine)
    costs, draft_costs = adjusted(setup.costs, setup.draft_costs, adjustment)
    return replace(setup, costs=costs, draft_costs=draft_costs)


def adjustment_of(result: RefitResult) -> Adjustment:
    """The refit as a scenario carries it (`Scenario.refit`). A borrowed accepted length stays the scenario's own."""
    parameters = [item for item in result.parameters if item.name in FACTORS]
    place = {item.name: number for number, item in enumerate(result.parameters)}
    launch, draft_host, round_host = (place[one.factor] for one in JOINT)
    pairs = ((launch, draft_host), (launch, round_host), (draft_host, round_host))
    first, second, third = (result.correlation[a][b] for a, b in pairs)
    return Adjustment(
        hardware_id=result.hardware_id,
        engine=result.engine,
        engine_class=result.engine_class,
        n_points=result.n_points,
        data=result.data,
        factors={item.name: item.factor for item in parameters},
        log_sd={item.name: item.log_stderr for item in parameters},
        correlation=(first, second, third),
        scatter_log_sd=result.noise_log_sd if result.n_points >= ENOUGH_FOR_SCATTER else None,
    )


def _fingerprint(points: Sequence[RefitPoint], aside: Mapping[int, str]) -> str:
    rows = [
        (point.scenario.hash, point.batch_size, point.n_draft, item.quantity, item.measured)
        for point in points
        for item in point.observations
        if point.line not in aside
    ]
    return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()[:12]


def _one_group(
    points: Sequence[RefitPoint], hardware_id: str | None, engine: str | None
) -> tuple[list[RefitPoint], list[Refused]]:
    groups: dict[tuple[str, str, str], list[RefitPoint]] = {}
    for point in points:
        key = (point.setup.hardware.id, point.scenario.engine, point.engine_class)
        if (hardware_id or key[0], engine or key[1]) == key[:2]:
            groups.setdefault(key, []).append(point)
    chosen = max(groups.values(), key=len, default=[])
    lines = {point.line for point in chosen}
    return chosen, [
        Refused(point.line, f"{point.setup.hardware.id} with {point.engine_class} is refitted by itself")
        for point in points
        if point.line not in lines
    ]


def _too_few(
    n: int, refused: Sequence[Refused], points: Sequence[RefitPoint], hardware_id: str | None, engine: str | None
) -> str:
    wanted = " with ".join(name for name in (hardware_id, engine) if name)
    text = f"{counted(n, 'usable row')}{' for ' + wanted if wanted else ''}; a refit needs at least {MIN_POINTS}"
    reasons: dict[str, int] = {}
    for item in refused:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    if reasons:
        worst = max(reasons, key=lambda reason: reasons[reason])
        text += f". Refused, {counted(reasons[worst], 'row')}: {worst}"
    elif len(points) > n:
        text += ". The other rows are of another accelerator or engine"
    return text


def _without_outliers(problem: Problem, lines: NDArray[np.int_]) -> tuple[Posterior, dict[int, str]]:
    """The posterior once rows far outside the scatter are set aside, worst first; and why each was."""
    aside: dict[int, str] = {}
    allowed = int(OUTLIER_SHARE * len(lines)) if len(lines) >= 5 else 0
    posterior = solve(problem, np.ones(len(problem.line), bool))
    for _ in range(allowed):
        used = ~np.isin(problem.line, list(aside))
        residual = np.where(used, problem.log_measured - log_predicted(problem, posterior.theta), 0.0)
        worst = int(np.argmax(np.abs(residual)))
        size = abs(float(residual[worst]))
        if size < max(OUTLIER_SIGMAS * posterior.scale, OUTLIER_MIN_LOG):
            break
        fitted = np.exp(problem.log_measured[worst] - residual[worst])
        aside[int(problem.line[worst])] = (
            f"{problem.quantity[worst]} is {np.exp(problem.log_measured[worst]):.3g} where all other rows together "
            f"lead to {fitted:.3g}, {size / posterior.scale:.1f} times the scatter"
        )
        posterior = solve(problem, ~np.isin(problem.line, list(aside)))
    return posterior, aside


def _left_out(problem: Problem, used: NDArray[np.bool_]) -> Array:
    """Log prediction of each observation by a refit that did not see its row."""
    out = np.full(len(problem.line), np.nan)
    lines = np.unique(problem.line[used])
    folds = np.arange(len(lines)) % min(len(lines), MAX_FOLDS)
    for fold in np.unique(folds):
        held = np.isin(problem.line, lines[folds == fold])
        posterior = solve(problem, used & ~held)
        out[held] = log_predicted(problem, posterior.theta)[held]
    return out


def _rows(
    points: Sequence[RefitPoint], problem: Problem, posterior: Posterior, left_out: Array, used: NDArray[np.bool_]
) -> pd.DataFrame:
    by_line = {point.line: point for point in points}
    at = [by_line[int(line)] for line in problem.line]
    return pd.DataFrame(
        {
            "line": problem.line,
            "batch_size": [point.batch_size for point in at],
            "k_draft": [point.n_draft for point in at],
            "model_id": [point.model_id for point in at],
            "drafter": [point.drafter_id for point in at],
            "quantity": list(problem.quantity),
            "measured": np.exp(problem.log_measured),
            "before": np.exp(log_predicted(problem, np.zeros(len(NAMES)))),
            "after": np.exp(log_predicted(problem, posterior.theta)),
            "left_out": np.exp(left_out),
            "used": used,
        }
    )


def _parameters(
    setup: Setup, posterior: Posterior, spread: PriorSpread, problem: Problem
) -> tuple[RefitParameter, ...]:
    present = problem.present
    sds = np.sqrt(np.diag(posterior.covariance))
    overheads = {one.factor: float(getattr(setup.costs, one.priced_by[0])) for one in OVERHEADS}
    out = []
    for i, name in enumerate(NAMES):
        if not present[i] and name not in overheads:
            continue
        before, prior = overheads.get(name, 1.0), float(spread.log_sd[i])
        factor = float(np.exp(posterior.theta[i]))
        at_bound = bool(abs(posterior.theta[i]) > _BOUND_SIGMAS * prior * 0.999)
        out.append(
            RefitParameter(
                name=name,
                meaning=MEANINGS[name],
                unit="s" if name in overheads else "1",
                before=before,
                after=before * factor,
                factor=factor,
                log_stderr=float(sds[i]),
                prior_log_sd=prior,
                at_bound=at_bound,
                identified=bool(present[i] and sds[i] <= UNIDENTIFIED * prior),
            )
        )
    return tuple(out)


def _own_errors(rows: pd.DataFrame) -> OwnErrors:
    judged = rows[rows["used"]]
    if (judged["quantity"] == "speedup").any():
        judged = judged[judged["quantity"] == "speedup"]
    before = (judged["before"] / judged["measured"] - 1.0).abs()
    after = (judged["left_out"] / judged["measured"] - 1.0).abs()
    return OwnErrors(
        len(judged), float(before.median()), float(after.median()), float(before.mean()), float(after.mean())
    )


def _sentence(result: RefitResult) -> str:
    """What changed, on how many points, what was set aside, and whether it predicts unseen points better."""
    learnt = [item for item in result.parameters if item.identified and item.name in (*TIME_NAMES, "accepted_length")]
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
    length = next((item for item in learnt if item.name == "accepted_length"), None)
    kept = (
        ""
        if length is None
        else (
            f" The accepted length stays the scenario's own: multiply it by {length.factor:.2f} there to predict these "
            "points, or mark rows whose accepted length was counted in the same run (accepted_length_same_run = 1)."
        )
    )
    errors = result.own_errors
    verdict = "better" if errors.better else "no better: keep the shipped constants"
    return (
        f"{text}. Predictions of these points change by {result.moved:.1%} in the median; points left out of the fit "
        f"are predicted {verdict} (mean error {errors.mean_before:.1%} before, {errors.mean_after:.1%} after).{kept}"
    )
