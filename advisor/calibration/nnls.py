"""Robust non-negative least squares on relative error, with leave-one-group-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.calibration.frames import held_out
from advisor.calibration.records import FitParameter

ITERATIONS = 8
HUBER = 1.5
"""Residuals beyond this many robust standard deviations lose weight (Huber)."""


@dataclass(frozen=True)
class LinearFit:
    """Coefficients of a linear form fitted on relative error. Arrays follow the column order."""

    coefficients: np.ndarray
    low: np.ndarray
    """Bounds from below."""
    stderr: np.ndarray
    correlation: np.ndarray
    log_sd: float
    """Robust standard deviation of log(measured / fitted), in sample. [-]"""


def _solve(gram: np.ndarray, moment: np.ndarray, low: np.ndarray) -> np.ndarray:
    """min ||A x - 1||^2, x >= low, from the normal equations of column-scaled A."""
    from scipy.optimize import nnls

    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    # A ridge of 1e-10 keeps the factor defined when two columns are collinear; it moves no coefficient by 1e-6.
    factor = np.linalg.cholesky(gram / np.outer(scale, scale) + 1e-10 * np.eye(len(scale)))
    solution, _ = nnls(factor.T, np.linalg.solve(factor, (moment - gram @ low) / scale))
    return low + solution / scale


def _huber_weights(residual: np.ndarray) -> np.ndarray:
    spread = 1.4826 * np.median(np.abs(residual)) + 1e-9
    return np.minimum(1.0, HUBER * spread / np.maximum(np.abs(residual), 1e-12))


def _coefficients(relative: np.ndarray, low: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Iteratively re-weighted solution, at least `low`, and its final weights for relative [rows, columns]."""
    least = np.zeros(relative.shape[1]) if low is None else low
    weight = np.ones(len(relative))
    x = np.zeros(relative.shape[1])
    for _ in range(ITERATIONS):
        weighted = relative * weight[:, None]
        new = _solve(relative.T @ weighted, weighted.sum(axis=0), least)
        converged = np.allclose(new, x, rtol=1e-4, atol=0.0)
        x = new
        weight = _huber_weights(relative @ x - 1.0)
        if converged:
            break
    return x, weight


def fit_relative(columns: np.ndarray, measured: np.ndarray, low: np.ndarray | None = None) -> LinearFit:
    """Fit measured ~ columns @ x, x >= low, minimising relative error with Huber re-weighting.

    Parameters
    ----------
    columns : [rows, parameters], any consistent units.
    measured : [rows], > 0, seconds.
    low : least value of each coefficient, [parameters]; None: 0.

    Returns
    -------
    LinearFit; stderr and correlation from the weighted normal equations of the coefficients that are not at their bound
    (NaN elsewhere).
    """
    relative = columns / measured[:, None]
    least = np.zeros(relative.shape[1]) if low is None else low
    x, weight = _coefficients(relative, least)
    free = x > least
    residual = relative @ x - 1.0
    n_free = max(int(free.sum()), 1)
    variance = float((weight * residual**2).sum() / max(weight.sum() - n_free, 1.0))
    a = relative[:, free]
    scale = np.sqrt((weight[:, None] * a**2).sum(axis=0))
    covariance = np.linalg.pinv((a / scale).T @ ((a / scale) * weight[:, None])) * variance
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    stderr = np.full(len(x), np.nan)
    stderr[free] = deviation / scale
    correlation = np.full((len(x), len(x)), np.nan)
    correlation[np.ix_(free, free)] = covariance / np.outer(deviation, deviation)
    log_ratio = np.log(measured / np.maximum(columns @ x, 1e-12))
    return LinearFit(x, least, stderr, correlation, float(1.4826 * np.median(np.abs(log_ratio))))


def leave_one_group_out(
    columns: np.ndarray, measured: np.ndarray, group: np.ndarray, low: np.ndarray | None = None
) -> np.ndarray:
    """Prediction of each row by a fit, its coefficients at least `low`, that saw no row of its group. Arrays [rows];
    NaN with a single group."""
    relative = columns / measured[:, None]

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return np.asarray(columns[held] @ _coefficients(relative[seen], low)[0])

    return held_out(group, predict)


def linear_parameters(
    named: Sequence[tuple[str, str]], coefficients: np.ndarray, stderr: np.ndarray, low: np.ndarray
) -> dict[str, FitParameter]:
    """Coefficients as stored, by name and unit. Those at their bound have no standard error."""
    return {
        name: FitParameter(
            value=float(value),
            unit=unit,
            stderr=float(error) if np.isfinite(error) else None,
            low=float(least),
            at_bound=bool(value <= least),
        )
        for (name, unit), value, error, least in zip(named, coefficients, stderr, low, strict=True)
    }


def correlation_fields(names: Sequence[str], matrix: np.ndarray) -> dict[str, Any]:
    """Fields of a FitRecord: the correlation [names, names] of fitted parameters, four decimals."""
    return {
        "correlation_names": tuple(names),
        "correlation": tuple(tuple(round(float(v), 4) for v in row) for row in matrix),
    }


def linear_fields(named: Sequence[tuple[str, str]], fit: LinearFit) -> dict[str, Any]:
    """Fields of a FitRecord: all parameters, and the correlation of those that are not at their bound."""
    free = np.flatnonzero(fit.coefficients > fit.low)
    return {
        "parameters": linear_parameters(named, fit.coefficients, fit.stderr, fit.low),
        **correlation_fields([named[int(i)][0] for i in free], fit.correlation[np.ix_(free, free)]),
    }
