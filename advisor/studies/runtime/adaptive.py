"""Verification sized by confidence, as published, beside the bound of a gate that is never wrong.

vLLM pull request 52362 compares plain decoding with DSpark that verifies all of its K = 7 drafts, and with DSpark that
verifies as many as its confidence admits, at several concurrencies (measurements/published_speedups). The accelerator
is the re-run's, whose two cells state it; the accepted length, which neither states, is that of another DSpark head.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from advisor.curve import speedup_curve
from advisor.points import judged_rows
from advisor.runtime import StaticK, StopsAtRejection, closed_loop, costs_of, draw_trace, per_position, simulate
from advisor.scenario import Scenario

K = 7
REQUEST_TOKENS = 128
"""Simulated of each request: enough for a mean over thousands of rounds. [tokens]"""


def setting() -> Scenario:
    """The published comparison. The context is assumed, half of the 512 tokens that each request is made to emit, and
    ShareGPT's prompts."""
    return Scenario(
        hardware_id="mi355x",
        n_gpus=8,
        tensor_parallel=8,
        model_id="deepseek-v4-flash",
        drafter_id="dspark",
        acceptance="deepseek-v4-pro-dspark-coding",
        context_tokens=512,
        k_max=K,
    )


@dataclass(frozen=True)
class AdaptiveRow:
    """Speedups over plain decoding at one concurrency."""

    batch: int
    fixed_measured: float
    """All K drafts verified."""
    adaptive_measured: float
    """As many as the confidence admits."""
    fixed: float
    gated: float
    """Bound: as many as will be accepted."""

    @property
    def gain_measured(self) -> float:
        """Measured gain of sizing by confidence over verifying all. [-]"""
        return self.adaptive_measured / self.fixed_measured - 1.0

    @property
    def gain_bound(self) -> float:
        """Largest gain that it can have, as simulated. [-]"""
        return self.gated / self.fixed - 1.0


@lru_cache(maxsize=1)
def adaptive_rows() -> tuple[AdaptiveRow, ...]:
    """Every concurrency of the first table, measured and simulated with full batches. A second on one core."""
    rows = judged_rows()
    measured = {arm: _speedups(rows[rows["point_id"].str.startswith(f"vllm52362-{arm}-")]) for arm in ("k7", "ad")}
    batches = sorted(measured["k7"])
    costs = costs_of(speedup_curve(setting(), [1, *batches]))
    process = per_position(costs.accepted_length)
    found = []
    for batch in batches:
        rng = np.random.default_rng([52362, batch])
        trace = draw_trace(process, max(batch, 64), REQUEST_TOKENS, K, rng)
        load = closed_loop(max(1, 64 // batch), batch, batch, REQUEST_TOKENS)
        times = [
            float(run.sequence_time_s.sum() / run.tokens.sum())
            for policy in (StaticK(0), StaticK(K), StopsAtRejection(K, gates_drafting=False))
            for run in [simulate(costs, policy, trace, load, REQUEST_TOKENS)]
        ]
        fixed, gated = times[0] / times[1], times[0] / times[2]
        found.append(AdaptiveRow(batch, measured["k7"][batch], measured["ad"][batch], fixed, gated))
    return tuple(found)


def _speedups(rows: pd.DataFrame) -> dict[int, float]:
    """Measured speedup by batch."""
    return {int(batch): float(value) for batch, value in zip(rows["batch_size"], rows["speedup"], strict=True)}
