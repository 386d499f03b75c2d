"""Predictions held against measured rows that the fit has not seen."""

from __future__ import annotations

from advisor.validation.held_out import (
    COMMON_SHARE,
    Width,
    held_out,
    predictions_left_out,
    sources_left_out,
    widths_by_tier,
)
from advisor.validation.judged import JUDGED, judge, read_judged, write_judged
from advisor.validation.predict import PREDICTED_COLUMNS, judged_errors, predict_rows, validate

__all__ = [
    "COMMON_SHARE",
    "JUDGED",
    "PREDICTED_COLUMNS",
    "Width",
    "held_out",
    "judge",
    "judged_errors",
    "predict_rows",
    "predictions_left_out",
    "read_judged",
    "sources_left_out",
    "validate",
    "widths_by_tier",
    "write_judged",
]
