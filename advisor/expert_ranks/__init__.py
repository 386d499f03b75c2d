"""Experts on expert-parallel ranks: what a trace says of the slowest one, copies of hot experts, and what travels."""

from __future__ import annotations

from advisor.expert_ranks.answer import HEAT, Placing, RanksAnswer, ranks_answer
from advisor.expert_ranks.traffic import (
    MAX_LOADS_BYTES,
    Traffic,
    read_loads,
    traffic_of_loads,
    traffic_of_preset,
    traffic_of_trace,
)
from advisor.expert_ranks.wide import splits
from advisor.expert_ranks.words import (
    document,
    exchange_table,
    exchange_text,
    heat_table,
    layout_table,
    notes,
    rank_table,
    split_table,
    trace_warnings,
    verdict,
    warnings,
)

__all__ = [
    "HEAT",
    "MAX_LOADS_BYTES",
    "Placing",
    "RanksAnswer",
    "Traffic",
    "document",
    "exchange_table",
    "exchange_text",
    "heat_table",
    "layout_table",
    "notes",
    "rank_table",
    "ranks_answer",
    "read_loads",
    "split_table",
    "splits",
    "trace_warnings",
    "traffic_of_loads",
    "traffic_of_preset",
    "traffic_of_trace",
    "verdict",
    "warnings",
]
