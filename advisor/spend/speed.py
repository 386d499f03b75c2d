"""How fast tokens come under each draw: absolute times, with what their prediction was found to err by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.curve import Curve
from advisor.prefill import prefill_shares_s
from advisor.setup import Setup

PLAIN_LOG_SD = 0.14
"""Of plain decode times over predicted, models against each other: 90 % of 2437 points lie within 25.5 % with the
point's model left out of the fit (docs/validation.md, plain decode), which is 1.645 standard deviations. The whole
error: draws of the components hold a part of it (`own_log_sd`). [-]"""


@dataclass(frozen=True)
class DrawnSpeed:
    """Seconds for a token of one sequence under each draw, [draws, nB]."""

    token_s: Array
    """With the prefill of the sequence's own prompt: what throughput, money and energy go by."""
    tpot_s: Array
    """Without it: what its user waits between two tokens."""


def drawn_times(setup: Setup, curve: Curve, columns: NDArray[np.int64], own_z: Array | float = 0.0) -> DrawnSpeed:
    """Times of a curve's batches under its draws.

    Parameters
    ----------
    columns : where the K of each batch stands along the curve's drafts, [nB]. [-]
    own_z : standard normals of the error that is this model's alone, `own_log_sd` wide, [draws] or 0 for none. [-]
    """
    rows = np.arange(curve.batches.size)
    prefill, own_prompt = prefill_shares_s(setup, curve.batches)
    error = np.exp(own_log_sd(curve.plain_draws_s) * np.broadcast_to(own_z, curve.plain_draws_s.shape[:1])[:, None])
    # A speculative token takes the plain one's time over the speedup, draw by draw: errors that both share stay shared.
    token_s = error * (curve.plain_draws_s + prefill) / curve.draws[:, rows, columns]
    return DrawnSpeed(token_s, token_s - error * own_prompt)


def own_log_sd(plain_draws_s: Array) -> Array:
    """Log standard deviation of a plain time beyond the scatter of its components' draws, [nB]. [-]

    PLAIN_LOG_SD is the whole error of held-out models, that of their kernels included: only the rest is added (own
    derivation: variances of independent errors add).

    plain_draws_s : plain step under each draw, [draws, nB]. [s]
    """
    # In squares, as independent errors add; the components' draws hold their part of the whole already.
    drawn = np.log(plain_draws_s).std(axis=0)
    return np.sqrt(np.maximum(PLAIN_LOG_SD**2 - np.square(drawn), 0.0))


def token_time_s(curve: Curve, gpus: int) -> Array:
    """Time for a token of one sequence, the prefill of its own prompt included, [nB, nK]. [s]

    The inverse of `laws.tokens_per_s_per_gpu`, times the sequences.
    """
    return np.asarray(curve.batches[:, None] / (curve.tokens_per_s_per_gpu * gpus))
