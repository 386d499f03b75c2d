"""How a number was made: every step from the scenario to the speedup, with its formula, numbers and sources."""

from __future__ import annotations

from advisor.explain.band import BandPart, band_parts
from advisor.explain.constants import ConstantUse
from advisor.explain.round_steps import Derivation, derive
from advisor.explain.step import GROUPS, Quantity, Step
from advisor.explain.words import step_latex, step_text, value_text

__all__ = [
    "GROUPS",
    "BandPart",
    "ConstantUse",
    "Derivation",
    "Quantity",
    "Step",
    "band_parts",
    "derive",
    "step_latex",
    "step_text",
    "value_text",
]
