"""Predictions of measured speedups whose whole source was left out of the fit, with bands calibrated without it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from advisor import bands
from advisor.arrays import Array
from advisor.calibration import load_overheads
from advisor.points import (
    ANY_CLASS,
    OverheadModel,
    Point,
    fit_overheads,
    points_of,
    published_rows,
    speedups,
    with_costs,
)
from advisor.tiers import beyond_log_sd

COMMON_SHARE = 0.0
"""Classes are fitted each alone: of 0, 1/4, 1/2, 3/4 and 1 the lowest error on sources left out
(docs/decisions/0003-engine-overheads.md)."""


@dataclass(frozen=True)
class Width:
    """How wide a tier's band is: a share of the components' spread, or all of it and a residual on top. [1]"""

    share: float
    log_sd: float


WIDTHS = (*(Width(float(s), 0.0) for s in np.arange(0.5, 1.0, 0.02)), *(Width(1.0, r / 100.0) for r in range(61)))
"""In rising order: a later band holds every earlier one."""
MIN_RESIDUAL_ROWS = 5
FIRST_WIDTH = {"fitted": Width(1.0, 0.10), "roofline": Width(1.0, 0.25)}
"""Width of a tier with fewer than MIN_RESIDUAL_ROWS rows to calibrate on (assumed). [1]"""


def sources_left_out(points: Sequence[Point]) -> Iterator[tuple[list[int], list[Point]]]:
    """Places of each source's points, and the points of all others; sources in the order of their names."""
    for source in sorted({point.source for point in points}):
        own = [i for i, point in enumerate(points) if point.source == source]
        yield own, [point for point in points if point.source != source]


def predictions_left_out(points: Sequence[Point], common_share: float = COMMON_SHARE) -> Array:
    """Speedup of each point by a fit without its source [n]. [1]"""
    out = np.zeros(len(points))
    for own, rest in sources_left_out(points):
        out[own] = speedups([points[i] for i in own], fit_overheads(rest, common_share))
    return out


def held_out(points: Sequence[Point], common_share: float = COMMON_SHARE) -> pd.DataFrame:
    """Every point predicted without its source: fit of the overheads and width of the band alike.

    Returns one row a point: source, engine_class, known_class (the class was fitted on other sources), tier,
    acceptance, model_id, hardware_id, batch_size, n_draft, accepted_length, measured, predicted, low, high, draws.
    """
    rows = []
    for own, rest in sources_left_out(points):
        model = fit_overheads(rest, common_share)
        width = widths_by_tier(rest, common_share)
        for point in (points[i] for i in own):
            drawn = _draws(point, model)
            rows.append(_row(point, model, drawn, width[_pooled(point.tier)]))
    return pd.DataFrame(rows)


