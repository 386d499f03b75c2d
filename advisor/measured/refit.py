"""A user's own points move the overhead and efficiency constants, from the shipped ones as far as
the points justify.

Each constant gets a multiplier with a lognormal prior around 1: the spread of the shipped fit it
comes from. The multipliers are the maximum of prior times a robust (soft-L1) likelihood of log
speedups and log times, so a handful of points helps a little and cannot wreck much. Nothing is kept
here: to undo a refit, drop its result.

The curve before and after a refit, for one model, drafter and K of the user's points, with those
points.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.adjustment import JOINT_PAIRS, Adjustment, adjusted, carried, check_adjustment
from advisor.catalog.hardware import own_digest
from advisor.measured.ingest.columns import true_in
from advisor.measured.ingest.side_by_side import open_pairs
from advisor.measured.multipliers import (
    BOUND_SIGMAS,
    OF_A_HOST,
    MultiplierPrior,
    Posterior,
    fit_multipliers,
    log_left_out,
    multiplier_prior,
)
from advisor.measured.observations import (
    NAMES,
    QUANTITIES,
    Observations,
    joined,
    log_predicted,
    time_columns,
)
from advisor.measured.own_points import carried_from
from advisor.measured.own_times import as_probable, own_times, without_prompts
from advisor.measured.point_checks import HeaderOf, check_units
from advisor.measured.points import Point, Refused, refit_points
from advisor.measured.readings import ExpertTime, expert_time, rivals
from advisor.measured.refit_result import (
    QUANTITY_WORDS,
    BaselineMove,
    Bend,
    KindErrors,
    OwnErrors,
    RefitParameter,
    RefitResult,
    Repeats,
    errors_of,
)
from advisor.measured.row_questions import open_copies
from advisor.physics.acceptance import parse_acceptance
from advisor.physics.components import FACTORS, JOINT, OVERHEADS
from advisor.predict.curve import DEFAULT_BATCHES, Curve, curve_for
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array
from advisor.text import counted

MEANINGS = {**FACTORS, "accepted_length": "the accepted length"}
_REASONS_NAMED = 3
"""Reasons that the refusal of a whole file gives, the most frequent first."""
MIN_POINTS = 3
"""Fewer rows are not fitted. [-]"""
OUTLIER_SIGMAS = 3.5
OUTLIER_MIN_LOG = 0.2
"""A row is set aside when it is off by more than OUTLIER_SIGMAS of the scatter and by more than 22
%. [-]"""
OUTLIER_SHARE = 0.25
"""At most this share of the rows is set aside, and none of fewer than 5. [-]"""
UNIDENTIFIED = 0.9
"""A multiplier whose posterior spread exceeds this share of its prior's was not learnt from the
data. [-]"""
LIKELY_SIGMAS = 2.576
"""A host's time within this many of its prior's standard deviations is no surprise: 99 % of them.
[-]"""
MAX_FOLDS = 40
SAME_LENGTH = 0.05
"""Rows of one setting whose accepted lengths differ by less are runs of the same thing. [-]"""
_JUDGED = ("before", "left_out")
BASELINE_BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Batches at which the move of the baseline step is told. [sequences]"""
BENT = 1.6
BENT_FROM = 8
"""Residuals have a shape where their scatter exceeds BENT times the noise that at least BENT_FROM
second differences along the batch tell. [-]"""
ENOUGH_FOR_SCATTER = 4
"""From this many rows on, the band takes the scatter of the user's own rows. [-]"""
PLACEMENT = ("gpu_count", "tensor_parallel")
NEEDED = (
    ("hardware_id",),
    ("model_id",),
    PLACEMENT,
    ("batch_size",),
    ("draft_tokens_k",),
    ("drafter",),
)
"""What a row must state to be predicted, by columns of which one is enough; rows without drafts
name no drafter."""


def lacking(frame: pd.DataFrame, given: Container[str] = ()) -> dict[tuple[str, ...], int]:
    """Columns of NEEDED that too many rows lack for a refit, with the number of those rows.

    Empty where MIN_POINTS rows lack nothing.

    frame : canonical points (`advisor.measured.ingest`). given : columns whose empty cells are
        about to be filled.
    """
    plain = true_in(frame["draft_tokens_k"] == 0)
    absent: dict[tuple[str, ...], NDArray[np.bool_]] = {}
    for names in NEEDED:
        stated = frame[list(names)].notna().any(axis=1).to_numpy() | any(
            name in given for name in names
        )
        absent[names] = ~(stated | plain if names == ("drafter",) else stated)
    absent[("data_parallel",)] = open_copies(frame) & ("data_parallel" not in given)
    absent[("metric",)] = open_pairs(frame) & ("metric" not in given)
    absent[QUANTITIES] = frame[list(QUANTITIES)].isna().all(axis=1).to_numpy() & ~open_pairs(frame)
    if int((~np.any(list(absent.values()), axis=0)).sum()) >= MIN_POINTS:
        return {}
    return {names: int(rows.sum()) for names, rows in absent.items() if rows.any()}


