"""Experts on expert-parallel ranks: what a trace says of the slowest one, copies of hot experts, and what travels."""

from __future__ import annotations

from advisor.expert_ranks.answer import HEAT, Placing, RankArm, RanksAnswer, ranks_answer
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
    "Placing",
    "RankArm",
    "RanksAnswer",
    "document",
    "exchange_table",
    "exchange_text",
    "heat_table",
    "layout_table",
    "notes",
    "rank_table",
    "ranks_answer",
    "split_table",
    "splits",
    "trace_warnings",
    "verdict",
    "warnings",
]
