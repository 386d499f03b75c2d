"""How many distinct experts a step touches; presets, traces and counts that say so."""

from __future__ import annotations

from advisor.routing.counts import CountCell, CountFit, fit_counts
from advisor.routing.law import distinct_experts, expected_experts, local_experts
from advisor.routing.presets import (
    RoutingPreset,
    load_routing_preset,
    not_learnt,
    own_routing,
    preset_for,
    routing_preset_ids,
    write_own_routing,
)
from advisor.routing.trace import TraceFit, UnionRow, fit_sequences, fit_trace, implied_overlaps

__all__ = [
    "CountCell",
    "CountFit",
    "RoutingPreset",
    "TraceFit",
    "UnionRow",
    "distinct_experts",
    "expected_experts",
    "fit_counts",
    "fit_sequences",
    "fit_trace",
    "implied_overlaps",
    "load_routing_preset",
    "local_experts",
    "not_learnt",
    "own_routing",
    "preset_for",
    "routing_preset_ids",
    "write_own_routing",
]
