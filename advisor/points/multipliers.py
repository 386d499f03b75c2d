"""Time multipliers of the shipped constants: what they are worth before any data, and what observations make of them.

The scatter of one observation is learnt along: from winsorised residuals, with a prior worth a few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.arrays import Array
from advisor.components import JOINT, KERNELS, LINK_RECORDS
from advisor.kernel_costs import MoeCost
from advisor.points.observation import NAMES, Observations, log_predicted
from advisor.points.points import Point
from advisor.points.solve import Prior, solve_observed
from advisor.setup import Setup
from advisor.tiers import records_in_use

MIN_LOG_SD = 0.03
"""No kernel time is held known to better than this. [-]"""
BOUND_SIGMAS = 3.0
"""A log multiplier stays within this many of its prior's standard deviations. [-]"""
_PRIOR_ROWS = 4.0
"""How many rows the prior on the scatter counts for. [-]"""
_SCALE_ROUNDS = 4
_WINSOR = 2.5  # residuals count for no more than this many scales when the scale is learnt
_MIN_SCALE = 0.01
_KERNEL_FACTORS = tuple(dict.fromkeys(one.factor for one in KERNELS))


@dataclass(frozen=True)
class MultiplierPrior:
    """Prior of the multipliers: log standard deviations [names] and covariance [names, names].

    It holds the spread of what they leave, too.
    """

    log_sd: Array
    covariance: Array
    residual_log_sd: float


@dataclass(frozen=True)
class Posterior:
    """Log multipliers [names], their covariance, and the scatter of one observation [-]."""

    theta: Array
    covariance: Array
    scale: float
    success: bool
    message: str


def multiplier_prior(points: Sequence[Point]) -> MultiplierPrior:
    """Spread of the shipped fits that the points' predictions rest on, the widest of several."""
    overhead = max(point.setup.costs.overhead_log_sd for point in points)
    widths = dict.fromkeys(NAMES, overhead)
    widths |= {name: max(_kernel_log_sd(point.setup, name) for point in points) for name in _KERNEL_FACTORS}
    widths["accepted_length"] = max(point.length_log_sd for point in points)
    log_sd = np.array([max(widths[name], MIN_LOG_SD) for name in NAMES])
    covariance = np.diag(log_sd**2)
    fitted = points[0].setup.costs.overhead_log_covariance
    if fitted:
        at = [NAMES.index(one.factor) for one in JOINT]
        covariance[np.ix_(at, at)] = np.array(fitted) + MIN_LOG_SD**2 * np.eye(len(at))
        log_sd = np.sqrt(np.diag(covariance))
    return MultiplierPrior(log_sd, covariance, max(point.setup.costs.residual_log_sd for point in points))


def _kernel_log_sd(setup: Setup, factor: str) -> float:
    """Of the kernels that a multiplier scales, the widest. Of links, over every number of ranks. [-]"""
    if factor == "communication":
        links = [cost.log_sd for name in LINK_RECORDS for cost in getattr(setup.costs, name).values()]
        network = setup.costs.network
        return max((*links, *(() if network is None else (network.log_sd,))), default=0.2)
    records = [cost for one in KERNELS if one.factor == factor for cost in records_in_use(setup, one)]
    return max(cost.band_log_sd if isinstance(cost, MoeCost) else cost.log_sd for cost in records)


def fit_multipliers(observed: Observations, known: MultiplierPrior) -> Posterior:
    """The most probable multipliers, and the scatter around them, in turn until the scatter stands."""
    prior = Prior(np.zeros(len(NAMES)), np.linalg.inv(np.linalg.cholesky(known.covariance)))
    bound = BOUND_SIGMAS * known.log_sd
    theta, scale = prior.centre, known.residual_log_sd
    for _ in range(_SCALE_ROUNDS):
        held = scale
        found = solve_observed(
            observed, held, prior, theta, np.eye(len(NAMES)), prior.centre, bounds=(-bound, bound), xtol=1e-10
        )
        theta, covariance = found.x, found.covariance
        residual = log_predicted(observed, theta) - observed.log_measured
        scale = _learnt_scale(residual, prior, covariance, held, known.residual_log_sd)
        if abs(np.log(scale / held)) < 0.01:
            break
    return Posterior(theta, covariance, scale, found.success, found.message)


def _learnt_scale(residual: Array, prior: Prior, covariance: Array, held: float, guess: float) -> float:
    """Scatter [-] of residuals [n] whose weight was 1 / held, with a prior at `guess`."""
    squares = np.minimum(residual**2, (_WINSOR * held) ** 2)
    prior_precision = prior.whitening.T @ prior.whitening
    learnt = len(covariance) - float(np.trace(prior_precision @ covariance))
    freedom = max(len(residual) - max(learnt, 0.0), 0.0)
    variance = (_PRIOR_ROWS * guess**2 + squares.sum()) / (_PRIOR_ROWS + freedom)
    return max(float(np.sqrt(variance)), _MIN_SCALE)
