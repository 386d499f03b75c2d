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
from advisor.validation.ratios import (
    RatioRecord,
    measured_range,
    records_between,
    unproven,
    write_ratios,
)

__all__ = [
    "COMMON_SHARE",
    "JUDGED",
    "PREDICTED_COLUMNS",
    "RatioRecord",
    "Width",
    "held_out",
    "judge",
    "judged_errors",
    "measured_range",
    "predict_rows",
    "predictions_left_out",
    "read_judged",
    "records_between",
    "sources_left_out",
    "unproven",
    "validate",
    "widths_by_tier",
    "write_judged",
    "write_ratios",
]
