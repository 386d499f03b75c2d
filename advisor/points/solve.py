"""The one solver: robust weighted least squares of an error, with a Gaussian prior on the unknowns, within bounds.

Unknowns are logarithms of what is sought (or a linear map of them), so that the prior of the thing is log-normal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.arrays import Array
from advisor.points.observation import Observations, log_predicted, log_slopes


@dataclass(frozen=True)
class Prior:
    """Gaussian prior of p unknowns. `whitening` [p, p] maps their distance from `centre` [p] to standard normals."""

    centre: Array
    whitening: Array


@dataclass(frozen=True)
class Solution:
    """Unknowns [p] at the least cost, and what the solver says of them."""

    x: Array
    jacobian: Array
    cost: float
    success: bool
    message: str

    @property
    def covariance(self) -> Array:
        """Covariance of the unknowns [p, p], by the curvature at the solution.

        LinAlgError where it leaves some open.
        """
        return np.asarray(np.linalg.inv(self.jacobian.T @ self.jacobian))


def solve(
    error: Callable[[Array], Array],
    starts: Sequence[Array],
    *,
    slopes: Callable[[Array], Array] | None = None,
    prior: Prior | None = None,
    bounds: tuple[Array | float, Array | float] = (-np.inf, np.inf),
    robust: bool = True,
    **options: Any,
) -> Solution:
    """The best of several local minima of the robust sum of squared errors plus the prior's.

    Parameters
    ----------
    error : of the data at unknowns [p], in units of its standard deviation [n].
    starts : unknowns to start from, one local search each.
    slopes : derivative of `error` [n, p]; by finite differences where it is not given.
    prior : None lets the data speak alone.
    bounds : lowest and highest unknowns.
    robust : soft-L1, 2 (sqrt(1 + z^2) - 1), in place of z^2; on the data alone, the prior stays Gaussian.
    options : `xtol`, `max_nfev` of scipy.optimize.least_squares.

    Notes
    -----
    The loss is applied as the square of a transformed residual, so that the Jacobian's curvature holds it too.
    """
    from scipy.optimize import least_squares

    def residuals(x: Array) -> Array:
        z = error(x)
        z = z * _softening(z) if robust else z
        return z if prior is None else np.concatenate([z, prior.whitening @ (x - prior.centre)])

    def jacobian(x: Array) -> Array:
        assert slopes is not None
        slope = slopes(x)
        slope = slope * _soft_slope(error(x))[:, None] if robust else slope
        return slope if prior is None else np.concatenate([slope, prior.whitening])

    jac = "2-point" if slopes is None else jacobian
    found = [least_squares(residuals, start, jac=jac, bounds=bounds, **options) for start in starts]
    best = min(found, key=lambda result: result.cost)
    return Solution(best.x, best.jac, float(best.cost), bool(best.success), str(best.message))


def solve_observed(
    observed: Observations,
    spread: Array | float,
    prior: Prior,
    start: Array,
    matrix: Array,
    offset: Array,
    **options: Any,
) -> Solution:
    """Unknowns x [p] behind the log multipliers offset + matrix x of observations.

    Parameters
    ----------
    observed, spread : observations, and the log standard deviation of all, or what whitens their errors [n, n].
    prior, start : of the unknowns, and where the search starts [p].
    matrix, offset : [names, p] and [names]; with n in front for one set of multipliers each.
    options : as of `solve`.
    """
    target = observed.log_measured

    def whitened(errors: Array) -> Array:
        return np.asarray(errors / spread if np.ndim(spread) == 0 else spread @ errors)

    def error(x: Array) -> Array:
        return whitened(log_predicted(observed, offset + matrix @ x) - target)

    def slopes(x: Array) -> Array:
        slope = log_slopes(observed, offset + matrix @ x)
        slope = slope @ matrix if matrix.ndim == 2 else np.einsum("np,npz->nz", slope, matrix)
        return whitened(slope)

    return solve(error, [start], slopes=slopes, prior=prior, **options)


def _softening(z: Array) -> Array:
    """Factor f with (z f)^2 = 2 (sqrt(1 + z^2) - 1)."""
    return np.asarray(np.sqrt(2.0 / (np.sqrt(1.0 + z**2) + 1.0)))


def _soft_slope(z: Array) -> Array:
    """Derivative of z f(z)."""
    return np.asarray(1.0 / (np.sqrt(1.0 + z**2) * _softening(z)))
