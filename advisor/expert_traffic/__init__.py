"""What tokens ask of experts, as traces and loads tell it, counted on expert-parallel ranks."""

from __future__ import annotations

from advisor.expert_traffic.counting import Counted, Planned, RoutedLayer, Steps, Variant, counted
from advisor.expert_traffic.loads_file import MAX_LOADS_BYTES, loads_shape, parse_loads, read_loads, write_loads
from advisor.expert_traffic.scenario_ranks import counted_balance, filling_copies, layout_plan
from advisor.expert_traffic.traffic import (
    Router,
    Traffic,
    loads_warnings,
    traffic_of_loads,
    traffic_of_preset,
    traffic_of_trace,
)

__all__ = [
    "MAX_LOADS_BYTES",
    "Counted",
    "Planned",
    "RoutedLayer",
    "Router",
    "Steps",
    "Traffic",
    "Variant",
    "counted",
    "counted_balance",
    "filling_copies",
    "layout_plan",
    "loads_shape",
    "loads_warnings",
    "parse_loads",
    "read_loads",
    "traffic_of_loads",
    "traffic_of_preset",
    "traffic_of_trace",
    "write_loads",
]
