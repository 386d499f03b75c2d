"""Launch and host overheads per engine class, fitted on published speedups by robust least squares with a weak prior.

A class's log overheads are a mean over classes plus a deviation, which share the prior's variance. How much of it is
common to all classes (`common_share`: 0 fits each class alone, 1 fits one set for all) is decided by the error on
sources left out (docs/decisions/0003-engine-overheads.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.arrays import Array
from advisor.calibration import ANY_CLASS, OVERHEAD_NAMES, small_launch
from advisor.components import JOINT
from advisor.points.observation import NAMES, joined, log_predicted
from advisor.points.points import Point
from advisor.points.solve import Prior, solve_observed

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
_PLACES = [NAMES.index(one.factor) for one in JOINT]  # of OVERHEAD_NAMES among all multipliers


def prior_s(engine_class: str) -> tuple[float, float, float]:
    """Centre of a class's prior, in the order of OVERHEAD_NAMES; a layer's launches as plain decode has them where an
    engine was measured. [s]"""
    launch, draft_pass, per_round = PRIOR_S
    measured = small_launch(engine_class.removesuffix(SYNCHRONOUS), "launch_per_layer_s")
    launch = launch if measured is None else measured.value_s
    return launch, draft_pass, SYNCHRONOUS_ROUND_S if engine_class.endswith(SYNCHRONOUS) else per_round


@dataclass(frozen=True)
class Overheads:
    """Three constants [s] in the order of OVERHEAD_NAMES, with the covariance of their logarithms [3, 3]."""

    values_s: tuple[float, float, float]
    log_covariance: Array
    n_rows: int
    n_sources: int

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
        """Of a class; as wide as `any`, at the centre of its own prior, when it was not seen."""
        return self.by_class.get(engine_class) or self.unseen(engine_class)

    def unseen(self, engine_class: str) -> Overheads:
        """Of a class without rows: the mean over classes, moved by the distance between the centres of their priors."""
        every = self.by_class[ANY_CLASS]
        launch, draft_pass, per_round = np.array(every.values_s) * prior_s(engine_class) / PRIOR_S
        return replace(every, values_s=(float(launch), float(draft_pass), float(per_round)), n_rows=0, n_sources=0)


def log_speedup(points: Sequence[Point], log_overheads: Array) -> Array:
    """Log speedup of each published point at log overheads [n, 3] (log s). [1]"""
    theta = np.zeros((len(points), len(NAMES)))
    theta[:, _PLACES] = log_overheads - _own_log_overheads(points)
    return log_predicted(joined(point.observations for point in points), theta)


def speedups(points: Sequence[Point], model: OverheadModel) -> Array:
    """Speedup of each published point with the overheads of its class [n]. [1]"""
    return np.exp(log_speedup(points, np.log([model.of(point.engine_class).values_s for point in points])))


def _own_log_overheads(points: Sequence[Point]) -> Array:
    """Overheads that each point's observations were predicted with [n, 3] (log s)."""
    return np.log([point.overheads_s for point in points]).reshape(-1, 3)


def fit_overheads(points: Sequence[Point], common_share: float) -> OverheadModel:
    """Fit all classes together.

    Parameters
    ----------
    points : published rows; those of UNKNOWN_CLASS inform the mean over classes only.
    common_share : share of the weak prior's variance that all classes have in common, 0 to 1. [1]

    Notes
    -----
    Minimises sum soft_l1((log predicted - log measured) / sd_i) + prior terms, with sd_i widened for rows that share a
    source. A class seen in one source only keeps the prior's width, whatever its rows say.
    """
    classes = sorted({p.engine_class for p in points} - {UNKNOWN_CLASS})
    place = {name: number for number, name in enumerate(classes)}
    at = np.array([place.get(p.engine_class, len(classes)) for p in points], int)
    # The table of log overheads, a row per class and one of their mean: centre + to_table z, z independent and normal.
    to_table, centre = _prior_map(len(classes), common_share), np.log([*map(prior_s, classes), PRIOR_S])
    prior = Prior(np.zeros(to_table.shape[2]), np.eye(to_table.shape[2]))
    offset, matrix = np.zeros((len(points), len(NAMES))), np.zeros((len(points), len(NAMES), to_table.shape[2]))
    offset[:, _PLACES], matrix[:, _PLACES] = centre[at] - _own_log_overheads(points), to_table[at]
    observed = joined(point.observations for point in points)
    found = solve_observed(observed, row_log_sd(points), prior, prior.centre, matrix, offset)
    values = centre + to_table @ found.x
    covariances = np.einsum("cpz,zy,cqy->cpq", to_table, found.covariance, to_table)
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
