"""Predictions of measured speedups whose whole laboratory was left out of the fit, with bands
calibrated without it."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import WORKSTATION, class_costs
from advisor.measured.validation import COLUMNS, tier_of, validate
from advisor.physics.bands import BAND_LEVEL, band, drift, make_draws, wobble
from advisor.predict.load import with_costs
from advisor.predict.tiers import beyond_log_sd
from advisor.prediction import Array
from studies.fits.overheads import OverheadModel, by_laboratory, fit_overheads, speedups
from studies.published import PublishedPoint

COMMON_SHARE = 0.25
"""Classes are shrunk towards their mean: 0, 1/4, 1/2, 3/4 and 1 err alike on laboratories left out,
within a point, and of those half a point from the best this says most of a class that one
laboratory has (docs/decisions/0019-rounds-by-tokens.md). [-]"""
RESIDUALS = tuple(r / 100.0 for r in range(81))
"""Log standard deviations that a band's residual may have, rising. [-]"""
MIN_LABORATORIES = 5
"""Fewer tell little of what another one's offset may be: four have rows at the roofline tier in
data centres, all on two accelerators of one vendor. [-]"""
FIRST_RESIDUAL = {"fitted": 0.15, "roofline": 0.25}
"""Residual of a tier with fewer laboratories to calibrate on (assumed). [-]"""


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


@dataclass(frozen=True)
class HeldOutDraw:
    """A left-out prediction, and how wide its band has to be."""

    laboratory: str
    tier: str
    """Tiers above fitted have their own kernels but share the overheads' spread; too few rows to
    calibrate alone."""
    workstation: bool
    needed_log_sd: float
    """The smallest of RESIDUALS whose band holds the measured speedup; infinite where none does.
    [-]"""


def held_out_draws(
    points: Sequence[PublishedPoint], models: Mapping[str, OverheadModel]
) -> list[HeldOutDraw]:
    """Every point with the fit that has not seen its laboratory."""
    return [_drawn(point, models[point.laboratory]) for point in points]


def residuals_of(drawn: Sequence[HeldOutDraw], without: str = "") -> dict[tuple[str, bool], float]:
    """Residuals by tier and kind of accelerator that make bands hold on new laboratories.

    The kinds are workstation and data centre.

    Split conformal calibration over laboratories: the smallest of RESIDUALS whose bands hold 80 %
    of the rows in the mean over laboratories; a tier never gets less than a better one. Without the
    correction for few laboratories, which would ask nine of them for 89 %. The laboratory left out
    by `without` took part in the fits behind the others' predictions, but neither in its own nor in
    its residual.
    """
    out: dict[tuple[str, bool], float] = {}
    for workstation in (False, True):
        least = 0.0
        for tier, assumed in FIRST_RESIDUAL.items():
            here = [
                one
                for one in drawn
                if (one.tier, one.workstation) == (tier, workstation) and one.laboratory != without
            ]
            least = max(least, _smallest(here, assumed))
            out[tier, workstation] = least
    return out


def _smallest(drawn: Sequence[HeldOutDraw], assumed: float) -> float:
    names = [one.laboratory for one in drawn]
    laboratories = len(set(names))
    if laboratories < MIN_LABORATORIES:
        return assumed
    by_need = sorted(
        (one.needed_log_sd, 1.0 / (laboratories * names.count(one.laboratory))) for one in drawn
    )
    needed, weight = np.array(by_need).T
    return float(min(needed[np.searchsorted(np.cumsum(weight), BAND_LEVEL - 1e-9)], RESIDUALS[-1]))


def held_out(points: Sequence[PublishedPoint]) -> pd.DataFrame:
    """Points predicted by the shipped fit without their laboratory.

    Constants and width of the band are both the fit's.

    Returns one row a point: source (its laboratory), title (the publication), engine_class,
    known_class (the class was fitted on other laboratories), immature (its stack is called so),
    tier, acceptance, reading, dataset, model_id, hardware_id, drafter, verify_tokens, batch_size,
    n_draft, accepted_length, plain_over_measured, measured, predicted, low, high, draws.
    """
    return pd.DataFrame([_row(point, points) for point in points])


def _pooled(tier: str) -> str:
    return "roofline" if tier == "roofline" else "fitted"


def _drawn(point: PublishedPoint, model: OverheadModel) -> HeldOutDraw:
    costs = {
        **model.of(point.engine_class).costs(),
        "residual_log_sd": 0.0,
        "residual_log_sd_by_tier": {},
    }
    setup = with_costs(point.setup, **costs)
    draws = make_draws(setup.costs)
    k = point.n_draft
    still = replace(draws, residual_z=0.0 * draws.residual_z, per_k_z=0.0 * draws.per_k_z)
    curve = point.curve(setup, still)
    samples = curve.draws[:, 0, 0]
    tokens = point.batch_size * (point.question.verify_tokens or k + 1)
    beyond = np.hypot(
        beyond_log_sd(tokens), drift(setup.costs.drift_log_sd, np.asarray(point.batch_size))
    )

    def holds(residual_log_sd: float) -> bool:
        unexplained = np.array([[residual_log_sd]])
        longer = np.array([[beyond]])
        scatter = wobble(draws, unexplained, longer, np.array([k]))[:, 0, 0]
        low, high = band(samples * scatter)
        return bool(low <= point.measured <= high)

    place = bisect.bisect_left(
        RESIDUALS, True, key=holds
    )  # a wider band holds all that a narrower one does
    return HeldOutDraw(
        laboratory=point.laboratory,
        tier=_pooled(tier_of(curve)),
        workstation=point.engine_class.endswith(WORKSTATION),
        needed_log_sd=RESIDUALS[place] if place < len(RESIDUALS) else np.inf,
    )


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
        "tier": tier_of(curve),
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
        "plain_over_measured": point.plain_over_measured,
        "measured": point.measured,
        "predicted": float(curve.speedup[0, 0]),
        "low": float(curve.low[0, 0]),
        "high": float(curve.high[0, 0]),
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
