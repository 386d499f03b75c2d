"""Routing parameters from counts of activated experts per pass: what counts alone can tell, and what they cannot.

Passes with one token per sequence touch U(B) = sum_i 1 - (1 - q_i)^B experts: B fixes the load variation and says
nothing of affinity or stickiness, which relate tokens of one sequence. Passes with several tokens (verification) do,
with both effects mixed unless the number of tokens varies. The fit is the maximum of likelihood times a prior around
the routing preset, so what the log does not tell stays at the preset, and is named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.prediction import BAND_SIGMAS, AdvisorError
from advisor.routing.law import expected_experts, touched_experts
from advisor.routing.presets import PARAMETERS, RoutingPreset, write_own_routing

PRIOR_SD = (0.5, 0.1, 0.1)
"""Least spread of the prior around the preset: other data than the preset was measured on (assumed). [-]"""
UNIDENTIFIED = 0.9
"""A parameter whose posterior spread exceeds this share of its prior's was not learnt from the log. [-]"""
APART = 0.4
"""Affinity and stickiness are told apart when each is known to this share of its prior spread. [-]"""
MODEL_LOG_SD = 0.01
"""Error of the routing form itself, log standard deviation (tests hold it to 2 % on synthetic routers). [-]"""
# One for each stretch of the log below, so that no stretch is empty.
MIN_PASSES = 20
FEW_BLOCKS = 8
"""A cell met in fewer stretches of the log takes the scatter of all cells where its own is smaller. [-]"""
# Passes of one stretch share their sequences, so stretches are resampled and not passes.
_BLOCKS, _DRAWS = 20, 400
# A pass of one token touches k experts exactly; logs round their means.
_ONE_TOKEN_TOLERANCE = 0.01


@dataclass(frozen=True)
class CountCell:
    """Passes of B sequences x t tokens, with the mean experts counted, predicted by the fit, and uniform."""

    batch_size: int
    tokens: int
    passes: int
    counted: float
    predicted: float
    uniform: float


@dataclass(frozen=True)
class CountParameter:
    """One routing parameter with its 80 % interval.

    Where it is not identified the log left it open, and value and interval are the preset's.
    """

    name: str
    value: float
    low: float
    high: float
    identified: bool


@dataclass(frozen=True)
class CountFit:
    """Result of fitting the routing parameters to a log of activated experts."""

    parameters: tuple[CountParameter, ...]
    cells: tuple[CountCell, ...]
    n_passes: int
    n_experts: int
    n_active: int
    warnings: tuple[str, ...]

    @property
    def largest_error(self) -> float:
        """Largest |predicted / counted - 1| over the cells. [-]"""
        return max(abs(cell.predicted / cell.counted - 1.0) for cell in self.cells)

    @property
    def routing(self) -> str:
        """The scenario's `routing`: what was learnt, and `-` for what the preset is left to say."""
        known = [item if item.identified else None for item in self.parameters]
        return write_own_routing(
            [item.value if item else None for item in known],
            [(item.low, item.high) if item else (0.0, 0.0) for item in known],
        )


