"""The part of the JSON report on experts on expert-parallel ranks (docs/report-schema.md)."""

from __future__ import annotations

from typing import Literal

from advisor.prediction import Frozen, Tier


class RankLayout(Frozen):
    """One layout of experts over the ranks and what it costs, along the section's draft lengths.

    The layout `assumed` is the formula that predictions take where nothing is counted.
    """

    layout: str
    redundant: int
    slowest_reads: tuple[float, ...]
    fullest_rows_over_mean: tuple[float, ...]
    plain_step_s: float
    round_s: tuple[float, ...]
    speedup: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    tier: tuple[Tier, ...]
    tpot_s: tuple[float, ...]
    n_draft: int
    extra_bytes_per_gpu: float
    fits: bool


class HotterExperts(Frozen):
    """Change under one layout where each layer's hottest expert is hotter than planned for, as shares."""

    arm: str
    more: float
    draft: int
    plain_step: float
    round: float
    speedup: float
    noise: float


class RankExchange(Frozen):
    """Bytes that one way of exchanging tokens moves, along the section's draft lengths."""

    transport: str
    travels: str
    flags: str
    dispatch_bytes: tuple[float, ...]
    combine_bytes: tuple[float, ...]
    step_bytes: tuple[float, ...]
    bytes_per_emitted_token: tuple[float, ...]


class AttentionSplit(Frozen):
    """One way of grouping the ranks for attention, experts in order."""

    tensor_parallel: int
    data_parallel: int
    sequences_per_group: int
    fits: bool
    n_draft: int
    plain_step_s: float
    round_s: float
    exchange_s: float
    speedup: float
    low: float
    high: float
    tpot_s: float
    tier: Tier


class RanksSection(Frozen):
    """Experts on the scenario's expert-parallel ranks, counted instead of assumed."""

    verdict: str
    ranks: int
    origin: Literal["trace", "loads", "preset"]
    because: str
    routing: str | None
    """The routing that a trace gives and the section is predicted with; None: the scenario's own."""
    drafts: tuple[int, ...]
    experts_touched: tuple[float, ...]
    layouts: tuple[RankLayout, ...]
    hotter: tuple[HotterExperts, ...]
    exchange: tuple[RankExchange, ...]
    attention_splits: tuple[AttentionSplit, ...]
    not_possible: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
