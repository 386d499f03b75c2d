"""Fits of kernel tables: robust non-negative least squares on relative error, and a table of expert
kernels by it.

The tables name their load `balanced` or `power_law_<exponent>` and store no expert counts: these
are rebuilt from the published description of the generator [aiconfigurator]. `laws.routed_layers`
is linear in non-negative coefficients but for c(m), a piecewise-linear factor in log rows per
touched expert that all shapes of a table share. Forms tried:
docs/decisions/0002-moe-kernel-form.md.

References
----------
[aiconfigurator] collector/helper.py and its power-law note, ai-dynamo/aiconfigurator (Apache-2.0).
    Description only;
own code.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.fit_records import BYTES_PER_WEIGHT, FitParameter
from advisor.physics import laws
from advisor.physics.step import expert_work
from advisor.prediction import BAND_SIGMAS, AdvisorError

if TYPE_CHECKING:
    import pandas as pd


def held_out(
    group: np.ndarray, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Each row of `group` [rows] as `predict(seen, held)` gives it, two masks of rows. NaN with a
    single group."""
    out = np.full(len(group), np.nan)
    names = np.unique(group)
    for name in names if len(names) > 1 else []:
        held = group == name
        out[held] = predict(~held, held)
    return out


def band_log_sd(log_ratio: np.ndarray, floor: float = 0.02) -> float:
    """The sd of a normal law whose central 80 % holds 80 % of `log_ratio`. At least `floor` (timer
    noise). [-]"""
    finite = np.abs(log_ratio[np.isfinite(log_ratio)])
    return max(float(np.quantile(finite, 0.8)) / BAND_SIGMAS, floor) if finite.size else np.nan


def error_quantiles(
    predicted: np.ndarray, measured: np.ndarray
) -> tuple[float | None, float | None]:
    """Median and 90th percentile of |predicted / measured - 1|. None where nothing is finite."""
    error = np.abs(predicted / measured - 1.0)
    error = error[np.isfinite(error)]
    if not error.size:
        return None, None
    return float(np.median(error)), float(np.quantile(error, 0.9))


def held_out_errors(held: np.ndarray, measured: np.ndarray) -> dict[str, Any]:
    """Fields of a FitRecord on rows predicted by fits that did not see them. `log_sd` is NaN where
    there are none."""
    median, p90 = error_quantiles(held, measured)
    spread = band_log_sd(np.log(np.maximum(held, 1e-12) / measured))
    return {"n_rows": len(measured), "loso_median": median, "loso_p90": p90, "log_sd": spread}


ITERATIONS = 8
HUBER = 1.5
"""Residuals beyond this many robust standard deviations lose weight (Huber)."""


@dataclass(frozen=True)
class LinearFit:
    """Coefficients of a linear form fitted on relative error. Arrays follow the column order."""

    coefficients: np.ndarray
    low: np.ndarray
    """Bounds from below."""
    stderr: np.ndarray
    correlation: np.ndarray
    log_sd: float
    """Robust standard deviation of log(measured / fitted), in sample. [-]"""


def _solve(gram: np.ndarray, moment: np.ndarray, low: np.ndarray) -> np.ndarray:
    """min ||A x - 1||^2, x >= low, from the normal equations of column-scaled A."""
    from scipy.optimize import nnls

    # Seconds per byte and seconds lie nine orders apart: unscaled, the factor would lose the small
    # column.
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    # A ridge of 1e-10 keeps the factor defined when two columns are collinear; it moves no
    # coefficient by 1e-6.
    factor = np.linalg.cholesky(gram / np.outer(scale, scale) + 1e-10 * np.eye(len(scale)))
    solution, _ = nnls(factor.T, np.linalg.solve(factor, (moment - gram @ low) / scale))
    return low + solution / scale