def fit_counts(
    sequences: ArrayLike,
    tokens_per_sequence: ArrayLike,
    experts: ArrayLike,
    n_experts: int,
    n_active: int,
    preset: RoutingPreset,
    rng: np.random.Generator | None = None,
) -> CountFit:
    """Fit the routing parameters to counts of distinct experts.

    Parameters
    ----------
    sequences, tokens_per_sequence : B and t of each pass, in the order of the log. [passes]
    experts : distinct routed experts it touched, mean over layers. [passes]
    n_experts, n_active : N and k. [-]
    preset : centre of the prior.
    rng : resamples the log's stretches behind the intervals; default: a fixed seed.

    Raises
    ------
    AdvisorError : fewer than MIN_PASSES passes with two or more tokens, none that a parameter follows from, or counts
    that k of N experts cannot give.
    """
    rng = rng or np.random.default_rng(0)
    batch, tokens, counted = (np.asarray(values, float) for values in (sequences, tokens_per_sequence, experts))
    counted, warnings = _scaled(batch * tokens, counted, n_experts, n_active)
    # One token touches k experts under any routing: such passes say nothing of it.
    useful = batch * tokens > 1
    if useful.sum() < MIN_PASSES:
        raise AdvisorError(
            f"{int(useful.sum())} passes with two or more tokens; at least {MIN_PASSES} are needed, of several sizes"
        )
    shapes, cell = np.unique(np.stack([batch, tokens], axis=1)[useful], axis=0, return_inverse=True)
    cell, counted = cell.ravel(), counted[useful]
    blocks = np.arange(len(cell)) * _BLOCKS // len(cell)
    sums, counts = _by_block(cell, blocks, counted, len(shapes))
    mean = sums.sum(axis=0) / counts.sum(axis=0)
    prior, spread = _prior(preset, n_experts, n_active)
    spread_of_mean = _relative_error(sums, counts, mean)
    theta, slopes, covariance = _solve(shapes, mean, spread_of_mean, prior, spread, n_experts, n_active)
    draws = _draws(sums, counts, mean, spread_of_mean, slopes, theta, spread, rng)
    low, high = np.quantile(draws, [0.1, 0.9], axis=0)
    learnt = np.sqrt(np.diag(covariance)) <= UNIDENTIFIED * spread
    if not learnt.any():
        raise AdvisorError(
            "the passes of this log fix no routing parameter; it needs passes of 2 to some dozens of sequences"
        )
    parameters = _parameters(theta, (low, high), learnt, preset, prior, _limits(n_experts, n_active))
    predicted = _experts(shapes, theta, n_experts, n_active)
    uniform = expected_experts(shapes[:, 0] * shapes[:, 1], float(n_experts), float(n_active))
    cells = tuple(
        CountCell(int(b), int(t), int(n), float(c), float(p), float(u))
        for (b, t), n, c, p, u in zip(shapes, counts.sum(axis=0), mean, predicted, uniform, strict=True)
    )
    warnings += _words(shapes, learnt, covariance, spread, len(cell))
    return CountFit(parameters, cells, int(useful.sum()), n_experts, n_active, tuple(warnings))


def _parameters(
    theta: Array,
    interval: tuple[Array, Array],
    learnt: NDArray[np.bool_],
    preset: RoutingPreset,
    prior: Array,
    limit: Array,
) -> tuple[CountParameter, ...]:
    """What was learnt with its interval, within its limits; the preset's own value and range for the rest."""
    found = []
    for i, (name, stated) in enumerate(zip(PARAMETERS, preset.parameters, strict=True)):
        value, low, high = float(prior[i]), stated.low, stated.high
        if learnt[i]:
            value = float(theta[i])
            low = float(max(min(interval[0][i], value), 0.0))
            high = float(min(max(interval[1][i], value), limit[i]))
        found.append(CountParameter(name, value, low, high, bool(learnt[i])))
    return tuple(found)


def _scaled(tokens: Array, counted: Array, n_experts: int, n_active: int) -> tuple[Array, list[str]]:
    """Counts with layers without experts taken out of the mean, where single-token passes show that they are in it.

    One token touches exactly k experts. Raises AdvisorError for counts that k of N cannot give.
    """
    warnings: list[str] = []
    single = counted[tokens == 1]
    if single.size:
        share = float(single.mean()) / n_active
        if not 0.5 <= share <= 1.0 + _ONE_TOKEN_TOLERANCE:
            raise AdvisorError(
                f"passes of one token touch {share * n_active:.3g} experts, and the model uses {n_active}; choose the "
                "model that was logged (a log of one rank of several cannot be used)"
            )
        if share < 1.0 - _ONE_TOKEN_TOLERANCE:
            warnings.append(
                f"passes of one token touch {share * n_active:.3g} experts instead of {n_active}: layers without "
                f"experts are in the mean, so all counts were divided by {share:.3f}"
            )
            counted = counted / share
    slack = 1.0 + _ONE_TOKEN_TOLERANCE
    if counted.max() > n_experts * slack or np.any(counted * slack < n_active):
        raise AdvisorError(
            f"a pass touches {counted.min():.3g} to {counted.max():.3g} experts; {n_active} of {n_experts} allow "
            f"{n_active} to {n_experts}; choose the model that was logged"
        )
    return np.minimum(counted, float(n_experts)), warnings


def _by_block(cell: NDArray[np.int_], block: NDArray[np.int_], counted: Array, n_cells: int) -> tuple[Array, Array]:
    """Sum of counts and number of passes, [blocks, cells]: passes of one stretch share their sequences."""
    sums, counts = np.zeros((_BLOCKS, n_cells)), np.zeros((_BLOCKS, n_cells))
    np.add.at(sums, (block, cell), counted)
    np.add.at(counts, (block, cell), 1.0)
    return sums, counts


