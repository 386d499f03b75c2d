"""Robust maximum a posteriori of log multipliers: soft-L1 on the data, Gaussian priors, the scatter learnt along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.points.points import NAMES, RefitPoint

Array = NDArray[np.float64]

_PRIOR_ROWS = 4.0
"""How many rows the prior on the scatter counts for. [1]"""
_SCALE_ROUNDS = 4
_WINSOR = 2.5  # residuals count for no more than this many scales when the scale is learnt
_MIN_SCALE = 0.01
_LENGTH = NAMES.index("accepted_length")


@dataclass(frozen=True)
class Problem:
    """Observations as arrays: log value = log(upper . m) - log(lower . m) + shift + length_share theta_length.

    `upper`, `lower` [n, names + 1]; prior covariance [names, names]; bounds +- [names] on theta = log m.
    """

    line: NDArray[np.int_]
    quantity: tuple[str, ...]
    log_measured: Array
    upper: Array
    lower: Array
    shift: Array
    length_share: Array
    whitening: Array
    """Maps theta to independent standard normals: inverse Cholesky factor of the prior covariance."""
    bound: Array
    scale: float
    """Prior guess of the scatter of one observation, log standard deviation. [1]"""

    @property
    def present(self) -> NDArray[np.bool_]:
        """Multipliers that any observation depends on [names]."""
        used = np.asarray((self.upper[:, :-1] > 0).any(axis=0) | (self.lower[:, :-1] > 0).any(axis=0))
        used[_LENGTH] |= bool((self.length_share != 0).any())
        return used


@dataclass(frozen=True)
class Posterior:
    """Log multipliers [names], their covariance, and the scatter of one observation [1]."""

    theta: Array
    covariance: Array
    scale: float
    success: bool
    message: str


def problem_of(
    points: Sequence[RefitPoint], log_sd: Array, covariance: Array, scale: float, bound_sigmas: float
) -> Problem:
    """Stack the observations of all points."""
    rows = [observation for point in points for observation in point.observations]
    return Problem(
        line=np.array([row.line for row in rows], int),
        quantity=tuple(row.quantity for row in rows),
        log_measured=np.log([row.measured for row in rows]),
        upper=np.array([row.upper for row in rows]),
        lower=np.array([row.lower for row in rows]),
        shift=np.array([row.shift for row in rows]),
        length_share=np.array([row.length_share for row in rows]),
        whitening=np.linalg.inv(np.linalg.cholesky(covariance)),
        bound=bound_sigmas * log_sd,
        scale=scale,
    )


def log_predicted(problem: Problem, theta: Array) -> Array:
    """Log of each observed quantity at log multipliers `theta` [names]."""
    m = np.append(np.exp(theta), 1.0)
    ratio = np.log(problem.upper @ m) - np.log(problem.lower @ m)
    return np.asarray(ratio + problem.shift + problem.length_share * theta[_LENGTH])


def _slopes(problem: Problem, theta: Array) -> Array:
    """Derivative of `log_predicted` [n, names]."""
    m = np.append(np.exp(theta), 1.0)
    upper = problem.upper * m / (problem.upper @ m)[:, None]
    lower = problem.lower * m / (problem.lower @ m)[:, None]
    slopes = (upper - lower)[:, :-1]
    slopes[:, _LENGTH] += problem.length_share
    return np.asarray(slopes)


def solve(problem: Problem, used: NDArray[np.bool_]) -> Posterior:
    """Fit the observations in `used` [n].

    The soft-L1 loss 2 (sqrt(1 + z^2) - 1) is applied to the data alone, as the square of a transformed residual; the
    prior stays Gaussian. The scatter is learnt from winsorised residuals, with a prior worth _PRIOR_ROWS rows.
    """
    from scipy.optimize import least_squares

    theta, scale, found = np.zeros(len(NAMES)), problem.scale, None
    for _ in range(_SCALE_ROUNDS):
        held = scale

        def residuals(x: Array, held: float = held) -> Array:
            z = (log_predicted(problem, x) - problem.log_measured)[used] / held
            return np.concatenate([z * _soften(z), problem.whitening @ x])

        def slopes(x: Array, held: float = held) -> Array:
            z = (log_predicted(problem, x) - problem.log_measured)[used] / held
            inner = _slopes(problem, x)[used] / held * _soft_slope(z)[:, None]
            return np.concatenate([inner, problem.whitening])

        found = least_squares(residuals, theta, jac=slopes, bounds=(-problem.bound, problem.bound), xtol=1e-10)
        theta = found.x
        covariance = np.linalg.inv(found.jac.T @ found.jac)
        scale = _learnt_scale(problem, used, theta, covariance, held)
        if abs(np.log(scale / held)) < 0.01:
            break
    assert found is not None
    return Posterior(theta, covariance, scale, bool(found.success), str(found.message))


def _soften(z: Array) -> Array:
    """Factor f with (z f)^2 = 2 (sqrt(1 + z^2) - 1)."""
    return np.asarray(np.sqrt(2.0 / (np.sqrt(1.0 + z**2) + 1.0)))


def _soft_slope(z: Array) -> Array:
    """Derivative of z f(z)."""
    return np.asarray(1.0 / (np.sqrt(1.0 + z**2) * _soften(z)))


def _learnt_scale(problem: Problem, used: NDArray[np.bool_], theta: Array, covariance: Array, held: float) -> float:
    residual = (log_predicted(problem, theta) - problem.log_measured)[used]
    squares = np.minimum(residual**2, (_WINSOR * held) ** 2)
    prior_precision = problem.whitening.T @ problem.whitening
    learnt = len(theta) - float(np.trace(prior_precision @ covariance))
    freedom = max(len(residual) - max(learnt, 0.0), 0.0)
    variance = (_PRIOR_ROWS * problem.scale**2 + squares.sum()) / (_PRIOR_ROWS + freedom)
    return max(float(np.sqrt(variance)), _MIN_SCALE)
