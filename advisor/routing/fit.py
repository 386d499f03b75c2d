"""Routing parameters learnt from overlaps or from a trace of expert ids."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.arrays import Array
from advisor.prediction import AdvisorError


@dataclass(frozen=True)
class RoutingFit:
    """Routing parameters learnt from overlaps or a trace, with 80 % intervals (low, high)."""

    load_cv: float
    affinity: float
    stickiness: float
    load_cv_interval: tuple[float, float]
    affinity_interval: tuple[float, float]
    stickiness_interval: tuple[float, float]
    overlap_by_lag: tuple[float, ...]
    unrelated_overlap: float


def fit_overlaps(
    unrelated: float, overlap_lag1: float, overlap_far: float, n_experts: int, n_active: int
) -> tuple[float, float, float]:
    """(load_cv, affinity, stickiness) from J, o_1 and o_inf, in closed form.

    J = k/N (1 + CV^2), o_inf = J + (1-J) phi, o_1 = o_inf + (1-o_inf) rho. Estimates below zero are set to zero.
    """
    cv = math.sqrt(max(unrelated * n_experts / n_active - 1.0, 0.0))
    phi = (overlap_far - unrelated) / (1.0 - unrelated) if unrelated < 1.0 else 0.0
    rho = (overlap_lag1 - overlap_far) / (1.0 - overlap_far) if overlap_far < 1.0 else 0.0
    return min(cv, math.sqrt(n_experts / n_active - 1.0)), min(max(phi, 0.0), 1.0), min(max(rho, 0.0), 1.0)


def overlap_by_lag(expert_ids: ArrayLike, n_experts: int, max_lag: int = 7) -> Array:
    """Share of experts kept from one token to the one `lag` later, averaged over sequences.

    `expert_ids` [sequences, tokens, k] -> [max_lag]. Independent uniform routing gives k/N at every lag.
    """
    indicator = _indicator(expert_ids, n_experts)
    return _overlaps(indicator, max_lag).mean(axis=0)


def fit_trace(
    expert_ids: ArrayLike, n_experts: int, n_bootstrap: int = 200, rng: np.random.Generator | None = None
) -> RoutingFit:
    """Load variation, affinity and stickiness of one layer's routing trace, with bootstrap intervals.

    Parameters
    ----------
    expert_ids : chosen experts, whole numbers in [0, N). [sequences >= 2, tokens >= 8, k]
    n_experts : N. [1]
    n_bootstrap : resamples of whole sequences behind the intervals. [1]
    rng : generator for the resampling; default: a fixed seed, so that equal traces give equal answers.

    Raises
    ------
    AdvisorError for a wrong shape, ids outside [0, N), or an expert chosen twice by one token.

    Notes
    -----
    The overlap of unrelated tokens, J, uses different sequences only (unbiased). o_inf is the mean of lags 4 to 7.
    CV is poorly determined when small; judge a fit by the U it predicts. Average layers by averaging their overlaps.
    """
    indicator = _indicator(expert_ids, n_experts)
    n_sequences, _, n_active = np.shape(expert_ids)
    mean_use = indicator.mean(axis=1)
    lags = _overlaps(indicator, 7)

    def estimate(rows: NDArray[np.intp]) -> tuple[float, float, float, float]:
        use, size = mean_use[rows], len(rows)
        pairs = use.sum(axis=0) ** 2 - (use**2).sum(axis=0)
        unrelated = float(pairs.sum() / (size * (size - 1) * n_active))
        curve = lags[rows].mean(axis=0)
        return (*fit_overlaps(unrelated, float(curve[0]), float(curve[3:7].mean()), n_experts, n_active), unrelated)

    rng = rng or np.random.default_rng(0)
    point = estimate(np.arange(n_sequences))
    # A sequence drawn twice would pair with itself and pass for unrelated, so half-samples without replacement are
    # used; with n/2 of n sequences their spread equals the full sample's standard error.
    half = max(2, n_sequences // 2)
    draws = np.array([estimate(rng.permutation(n_sequences)[:half]) for _ in range(n_bootstrap)])
    low, high = np.quantile(draws, [0.1, 0.9], axis=0)
    intervals = [(min(float(a), p), max(float(b), p)) for a, b, p in zip(low, high, point, strict=True)]
    return RoutingFit(
        load_cv=point[0],
        affinity=point[1],
        stickiness=point[2],
        load_cv_interval=intervals[0],
        affinity_interval=intervals[1],
        stickiness_interval=intervals[2],
        overlap_by_lag=tuple(float(share) for share in lags.mean(axis=0)),
        unrelated_overlap=point[3],
    )


def _indicator(expert_ids: ArrayLike, n_experts: int) -> Array:
    ids = np.asarray(expert_ids)
    if ids.ndim != 3 or ids.shape[0] < 2 or ids.shape[1] < 8:
        raise AdvisorError(
            f"expert_ids has shape {ids.shape}; expected [sequences >= 2, tokens >= 8, experts per token]"
        )
    if not np.issubdtype(ids.dtype, np.integer):
        raise AdvisorError(f"expert_ids holds {ids.dtype}; expected whole numbers from 0 to {n_experts - 1}")
    if ids.min() < 0 or ids.max() >= n_experts:
        raise AdvisorError(f"expert_ids spans {ids.min()} to {ids.max()}; expected 0 to {n_experts - 1}")
    indicator = np.zeros((*ids.shape[:2], n_experts))
    np.put_along_axis(indicator, ids, 1.0, axis=2)
    if not np.all(indicator.sum(axis=2) == ids.shape[2]):
        raise AdvisorError("a token of the trace chooses one expert twice; each must choose k different experts")
    return indicator


def _overlaps(indicator: Array, max_lag: int) -> Array:
    n_active = indicator[0, 0].sum()
    return np.stack(
        [
            np.einsum("ste,ste->s", indicator[:, lag:], indicator[:, :-lag]) / ((indicator.shape[1] - lag) * n_active)
            for lag in range(1, max_lag + 1)
        ],
        axis=1,
    )
