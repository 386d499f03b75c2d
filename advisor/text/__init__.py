"""Values and words as readers, spreadsheets and JSON see them."""

from __future__ import annotations

from advisor.text.csv_export import csv_text, frame_csv
from advisor.text.json_values import json_text, json_values
from advisor.text.labels import MAX_NAME, component_name, printable
from advisor.text.merits import MERITS, tier_text
from advisor.text.typography import typeset, unbroken_ranges
from advisor.text.units import counted, with_prefix

__all__ = [
    "MAX_NAME",
    "MERITS",
    "component_name",
    "counted",
    "csv_text",
    "frame_csv",
    "json_text",
    "json_values",
    "printable",
    "tier_text",
    "typeset",
    "unbroken_ranges",
    "with_prefix",
]
