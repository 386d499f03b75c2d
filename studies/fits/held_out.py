"""Predictions of measured speedups whose whole laboratory was left out of the fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import class_costs
from advisor.measured.validation import COLUMNS, validate
from advisor.predict.load import with_costs
from advisor.prediction import Array
from studies.fits.overheads import OverheadModel, by_laboratory, fit_overheads, speedups
from studies.published import PublishedPoint

COMMON_SHARE = 0.25
"""Classes are shrunk towards their mean: 0, 1/4, 1/2, 3/4 and 1 err alike on laboratories left out,
within a point, and of those half a point from the best this says most of a class that one
laboratory has (docs/decisions/history.md (0019)). [-]"""


def held_out_fits(
    points: Sequence[PublishedPoint], common_share: float = COMMON_SHARE
) -> dict[str, OverheadModel]:
    """The fit without each laboratory, by its name."""
    out = {}
    classes = {point.engine_class for point in points}
    for own in by_laboratory(points):
        held = set(own)
        rest = [point for i, point in enumerate(points) if i not in held]
        out[points[own[0]].laboratory] = fit_overheads(rest, common_share, classes)
    return out


def held_out_predictions(
    points: Sequence[PublishedPoint], common_share: float = COMMON_SHARE
) -> Array:
    """Speedup of each point by a fit without its laboratory [n]. [-]"""
    out = np.zeros(len(points))
    models = held_out_fits(points, common_share)
    for own in by_laboratory(points):
        out[own] = speedups([points[i] for i in own], models[points[own[0]].laboratory])
    return out


def held_out(points: Sequence[PublishedPoint]) -> pd.DataFrame:
    """Points predicted by the shipped fit without their laboratory.

    Returns one row a point: source (its laboratory), title (the publication), engine_class,
    known_class (the class was fitted on other laboratories), immature (its stack is called so),
    tier, acceptance, reading, dataset, model_id, hardware_id, drafter, verify_tokens, batch_size,
    n_draft, accepted_length, plain_over_measured, measured, predicted, low, high,
    predicted_chance, draws.
    """
    return pd.DataFrame([_row(point, points) for point in points])


def _row(point: PublishedPoint, points: Sequence[PublishedPoint]) -> dict[str, object]:
    scenario = point.scenario
    laboratory = point.laboratory
    curve = point.curve(
        with_costs(point.setup, **class_costs(point.engine_class, without=laboratory))
    )
    return {
        "source": laboratory,
        "title": point.source,
        "engine_class": point.engine_class,
        "known_class": any(
            one.engine_class == point.engine_class and one.laboratory != laboratory
            for one in points
        ),
        "immature": point.immature,
        "tier": str(curve.tier[0, 0]),
        "acceptance": point.question.acceptance_source,
        "reading": str(point.facts.get("tier", "")),
        "dataset": str(point.facts.get("dataset", "")),
        "model_id": scenario.model_id,
        "hardware_id": scenario.hardware_id,
        "drafter": scenario.drafter_id,
        "verify_tokens": point.question.verify_tokens or point.n_draft + 1,
        "batch_size": scenario.batch_size,
        "n_draft": point.n_draft,
        "accepted_length": point.accepted_length,
        "plain_over_measured": point.plain_over_measured,
        "measured": point.measured,
        "predicted": float(curve.speedup[0, 0]),
        "low": float(curve.low[0, 0]),
        "high": float(curve.high[0, 0]),
        "predicted_chance": float(curve.p_gain[0, 0]),
        "draws": curve.draws[:, 0, 0],
    }


_NUMBERS = (*COLUMNS[4:10], "absolute_percentage_error", "predicted_chance")


def judge(points: pd.DataFrame) -> pd.DataFrame:
    """Every published speedup that can be predicted, with prediction and error, COLUMNS.

    Rows of a source that the shipped overheads were fitted on are predicted by a fit without that
    source.
    """
    rows = validate(points).rows
    judged = rows[rows["absolute_percentage_error"].notna()]
    judged = judged.assign(measured=pd.to_numeric(judged["speedup"]))[list(COLUMNS)]
    numbers = {name: pd.to_numeric(judged[name]) for name in _NUMBERS}
    return judged.assign(**numbers).reset_index(drop=True)
