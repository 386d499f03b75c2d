"""Predictions held against measured speedups: a prediction for each row, errors by source, coverage
of the bands.

Those of the published rows are shipped (profiles/validation/judged_speedups.json, by
`make validation`).

Kept beside the component model as a cross-check: MoESD's own ten-parameter form of the speedup, for
a handful of points of one set-up. It knows nothing of layers or kernels.

References
----------
[MoESD] "MoESD", arXiv:2505.19645: Algorithm 1 and eq. 4. The printed line 11 of the algorithm
    contradicts eq. 4, which is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from advisor.measured.ingest.columns import COLUMNS as POINT_COLUMNS
from advisor.measured.observations import SOURCE_COLUMNS, laboratories_of, laboratory_of_row
from advisor.measured.points import Point
from advisor.measured.refit_result import Errors, best_k_regret, errors_of
from advisor.measured.row_questions import question_of
from advisor.measured.run import PredictedRun, curves_of
from advisor.physics import laws
from advisor.physics.architecture import BYTES_PER_WEIGHT, Moe, effective_n_active, weight_bytes
from advisor.physics.hardware import effective_bandwidth, effective_flops
from advisor.physics.touched_experts import expected_experts
from advisor.predict.curve import Curve
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array
from advisor.profiles import PROFILES, read_made

NAMES = (
    *("bias_s", "k1_s", "k2_s", "k3_s", "draft_bias_s", "draft_k_s", "reject_bias_s", "reject_k_s"),
    *("ridge_share", "growth"),
)
MIN_POINTS = 10
_FLOOR_FACTOR = 5.0
"""bias, k2 and draft_bias lie between their weight-read floor and this many times it [MoESD]."""
_STARTS = 4
_MAX_EVALUATIONS = 60


@dataclass(frozen=True)
class Floors:
    """Bounds of the parameters: least times by reading weights, most time of rejection, ridge
    point.

    target_s : reading all but the routed experts' weights once. [s]
    expert_s : reading one expert's weights in every layer. [s]
    draft_s : reading the drafter's weights once. [s]
    reject_max_s : rejection sampling of one sequence, measured or assumed. [s]
    ridge_tokens : tokens per weight at which arithmetic takes as long as reading. [-]
    """

    target_s: float
    expert_s: float
    draft_s: float
    reject_max_s: float
    ridge_tokens: float


@dataclass(frozen=True)
class MoesdFit:
    """Ten parameters in the order of NAMES, and how well they do."""

    parameters: Array
    rms: float
    """Root mean square error of the speedups fitted. [-]"""
    at_bound: tuple[str, ...]
    n_points: int


def growth(x: ArrayLike, ridge_share: ArrayLike, base: ArrayLike, ridge_tokens: float) -> Array:
    """G(x): base^x up to X = ridge_share ridge_tokens, its tangent beyond, so that it ends linear.
    [-]"""
    tokens = np.asarray(x, float)
    edge = np.asarray(ridge_share) * ridge_tokens
    slope = np.log(base)
    beyond = np.maximum(tokens - edge, 0.0)
    return np.asarray(np.exp(np.minimum(tokens, edge) * slope) * (1.0 + slope * beyond))


@dataclass(frozen=True)
class Runs:
    """Runs behind the points, scalars or arrays: B, K >= 1, AL, N and k. [-]"""

    batch_size: ArrayLike
    n_draft: ArrayLike
    accepted_length: ArrayLike
    n_experts: ArrayLike
    n_active: ArrayLike
    bonus_token: bool = True
    """Engines verify K + 1 tokens per sequence; the paper counts K (False)."""


def moesd_speedup(parameters: ArrayLike, ridge_tokens: float, runs: Runs) -> Array:
    """Speedup by eq. 4 of [MoESD], broadcast over the points.

    `parameters`: ten, in the order of NAMES; `ridge_tokens`: tokens per weight at the ridge point.
    [-]
    """
    bias, k1, k2, k3, draft_bias, draft_k, reject_bias, reject_k, share, base = np.asarray(
        parameters, float
    )
    batch = np.asarray(runs.batch_size, float)
    drafts = np.asarray(runs.n_draft, float)

    def grown(x: Array) -> Array:
        return growth(x, share, base, ridge_tokens)

    def target(tokens: Array) -> Array:
        touched = expected_experts(tokens, runs.n_experts, runs.n_active)
        rows = np.asarray(laws.rows_per_expert(tokens, np.asarray(runs.n_active, float), touched))
        return np.asarray(bias + k1 * grown(tokens) + k2 * touched + k3 * grown(rows))

    draft = drafts * (draft_bias + draft_k * grown(batch))
    verify = target(batch * (drafts + float(runs.bonus_token)))
    round_s = draft + verify + reject_bias + reject_k * batch
    return np.asarray(np.asarray(runs.accepted_length, float) * target(batch) / round_s)


def fit_moesd(speedup: ArrayLike, floors: Floors, runs: Runs) -> MoesdFit:
    """Fit the ten parameters to measured speedups within bounds.

    The best of several starts of a trust region counts.

    Points should be spread evenly over B. Raises AdvisorError for fewer than MIN_POINTS points or
    values that are not positive.
    """
    from scipy.optimize import least_squares

    measured = np.atleast_1d(np.asarray(speedup, float))
    if len(measured) < MIN_POINTS:
        raise AdvisorError(
            f"{len(measured)} points; this form has ten parameters and needs at least {MIN_POINTS}"
        )
    if not np.all(np.isfinite(measured)) or np.any(measured <= 0):
        raise AdvisorError("speedups must be positive numbers")
    low, high = _bounds(floors)

    def error(unit: Array) -> Array:
        predicted = moesd_speedup(_from_unit(unit, low, high), floors.ridge_tokens, runs)
        return np.asarray(np.log(predicted / measured))

    starts = [np.full(len(NAMES), 0.3), *np.random.default_rng(0).random((_STARTS - 1, len(NAMES)))]
    results = [
        least_squares(error, start, bounds=(0.0, 1.0), max_nfev=_MAX_EVALUATIONS)
        for start in starts
    ]
    best = min(results, key=lambda result: result.cost)
    off = measured * np.expm1(error(best.x))
    return MoesdFit(
        parameters=_from_unit(best.x, low, high),
        rms=float(np.sqrt(np.mean(off**2))),
        at_bound=tuple(
            name for name, x in zip(NAMES, best.x, strict=True) if min(x, 1.0 - x) < 1e-3
        ),
        n_points=len(measured),
    )


def _bounds(floors: Floors) -> tuple[Array, Array]:
    """Bounds by NAMES. The terms in G have no upper bound of their own; ten times a whole read of
    weights is ample."""
    target = floors.target_s
    expert = floors.expert_s
    draft = floors.draft_s
    reject = floors.reject_max_s
    max_s = 10.0 * (target + expert)
    over = _FLOOR_FACTOR
    high = [
        over * target,
        max_s,
        over * expert,
        max_s,
        over * draft,
        10.0 * draft,
        reject,
        reject,
        1.0,
        2.0,
    ]
    return np.array([target, 0.0, expert, 0.0, draft, 0.0, 0.0, 0.0, 0.2, 1.0]), np.array(high)


_SQUARED = np.array(
    [name in ("k1_s", "k3_s", "draft_k_s", "reject_k_s", "growth") for name in NAMES]
)


def _from_unit(unit: Array, low: Array, high: Array) -> Array:
    """Parameters from the unit cube. Those that are mostly near their lower bound go up with the
    cube."""
    return low + np.where(_SQUARED, unit**3, unit) * (high - low)


ASSUMED_REJECT_S = 0.5e-3
"""Upper bound on rejection sampling where none was measured (assumed: near the prior on the host's
time per round)."""


def floors_of(setup: Setup, moe: Moe) -> Floors:
    """Least times by reading weights, for one instance of the setup's placement. `moe`: of its
    model."""
    bandwidth = effective_bandwidth(setup.hardware, "bf16").value
    rate = bandwidth * setup.placement.gpus
    width = BYTES_PER_WEIGHT[setup.architecture.dtypes.routed]
    expert = moe.count * moe.matrices * moe.expert_input_width * moe.expert_width * width
    remaining = max(weight_bytes(setup.architecture) - expert * moe.n_experts, expert)
    draft = weight_bytes(setup.draft_architecture) if setup.draft_architecture is not None else 0.0
    return Floors(
        target_s=remaining / rate,
        expert_s=expert / rate,
        draft_s=max(draft, expert) / rate,
        reject_max_s=ASSUMED_REJECT_S,
        ridge_tokens=float(laws.ridge(effective_flops(setup.hardware, "bf16").value, bandwidth)),
    )


def moesd_of(points: Sequence[Point]) -> MoesdFit | None:
    """The form fitted to the speedups of one MoE model on one accelerator. None for fewer than
    MIN_POINTS of them."""
    timed = [p for p in points if p.setup.architecture.moe and "speedup" in p.observations.quantity]
    timed = [p for p in timed if p.setup.architecture.id == timed[0].setup.architecture.id]
    moe = timed[0].setup.architecture.moe if timed else None
    if moe is None or len(timed) < MIN_POINTS:
        return None
    runs = Runs(
        batch_size=np.array([p.batch_size for p in timed]),
        n_draft=np.array([float(p.n_draft) for p in timed]),
        accepted_length=np.array([p.accepted_length for p in timed]),
        n_experts=float(moe.n_experts),
        n_active=max(float(effective_n_active(moe)), 1.0),
    )
    return fit_moesd([p.measured for p in timed], floors_of(timed[0].setup, moe), runs)


NEEDED_COLUMNS = ("hardware_id", "model_id", "drafter", "draft_tokens_k", "batch_size")
PREDICTED_COLUMNS = (
    *("predicted_speedup", "predicted_low", "predicted_high"),
    *("predicted_tier", "predicted_reason", "accepted_length_source"),
)
_CHANCE = "predicted_chance"
_DRAWS = "draws"
_JUDGING = (_CHANCE, _DRAWS)
"""What rows that are judged hold beside their prediction."""
MAX_NAMED = 3
"""Rows that are named where a file cannot be predicted as a whole. [-]"""
_SAME_GRID = (
    *("source_title", "source", "hardware_id", "model_id", "drafter", "batch_size"),
    *("engine", "tensor_parallel", "weight_dtype", "dataset"),
)
"""Rows that have these in common differ in K alone."""


@dataclass(frozen=True)
class Validation:
    """Errors of all rows, by laboratory and by tier, with the regret of the recommended K and the
    rows."""

    overall: Errors
    by_laboratory: Mapping[str, Errors]
    """By accelerator where rows name no source."""
    by_tier: Mapping[str, Errors]
    by_acceptance: Mapping[str, Errors]
    best_k_regret: float | None
    """Mean loss at the recommended K against the K measured best, over points with several K.
    [-]"""
    n_best_k: int
    rows: pd.DataFrame
    n_refused: int


def predict_rows(
    frame: pd.DataFrame,
    assume: Mapping[str, str] | None = None,
    *,
    held_out: bool = False,
    other_models: bool = False,
    refused: Mapping[int, str] | None = None,
    with_draws: bool = False,
    on_progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """Rows with PREDICTED_COLUMNS added.

    Rows that cannot be predicted say why in predicted_reason. Raises AdvisorError for a file
    without NEEDED_COLUMNS.

    Parameters
    ----------
    held_out : predict rows of a laboratory that the shipped overheads were fitted on by a fit
        without it.
    other_models : give a row whose accepted length nobody measured its drafter's median over other
        models.
    refused : why rows cannot be read, by the frame's index.
    with_draws : add the columns _JUDGING, the chance of a gain and the speedup under each draw.
    on_progress : called with the share done before every row.
    """
    filled = dict(assume or {})
    if unknown := [
        name for name in filled if name not in {*frame.columns, *POINT_COLUMNS["points"]}
    ]:
        raise AdvisorError(
            f"--set {unknown[0]}=...: no column of a measured point has that name (docs/formats.md)"
        )
    unread = refused or {}
    if missing := [name for name in NEEDED_COLUMNS if name not in {*frame.columns, *filled}]:
        expected = "expected the header of measurements/published_speedups"
        raise AdvisorError(
            f"{_unread_text(unread)}the file lacks the columns {', '.join(missing)}; {expected}"
        )
    runs: list[PredictedRun | AdvisorError] = []
    for line, row in zip(frame.index, frame.to_dict("records"), strict=True):
        if on_progress is not None:
            on_progress(len(runs) / len(frame))
        try:
            if line in unread:
                raise AdvisorError(unread[line])
            question = question_of(row, assume, other_models)
            without = laboratory_of_row(row) if held_out else ""
            setup = question.built(question.setup(), without)
            runs.append(PredictedRun(row, question=question, setup=setup))
        except AdvisorError as error:
            runs.append(error)
    curves = iter(curves_of([run for run in runs if isinstance(run, PredictedRun)]))
    answers = [
        _refusal(run) if isinstance(run, AdvisorError) else _answer(run, next(curves))
        for run in runs
    ]
    added = pd.DataFrame(answers, columns=[*PREDICTED_COLUMNS, *_JUDGING])
    if not with_draws:
        added = added.drop(columns=list(_JUDGING))
    return pd.concat([frame.reset_index(drop=True), added], axis=1)


def _unread_text(refused: Mapping[int, str]) -> str:
    """Which rows cannot be read, the first ones named, before what is wrong with the whole file.
    Empty for none."""
    if not refused:
        return ""
    first_reasons = "; ".join(
        f"line {line}: {reason.rstrip('.')}" for line, reason in list(refused.items())[:MAX_NAMED]
    )
    more = f" (and {len(refused) - MAX_NAMED} more rows)" if len(refused) > MAX_NAMED else ""
    return f"{first_reasons}{more}; and "


def validate(
    frame: pd.DataFrame,
    assume: Mapping[str, str] | None = None,
    refused: Mapping[int, str] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Validation:
    """Predict every row and compare with its `speedup` column.

    `refused` and `on_progress` as in `predict_rows`. Raises AdvisorError for a file without that
    column.

    Rows of a laboratory that the shipped overheads were fitted on are predicted by a fit without
    it; rows whose accepted length nobody measured by that of other models. Rows marked with a
    defect are not judged. All as in docs/validation.md.
    """
    if "speedup" not in frame.columns:
        raise AdvisorError(
            "the file has no speedup column to validate against; use `predict` instead"
        )
    if "defect" in frame.columns:
        marked = frame["defect"].fillna("").astype(str)
        refused = {
            **{i: f"set aside for a defect: {text}" for i, text in marked.items() if text},
            **(refused or {}),
        }
    options = {"held_out": True, "other_models": True, "with_draws": True}
    rows = predict_rows(frame, assume, refused=refused, on_progress=on_progress, **options)
    rows = rows.assign(
        **{name: assume[name] for name in NEEDED_COLUMNS if assume and name in {*assume} - {*rows}}
    )
    measured = pd.to_numeric(rows["speedup"], errors="coerce")
    measured = measured.where(
        np.isfinite(measured) & (measured > 0)
    )  # anything else is no speedup: not judged
    predicted = pd.to_numeric(
        rows["predicted_speedup"], errors="coerce"
    )  # a column of None alone holds no numbers
    rows["absolute_percentage_error"] = (predicted / measured - 1.0).abs()
    rows[_CHANCE] = pd.to_numeric(rows.pop(_CHANCE), errors="coerce")
    judged = rows.assign(measured=measured)[rows["absolute_percentage_error"].notna()]
    keys = [name for name in _SAME_GRID if name in judged.columns]
    regret, n_best_k = best_k_regret(judged, keys, _DRAWS, "draft_tokens_k")
    judged = _by_laboratory(judged)
    return Validation(
        overall=_errors(judged),
        by_laboratory=_errors_by(judged, "laboratory" if "laboratory" in judged else "hardware_id"),
        by_tier=_errors_by(judged, "predicted_tier"),
        by_acceptance=_errors_by(judged, "accepted_length_source"),
        best_k_regret=regret,
        n_best_k=n_best_k,
        rows=rows.drop(columns=_DRAWS),
        n_refused=int(rows["predicted_speedup"].isna().sum()),
    )


def judged_errors(judged: pd.DataFrame) -> Errors:
    """Errors of rows with measured and predicted speedups. Where rows name a source, every
    laboratory counts alike."""
    return _errors(_by_laboratory(judged))


def _errors(judged: pd.DataFrame) -> Errors:
    """`judged_errors` of rows with their laboratory."""
    return errors_of(judged, "predicted_speedup", "predicted_low", "predicted_high", "laboratory")


def _by_laboratory(judged: pd.DataFrame) -> pd.DataFrame:
    """`judged` with the column laboratory, where rows name their source."""
    if set(SOURCE_COLUMNS).isdisjoint(judged):
        return judged
    return judged.assign(laboratory=laboratories_of(judged))


def _errors_by(judged: pd.DataFrame, column: str) -> dict[str, Errors]:
    return {str(key): _errors(group) for key, group in judged.groupby(column)}


def _refusal(error: AdvisorError) -> tuple[Any, ...]:
    return None, None, None, None, f"not predicted: {error}", "none", None, None


def _answer(run: PredictedRun, curve: Curve | AdvisorError) -> tuple[Any, ...]:
    if isinstance(curve, AdvisorError):
        return _refusal(curve)
    question = run.question
    setup = run.setup
    notes = [setup.costs.routed.because if setup.architecture.moe else "dense model"]
    if question.assumed:
        notes.append("assumed " + ", ".join(question.assumed))
    if question.scenario.task is not None:
        notes += [remark.rstrip(".") for remark in setup.acceptance.remarks]
    if question.verify_tokens is not None:
        notes.append(
            f"verifies {question.verify_tokens} tokens; overlap inside a draft tree is unmeasured"
        )
    if setup.memory.largest_batch < question.scenario.batch_size:
        notes.append("exceeds the memory estimate")
    return (
        float(curve.speedup[0, 0]),
        float(curve.low[0, 0]),
        float(curve.high[0, 0]),
        # Of the very prediction that judges the row: the parts that carry a step depend on the
        # constants of the fit, and so does the tier.
        str(curve.tier[0, 0]),
        "; ".join(note for note in notes if note),
        question.acceptance_source,
        float(curve.p_gain[0, 0]),
        curve.draws[:, 0, 0],
    )


JUDGED = PROFILES / "validation" / "judged_speedups.json"
COLUMNS = (
    *(
        "source_title",
        "hardware_id",
        "model_id",
        "drafter",
        "draft_tokens_k",
        "batch_size",
        "measured",
    ),
    *(
        "predicted_speedup",
        "predicted_low",
        "predicted_high",
        "predicted_tier",
        "absolute_percentage_error",
    ),
    *("engine", _CHANCE),
)


@lru_cache(maxsize=1)
def read_judged() -> tuple[str, pd.DataFrame]:
    """(hash of data and fits, rows with COLUMNS). Raises AdvisorError when the file is missing or
    damaged."""
    return read_made(
        JUDGED,
        lambda found: (
            str(found["data_and_fits"]),
            pd.DataFrame(found["rows"], columns=list(COLUMNS)),
        ),
    )


class Prospective(NamedTuple):
    """Figures on laboratories that no release had used before it predicted them."""

    laboratories: int
    rows: int
    error: float
    """Mean relative error, every laboratory alike. [-]"""
    range_held: float
    """Share inside the 80 % range, every laboratory alike. [0 to 1]"""
    slowdowns: int
    foreseen: int
    """Slowdowns predicted as such."""


def read_prospective() -> Prospective:
    """Pooled figures of docs/scores.csv, as `make validation` ships them. Raises AdvisorError when
    the file is missing or damaged."""
    return read_made(
        JUDGED, lambda shipped: Prospective(*map(shipped["prospective"].get, Prospective._fields))
    )


GATES = PROFILES / "validation" / "gates.json"


@dataclass(frozen=True)
class Gate:
    """One gate of docs/validation.md with its figure, both shares. [-]"""

    key: str
    figure: float | None
    limit: float
    at_most: bool
    """Which side is good."""
    n: int
    n_sources: int
    status: str
    """`met`, `missed`, or `not testable here`."""
    facts: Mapping[str, Any]
    """What is known of the reason."""


@lru_cache(maxsize=1)
def read_gates() -> tuple[str, tuple[Gate, ...]]:
    """(hash of data and fits, gates as `make validation` ships them). Raises AdvisorError when the
    file is missing or damaged."""
    return read_made(
        GATES,
        lambda shipped: (
            str(shipped["data_and_fits"]),
            tuple(Gate(**gate) for gate in shipped["gates"]),
        ),
    )


CHANCES = (0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0)
"""Ends of the ranges of stated chances of a gain that are held against what happened. [-]"""


def chances_kept(judged: pd.DataFrame) -> pd.DataFrame:
    """Stated chances of a gain, left out, against the share of rows that were gains.

    `judged` has COLUMNS. One line for each range of CHANCES that has rows: least and most [-], n,
    laboratories, stated (mean) and happened [-], rows counting alike. No map of the stated chances
    comes closer on laboratories left out (docs/decisions/history.md (0019)), so they are
    shown as they are.
    """
    index = np.clip(
        np.searchsorted(CHANCES, judged["predicted_chance"], "right") - 1, 0, len(CHANCES) - 2
    )
    with_gain = _by_laboratory(judged).assign(gain=judged["measured"] > 1.0)
    lines = [
        {
            "least": CHANCES[i],
            "most": CHANCES[i + 1],
            "n": len(group),
            "laboratories": group["laboratory"].nunique(),
            "stated": float(group["predicted_chance"].mean()),
            "happened": float(group["gain"].mean()),
        }
        for i, group in with_gain.groupby(index)
    ]
    return pd.DataFrame(lines)


def chance_kept_text(p_gain: float, judged: pd.DataFrame) -> str:
    """Record of published speedups with such a chance of a gain, in one sentence. Empty for fewer
    than LEAST_KEPT."""
    records = chances_kept(judged)
    matching = records[
        (records["least"] <= p_gain) & ((p_gain < records["most"]) | (records["most"] == 1.0))
    ]
    record = None if matching.empty else matching.iloc[0]
    if record is None or record["n"] < LEAST_KEPT:
        return ""
    return (
        f"Of {int(record['n']):,} published runs given {record['least']:.0%} to "
        f"{record['most']:.0%}, each by a fit that had not seen its laboratory, "
        f"{record['happened']:.0%} gained."
    )


LEAST_KEPT = 20
"""Published runs of a range from which on its record is told. [-]"""
