"""A grid of scenarios computed in one go: a plan, its rows as Parquet, processes or a Ray cluster to do the work.

And what is asked of a finished one.
"""

from __future__ import annotations

from advisor.sweep.map import SweepMap, SweepView, choices, default_axes, setting_text, sweep_map, view_of
from advisor.sweep.plan import CURVES_PER_PART, SweepPlan, load_plan, made_by, read_plan
from advisor.sweep.questions import SURE, axes, fastest_within, one_k_for_all, where_drafting_pays
from advisor.sweep.read import Sweep, read_sweep, read_sweep_files, sweep_from
from advisor.sweep.rows import SETTINGS, sweep_rows
from advisor.sweep.run import parquet_bytes, run_sweep
from advisor.sweep.words import (
    best_rows,
    fastest_table,
    fastest_text,
    label,
    map_table,
    map_text,
    one_k_table,
    one_k_text,
    pays_table,
    pays_text,
    reasons_texts,
    settings_texts,
    swept_text,
    values_by_setting,
)

__all__ = [
    "CURVES_PER_PART",
    "SETTINGS",
    "SURE",
    "Sweep",
    "SweepMap",
    "SweepPlan",
    "SweepView",
    "axes",
    "best_rows",
    "choices",
    "default_axes",
    "fastest_table",
    "fastest_text",
    "fastest_within",
    "label",
    "load_plan",
    "made_by",
    "map_table",
    "map_text",
    "one_k_for_all",
    "one_k_table",
    "one_k_text",
    "parquet_bytes",
    "pays_table",
    "pays_text",
    "read_plan",
    "read_sweep",
    "read_sweep_files",
    "reasons_texts",
    "run_sweep",
    "setting_text",
    "settings_texts",
    "sweep_from",
    "sweep_map",
    "sweep_rows",
    "swept_text",
    "values_by_setting",
    "view_of",
    "where_drafting_pays",
]
