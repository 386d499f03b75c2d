"""Predictions held against measured rows that the fit has not seen."""

from __future__ import annotations

from advisor.validation.held_out import (
    COMMON_SHARE,
    Width,
    held_out,
    log_overheads,
    predictions_left_out,
    widths_by_tier,
)
from advisor.validation.judged import JUDGED, judge, read_judged, write_judged
from advisor.validation.predict import Errors, errors_of, predict_rows, validate

__all__ = [
    "COMMON_SHARE",
    "JUDGED",
    "Errors",
    "Width",
    "errors_of",
    "held_out",
    "judge",
    "log_overheads",
    "predict_rows",
    "predictions_left_out",
    "read_judged",
    "validate",
    "widths_by_tier",
    "write_judged",
]
