"""Speedup of speculative decoding and what explains it. Never sees hardware: times and accepted lengths in.

References
----------
[1] Leviathan et al., "Fast inference from transformers via speculative decoding", arXiv:2211.17192.
[2] "MoESD", arXiv:2505.19645 (target efficiency).
[3] "Cascade", arXiv:2506.20675 (utility).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.acceptance import accepted_length, solve_alpha

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

Array = NDArray[np.float64]


def speedup(
    accepted_length: ArrayLike, plain_step_s: ArrayLike, round_s: ArrayLike, prefill_per_token_s: ArrayLike = 0.0
) -> Array:
    """Time per token of plain decode over that of speculative decode. [1]

    Parameters
    ----------
    accepted_length : tokens emitted per round, bonus token included, AL >= 1. [1]
    plain_step_s : one plain decode step, T(B,1). [s]
    round_s : one whole round: draft, verify, rejection sampling, host. [s]
    prefill_per_token_s : prefill time charged to each output token, 0 for per-user decode speed. [s]

    Notes
    -----
    AL (T(B,1) + pf) / (T_round + AL pf), broadcast over the arguments. Above 1, speculation is faster.
    """
    length, prefill = np.asarray(accepted_length, float), np.asarray(prefill_per_token_s, float)
    return np.asarray(length * (np.asarray(plain_step_s) + prefill) / (np.asarray(round_s) + length * prefill))


def verification_ratio(plain_step_s: ArrayLike, verify_step_s: ArrayLike) -> Array:
    """R = T(B, K+1) / T(B, 1): what verifying K+1 tokens costs in plain steps. [1]"""
    return np.asarray(np.asarray(verify_step_s, float) / np.asarray(plain_step_s, float))


def target_efficiency(plain_step_s: ArrayLike, verify_step_s: ArrayLike) -> Array:
    """T(B, 1) / T(B, K+1) [2], the inverse of `verification_ratio`. [1]"""
    return np.asarray(1.0 / verification_ratio(plain_step_s, verify_step_s))


def utility(tokens_per_iteration: ArrayLike, iteration_s: ArrayLike, plain_iteration_s: ArrayLike) -> Array:
    """Tokens gained per iteration over its relative cost [3]; TPOT_spec = TPOT_plain / utility. [1]"""
    cost = np.asarray(iteration_s, float) / np.asarray(plain_iteration_s, float)
    return np.asarray(np.asarray(tokens_per_iteration, float) / cost)


def amdahl_ratio(routed_share: ArrayLike, experts_ratio: ArrayLike, exposed_share: ArrayLike = 1.0) -> Array:
    """R = 1 + eta f (U(B,q)/U(B,1) - 1). [1]

    Parameters
    ----------
    routed_share : f, share of a plain step spent loading routed experts. [1]
    experts_ratio : U(B,q) / U(B,1). [1]
    exposed_share : eta <= 1, the part of the extra loading that nothing hides. [1]
    """
    return np.asarray(
        1.0
        + np.asarray(exposed_share, float) * np.asarray(routed_share, float) * (np.asarray(experts_ratio, float) - 1.0)
    )


def hidden_share(ratio: ArrayLike, routed_share: ArrayLike, experts_ratio: ArrayLike) -> Array:
    """1 - eta: the part of the extra expert loading that a measured or predicted ratio R does not show. [1]

    NaN where the step touches no further experts, because then nothing was there to hide.
    """
    growth = np.asarray(routed_share, float) * (np.asarray(experts_ratio, float) - 1.0)
    excess = np.asarray(ratio, float) - 1.0
    shape = np.broadcast_shapes(growth.shape, excess.shape)
    return np.asarray(1.0 - np.divide(excess, growth, out=np.full(shape, np.nan), where=growth > 0))
