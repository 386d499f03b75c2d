"""How a number was made: every step from the scenario to the speedup, with its formula, numbers and sources."""

from __future__ import annotations

from advisor.explain.band import BandPart, band_parts
from advisor.explain.citations import cited
from advisor.explain.expression import formula_of, written
from advisor.explain.nearby import near_kernels, nearest_speedups, published_speedups
from advisor.explain.roofline import Position, Roof, positions, roof_of
from advisor.explain.round_steps import Derivation, derive
from advisor.explain.step import GROUPS, Quantity, Step
from advisor.explain.words import END_ALIGNED, step_latex, step_text, value_text

__all__ = [
    "END_ALIGNED",
    "GROUPS",
    "BandPart",
    "Derivation",
    "Position",
    "Quantity",
    "Roof",
    "Step",
    "band_parts",
    "cited",
    "derive",
    "formula_of",
    "near_kernels",
    "nearest_speedups",
    "positions",
    "published_speedups",
    "roof_of",
    "step_latex",
    "step_text",
    "value_text",
    "written",
]