def select_points(
    frame: pd.DataFrame,
    *,
    hardware_id: str | None = None,
    engine: str | None = None,
    acceptance: str | None = None,
) -> tuple[list[Point], list[Refused]]:
    """The rows of one accelerator and engine that a refit uses, and the others with the reason.

    Parameters
    ----------
    frame : canonical points (`advisor.measured.ingest`), index: line.
    hardware_id, engine : which rows; None takes the pair with the most usable rows.
    acceptance : as in a scenario; stands in for rows without an accepted length.

    Raises
    ------
    AdvisorError : fewer than MIN_POINTS usable rows, with the reasons of those not used.
    """
    frame = own_times(frame)
    points, refused = refit_points(without_prompts(frame), acceptance)
    selected, others = _one_group(points, hardware_id, engine)
    if len(selected) < MIN_POINTS:
        raise AdvisorError(_too_few(len(selected), refused, points, hardware_id, engine))
    return as_probable(selected, frame, acceptance), [*refused, *others]


def refit_chosen(
    points: Sequence[Point],
    refused: Iterable[Refused] = (),
    header_of: HeaderOf | None = None,
    *,
    ask: bool = True,
) -> RefitResult:
    """Refit on usable rows of one accelerator and engine, at least MIN_POINTS of them.

    `ask`: whether other readings of the rows compete too, for rows that nobody vouches for.
    `header_of`: what the user's file calls a column, for the words of a refusal. Raises
    AdvisorError for a column that is off by a factor which no engine explains (`check_units`).
    """
    questions = check_units(points, header_of)
    points, repeats = _without_repeats(points)
    result = _refit(points, questions, repeats, tuple(refused))
    if questions:
        return result  # asked already
    aside = {outlier.line for outlier in result.outliers}
    fitted = [point for point in points if point.line not in aside]
    prior = multiplier_prior(points)
    rival_readings = rivals(fitted, prior) if ask else ()
    experts = None if rival_readings else expert_time(fitted, prior)
    if experts and experts.taken:
        result = _refit(points, (), repeats, tuple(refused), experts)
    return replace(result, questions=tuple(rival.text for rival in rival_readings), experts=experts)


def _refit(
    given: Sequence[Point],
    questions: tuple[str, ...],
    repeats: Repeats | None,
    refused: tuple[Refused, ...],
    experts: ExpertTime | None = None,
) -> RefitResult:
    """Refit on rows, one of each setting, with a time per touched expert if given."""
    points = experts.repriced(given) if experts else given
    prior = multiplier_prior(points)
    observed = joined(point.observations for point in points)
    posterior, aside = _without_outliers(observed, prior, len(points))
    used = ~np.isin(observed.line, list(aside))
    before = log_predicted(joined(point.observations for point in given), np.zeros(len(NAMES)))
    lines = np.unique(observed.line[used])
    part = np.where(used, np.searchsorted(lines, observed.line) % min(len(lines), MAX_FOLDS), -1)
    rows = _rows(points, observed, before, posterior, log_left_out(observed, prior, part), used)
    parameters = _parameters(points[0].setup, posterior, prior, observed)
    names = {parameter.name for parameter in parameters}
    keep = [i for i, name in enumerate(NAMES) if name in names]
    sds = np.sqrt(np.diag(posterior.covariance))[keep]
    correlation = posterior.covariance[np.ix_(keep, keep)] / np.outer(sds, sds)
    moved = float(np.median(np.abs(rows["after"] / rows["before"] - 1.0)[used]))
    correlation_rows = tuple(tuple(float(value) for value in row) for row in correlation)
    outliers = tuple(Refused(line, reason) for line, reason in sorted(aside.items()))
    few_layers = tuple(carried_from(point.facts.get("notes") for point in points))
    return RefitResult(
        hardware_id=points[0].setup.hardware.id,
        engine=points[0].scenario.engine,
        engine_class=points[0].engine_class,
        data=_fingerprint(points, aside),
        own=own_digest(points[0].scenario.hardware_json),
        n_points=len(points) - len(aside),
        parameters=parameters,
        correlation=correlation_rows,
        outliers=outliers,
        refused=refused,
        own_errors=_own_errors(rows),
        noise_log_sd=float(posterior.scale),
        moved=moved,
        baseline=_baseline(given, points, posterior, prior),
        rows=rows,
        questions=questions,
        repeats=repeats,
        few_layers=few_layers,
        prompts=points[0].prompts,
        bend=_bend(rows[used]),
    )


