"""Every K at the target batch: what it gives, its chance of being best and the loss it risks."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.advice import Advice


@dataclass(frozen=True)
class Outcome:
    """One K at the target batch."""

    n_draft: int
    speedup: float
    low: float
    """Ends of the 80 % band of the speedup."""
    high: float
    tpot_s: float
    tokens_per_s_per_gpu: float
    p_best: float
    """Chance that this K is the fastest. [-]"""
    p_gain: float
    """Chance that this K is faster than plain decoding. [-]"""
    regret: float
    """Mean loss of speedup against the fastest K. [-]"""
    as_good: bool
    """Whether the noise of the draws does not tell its loss from the least one."""
    accepted_length: float
    tier: str
    meets_limit: bool
    """Whether it keeps the limit on time per output token; true where none is set."""


def outcomes_of(advice: Advice) -> tuple[Outcome, ...]:
    """One outcome for each K of the advice's curve, K increasing."""
    curve, row = advice.curve, advice.batch_index
    return tuple(
        Outcome(
            n_draft=item.n_draft,
            speedup=item.speedup,
            low=item.speedup_low,
            high=item.speedup_high,
            tpot_s=item.tpot_s,
            tokens_per_s_per_gpu=item.tokens_per_s_per_gpu,
            p_best=item.p_best,
            p_gain=item.p_gain,
            regret=item.expected_loss,
            as_good=item.as_good,
            accepted_length=float(curve.accepted_length[column]),
            tier=str(curve.tier[row, column]),
            meets_limit=item.meets_limit,
        )
        for column, item in enumerate(advice.drafts)
    )
