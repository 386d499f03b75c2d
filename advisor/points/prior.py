"""What the refit's multipliers are worth before any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.components import FACTORS, JOINT, KERNELS, LINK_RECORDS
from advisor.kernel_costs import MoeCost
from advisor.points.points import NAMES, RefitPoint
from advisor.setup import Setup
from advisor.tiers import records_in_use

Array = NDArray[np.float64]

MEANINGS = {**FACTORS, "accepted_length": "the borrowed accepted length"}
_KERNEL_FACTORS = tuple(dict.fromkeys(one.factor for one in KERNELS))
MIN_LOG_SD = 0.03
"""No kernel time is held known to better than this. [1]"""


@dataclass(frozen=True)
class PriorSpread:
    """Log standard deviations [names] and covariance [names, names] of the multipliers, and of what they leave."""

    log_sd: Array
    covariance: Array
    residual_log_sd: float


def prior_spread(points: Sequence[RefitPoint]) -> PriorSpread:
    """Spread of the shipped fits that the points' predictions rest on; of several, the widest."""
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
    return PriorSpread(log_sd, covariance, max(point.setup.costs.residual_log_sd for point in points))


def _kernel_log_sd(setup: Setup, factor: str) -> float:
    """Of the kernels that a multiplier scales, the widest; of links, over every number of ranks. [1]"""
    if factor == "communication":
        links = (cost for name in LINK_RECORDS for cost in getattr(setup.costs, name).values())
        return max((cost.log_sd for cost in links), default=0.2)
    records = [cost for one in KERNELS if one.factor == factor for cost in records_in_use(setup, one)]
    return max(cost.band_log_sd if isinstance(cost, MoeCost) else cost.log_sd for cost in records)