def _baseline(
    given: Sequence[Point], points: Sequence[Point], posterior: Posterior, prior: MultiplierPrior
) -> BaselineMove:
    """The baseline step of every server of the rows, whose step moves furthest, over
    BASELINE_BATCHES.

    given, points : the same rows as shipped, and with the refit's time per touched expert.
    """
    theta = posterior.theta
    surprising = theta
    if all(
        point.recorded and point.scenario.hardware_json for point in points
    ):  # as it ran, on an unmeasured host
        known = np.isin(NAMES, OF_A_HOST) & (np.abs(theta) < LIKELY_SIGMAS * prior.log_sd)
        surprising = np.where(known, 0.0, theta)
    servers: dict[tuple[object, ...], tuple[Setup, Setup]] = {}
    for shipped, fitted in zip(given, points, strict=True):
        scenario = shipped.scenario
        key = (scenario.model_id, scenario.n_gpus, scenario.tensor_parallel, scenario.weight_dtype)
        servers.setdefault(key, (shipped.setup, fitted.setup))
    moves = []
    for shipped_setup, fitted_setup in servers.values():
        before, after = (_plain_parts(setup) for setup in (shipped_setup, fitted_setup))
        moves.append(
            BaselineMove(
                shipped_setup.scenario.model_id,
                np.array(BASELINE_BATCHES),
                before.sum(axis=-1),
                after @ np.append(np.exp(theta), 1.0),
                after @ np.append(np.exp(surprising), 1.0),
            )
        )
    return max(moves, key=lambda baseline: float(baseline.moves.max()))


def _plain_parts(setup: Setup) -> Array:
    """Seconds of a baseline step by multiplier at BASELINE_BATCHES."""
    curve = curve_for(setup, BASELINE_BATCHES, [0], central_only=True)
    return time_columns(setup, curve)[0]


def _bend(rows: pd.DataFrame) -> Bend | None:
    """Residuals along the batch that scatter far more than neighbors differ. None where they do
    not, or rows are too few to tell."""
    logs = np.log(rows["after"] / rows["measured"])
    series = [
        (int(k), some["batch_size"].to_numpy(float), logs[some.index].to_numpy(float))
        for (_, _, _, k), some in rows.sort_values("batch_size").groupby(
            ["model_id", "drafter", "quantity", "n_draft"]
        )
    ]
    second = np.concatenate([np.diff(log, 2) for _, _, log in series if len(log) > 2] or [[]])
    local = float(np.sqrt(np.mean(second**2) / 6.0)) if len(second) >= BENT_FROM else np.inf
    if not float(np.std(logs)) > BENT * local:
        return None
    k, batches, log = max(series, key=lambda each: float(np.abs(each[2]).mean()))
    at = int(np.abs(log).argmax())
    return Bend(k, float(batches[at]), float(np.expm1(log[at])))


def refitted(setup: Setup, result: RefitResult) -> Setup:
    """Setup with the refit's constants and their spread. Raises AdvisorError for another
    accelerator or engine."""
    adjustment = adjustment_of(result)
    hardware_digest = own_digest(setup.scenario.hardware_json)
    check_adjustment(adjustment, setup.hardware.id, setup.scenario.engine, hardware_digest)
    costs, draft_costs = adjusted(setup.costs, setup.draft_costs, adjustment)
    return replace(setup, costs=costs, draft_costs=draft_costs)


