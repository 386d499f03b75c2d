"""Time multipliers of the shipped constants: what they are worth before any data, and what
observations make of them.

Robust least squares of log errors with a Gaussian prior, within bounds, for many sets of
observations in one call: rows left out in turn, and the readings of one file. The scatter of one
observation is learnt along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.measured.observations import NAMES, Observations, log_predicted, log_slopes
from advisor.measured.points import Point
from advisor.physics.components import JOINT, KERNELS, LINK_RECORDS, OVERHEADS
from advisor.physics.kernel_costs import MoeCost
from advisor.predict.setup import Setup
from advisor.predict.tiers import records_in_use
from advisor.prediction import BAND_SIGMAS, Array

MIN_LOG_SD = 0.03
"""No kernel time is held known to better than this. [-]"""
BOUND_SIGMAS = 3.0
"""A log multiplier stays within this many of its prior's standard deviations. [-]"""
_PRIOR_ROWS = 4.0
"""How many rows the prior on the scatter counts for. [-]"""
_SCALE_ROUNDS = 4
_WINSOR = 2.5  # residuals count for no more than this many scales when the scale is learnt
_MIN_SCALE = 0.01
_STEPS = 60
"""Newton steps at one scatter; half a dozen do where no bound is met. [-]"""
_SMALL_STEP = 1e-5
OWN_OVERHEAD_LOG_SD = math.log(10.0) / BAND_SIGMAS
"""Of the host's times on an accelerator of the user's own: a factor of 10 either way at 80 %, since
the shipped ones were fitted on servers of data-centre GPUs and nobody measured this host (assumed).
[-]"""
OF_A_HOST = tuple(
    dict.fromkeys(
        overhead.factor for overhead in OVERHEADS if overhead.bound == "host" and overhead.factor
    )
)
_KERNEL_FACTORS = tuple(dict.fromkeys(kernel.factor for kernel in KERNELS))


@dataclass(frozen=True)
class MultiplierPrior:
    """Prior of the multipliers: log standard deviations [names], covariance [names, names], and the
    rest."""

    log_sd: Array
    covariance: Array
    residual_log_sd: float


@dataclass(frozen=True)
class Posterior:
    """Log multipliers [..., names], their covariance, and the scatter of one observation [...].
    [-]"""

    theta: Array
    covariance: Array
    scale: Array


def multiplier_prior(points: Sequence[Point]) -> MultiplierPrior:
    """Spread of the shipped fits that the points' predictions rest on, the widest of several."""
    # Shipped spreads are of servers: for the user's own accelerator they would be far too narrow.
    on_own_hardware = all(point.scenario.hardware_json is not None for point in points)
    overhead = (
        OWN_OVERHEAD_LOG_SD
        if on_own_hardware
        else max(point.setup.costs.overhead_log_sd for point in points)
    )
    widths = dict.fromkeys(NAMES, overhead)
    setups = list({id(point.setup): point.setup for point in points}.values())
    widths |= {
        name: max(_kernel_log_sd(setup, name) for setup in setups) for name in _KERNEL_FACTORS
    }
    widths["accepted_length"] = max(point.length_log_sd for point in points)
    log_sd = np.array([max(widths[name], MIN_LOG_SD) for name in NAMES])
    covariance = np.diag(log_sd**2)
    fitted = points[0].setup.costs.overhead_log_covariance
    if fitted:
        at = [NAMES.index(component.factor) for component in JOINT]
        covariance[np.ix_(at, at)] = np.array(fitted) + MIN_LOG_SD**2 * np.eye(len(at))
        for name in OF_A_HOST if on_own_hardware else ():
            index = NAMES.index(name)
            covariance[index] = 0.0
            covariance[:, index] = 0.0
            covariance[index, index] = OWN_OVERHEAD_LOG_SD**2
        log_sd = np.sqrt(np.diag(covariance))
    return MultiplierPrior(
        log_sd, covariance, max(point.setup.costs.residual_log_sd for point in points)
    )


def _kernel_log_sd(setup: Setup, factor: str) -> float:
    """Of the kernels that a multiplier scales, the widest. Of links, over every number of ranks.
    [-]"""
    if factor == "communication":
        links = [
            cost.log_sd for name in LINK_RECORDS for cost in getattr(setup.costs, name).values()
        ]
        links += [setup.costs.network.log_sd] if setup.costs.network else []
        return max(links, default=0.2)
    records = [
        cost
        for kernel in KERNELS
        if kernel.factor == factor
        for cost in records_in_use(setup, kernel)
    ]
    return max(cost.band_log_sd if isinstance(cost, MoeCost) else cost.log_sd for cost in records)


def fit_multipliers(observed: Observations, prior: MultiplierPrior) -> Posterior:
    """The most probable multipliers, and the scatter around them, in turn until the scatter
    stands."""
    posterior = fit_many(observed, prior, np.ones((1, len(observed.line)), bool))
    return Posterior(posterior.theta[0], posterior.covariance[0], posterior.scale[0])


