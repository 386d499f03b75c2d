"""A grid of scenarios computed in one go: a plan, its rows as Parquet, processes or a Ray cluster to do the work."""

from __future__ import annotations

from advisor.sweep.plan import CURVES_PER_PART, load_plan, read_plan
from advisor.sweep.rows import sweep_rows
from advisor.sweep.run import run_sweep

__all__ = [
    "CURVES_PER_PART",
    "load_plan",
    "read_plan",
    "run_sweep",
    "sweep_rows",
]