def _relative_error(sums: Array, counts: Array, mean: Array) -> Array:
    """Log standard deviation of each cell's mean [cells], from how its block means scatter; model error included."""
    there = counts > 0
    blocks = there.sum(axis=0)
    deviation = np.where(there, sums / np.maximum(counts, 1.0) / mean - 1.0, 0.0)
    several = blocks >= 2
    variance = (deviation**2).sum(axis=0) / np.maximum(blocks - 1, 1)
    pooled = float(variance[several].mean()) if several.any() else 0.05**2
    variance = np.where(blocks >= FEW_BLOCKS, variance, np.maximum(variance, pooled))
    return np.sqrt(variance / blocks + MODEL_LOG_SD**2)


def _prior(preset: RoutingPreset, n_experts: int, n_active: int) -> tuple[Array, Array]:
    """Centre and standard deviation of the prior [3]."""
    items = preset.parameters
    centre = np.clip([item.value for item in items], 0.0, _limits(n_experts, n_active))
    spread = [
        max((item.high - item.low) / (2.0 * BAND_SIGMAS), least) for item, least in zip(items, PRIOR_SD, strict=True)
    ]
    return centre, np.array(spread)


def _limits(n_experts: int, n_active: int) -> Array:
    return np.array([np.sqrt(max(n_experts / n_active - 1.0, 0.0)), 1.0, 1.0])


def _experts(shapes: Array, theta: Array, n_experts: int, n_active: int) -> Array:
    return touched_experts(shapes[:, 0], shapes[:, 1], n_experts, n_active, *(float(value) for value in theta))


def _solve(
    shapes: Array, mean: Array, error: Array, prior: Array, spread: Array, n_experts: int, n_active: int
) -> tuple[Array, Array, Array]:
    """Parameters [3], slopes of the log counts [cells, 3], posterior covariance [3, 3]."""
    from scipy.optimize import least_squares

    limit = _limits(n_experts, n_active)

    def residuals(theta: Array) -> Array:
        off = np.log(_experts(shapes, theta, n_experts, n_active) / mean) / error
        return np.concatenate([off, (theta - prior) / spread])

    # The solver takes no start on a bound, where a prior of 0 lies.
    start = np.clip(prior, 1e-3, limit - 1e-3)
    found = least_squares(residuals, start, bounds=(np.zeros(3), limit), diff_step=1e-4, x_scale=spread)
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    return np.asarray(found.x), np.asarray(found.jac[: len(shapes)] * error[:, None]), covariance


def _draws(
    sums: Array,
    counts: Array,
    mean: Array,
    error: Array,
    slopes: Array,
    theta: Array,
    spread: Array,
    rng: np.random.Generator,
) -> Array:
    """Parameters under resampled stretches of the log, model error and prior [draws, 3]: one Newton step each."""
    out = np.empty((_DRAWS, 3))
    weighted = slopes / error[:, None] ** 2
    precision = weighted.T @ slopes + np.diag(spread**-2.0)
    for draw in range(_DRAWS):
        rows = rng.integers(0, len(sums), len(sums))
        n = counts[rows].sum(axis=0)
        moved = np.where(n > 0, np.log(np.maximum(sums[rows].sum(axis=0), 1e-9) / np.maximum(n, 1.0) / mean), 0.0)
        moved = moved + MODEL_LOG_SD * rng.standard_normal(len(mean))
        pulled = rng.standard_normal(3) / spread
        out[draw] = theta + np.linalg.solve(precision, weighted.T @ moved + pulled)
    return out


def _words(shapes: Array, learnt: NDArray[np.bool_], covariance: Array, spread: Array, n_passes: int) -> list[str]:
    """What counts alone leave open, in sentences."""
    words = []
    several = np.unique(shapes[shapes[:, 1] > 1, 1])
    if not several.size:
        words.append(
            "all passes bring one token per sequence, and counts of such passes say nothing about affinity and "
            "stickiness, which relate tokens of one sequence: both stay at the preset; a log with speculative "
            "decoding on, or a trace of expert ids, would tell"
        )
    else:
        apart = np.sqrt(np.diag(covariance)[1:]) <= APART * spread[1:]
        if learnt[1:].any() and not apart.all():
            words.append(
                "counts tell how much affinity and stickiness save together, hardly how much each does: their "
                "intervals belong together"
            )
        open_ones = [name for name, known in zip(PARAMETERS[1:], learnt[1:], strict=True) if not known]
        if open_ones:
            words.append(f"{' and '.join(open_ones)} stay at the preset: the log does not tell")
    if not learnt[0]:
        words.append("load variation stays at the preset: the log does not tell")
    if n_passes < 10 * _BLOCKS:
        words.append(f"only {n_passes} passes: the intervals are rough")
    return words