def adjustment_of(result: RefitResult) -> Adjustment:
    """The refit as a scenario carries it (`Scenario.refit`). A borrowed accepted length stays the
    scenario's own."""
    parameters = [parameter for parameter in result.parameters if parameter.name in FACTORS]
    index = {parameter.name: number for number, parameter in enumerate(result.parameters)}
    pairs = [
        (index.get(JOINT[first].factor), index.get(JOINT[second].factor))
        for first, second in JOINT_PAIRS
    ]
    correlation = tuple(
        0.0 if a is None or b is None else result.correlation[a][b] for a, b in pairs
    )
    learnt = tuple(parameter.name for parameter in parameters if parameter.identified)
    expert_s = result.experts.constant_s if result.experts and result.experts.taken else 0.0
    scatter_log_sd = result.noise_log_sd if result.n_points >= ENOUGH_FOR_SCATTER else None
    return Adjustment(
        hardware_id=result.hardware_id,
        engine=result.engine,
        engine_class=result.engine_class,
        n_points=result.n_points,
        data=result.data,
        own=result.own,
        factors={parameter.name: parameter.factor for parameter in parameters},
        log_sd={parameter.name: parameter.log_stderr for parameter in parameters},
        correlation=correlation,
        learnt=learnt,
        expert_s=expert_s,
        scatter_log_sd=scatter_log_sd,
        forced=bool(result.reasons_against),
    )


def _without_repeats(points: Sequence[Point]) -> tuple[list[Point], Repeats | None]:
    """One point for each setting, with the mean of its runs, and what was repeated. None where
    nothing was.

    What a refit gets wrong is the same in every run of a setting, so that fifty of them tell it no
    more than their mean; counted as fifty, they would drag constants to their bounds.
    """
    cells: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        length = round(np.log(point.accepted_length) / SAME_LENGTH)
        stated = (
            str(point.facts.get("dataset") or ""),
            tuple(point.observations.quantity.tolist()),
        )
        counted = point.question.counted
        touched = counted and (round(np.log(counted.touched or 1.0) / SAME_LENGTH), counted.in_turn)
        setup = (point.setup.scenario, point.engine_class, touched)
        key = (setup, point.n_draft, point.question.verify_tokens, point.batch_size, length, stated)
        cells.setdefault(key, []).append(point)
    if len(cells) == len(points):
        return list(points), None
    spread = [
        np.log([point.observations.measured for point in cell]).std(axis=0, ddof=1)
        for cell in cells.values()
        if len(cell) > 1
    ]
    scatter = float(np.sqrt(np.mean(np.concatenate(spread) ** 2)))
    means = [_mean_of(cell) if len(cell) > 1 else cell[0] for cell in cells.values()]
    return means, Repeats(len(points), len(cells), scatter)


def _mean_of(cell: Sequence[Point]) -> Point:
    """Runs of one setting as the first of them, with the geometric mean of what they measured."""
    runs = [point.observations for point in cell]
    mean = {
        name: np.mean([getattr(run, name) for run in runs], axis=0)
        for name in ("upper", "lower", "shift")
    }
    measured = np.exp(np.mean([run.log_measured for run in runs], axis=0))
    return replace(cell[0], observations=replace(runs[0], measured=measured, **mean))


def _fingerprint(points: Sequence[Point], aside: Mapping[int, str]) -> str:
    rows = [
        (point.scenario.hash, point.batch_size, point.n_draft, quantity, float(measured))
        for point in points
        for quantity, measured in zip(
            point.observations.quantity.tolist(), point.observations.measured, strict=True
        )
        if point.line not in aside
    ]
    return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()[:12]


def _one_group(
    points: Sequence[Point], hardware_id: str | None, engine: str | None
) -> tuple[list[Point], list[Refused]]:
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        hardware_json = point.scenario.hardware_json
        ran = _ran_text(point)  # of like figures and modes
        key = (
            point.setup.hardware.id,
            point.scenario.engine,
            point.engine_class,
            hardware_json,
            ran,
        )
        if (hardware_id or key[0], engine or key[1]) == key[:2]:
            groups.setdefault(key, []).append(point)
    selected = max(groups.values(), key=len, default=[])
    lines = {point.line for point in selected}
    return selected, [
        Refused(
            point.line,
            (
                f"{point.setup.hardware.id} with {point.engine_class}{_ran_text(point)} is "
                "refitted by itself"
            ),
        )
        for point in points
        if point.line not in lines
    ]


_RAN = ("captured", "async_scheduling")
"""What runs of one engine class must have in common to share overheads, beside the accelerator's
own figures."""
_RAN_NOTED = re.compile(r"\b(?:graph_mode|runner|attention_backend|expert_kernel)=[^;]+")
"""And what the notes of a run's rows say of it besides."""


def _ran_text(point: Point) -> str:
    """How a row ran where it says so, ` (captured=0, async_scheduling=1, runner=V1)`."""
    stated = ((name, point.number(name)) for name in _RAN)
    settings = [f"{name}={value:g}" for name, value in stated if value is not None]
    settings += _RAN_NOTED.findall(str(point.facts.get("notes") or ""))
    return f" ({', '.join(settings)})" if settings else ""


