"""Measured rows as scenarios and observations, and the one solver behind overheads and refits."""

from __future__ import annotations

from advisor.points.before_after import BeforeAfter, before_after, curve_groups
from advisor.points.moesd import moesd_of
from advisor.points.overheads import (
    ANY_CLASS,
    PRIOR_LOG_SD,
    PRIOR_S,
    UNKNOWN_CLASS,
    OverheadModel,
    Overheads,
    fit_overheads,
    log_speedup,
    row_log_sd,
    soften,
)
from advisor.points.points import RefitPoint, Refused
from advisor.points.published import ROWS, Point, point_of, points_of, published_rows, with_costs
from advisor.points.question import WHOLE_BATCH_KINDS, RowQuestion, question_of
from advisor.points.refit import RefitResult, adjustment_of, refit_chosen, select_points
from advisor.points.words import PARAMETER_COLUMNS, notes, parameter_rows

__all__ = [
    "ANY_CLASS",
    "PARAMETER_COLUMNS",
    "PRIOR_LOG_SD",
    "PRIOR_S",
    "ROWS",
    "UNKNOWN_CLASS",
    "WHOLE_BATCH_KINDS",
    "BeforeAfter",
    "OverheadModel",
    "Overheads",
    "Point",
    "RefitPoint",
    "RefitResult",
    "Refused",
    "RowQuestion",
    "adjustment_of",
    "before_after",
    "curve_groups",
    "fit_overheads",
    "log_speedup",
    "moesd_of",
    "notes",
    "parameter_rows",
    "point_of",
    "points_of",
    "published_rows",
    "question_of",
    "refit_chosen",
    "row_log_sd",
    "select_points",
    "soften",
    "with_costs",
]
