"""What the refit's multipliers are worth before any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.calibration import CORRELATED
from advisor.kernel_costs import KernelCosts, StreamCost
from advisor.points.points import NAMES, RefitPoint
from advisor.setup import Setup

Array = NDArray[np.float64]

MEANINGS = {
    "launch": "launch time per layer",
    "host": "host time per step",
    "draft_host": "host time per draft pass",
    "round_host": "host time per speculative round",
    "routed": "time of the routed experts",
    "attention": "time of attention",
    "dense": "time of projections and dense layers",
    "communication": "time of communication",
    "drafter": "kernel time of the drafter",
    "accepted_length": "the borrowed accepted length",
}
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
    widths |= {
        "routed": max(point.setup.costs.routed.band_log_sd for point in points),
        "attention": max(_attention(point.setup).log_sd for point in points),
        "dense": max(_dense_log_sd(point.setup.costs) for point in points),
        "communication": max(_communication_log_sd(point.setup.costs) for point in points),
        "drafter": max(point.setup.draft_costs.dense.log_sd for point in points),
        "accepted_length": max(point.length_log_sd for point in points),
    }
    log_sd = np.array([max(widths[name], MIN_LOG_SD) for name in NAMES])
    covariance = np.diag(log_sd**2)
    fitted = points[0].setup.costs.overhead_log_covariance
    if fitted:
        at = [NAMES.index(name) for name in CORRELATED]
        covariance[np.ix_(at, at)] = np.array(fitted) + MIN_LOG_SD**2 * np.eye(len(at))
        log_sd = np.sqrt(np.diag(covariance))
    return PriorSpread(log_sd, covariance, max(point.setup.costs.residual_log_sd for point in points))


def _attention(setup: Setup) -> StreamCost:
    latent = any(mixer.kind in ("mla", "sparse") for mixer in setup.architecture.mixers)
    return setup.costs.mla if latent and setup.costs.mla is not None else setup.costs.attention


def _dense_log_sd(costs: KernelCosts) -> float:
    return max(cost.log_sd for cost in (costs.attention_projection, costs.shared, costs.dense, costs.lm_head))


def _communication_log_sd(costs: KernelCosts) -> float:
    return max((cost.log_sd for cost in (*costs.all_reduce.values(), *costs.all_to_all.values())), default=0.2)