def costs_left_out(sources: Collection[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Fields of KernelCosts by source and engine class, from fits of the shipped rows without that source.

    Only sources that took part in the shipped fit are in the result; for others the shipped constants are unseen.
    """
    fit = load_overheads()
    if fit is None or not set(fit.sources) & set(sources):
        return {}
    points, _ = points_of(published_rows(), other_models=True)
    out = {}
    for source in sorted(set(fit.sources) & set(sources)):
        rest = [point for point in points if point.source != source]
        model, width = fit_overheads(rest, COMMON_SHARE), widths_by_tier(rest)
        spread = {
            "residual_log_sd_by_tier": {tier: each.log_sd for tier, each in width.items()},
            "band_share_by_tier": {tier: each.share for tier, each in width.items()},
        }
        classes = {ANY_CLASS, *(point.engine_class for point in points)}
        out[source] = {name: {**model.of(name).costs(), **spread} for name in sorted(classes)}
    return out


def widths_by_tier(points: Sequence[Point], common_share: float = COMMON_SHARE) -> dict[str, Width]:
    """Width by tier that makes the bands of left-out sources hold 80 % of their rows.

    Split conformal calibration with whole sources left out: of WIDTHS, the smallest whose bands hold ceil(0.8 (n + 1))
    of n rows; a tier never gets less than a better one.
    """
    by_tier: dict[str, list[tuple[_Drawn, float]]] = {"fitted": [], "roofline": []}
    for own, rest in sources_left_out(points):
        model = fit_overheads(rest, common_share)
        for point in (points[i] for i in own):
            by_tier[_pooled(point.tier)].append((_draws(point, model), point.measured))
    out, least = {}, WIDTHS[0]
    for tier, judged in by_tier.items():
        least = max(least, _smallest_width(judged, FIRST_WIDTH[tier]), key=WIDTHS.index)
        out[tier] = least
    return out


def _smallest_width(judged: list[tuple[_Drawn, float]], default: Width) -> Width:
    if len(judged) < MIN_RESIDUAL_ROWS:
        return default
    needed = min(int(np.ceil(bands.BAND_LEVEL * (len(judged) + 1))), len(judged))

    def inside(drawn: _Drawn, measured: float, width: Width) -> bool:
        low, high = _band(drawn, width)
        return low <= measured <= high

    return next((width for width in WIDTHS if sum(inside(*one, width) for one in judged) >= needed), WIDTHS[-1])


def _band(drawn: _Drawn, width: Width) -> tuple[float, float]:
    """The band that the curve itself would have with this width."""
    low, high = bands.band(_scattered(drawn, width))
    return float(low), float(high)


def _scattered(drawn: _Drawn, width: Width) -> Array:
    """Speedup under each draw as the curve itself would have it with this width, [draws]. [1]"""
    wobble = bands.wobble(
        drawn.draws, np.array([[width.log_sd]]), np.array([[drawn.beyond]]), np.array([drawn.n_draft])
    )
    return bands.narrowed(drawn.samples, np.asarray(drawn.predicted), np.asarray(width.share)) * wobble[:, 0, 0]


def _pooled(tier: str) -> str:
    """Tiers above fitted have their own kernels but share the overheads' spread; too few rows to calibrate alone."""
    return "roofline" if tier == "roofline" else "fitted"


@dataclass(frozen=True)
class _Drawn:
    """A prediction, and what it is before any width is applied."""

    predicted: float
    samples: Array
    """Speedup under each draw of the components [draws]."""
    draws: bands.Draws
    beyond: float
    n_draft: int


def _draws(point: Point, model: OverheadModel) -> _Drawn:
    costs: Mapping[str, object] = model.of(point.engine_class).costs()
    setup = with_costs(point.setup, **costs, residual_log_sd=0.0, residual_log_sd_by_tier={}, band_share_by_tier={})
    draws, question = bands.make_draws(setup.costs), point.question
    still = replace(draws, residual_z=0.0 * draws.residual_z, per_k_z=0.0 * draws.per_k_z)
    tokens = question.scenario.batch_size * (question.verify_tokens or question.n_draft + 1)
    return _Drawn(
        predicted=float(speedups([point], model)[0]),
        samples=point.curve(setup, still).draws[:, 0, 0],
        draws=draws,
        beyond=float(beyond_log_sd(tokens)),
        n_draft=question.n_draft,
    )


def _row(point: Point, model: OverheadModel, drawn: _Drawn, width: Width) -> dict[str, object]:
    scenario, (low, high) = point.scenario, _band(drawn, width)
    return {
        "source": point.source,
        "engine_class": point.engine_class,
        "known_class": point.engine_class in model.by_class,
        "tier": point.tier,
        "acceptance": point.question.acceptance_source,
        "reading": str(point.row.get("tier", "")),
        "dataset": str(point.row.get("dataset", "")),
        "model_id": scenario.model_id,
        "hardware_id": scenario.hardware_id,
        "drafter": scenario.drafter_id,
        "verify_tokens": point.question.verify_tokens or point.n_draft + 1,
        "batch_size": scenario.batch_size,
        "n_draft": point.n_draft,
        "accepted_length": point.accepted_length,
        "measured": point.measured,
        "predicted": drawn.predicted,
        "low": min(low, drawn.predicted),
        "high": max(high, drawn.predicted),
        "draws": _scattered(drawn, width),
    }
