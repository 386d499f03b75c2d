"""How right ratios between choices were on measured pairs: what comparisons take their bands and offers from."""

from __future__ import annotations

from advisor.ratios.choices import measured_range, records_between, unproven
from advisor.ratios.records import ChoiceKind, RatioRecord, write_ratios

__all__ = ["ChoiceKind", "RatioRecord", "measured_range", "records_between", "unproven", "write_ratios"]
