"""Measured rows as scenarios and observations, and the one solver behind overheads and refits."""

from __future__ import annotations

from advisor.points.before_after import BeforeAfter, before_after, curve_groups, curve_name
from advisor.points.errors import Errors, best_k_regret, errors_of, k_grids, k_regret, relative_error
from advisor.points.faults import faster_than_reading, least_pass_s
from advisor.points.laboratories import laboratory_of, set_apart
from advisor.points.moesd import moesd_of
from advisor.points.overheads import (
    ANY_CLASS,
    PRIOR,
    PRIOR_LOG_SD,
    UNKNOWN_CLASS,
    OverheadModel,
    Overheads,
    by_laboratory,
    fit_overheads,
    laboratory_or_title,
    prior_overheads,
    speedups,
    whitening,
)
from advisor.points.points import Point, Refused, point_of, points_of, refit_points, with_costs
from advisor.points.published import (
    COLLECTION_FILES,
    COLLECTIONS,
    fitted_rows,
    immature,
    judged_rows,
    measured_times,
    published_rows,
)
from advisor.points.question import WHOLE_BATCH_KINDS, RowQuestion, question_of
from advisor.points.refit import MIN_POINTS, adjustment_of, lacking, refit_chosen, select_points
from advisor.points.result import LEAST_MOVE, PARAMETER_COLUMNS, RefitResult, notes, parameter_rows
from advisor.points.solve import Prior, solve
from advisor.points.units import HeaderOf, check_units

__all__ = [
    "ANY_CLASS",
    "COLLECTIONS",
    "COLLECTION_FILES",
    "LEAST_MOVE",
    "MIN_POINTS",
    "PARAMETER_COLUMNS",
    "PRIOR",
    "PRIOR_LOG_SD",
    "UNKNOWN_CLASS",
    "WHOLE_BATCH_KINDS",
    "BeforeAfter",
    "Errors",
    "HeaderOf",
    "OverheadModel",
    "Overheads",
    "Point",
    "Prior",
    "RefitResult",
    "Refused",
    "RowQuestion",
    "adjustment_of",
    "before_after",
    "best_k_regret",
    "by_laboratory",
    "check_units",
    "curve_groups",
    "curve_name",
    "errors_of",
    "faster_than_reading",
    "fit_overheads",
    "fitted_rows",
    "immature",
    "judged_rows",
    "k_grids",
    "k_regret",
    "laboratory_of",
    "laboratory_or_title",
    "lacking",
    "least_pass_s",
    "measured_times",
    "moesd_of",
    "notes",
    "parameter_rows",
    "point_of",
    "points_of",
    "prior_overheads",
    "published_rows",
    "question_of",
    "refit_chosen",
    "refit_points",
    "relative_error",
    "select_points",
    "set_apart",
    "solve",
    "speedups",
    "whitening",
    "with_costs",
]
