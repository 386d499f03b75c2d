"""Predictions held against measured rows that the fit has not seen."""

from __future__ import annotations

from advisor.validation.held_out import (
    COMMON_SHARE,
    HeldOutDraw,
    held_out,
    held_out_draws,
    held_out_fits,
    held_out_predictions,
    residuals_of,
)
from advisor.validation.judged import JUDGED, judge, read_judged, write_judged
from advisor.validation.predict import PREDICTED_COLUMNS, judged_errors, predict_rows, validate

__all__ = [
    "COMMON_SHARE",
    "JUDGED",
    "PREDICTED_COLUMNS",
    "HeldOutDraw",
    "held_out",
    "held_out_draws",
    "held_out_fits",
    "held_out_predictions",
    "judge",
    "judged_errors",
    "predict_rows",
    "read_judged",
    "residuals_of",
    "validate",
    "write_judged",
]
