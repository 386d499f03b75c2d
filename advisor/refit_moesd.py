"""MoESD's ten-parameter form fitted to a user's own speedups, with floors from the accelerator and the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.architecture import BYTES_PER_WEIGHT, effective_n_active, weight_bytes
from advisor.hardware import effective_bandwidth, effective_flops
from advisor.moesd_fit import MIN_POINTS, Floors, MoesdFit, fit_moesd
from advisor.refit_points import RefitPoint
from advisor.setup import Setup

ASSUMED_REJECT_S = 0.5e-3
"""Upper bound on rejection sampling where none was measured (assumed: near the prior on the host's time per round)."""


def floors_of(setup: Setup) -> Floors:
    """Least times by reading weights, for one instance of the setup's placement. MoE models only."""
    moe = setup.architecture.moe
    assert moe is not None
    rate = effective_bandwidth(setup.hardware, "bf16").value * setup.placement.gpus
    width = BYTES_PER_WEIGHT[setup.architecture.dtypes.routed]
    expert = moe.count * moe.matrices * moe.expert_input_width * moe.expert_width * width
    rest = max(weight_bytes(setup.architecture) - expert * moe.n_experts, expert)
    draft = weight_bytes(setup.draft_architecture) if setup.draft_architecture is not None else 0.0
    return Floors(
        target_s=rest / rate,
        expert_s=expert / rate,
        draft_s=max(draft, expert) / rate,
        reject_max_s=ASSUMED_REJECT_S,
        ridge_tokens=effective_flops(setup.hardware, "bf16").value / effective_bandwidth(setup.hardware, "bf16").value,
    )


def moesd_of(points: Sequence[RefitPoint]) -> MoesdFit | None:
    """The form fitted to the speedups of one MoE model on one accelerator; None for fewer than MIN_POINTS of them."""
    chains = [(p, o) for p in points for o in p.observations if o.quantity == "speedup" and p.setup.architecture.moe]
    chains = [pair for pair in chains if pair[0].setup.architecture.id == chains[0][0].setup.architecture.id]
    if len(chains) < MIN_POINTS:
        return None
    setup = chains[0][0].setup
    moe = setup.architecture.moe
    assert moe is not None
    return fit_moesd(
        [o.measured for _, o in chains],
        floors_of(setup),
        batch_size=np.array([p.batch_size for p, _ in chains]),
        n_draft=np.array([float(p.n_draft) for p, _ in chains]),
        accepted_length=np.exp([o.shift for _, o in chains]),
        n_experts=float(moe.n_experts),
        n_active=max(float(effective_n_active(moe)), 1.0),
    )
