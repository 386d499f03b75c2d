"""Simpler models of the same quantity, judged on the same rows with the same laboratories left out.

(i) independent uniform experts; (ii) AL / (1 + c K) without batch; (iii) AL / (a + c K + b log2 B); (iv) every
operation, the KV cache included, charged as a batch of B (K + 1) sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from advisor.arrays import Array
from advisor.components import FACTORS
from advisor.curve import curve_for
from advisor.points import (
    UNKNOWN_CLASS,
    Point,
    Prior,
    by_laboratory,
    fit_overheads,
    laboratory_or_title,
    solve,
    speedups,
)
from advisor.validation import COMMON_SHARE, held_out_predictions

RIVALS = ("uniform experts", "AL/(1+cK)", "AL/(a+cK+b log2 B)", "batch x (K+1)")
_LINEAR_START = {"AL/(1+cK)": (0.1,), "AL/(a+cK+b log2 B)": (1.0, 0.1, 0.05)}
_LINEAR_SPREAD = 1.0  # weak prior around the start, so that a class of one row does not run away


def rival_predictions(points: Sequence[Point], rival: str) -> Array:
    """Speedup of each point by one of RIVALS, fitted without the point's laboratory, per engine class. [-]"""
    if rival == "uniform experts":
        return held_out_predictions([with_uniform_experts(point) for point in points])
    if rival == "batch x (K+1)":
        return held_out_predictions([with_batch_times_tokens(point) for point in points])
    return _held_out(points, rival)


def with_uniform_experts(point: Point) -> Point:
    """The point with experts drawn independently and uniformly."""
    return point.seen_by(replace(point.setup, routing=None, routing_because="independent uniform routing"))


def with_batch_times_tokens(point: Point) -> Point:
    """The point with verification costed as a plain step over B q sequences, the cache read q times.

    What is fitted of many tokens for a sequence (second readings, verified tokens) is in that step already.
    """
    question, setup, observed = point.question, point.setup, point.observations
    tokens = question.verify_tokens or question.n_draft + 1
    wide = curve_for(setup, [question.scenario.batch_size * tokens], [question.n_draft])
    lower = observed.lower.copy()
    lower[:, -1] += float(wide.plain_step_s[0] - point.curve().verify_step_s[0, 0]) + lower[:, _REREAD]
    lower[:, [_REREAD, _VERIFIED]] = 0.0
    return replace(point, observations=replace(observed, lower=lower))


_REREAD, _VERIFIED = map(tuple(FACTORS).index, ("reread", "verified"))  # the second is no part of that step


def round_cost(point: Point, rival: str, coefficients: Array) -> float:
    """Round in plain steps by a linear rival. [-]"""
    batch, k = float(point.question.scenario.batch_size), float(point.question.n_draft)
    if rival == "AL/(1+cK)":
        return float(1.0 + coefficients[0] * k)
    return float(coefficients[0] + coefficients[1] * k + coefficients[2] * np.log2(batch))


def fit_linear(points: Sequence[Point], rival: str) -> Callable[[str], Array]:
    """Coefficients by engine class (robust least squares in log speedup). Unknown classes get those of all rows."""
    everything = _fit_one(points, rival)
    classes = {p.engine_class for p in points} - {UNKNOWN_CLASS}
    own = {name: _fit_one([p for p in points if p.engine_class == name], rival) for name in classes}
    return lambda name: own.get(name, everything)


def _held_out(points: Sequence[Point], rival: str) -> Array:
    out = np.zeros(len(points))
    for own in by_laboratory(points):
        held = set(own)
        coefficients = fit_linear([point for i, point in enumerate(points) if i not in held], rival)
        for i in own:
            out[i] = points[i].accepted_length / round_cost(points[i], rival, coefficients(points[i].engine_class))
    return out


def _fit_one(points: Sequence[Point], rival: str) -> Array:
    start = np.array(_LINEAR_START[rival])
    laboratory = [laboratory_or_title(point.source) for point in points]
    rows = np.array([laboratory.count(name) for name in laboratory], float)
    spread = np.array([point.log_sd for point in points]) * np.sqrt(rows)  # every laboratory counts alike
    target = np.log([p.accepted_length / p.measured for p in points])
    design = np.array([[1.0, p.question.n_draft, np.log2(p.question.scenario.batch_size)] for p in points])

    def error(x: Array) -> Array:
        full = np.array([1.0, x[0], 0.0]) if rival == "AL/(1+cK)" else x
        return np.asarray((np.log(np.maximum(design @ full, 0.05)) - target) / spread)

    return solve(error, [start], prior=Prior(start, np.eye(len(start)) / _LINEAR_SPREAD)).x


def rival_round_costs(fitted: Sequence[Point], judged: Sequence[Point], rival: str) -> Array:
    """Round cost in plain steps of points from sources that took no part in the fit, by one of RIVALS. [-]"""
    if rival in _LINEAR_START:
        coefficients = fit_linear(fitted, rival)
        return np.array([round_cost(point, rival, coefficients(point.engine_class)) for point in judged])
    change = with_uniform_experts if rival == "uniform experts" else with_batch_times_tokens
    model = fit_overheads([change(point) for point in fitted], COMMON_SHARE)
    changed = [change(point) for point in judged]
    return np.array([p.accepted_length for p in judged]) / speedups(changed, model)