def _too_few(
    n: int,
    refused: Sequence[Refused],
    points: Sequence[Point],
    hardware_id: str | None,
    engine: str | None,
) -> str:
    requested = " with ".join(filter(None, (hardware_id, engine)))
    text = (
        f"{counted(n, 'row')} can be used{requested and f' for {requested}'}; a refit needs at "
        f"least {MIN_POINTS}"
    )
    if refused:
        reasons = Counter(item.reason for item in refused).most_common(_REASONS_NAMED)
        text += "".join(
            f". Not used, {counted(number, 'row')}: {reason}" for reason, number in reasons
        )
    elif len(points) > n:
        text += ". The other rows are of another accelerator or engine"
    return text


def _without_outliers(
    observed: Observations, prior: MultiplierPrior, n_rows: int
) -> tuple[Posterior, dict[int, str]]:
    """The posterior once rows far outside the scatter are set aside, worst first, and why each
    was."""
    aside: dict[int, str] = {}
    allowed = int(OUTLIER_SHARE * n_rows) if n_rows >= 5 else 0
    posterior = fit_multipliers(observed, prior)
    for _ in range(allowed):
        used = ~np.isin(observed.line, list(aside))
        residual = np.where(
            used, observed.log_measured - log_predicted(observed, posterior.theta), 0.0
        )
        worst = int(np.argmax(np.abs(residual)))
        size = abs(float(residual[worst]))
        if size < max(OUTLIER_SIGMAS * float(posterior.scale), OUTLIER_MIN_LOG):
            break
        measured = observed.measured[worst]
        aside[int(observed.line[worst])] = (
            f"{observed.quantity[worst]} is {measured:.3g} where all other rows together lead to "
            f"{measured * np.exp(-residual[worst]):.3g}, {size / posterior.scale:.1f} times the "
            "scatter"
        )
        posterior = fit_multipliers(observed.where(~np.isin(observed.line, list(aside))), prior)
    return posterior, aside


def drafter_of(point: Point) -> str:
    """Drafter that a row ran, `none` without drafts, whatever the question that predicts it
    says."""
    return point.scenario.drafter_id if point.n_draft else "none"


def _rows(
    points: Sequence[Point],
    observed: Observations,
    before: Array,
    posterior: Posterior,
    left_out: Array,
    used: NDArray[np.bool_],
) -> pd.DataFrame:
    at = [point for point in points for _ in point.observations.line]
    # The digits that a scenario carries, so that its predictions are the rows' own.
    theta = np.log([carried(float(factor)) for factor in np.exp(posterior.theta)])
    after = np.exp(log_predicted(observed, theta))
    return pd.DataFrame(
        {
            "line": observed.line,
            "batch_size": [point.batch_size for point in at],
            "n_draft": [point.n_draft for point in at],
            "model_id": [point.scenario.model_id for point in at],
            "drafter": [drafter_of(point) for point in at],
            "quantity": observed.quantity.tolist(),
            "measured": observed.measured,
            "before": np.exp(before),
            "after": after,
            "left_out": np.exp(left_out),
            "used": used,
        }
    )


def _parameters(
    setup: Setup, posterior: Posterior, known: MultiplierPrior, observed: Observations
) -> tuple[RefitParameter, ...]:
    present = observed.depend_on()
    sds = np.sqrt(np.diag(posterior.covariance))
    # Backwards, so that of two that share a multiplier the first stands for it.
    overheads = {
        overhead.factor: float(getattr(setup.costs, overhead.priced_by[0]))
        for overhead in reversed(OVERHEADS)
    }
    units = {
        overhead.factor: "s" if overhead.priced_by[0].endswith("_s") else "per token"
        for overhead in OVERHEADS
    }
    out = []
    for i, name in enumerate(NAMES):
        if not present[i] and not overheads.get(name):
            continue
        before = overheads.get(name, 1.0)
        prior = float(known.log_sd[i])
        factor = carried(float(np.exp(posterior.theta[i])))
        at_bound = bool(abs(posterior.theta[i]) > BOUND_SIGMAS * prior * 0.999)
        identified = bool(present[i] and sds[i] <= UNIDENTIFIED * prior)
        out.append(
            RefitParameter(
                name=name,
                meaning=MEANINGS[name],
                unit=units.get(name, "1"),
                before=before,
                after=before * factor,
                factor=factor,
                log_stderr=float(sds[i]),
                prior_log_sd=prior,
                at_bound=at_bound,
                identified=identified,
            )
        )
    return tuple(out)


