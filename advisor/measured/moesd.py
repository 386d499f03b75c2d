"""MoESD's own ten-parameter form of the speedup, for fitting a handful of end-to-end points of one set-up.

It knows nothing of layers or kernels: times are sums of a constant, a term in touched experts and terms in a function
G that is flat while memory limits and linear once arithmetic does. Kept beside the component model as a cross-check.

References
----------
[MoESD] "MoESD", arXiv:2505.19645: Algorithm 1 and eq. 4. The printed line 11 of the algorithm contradicts eq. 4, which
    is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from advisor.measured.points import Point
from advisor.physics import laws
from advisor.physics.architecture import BYTES_PER_WEIGHT, Moe, effective_n_active, weight_bytes
from advisor.physics.hardware import effective_bandwidth, effective_flops
from advisor.physics.touched_experts import expected_experts
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array

NAMES = (
    *("bias_s", "k1_s", "k2_s", "k3_s", "draft_bias_s", "draft_k_s", "reject_bias_s", "reject_k_s"),
    *("ridge_share", "growth"),
)
MIN_POINTS = 10
_FLOOR_FACTOR = 5.0
"""bias, k2 and draft_bias lie between their weight-read floor and this many times it [MoESD]."""
_STARTS, _MAX_EVALUATIONS = 4, 60


@dataclass(frozen=True)
class Floors:
    """Bounds of the parameters: least times by reading weights, most time of rejection, ridge point.

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
    floors: Floors
    rms: float
    """Root mean square error of the speedups fitted. [-]"""
    at_bound: tuple[str, ...]
    n_points: int
    success: bool
    message: str


def growth(x: ArrayLike, ridge_share: ArrayLike, base: ArrayLike, ridge_tokens: float) -> Array:
    """G(x): base^x up to X = ridge_share ridge_tokens, its tangent beyond, so that it ends linear. [-]"""
    tokens, edge, slope = np.asarray(x, float), np.asarray(ridge_share) * ridge_tokens, np.log(base)
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

    `parameters`: ten, in the order of NAMES; `ridge_tokens`: tokens per weight at the ridge point. [-]
    """
    bias, k1, k2, k3, draft_bias, draft_k, reject_bias, reject_k, share, base = np.asarray(parameters, float)
    batch, drafts = np.asarray(runs.batch_size, float), np.asarray(runs.n_draft, float)

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

    Points should be spread evenly over B. Raises AdvisorError for fewer than MIN_POINTS points or values that are not
    positive.
    """
    from scipy.optimize import least_squares

    measured = np.atleast_1d(np.asarray(speedup, float))
    if len(measured) < MIN_POINTS:
        raise AdvisorError(f"{len(measured)} points; this form has ten parameters and needs at least {MIN_POINTS}")
    if not np.all(np.isfinite(measured)) or np.any(measured <= 0):
        raise AdvisorError("speedups must be positive numbers")
    low, high = _bounds(floors)

    def error(unit: Array) -> Array:
        predicted = moesd_speedup(_from_unit(unit, low, high), floors.ridge_tokens, runs)
        return np.asarray(np.log(predicted / measured))

    starts = [np.full(len(NAMES), 0.3), *np.random.default_rng(0).random((_STARTS - 1, len(NAMES)))]
    results = [least_squares(error, start, bounds=(0.0, 1.0), max_nfev=_MAX_EVALUATIONS) for start in starts]
    best = min(results, key=lambda result: result.cost)
    off = measured * np.expm1(error(best.x))
    return MoesdFit(
        parameters=_from_unit(best.x, low, high),
        floors=floors,
        rms=float(np.sqrt(np.mean(off**2))),
        at_bound=tuple(name for name, x in zip(NAMES, best.x, strict=True) if min(x, 1.0 - x) < 1e-3),
        n_points=len(measured),
        success=bool(best.success),
        message=str(best.message),
    )


def _bounds(floors: Floors) -> tuple[Array, Array]:
    """Bounds by NAMES. The terms in G have no upper bound of their own; ten times a whole read of weights is ample."""
    max_s = 10.0 * (floors.target_s + floors.expert_s)
    target, expert, draft, reject = floors.target_s, floors.expert_s, floors.draft_s, floors.reject_max_s
    low = [target, 0.0, expert, 0.0, draft, 0.0, 0.0, 0.0, 0.2, 1.0]
    over = _FLOOR_FACTOR
    high = [over * target, max_s, over * expert, max_s, over * draft, 10.0 * draft, reject, reject, 1.0, 2.0]
    return np.array(low), np.array(high)


_SQUARED = np.array([name in ("k1_s", "k3_s", "draft_k_s", "reject_k_s", "growth") for name in NAMES])


def _from_unit(unit: Array, low: Array, high: Array) -> Array:
    """Parameters from the unit cube. Those that are mostly near their lower bound go up with the cube."""
    return low + np.where(_SQUARED, unit**3, unit) * (high - low)


ASSUMED_REJECT_S = 0.5e-3
"""Upper bound on rejection sampling where none was measured (assumed: near the prior on the host's time per round)."""


def floors_of(setup: Setup, moe: Moe) -> Floors:
    """Least times by reading weights, for one instance of the setup's placement. `moe`: of its model."""
    rate = effective_bandwidth(setup.hardware, "bf16").value * setup.placement.gpus
    width = BYTES_PER_WEIGHT[setup.architecture.dtypes.routed]
    expert = moe.count * moe.matrices * moe.expert_input_width * moe.expert_width * width
    remaining = max(weight_bytes(setup.architecture) - expert * moe.n_experts, expert)
    draft = weight_bytes(setup.draft_architecture) if setup.draft_architecture is not None else 0.0
    return Floors(
        target_s=remaining / rate,
        expert_s=expert / rate,
        draft_s=max(draft, expert) / rate,
        reject_max_s=ASSUMED_REJECT_S,
        ridge_tokens=float(
            laws.ridge(effective_flops(setup.hardware, "bf16").value, effective_bandwidth(setup.hardware, "bf16").value)
        ),
    )


def moesd_of(points: Sequence[Point]) -> MoesdFit | None:
    """The form fitted to the speedups of one MoE model on one accelerator. None for fewer than MIN_POINTS of them."""
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
