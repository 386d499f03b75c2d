"""Speedup of speculative decoding and what explains it. Never sees hardware: times and accepted lengths in.

References
----------
[Leviathan] Leviathan et al., "Fast inference from transformers via speculative decoding", arXiv:2211.17192.
[MoESD] "MoESD", arXiv:2505.19645 (target efficiency).
[Cascade] "Cascade", arXiv:2506.20675 (utility).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from advisor import laws
from advisor.acceptance import accepted_length, solve_alpha
from advisor.arrays import Array, arrays

__all__ = [
    "accepted_length",
    "amdahl_ratio",
    "hidden_share",
    "solve_alpha",
    "speedup",
    "target_efficiency",
    "utility",
    "verification_ratio",
]


def speedup(
    accepted_length: ArrayLike, plain_step_s: ArrayLike, round_s: ArrayLike, prefill_per_token_s: ArrayLike = 0.0
) -> Array:
    """Time per token of plain decode over that of speculative decode. [-]

    Parameters
    ----------
    accepted_length : tokens emitted per round, bonus token included, AL >= 1. [-]
    plain_step_s : one plain decode step, T(B,1). [s]
    round_s : one whole round: draft, verify, rejection sampling, host. [s]
    prefill_per_token_s : prefill time charged to each output token, 0 for per-user decode speed. [s]

    Returns
    -------
    `laws.speedup`, broadcast over the arguments. Above 1, speculation is faster.
    """
    return np.asarray(laws.speedup(*arrays(accepted_length, plain_step_s, round_s, prefill_per_token_s)))


def verification_ratio(plain_step_s: ArrayLike, verify_step_s: ArrayLike) -> Array:
    """Cost of verifying K + 1 tokens in plain steps, R = T(B, K+1) / T(B, 1): `laws.verification_ratio`. [-]"""
    return np.asarray(laws.verification_ratio(*arrays(verify_step_s, plain_step_s)))


def target_efficiency(plain_step_s: ArrayLike, verify_step_s: ArrayLike) -> Array:
    """Target efficiency of [MoESD], T(B, 1) / T(B, K+1), the inverse of `verification_ratio`. [-]"""
    return np.asarray(laws.target_efficiency(*arrays(plain_step_s, verify_step_s)))


def utility(tokens_per_iteration: ArrayLike, iteration_s: ArrayLike, plain_iteration_s: ArrayLike) -> Array:
    """Utility of [Cascade]: tokens gained per iteration over its relative cost. [-]

    tokens_per_iteration: tokens that an iteration emits for each that plain decoding would. [-]
    iteration_s, plain_iteration_s: an iteration with and without speculation. [s]
    `laws.utility`; the time per output token of plain decoding over it is that of speculation.
    """
    return np.asarray(laws.utility(*arrays(tokens_per_iteration, iteration_s, plain_iteration_s)))


def amdahl_ratio(routed_share: ArrayLike, experts_ratio: ArrayLike, exposed_share: ArrayLike = 1.0) -> Array:
    """Verification ratio of a step in which only the loading of routed experts grows: `laws.amdahl_ratio`. [-]

    Parameters
    ----------
    routed_share : f, share of a plain step spent loading routed experts. [-]
    experts_ratio : U(B,q) / U(B,1). [-]
    exposed_share : eta <= 1, the part of the extra loading that nothing hides. [-]
    """
    return np.asarray(laws.amdahl_ratio(*arrays(routed_share, experts_ratio, exposed_share)))


def hidden_share(ratio: ArrayLike, routed_share: ArrayLike, experts_ratio: ArrayLike) -> Array:
    """1 - eta: the part of the extra expert loading that a measured or predicted ratio R does not show. [-]

    NaN where the step touches no further experts, because then nothing was there to hide.
    """
    measured, share, growth = arrays(ratio, routed_share, experts_ratio)
    # NaN and not 0: where no further expert is touched, nothing was there to hide.
    grows = (share > 0) & (growth > 1)
    return np.asarray(laws.hidden_share(measured, np.where(grows, share, np.nan), growth))
