"""How many distinct experts a step touches; presets, traces and counts that say so."""

from __future__ import annotations

from advisor.routing.choices import (
    Choices,
    drawn_choices,
    expert_loads,
    fitted_loads,
    heated,
    skewed_loads,
    windows,
)
from advisor.routing.counts import CountCell, CountFit, fit_counts
from advisor.routing.law import expected_experts, local_experts, touched_experts
from advisor.routing.layout import Layout, balanced, contiguous
from advisor.routing.presets import (
    NOT_LEARNT,
    PARAMETERS,
    RoutingPreset,
    load_routing_preset,
    not_learnt,
    own_routing,
    preset_for,
    routing_preset_ids,
    write_own_routing,
)
from advisor.routing.ranks import RankBalance, RankCounts, Sources, Uneven, rank_counts
from advisor.routing.trace import TraceFit, UnionRow, fit_sequences, fit_trace, implied_overlaps

__all__ = [
    "NOT_LEARNT",
    "PARAMETERS",
    "Choices",
    "CountCell",
    "CountFit",
    "Layout",
    "RankBalance",
    "RankCounts",
    "RoutingPreset",
    "Sources",
    "TraceFit",
    "Uneven",
    "UnionRow",
    "balanced",
    "contiguous",
    "drawn_choices",
    "expected_experts",
    "expert_loads",
    "fit_counts",
    "fit_sequences",
    "fit_trace",
    "fitted_loads",
    "heated",
    "implied_overlaps",
    "load_routing_preset",
    "local_experts",
    "not_learnt",
    "own_routing",
    "preset_for",
    "rank_counts",
    "routing_preset_ids",
    "skewed_loads",
    "touched_experts",
    "windows",
    "write_own_routing",
]
