"""From a scenario's ids and strings to the loaded things the formulas need, with warnings and sources."""

from __future__ import annotations

from advisor.setup.costs import by_form, with_scales
from advisor.setup.load import load_setup, with_assumed_ranks, with_placement, without_own_loads
from advisor.setup.loaded import Setup, touched_in_pass
from advisor.setup.notes import ASSUMED_IMBALANCE
from advisor.setup.ranks import traffic_of

__all__ = [
    "ASSUMED_IMBALANCE",
    "Setup",
    "by_form",
    "load_setup",
    "touched_in_pass",
    "traffic_of",
    "with_assumed_ranks",
    "with_placement",
    "with_scales",
    "without_own_loads",
]