def fit_many(observed: Observations, prior: MultiplierPrior, used: NDArray[np.bool_]) -> Posterior:
    """Multipliers of each of m choices of rows, `used` [m, n], as by `fit_multipliers`.

    `observed` : the same values for all [n], or their own for each (`stacked`) [m, n].
    """
    theta = np.zeros((len(used), len(NAMES)))
    scale = np.full(len(used), prior.residual_log_sd)
    covariance = np.empty((len(used), len(NAMES), len(NAMES)))
    unsettled = np.arange(len(used))
    for _ in range(_SCALE_ROUNDS):
        some = _of(observed, unsettled)
        held = scale[unsettled]
        theta[unsettled], covariance[unsettled] = _most_probable(
            some, prior, used[unsettled], held, theta[unsettled]
        )
        residual = log_predicted(some, theta[unsettled, None]) - some.log_measured
        # The scatter weighs the rows and the rows make the scatter, so both are found in turn.
        scale[unsettled] = _learnt_scale(
            residual, used[unsettled], prior, covariance[unsettled], held
        )
        unsettled = unsettled[np.abs(np.log(scale[unsettled] / held)) >= 0.01]
        if not unsettled.size:
            break
    return Posterior(theta, covariance, scale)


def _of(observed: Observations, problems: NDArray[Any]) -> Observations:
    """Values of the `chosen` problems: the same ones where all share them."""
    return observed if observed.upper.ndim == 2 else observed.where(problems)


def _most_probable(
    observed: Observations,
    prior: MultiplierPrior,
    used: NDArray[np.bool_],
    scale: Array,
    start: Array,
) -> tuple[Array, Array]:
    """Log multipliers [m, names] of least cost at a scatter [m], and their covariance by the
    curvature there.

    The cost is soft-L1, sum 2 (sqrt(1 + z^2) - 1), of z = log error / scale, plus the Gaussian
    prior's. Damped Gauss-Newton steps are cut at the bounds; a multiplier held at its bound takes
    no part in the step.
    """
    precision = np.linalg.inv(prior.covariance)
    bound = BOUND_SIGMAS * prior.log_sd
    unit = np.eye(len(NAMES))

    def cost_of(at: Array) -> tuple[Array, Array]:
        z = used * (log_predicted(observed, at[:, None]) - observed.log_measured) / scale[:, None]
        return z, 2.0 * (np.sqrt(1.0 + z**2) - 1.0).sum(axis=1) + np.einsum(
            "mp,pq,mq->m", at, precision, at
        )

    # All problems step together, each with a damping of its own: one array in place of a loop over
    # left-out fits.
    theta = start
    damping = np.full(len(start), 1e-6)
    z, cost = cost_of(theta)
    for _ in range(_STEPS):
        root = np.sqrt(1.0 + z**2)
        slope = used[:, :, None] * log_slopes(observed, theta[:, None]) / scale[:, None, None]
        weighted = slope * ((root + 1.0) / (2.0 * root**2))[:, :, None]
        curvature = np.swapaxes(slope, 1, 2) @ weighted + precision
        downhill = -np.einsum("mnp,mn->mp", slope, z / root) - theta @ precision
        free = (np.abs(theta) < bound) | (downhill * theta < 0.0)
        free_pairs = free[:, :, None] & free[:, None, :]
        ridge = damping[:, None, None] * unit * np.diagonal(curvature, axis1=1, axis2=2)[:, None, :]
        step = np.linalg.solve(
            np.where(free_pairs, curvature + ridge, unit), np.where(free, downhill, 0.0)[:, :, None]
        )
        attempt = np.clip(theta + step[:, :, 0], -bound, bound)
        tried_z, tried_cost = cost_of(attempt)
        better = tried_cost <= cost
        going = np.abs(attempt - theta).max(axis=1) >= _SMALL_STEP
        theta = np.where(better[:, None], attempt, theta)
        z = np.where(better[:, None], tried_z, z)
        cost = np.where(better, tried_cost, cost)
        damping = np.clip(np.where(better, damping / 10.0, damping * 30.0), 1e-9, 1e9)
        if going.mean() < 0.5:  # a few that meet bounds take long: the others are left alone
            break
    covariance = np.linalg.inv(curvature)
    if going.any() and not going.all():
        some = _of(observed, going)
        theta[going], covariance[going] = _most_probable(
            some, prior, used[going], scale[going], theta[going]
        )
    return theta, covariance


def _learnt_scale(
    residual: Array, used: NDArray[np.bool_], prior: MultiplierPrior, covariance: Array, held: Array
) -> Array:
    """Scatter [m] of residuals [m, n] whose weight was 1 / held, with a prior at the shipped
    residual. [-]"""
    # One wild row would widen the scatter, and so make room for itself.
    squares = np.where(used, np.minimum(residual**2, (_WINSOR * held[:, None]) ** 2), 0.0)
    learnt = len(NAMES) - np.einsum("pq,mqp->m", np.linalg.inv(prior.covariance), covariance)
    freedom = np.maximum(used.sum(axis=1) - np.maximum(learnt, 0.0), 0.0)
    variance = (_PRIOR_ROWS * prior.residual_log_sd**2 + squares.sum(axis=1)) / (
        _PRIOR_ROWS + freedom
    )
    return np.maximum(np.sqrt(variance), _MIN_SCALE)


def log_left_out(observed: Observations, prior: MultiplierPrior, part: NDArray[np.int_]) -> Array:
    """Log of each value by a fit without its part of the rows, `part` [n]. Parts below 0 are in no
    fit and are NaN."""
    parts = np.unique(part[part >= 0])
    posterior = fit_many(observed, prior, (part >= 0) & (part != parts[:, None]))
    log_by_fold = log_predicted(observed, posterior.theta[:, None])
    out = np.full(part.shape, np.nan)
    for index, fold in enumerate(parts):
        out[part == fold] = log_by_fold[index, part == fold]
    return out