def _own_errors(rows: pd.DataFrame) -> OwnErrors:
    """Over every value that was fitted, then apart by quantity."""
    fitted = rows[rows["used"]]

    def of(some: pd.DataFrame, quantity: str = "") -> KindErrors:
        errors = [errors_of(some, name, ratio=False) for name in _JUDGED]
        return KindErrors(quantity, *errors)

    overall = of(fitted)
    kinds = tuple(of(some, str(name)) for name, some in fitted.groupby("quantity", sort=False))
    return OwnErrors(overall.before, overall.after, kinds)


@dataclass(frozen=True)
class BeforeAfter:
    """Curves over batches [nB] of one quantity: speedup [-], or seconds of tpot_s or
    step_time_s."""

    model_id: str
    drafter: str
    n_draft: int
    quantity: str
    batches: Array
    before: Array
    after: Array
    after_low: Array
    """Band of the refit's speedup; equal to `after` for times, which carry no band."""
    after_high: Array
    points: pd.DataFrame
    """The rows drawn: columns of `RefitResult.rows`."""


def curve_groups(result: RefitResult) -> list[tuple[str, str, int, str]]:
    """(model, drafter, K, quantity) of the rows, most rows first. Forward-pass and draft times have
    no curve here."""
    rows = result.rows[result.rows["quantity"].isin(["speedup", "tpot_s", "step_time_s"])]
    sizes = (
        rows.groupby(["model_id", "drafter", "n_draft", "quantity"])
        .size()
        .sort_values(ascending=False)
    )
    return [(str(m), str(d), int(k), str(q)) for m, d, k, q in sizes.index]


def curve_name(model_id: str, drafter: str, n_draft: int, quantity: str = "") -> str:
    """Name of a curve, as `qwen3-30b-a3b, eagle3, K = 3, speedup`."""
    how = f"{drafter}, K = {n_draft}" if n_draft else "without drafts"
    return ", ".join(filter(None, (model_id, how, QUANTITY_WORDS.get(quantity, quantity))))


def before_after(
    points: Sequence[Point], result: RefitResult, group: tuple[str, str, int, str]
) -> BeforeAfter:
    """Curves before and after a refit for one of `curve_groups`. At its first placement and
    context, median length."""
    n_draft, quantity = group[2:]
    alike = [p for p in points if (p.scenario.model_id, drafter_of(p), p.n_draft) == group[:3]]
    length = float(np.median([point.accepted_length for point in alike]))
    setup = alike[0].setup
    if n_draft:
        text = (
            f"{length:.6g}@{n_draft}" if length > 1 else ",".join(["0"] * n_draft)
        )  # of a run that accepts no draft
        setup = replace(setup, acceptance=parse_acceptance(text, setup.scenario.k_max))
    lines = {point.line for point in alike}
    rows = result.rows[result.rows["line"].isin(lines) & (result.rows["quantity"] == quantity)]
    return curves_of(setup, result, group, rows)


def curves_of(
    setup: Setup, result: RefitResult, group: tuple[str, str, int, str], rows: pd.DataFrame
) -> BeforeAfter:
    """Curves of one setup before and after a refit, over the batches of the rows and those around
    them.

    rows : `batch_size`, `measured`, `line` and `used`; without `before` and `after` they get the
        curves' own.
    """
    _, _, n_draft, quantity = group
    batches = np.unique([*DEFAULT_BATCHES, *rows["batch_size"].astype(float)])
    batches = batches[batches <= max(4 * float(rows["batch_size"].max()), 64)]
    before = curve_for(setup, batches, [n_draft])
    after = curve_for(refitted(setup, result), batches, [n_draft])
    value = _values(after, quantity)
    if "before" not in rows:
        at = np.searchsorted(batches, rows["batch_size"].astype(float))
        rows = rows.assign(before=_values(before, quantity)[at], after=value[at])
    banded = quantity == "speedup"
    return BeforeAfter(
        *group,
        batches=batches,
        before=_values(before, quantity),
        after=value,
        after_low=after.low[:, 0] if banded else value,
        after_high=after.high[:, 0] if banded else value,
        points=rows.reset_index(drop=True),
    )


def _values(curve: Curve, quantity: str) -> Array:
    return {"speedup": curve.speedup, "tpot_s": curve.tpot_s, "step_time_s": curve.round_s}[
        quantity
    ][:, 0]