def relative_coefficients(
    relative: np.ndarray, low: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Iteratively re-weighted solution, at least `low`, and its final weights for relative [rows,
    columns]."""
    least = np.zeros(relative.shape[1]) if low is None else low
    weight = np.ones(len(relative))
    x = np.zeros(relative.shape[1])
    # Re-weighting in place of a robust loss keeps each step a linear problem with bounds, solved
    # exactly.
    for _ in range(ITERATIONS):
        weighted = relative * weight[:, None]
        new = _solve(relative.T @ weighted, weighted.sum(axis=0), least)
        converged = np.allclose(new, x, rtol=1e-4, atol=0.0)
        x = new
        size = np.abs(relative @ x - 1.0)
        weight = np.minimum(
            1.0, HUBER * (1.4826 * np.median(size) + 1e-9) / np.maximum(size, 1e-12)
        )
        if converged:
            break
    return x, weight


def fit_relative(
    columns: np.ndarray, measured: np.ndarray, low: np.ndarray | None = None
) -> LinearFit:
    """Fit measured ~ columns @ x, x >= low, minimising relative error with Huber re-weighting.

    Parameters
    ----------
    columns : [rows, parameters], any consistent units.
    measured : [rows], > 0, seconds.
    low : least value of each coefficient, [parameters]; None: 0.

    Returns
    -------
    LinearFit; stderr and correlation from the weighted normal equations of the coefficients that
    are not at their bound (NaN elsewhere).
    """
    # Divided by the measured time the target is 1 in every row, so that a microsecond counts like a
    # millisecond.
    relative = columns / measured[:, None]
    least = np.zeros(relative.shape[1]) if low is None else low
    x, weight = relative_coefficients(relative, least)
    free = x > least
    residual = relative @ x - 1.0
    # A coefficient at its bound took no freedom from the rows, and its curvature says nothing of
    # its error.
    n_free = max(int(free.sum()), 1)
    variance = float((weight * residual**2).sum() / max(weight.sum() - n_free, 1.0))
    a = relative[:, free]
    scale = np.sqrt((weight[:, None] * a**2).sum(axis=0))
    covariance = np.linalg.pinv((a / scale).T @ ((a / scale) * weight[:, None])) * variance
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    stderr = np.full(len(x), np.nan)
    stderr[free] = deviation / scale
    correlation = np.full((len(x), len(x)), np.nan)
    correlation[np.ix_(free, free)] = covariance / np.outer(deviation, deviation)
    log_ratio = np.log(measured / np.maximum(columns @ x, 1e-12))
    return LinearFit(x, least, stderr, correlation, float(1.4826 * np.median(np.abs(log_ratio))))


def linear_parameters(
    named: Sequence[tuple[str, str]], coefficients: np.ndarray, stderr: np.ndarray, low: np.ndarray
) -> dict[str, FitParameter]:
    """Coefficients as stored, by name and unit. Those at their bound have no standard error."""
    return {
        name: FitParameter(
            value=float(value),
            unit=unit,
            stderr=float(error) if np.isfinite(error) else None,
            low=float(least),
            at_bound=bool(value <= least),
        )
        for (name, unit), value, error, least in zip(named, coefficients, stderr, low, strict=True)
    }


SERIES = [
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
]
"""Rows that agree in these differ in tokens alone."""
DRAWS = 32
"""Draws averaged per table row; U of one draw scatters by 1-4 %, so its mean is known within 1
%."""
SEED = 20240824


@dataclass(frozen=True)
class TouchedExperts:
    """Averages over draws for one (tokens, N, k, ep, load)."""

    touched: float
    """Distinct experts of the measured rank that receive at least one token. [-]"""
    routed_rows: float
    """Token-expert pairs of the measured rank; tokens x k when ep = 1. [-]"""


def _raise_minima(counts: np.ndarray, amount: int, cap: int) -> np.ndarray:
    """Add `amount` units one by one to the currently smallest entry (none beyond `cap`):
    water-filling."""
    out = counts.copy()
    order = np.argsort(out, kind="stable")
    ordered = out[order]
    amount = min(amount, int((cap - ordered).sum()))
    # Units needed to bring all earlier entries up to each entry in turn.
    need = ordered * np.arange(len(ordered)) - np.concatenate([[0], np.cumsum(ordered)[:-1]])
    n_raised = int(np.searchsorted(need, amount, side="right"))
    level, extra = divmod(amount + int(ordered[:n_raised].sum()), n_raised)
    ordered[:n_raised] = level
    ordered[:extra] += 1
    out[order] = ordered
    return out


def _changed(counts: np.ndarray, amount: int, cap: int) -> np.ndarray:
    """Entries with `amount` more or, below 0, fewer units in all, as even as can be."""
    if amount < 0:  # one by one from the largest entry, never below 0: the same upside down
        return counts.max() - _raise_minima(counts.max() - counts, -amount, int(counts.max()))
    return _raise_minima(counts, amount, cap) if amount else counts


def sample_counts(
    n_tokens: int,
    n_experts: int,
    n_active: int,
    exponent: float,
    rng: np.random.Generator,
    expert_parallel: int = 1,
) -> np.ndarray:
    """Tokens per expert of one draw of the power-law load.

    The busiest rank's experts come first. Raises AdvisorError for tokens below 1, more experts used
    than there are, ranks that do not divide them, or an exponent of 1.

    Parameters
    ----------
    n_tokens : tokens of all ranks together. [-]
    n_experts, n_active : N and k. [-]
    exponent : of the power law, > 0, not 1. [-]
    expert_parallel : ranks that share the experts; must divide N. [-]

    Returns
    -------
    int array [n_experts], each entry in 0..n_tokens, sum n_tokens * n_active.
    """
    if n_active > n_experts or n_experts % expert_parallel or n_tokens < 1 or exponent == 1.0:
        raise AdvisorError(
            f"cannot sample a load for tokens={n_tokens}, N={n_experts}, k={n_active}, "
            f"ep={expert_parallel}, exponent={exponent}; expected tokens >= 1, k <= N, ep "
            "dividing N, exponent not 1"
        )
    # The generator draws its weights from another range once experts have more than a token each.
    crowded = n_tokens * n_active > n_experts
    low, high = (1.0, 0.8 * n_tokens) if crowded else (0.01, 2.0)
    power = 1.0 - exponent
    weights = (low**power + (high**power - low**power) * rng.random(n_experts)) ** (1.0 / power)
    target = n_tokens * n_active
    rounded = np.rint(weights / weights.sum() * target).astype(np.int64)
    counts = np.minimum(rounded, n_tokens).reshape(expert_parallel, -1)
    # First what the cap of one choice a token cut off, then what rounding lost.
    for amount in (int((rounded - counts.ravel()).sum()), None):
        missing = target - int(counts.sum()) if amount is None else amount
        whole, over = divmod(abs(missing), expert_parallel)
        for rank in range(expert_parallel):
            counts[rank] = _changed(
                counts[rank], int(np.sign(missing)) * (whole + (rank < over)), n_tokens
            )
    # A full or an empty rank passes its share on.
    loads = _changed(counts.ravel(), target - int(counts.sum()), n_tokens).reshape(
        expert_parallel, -1
    )
    # The tables time the busiest rank, and callers read the first one.
    busiest = int(np.argmax(loads.sum(axis=1)))
    loads[[0, busiest]] = loads[[busiest, 0]]
    return loads.ravel()


def balanced_counts(n_tokens: int, n_experts: int, n_active: int) -> np.ndarray:
    """Tokens per expert of the `balanced` load.

    Choice i of token t is expert t + i ceil(N/k), wrapped at N.

    With fewer tokens than ceil(N/k) the tokens are spread over the stride, so all choices differ: U
    = min(N, tokens k) up to the few that wrap where k does not divide N.
    """
    stride = -(-n_experts // n_active)
    tokens = np.arange(n_tokens)
    start = tokens if n_tokens >= stride else np.floor(tokens * stride / n_tokens).astype(np.int64)
    chosen = (start[:, None] + stride * np.arange(n_active)[None, :]) % n_experts
    return np.bincount(chosen.ravel(), minlength=n_experts)


@lru_cache(maxsize=16384)  # the same few thousand loads recur in every table
def touched_under_power_law(
    n_tokens: int,
    n_experts: int,
    n_active: int,
    distribution: str,
    expert_parallel: int = 1,
    draws: int = DRAWS,
) -> TouchedExperts:
    """Experts the measured rank reads in one table row, averaged over seeded draws of its load.

    `distribution` is `balanced` or `power_law_<exponent>`; anything else raises AdvisorError.
    """
    local = n_experts // expert_parallel
    if distribution == "balanced":
        counts = balanced_counts(n_tokens, n_experts, n_active)[:local]
        return TouchedExperts(float((counts > 0).sum()), float(counts.sum()))
    if not distribution.startswith("power_law_"):
        raise AdvisorError(
            f"unknown load {distribution!r}; expected 'balanced' or 'power_law_<exponent>'"
        )
    exponent = float(distribution.removeprefix("power_law_"))
    key = f"{n_tokens}/{n_experts}/{n_active}/{exponent}/{expert_parallel}".encode()
    rng = np.random.default_rng([SEED, zlib.crc32(key)])
    sample = np.array(
        [
            sample_counts(n_tokens, n_experts, n_active, exponent, rng, expert_parallel)[:local]
            for _ in range(draws)
        ]
    )
    return TouchedExperts(float((sample > 0).sum(axis=1).mean()), float(sample.sum(axis=1).mean()))


FORM = "moe-additive-curve"
MOE_KEYS = ["num_tokens", *SERIES]
SHAPE = ["hidden_size", "inter_size", "topk", "num_experts"]
KNOTS = np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512], dtype=float)
MIN_ROWS_PER_KNOT = 8
ROUNDS = 3
UNKNOWN_LOG_SD = 0.25
"""Least band of a table with one or two shapes, where little can be held out: the worst tables'
held-out spread."""
TWO_MATRIX_SHAPES = frozenset(
    {
        (2688, 1856, 6, 128),
        (1024, 2688, 22, 512),
        (2048, 5120, 22, 512),
        (4096, 2688, 22, 512),
        (8192, 5120, 22, 512),
    }
)
"""Nemotron-3 experts (up, squared ReLU, down). Some engines run them gated in the measurement, some
do not."""


@dataclass(frozen=True)
class MoeFit:
    """Coefficients (order of PARAMETERS) and the log correction at KNOTS that have data."""

    linear: LinearFit
    knots: np.ndarray
    log_factor: np.ndarray

    def predict(self, columns: np.ndarray, rows_per_expert: np.ndarray) -> np.ndarray:
        """Seconds, [rows]."""
        return (columns @ self.linear.coefficients) * np.exp(self.correction(rows_per_expert))

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Knots of c(m) as a FitRecord holds them."""
        return tuple(
            (float(m), float(np.exp(f))) for m, f in zip(self.knots, self.log_factor, strict=True)
        )

    def correction(self, rows_per_expert: np.ndarray) -> np.ndarray:
        """Correction log c(m), held constant beyond the outer knots. [-]"""
        if not self.knots.size:
            return np.zeros(len(rows_per_expert))
        return np.interp(np.log(rows_per_expert), np.log(self.knots), self.log_factor)


def add_touched(frame: pd.DataFrame) -> pd.DataFrame:
    """Table with columns touched and routed_rows, from how each row's load was generated."""
    keys = ["num_tokens", "num_experts", "topk", "distribution", "moe_ep_size"]
    points = frame[keys].drop_duplicates()
    loads = [
        touched_under_power_law(int(m), int(n), int(k), str(d), int(ep))
        for m, n, k, d, ep in points.itertuples(index=False)
    ]
    points = points.assign(
        touched=[load.touched for load in loads], routed_rows=[load.routed_rows for load in loads]
    )
    return frame.merge(points, on=keys, how="left")


def fit_moe(
    columns: np.ndarray,
    measured: np.ndarray,
    rows_per_expert: np.ndarray,
    low: np.ndarray | None = None,
) -> MoeFit:
    """Alternate the linear fit, its coefficients at least `low`, and the correction curve. All
    times in seconds."""
    log_factor = np.zeros(len(measured))
    nearest = np.abs(np.log(rows_per_expert)[:, None] - np.log(KNOTS)[None, :]).argmin(axis=1)
    # A knot with few rows would follow their noise; between its neighbours the curve is
    # interpolated.
    filled = [i for i in range(len(KNOTS)) if (nearest == i).sum() >= MIN_ROWS_PER_KNOT]
    # c(m) multiplies the linear terms, so the two cannot be columns of one linear fit: each is
    # fitted at the other.
    for _ in range(ROUNDS):
        linear = fit_relative(columns, measured * np.exp(-log_factor), low)
        log_ratio = np.log(measured / (columns @ linear.coefficients))
        knots = KNOTS[filled]
        values = np.array([np.median(log_ratio[nearest == i]) for i in filled])
        log_factor = MoeFit(linear, knots, values).correction(rows_per_expert)
    return MoeFit(linear, knots, values)


def leave_one_shape_out(
    columns: np.ndarray,
    measured: np.ndarray,
    rows: np.ndarray,
    shape: np.ndarray,
    low: np.ndarray | None = None,
) -> np.ndarray:
    """Each row predicted by a fit (coefficients and curve) that saw no row of its shape. NaN with a
    single shape."""

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return fit_moe(columns[seen], measured[seen], rows[seen], low).predict(
            columns[held], rows[held]
        )

    return held_out(shape, predict)


def two_matrices(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rows whose shape is one of TWO_MATRIX_SHAPES, [rows]."""
    return np.array(
        [shape in TWO_MATRIX_SHAPES for shape in frame[SHAPE].itertuples(index=False, name=None)],
        bool,
    )


def frame_work(frame: pd.DataFrame, dtype: str, ungated: bool) -> dict[str, Any]:
    """Arguments of `laws.routed_layers` but for the costs, from a table with touched and
    routed_rows."""
    get = {name: frame[name].to_numpy(dtype=float) for name in MOE_KEYS if name != "distribution"}
    touched = frame["touched"].to_numpy()
    rows = frame["routed_rows"].to_numpy()
    work = expert_work(
        tokens=get["num_tokens"],
        n_active=rows
        / get["num_tokens"],  # of the measured rank, so that the rows are those it was given
        rows_per_expert=np.asarray(laws.rows_per_expert(rows, 1.0, touched)),
        touched=touched,
        h=get["hidden_size"],
        I=get["inter_size"] / get["moe_tp_size"],
        n_mat=np.where(two_matrices(frame) & ungated, 2.0, 3.0),
        bytes_per_weight=BYTES_PER_WEIGHT[dtype],
    )
    return {**work, "N": get["num_experts"] / get["moe_ep_size"]}
