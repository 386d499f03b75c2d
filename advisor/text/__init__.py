"""Values and words as readers, spreadsheets and JSON see them."""

from __future__ import annotations

from advisor.text.exports import csv_text, frame_csv, json_text, json_values
from advisor.text.json_in import RepeatedKeyError, read_json
from advisor.text.labels import MAX_NAME, name_key, printable
from advisor.text.merits import MERITS, tier_text
from advisor.text.numbers import counted, screen_style, typeset, unbroken_ranges, with_prefix

__all__ = [
    "MAX_NAME",
    "MERITS",
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
    "typeset",
    "unbroken_ranges",
    "with_prefix",
]
