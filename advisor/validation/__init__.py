"""Predictions held against measured rows that the fit has not seen."""

from __future__ import annotations

from advisor.validation.held_out import (
    COMMON_SHARE,
    Drawn,
    drawn_left_out,
    fits_left_out,
    held_out,
    predictions_left_out,
    residuals_of,
)
from advisor.validation.judged import JUDGED, judge, read_judged, write_judged
from advisor.validation.predict import PREDICTED_COLUMNS, judged_errors, predict_rows, validate

__all__ = [
    "COMMON_SHARE",
    "JUDGED",
    "PREDICTED_COLUMNS",
    "Drawn",
    "drawn_left_out",
    "fits_left_out",
    "held_out",
    "judge",
    "judged_errors",
    "predict_rows",
    "predictions_left_out",
    "read_judged",
    "residuals_of",
    "validate",
    "write_judged",
]
