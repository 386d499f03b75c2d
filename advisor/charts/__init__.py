"""Charts as pure builders: values in, figure with its finding and its numbers out. Pages and reports draw the same."""

from __future__ import annotations

from advisor.charts.compare import compared_chart
from advisor.charts.context import context_chart
from advisor.charts.design import Mark, granularity_chart, heat_map_chart, pareto_chart, shared_sweep_chart
from advisor.charts.design_curves import design_curves_chart
from advisor.charts.design_regions import REGION_TINTS, design_regions_chart
from advisor.charts.figure import BLUE, GAIN_SCALE, NEUTRAL, ORANGE, SERIES, VERMILLION, Chart
from advisor.charts.frontier import frontier_chart
from advisor.charts.leaderboard import leaderboard_chart, quality_chart
from advisor.charts.profile import ratio_chart
from advisor.charts.ranks import rank_chart, rank_lines
from advisor.charts.refit import (
    acceptance_chart,
    before_after_chart,
    layer_chart,
    overlap_chart,
    residual_chart,
    union_chart,
)
from advisor.charts.roofline import roofline_chart
from advisor.charts.runtime import (
    POLICY_COLUMNS,
    POLICY_FORMATS,
    SHARES,
    break_even_chart,
    gain_chart,
    paying_batches,
    schedule_chart,
    shape_of,
    simulation_chart,
    simulation_table,
)
from advisor.charts.speedup import MEASURED_POINT, speedup_chart
from advisor.charts.sweep import sweep_chart
from advisor.charts.trust import TIER_NAMES, coverage_chart, error_chart, predicted_chart
from advisor.charts.why import components_chart, round_cost_chart, touched_experts_chart

__all__ = [
    "BLUE",
    "GAIN_SCALE",
    "MEASURED_POINT",
    "NEUTRAL",
    "ORANGE",
    "POLICY_COLUMNS",
    "POLICY_FORMATS",
    "REGION_TINTS",
    "SERIES",
    "SHARES",
    "TIER_NAMES",
    "VERMILLION",
    "Chart",
    "Mark",
    "acceptance_chart",
    "before_after_chart",
    "break_even_chart",
    "compared_chart",
    "components_chart",
    "context_chart",
    "coverage_chart",
    "design_curves_chart",
    "design_regions_chart",
    "error_chart",
    "frontier_chart",
    "gain_chart",
    "granularity_chart",
    "heat_map_chart",
    "layer_chart",
    "leaderboard_chart",
    "overlap_chart",
    "pareto_chart",
    "paying_batches",
    "predicted_chart",
    "quality_chart",
    "rank_chart",
    "rank_lines",
    "ratio_chart",
    "residual_chart",
    "roofline_chart",
    "round_cost_chart",
    "schedule_chart",
    "shape_of",
    "shared_sweep_chart",
    "simulation_chart",
    "simulation_table",
    "speedup_chart",
    "sweep_chart",
    "touched_experts_chart",
    "union_chart",
]
