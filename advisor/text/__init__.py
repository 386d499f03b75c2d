"""Values and words as readers, spreadsheets and JSON see them."""

from __future__ import annotations

from advisor.text.exports import csv_text, frame_csv, json_text, json_values
from advisor.text.json_in import RepeatedKeyError, read_json
from advisor.text.labels import MAX_NAME, name_key, printable
from advisor.text.merits import MERITS, tier_text
from advisor.text.numbers import (
    TOKENS_FORMS,
    counted,
    screen_style,
    token_count,
    typeset,
    unbroken_ranges,
    with_prefix,
)

__all__ = [
    "MAX_NAME",
    "MERITS",
    "TOKENS_FORMS",
    "RepeatedKeyError",
    "counted",
    "csv_text",
    "frame_csv",
    "json_text",
    "json_values",
    "name_key",
    "printable",
    "read_json",
    "screen_style",
    "tier_text",
    "token_count",
    "typeset",
    "unbroken_ranges",
    "with_prefix",
]
