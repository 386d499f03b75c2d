"""Launch and host overheads per engine class, fitted on published speedups by robust least squares with a weak prior.

A class's log overheads are a mean over classes plus a deviation, which share the prior's variance. How much of it is
common to all classes (`common_share`: 0 fits each class alone, 1 fits one set for all) is decided by the error on
sources left out (docs/decisions/0003-engine-overheads.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.calibration import ANY_CLASS, OVERHEAD_NAMES
from advisor.points.published import Point
from advisor.speedup import speedup

Array = NDArray[np.float64]

PRIOR_S = (10e-6, 0.3e-3, 0.4e-3)
"""Weak prior of docs/model.md for OVERHEAD_NAMES. [s]"""
PRIOR_LOG_SD = math.log(3.0) / 1.2815515655446004
"""A factor of 3 either way at 80 %. [1]"""
SYNCHRONOUS_ROUND_S = 2e-3
"""Centre of the prior per round for engines that schedule a round only after the last has returned. [s]

The weak prior plus what overlapping saved in the same engine on the same model: 1.1 ms a round (Llama-3.1-8B, accepted
length 2.99 at 246.8 tokens/s against 3.01 at 273.4; sgl-project/sglang pull request 11398) and 2.0 ms (DeepSeek-R1 on
eight GPUs, 2.296 at 140.5 against 159.7 tokens/s; pull request 12128)."""
SYNCHRONOUS = "-synchronous"
"""Ending of the classes of such engines."""
SHARED_WITHIN_SOURCE = 0.5
"""Assumed share of a row's error that all rows of its source have in common, so that n rows of one source count as
n / (1 + (n - 1) share) independent ones. [1]"""
UNKNOWN_CLASS = "other"


def prior_s(engine_class: str) -> tuple[float, float, float]:
    """Centre of a class's prior, in the order of OVERHEAD_NAMES. [s]"""
    launch, draft_pass, per_round = PRIOR_S
    return launch, draft_pass, SYNCHRONOUS_ROUND_S if engine_class.endswith(SYNCHRONOUS) else per_round


@dataclass(frozen=True)
class Overheads:
    """Three constants [s] in the order of OVERHEAD_NAMES, with the covariance of their logarithms [3, 3]."""

    values_s: tuple[float, float, float]
    log_covariance: Array
    n_rows: int
    n_sources: int
    at_bound: tuple[bool, bool, bool] = (False, False, False)

    def costs(self) -> dict[str, Any]:
        """As fields of KernelCosts."""
        return {
            **dict(zip(OVERHEAD_NAMES, self.values_s, strict=True)),
            "overhead_log_covariance": tuple(tuple(float(x) for x in row) for row in self.log_covariance),
        }


@dataclass(frozen=True)
class OverheadModel:
    """Overheads of every class seen, and of `any`."""

    by_class: dict[str, Overheads]

    def of(self, engine_class: str) -> Overheads:
        """Of a class; of `any` when it was not seen."""
        return self.by_class.get(engine_class, self.by_class[ANY_CLASS])


def log_speedup(points: Sequence[Point], log_overheads: Array) -> Array:
    """Log speedup of each point at log overheads [n, 3] (log s). [1]"""
    launch, draft_pass, per_round = np.exp(log_overheads).T
    column = {
        name: np.array([getattr(point, name) for point in points], float)
        for name in ("accepted_length", "plain_s", "round_s", "layers", "draft_layers", "passes", "prefill_s")
    }
    plain = column["plain_s"] + launch * column["layers"]
    whole = (
        column["round_s"]
        + launch * (column["layers"] + column["draft_layers"])
        + draft_pass * column["passes"]
        + per_round
    )
    return np.log(speedup(column["accepted_length"], plain, whole, column["prefill_s"]))


def fit_overheads(points: Sequence[Point], common_share: float) -> OverheadModel:
    """Fit all classes together.

    Parameters
    ----------
    points : measured rows; those of UNKNOWN_CLASS inform the mean over classes only.
    common_share : share of the weak prior's variance that all classes have in common, 0 to 1. [1]

    Notes
    -----
    Minimises sum soft_l1((log predicted - log measured) / sd_i) + prior terms, with sd_i widened for rows that share a
    source. A class seen in one source only keeps the prior's width, whatever its rows say.
    """
    from scipy.optimize import least_squares

    classes = sorted({p.engine_class for p in points} - {UNKNOWN_CLASS})
    place = {name: number for number, name in enumerate(classes)}
    index = np.array([place.get(p.engine_class, len(classes)) for p in points], int)
    measured = np.log([p.measured for p in points])
    spread = row_log_sd(points)
    to_table = _prior_map(len(classes), common_share)
    centre = np.log([*map(prior_s, classes), PRIOR_S])

    def table(z: Array) -> Array:
        return centre + np.einsum("cpz,z->cp", to_table, z)

    def residuals(z: Array) -> Array:
        if not points:
            return z
        error = (log_speedup(points, table(z)[index]) - measured) / spread
        return np.concatenate([soften(error), z])

    found = least_squares(residuals, np.zeros(to_table.shape[2]))
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    values = table(found.x)
    covariances = np.einsum("cpz,zy,cqy->cpq", to_table, covariance, to_table)
    by_class = {
        name: _overheads(values[number], covariances[number], [p for p in points if p.engine_class == name])
        for name, number in place.items()
    }
    unseen = covariances[-1] + np.eye(3) * PRIOR_LOG_SD**2 * (1.0 - common_share)
    by_class[ANY_CLASS] = _overheads(values[-1], unseen, list(points))
    return OverheadModel(by_class)


def _prior_map(n_classes: int, common_share: float) -> Array:
    """Log overheads as a linear map of independent standard normals: [classes and their mean, 3, 3 + 3 classes]."""
    out = np.zeros((n_classes + 1, 3, 3 + 3 * n_classes))
    out[:, :, :3] = np.eye(3) * PRIOR_LOG_SD * math.sqrt(common_share)
    for number in range(n_classes):
        columns = slice(3 + 3 * number, 6 + 3 * number)
        out[number, :, columns] = np.eye(3) * PRIOR_LOG_SD * math.sqrt(1.0 - common_share)
    return out


def row_log_sd(points: Sequence[Point]) -> Array:
    """Log standard deviation of each row, widened so that the rows of one source count for no more than they tell."""
    sources = [point.source for point in points]
    count = np.array([sources.count(source) for source in sources], float)
    return np.array([p.log_sd for p in points]) * np.sqrt(1.0 + (count - 1.0) * SHARED_WITHIN_SOURCE)


def _overheads(log_values: Array, covariance: Array, points: list[Point]) -> Overheads:
    n_sources = len({point.source for point in points})
    if n_sources < 2:
        covariance = np.eye(3) * PRIOR_LOG_SD**2
    values = tuple(float(value) for value in np.exp(log_values))
    assert len(values) == 3
    return Overheads(values, covariance, len(points), n_sources)


def soften(error: Array) -> Array:
    """Residual whose square is twice soft_l1: quadratic when small, linear when large."""
    return np.asarray(np.sign(error) * np.sqrt(2.0 * (np.sqrt(1.0 + error**2) - 1.0)))
