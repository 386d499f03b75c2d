"""Every K at the target batch: what it gives, its chance of being best and the loss it risks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.advice import Advice
from advisor.runtime import judge_draft


@dataclass(frozen=True)
class Outcome:
    """One K at the target batch."""

    k_draft: int
    speedup: float
    low: float
    """Ends of the 80 % band of the speedup."""
    high: float
    tpot_s: float
    tokens_per_s_per_gpu: float
    p_best: float
    """Chance that this K is the fastest. [1]"""
    regret: float
    """Mean loss of speedup against the fastest K. [1]"""
    accepted_length: float
    tier: str
    meets_limit: bool
    """Whether it keeps the limit on time per output token; true where none is set."""


def outcomes_of(advice: Advice) -> tuple[Outcome, ...]:
    """One outcome for each K of the advice's curve, K increasing."""
    curve, row = advice.curve, advice.batch_index
    limit_ms = advice.scenario.max_tpot_ms
    kept = np.ones(len(curve.drafts), bool) if limit_ms is None else np.asarray(curve.tpot_s[row] * 1e3 <= limit_ms)
    judged = [judge_draft(column, curve.speedup[row], curve.draws[:, row]) for column in range(len(curve.drafts))]
    return tuple(
        Outcome(
            k_draft=int(k),
            speedup=float(curve.speedup[row, column]),
            low=float(curve.low[row, column]),
            high=float(curve.high[row, column]),
            tpot_s=float(curve.tpot_s[row, column]),
            tokens_per_s_per_gpu=float(curve.tokens_per_s_per_gpu[row, column]),
            p_best=judged[column].p_best,
            regret=judged[column].regret,
            accepted_length=float(curve.accepted_length[column]),
            tier=str(curve.tier[row, column]),
            meets_limit=bool(kept[column]),
        )
        for column, k in enumerate(curve.drafts)
    )
