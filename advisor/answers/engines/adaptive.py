"""Gain of a server that drafts the same K at each step and chooses which drafts it verifies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.answers.engines.config import AdaptiveRange
from advisor.answers.engines.export import adaptive_rule
from advisor.physics.acceptance import speedup
from advisor.predict.curve import BESIDE, Curve
from advisor.predict.setup import Setup
from advisor.prediction import Array


@dataclass(frozen=True)
class AdaptiveGain:
    """Output rate over that of the best fixed K at one batch, less 1. [-]"""

    k_max: int
    """Tokens that are drafted for each request at every step."""
    low: float
    """Where nothing is known of a request: all verify as many."""
    high: float
    """Where it is known how many drafts of each request hold: only those are verified."""


def adaptive_ranges(
    setup: Setup, engine: str, curve: Curve, last: int, k_max: int | None = None
) -> tuple[AdaptiveRange, ...]:
    """What an engine is given to verify adaptively, up to the batch `last`. Raises AdvisorError
    where it does not.

    k_max : another K than that of `adaptive_gain`. [tokens]
    """
    adaptive_rule(setup, engine)
    if k_max is None:
        k_max = adaptive_gain(curve, setup.scenario.batch_size, last).k_max
    return (AdaptiveRange(1, last, k_max, 1.0),)


def adaptive_gain(curve: Curve, batch_size: int, last: int) -> AdaptiveGain:
    """Gain at a batch of the curve, with the K that gains most over all of its batches.

    An engine that estimates for each request how far its drafts hold lies between both ends, as far
    as its estimates are right and its choice is free. That K has the largest geometric mean of both
    ends, over the batches up to `last`.

    curve : from K = 0 on without a gap. batch_size : one of its batches. last : largest batch that
        fits. [sequences] Source: docs/decisions/0047-adaptive-verification.md.
    """
    ends = np.stack([_speedups(curve, k) for k in curve.drafts[1:].tolist()], axis=-1)
    gains = ends / curve.speedup.max(axis=1)[:, None]
    column = int(np.log(gains[:, curve.batches <= last]).mean(axis=(0, 1)).argmax())
    row = int(np.searchsorted(curve.batches, batch_size))
    low, high = (float(gain) - 1.0 for gain in gains[:, row, column])
    return AdaptiveGain(int(curve.drafts[1 + column]), low, high)


def _speedups(curve: Curve, k: int) -> Array:
    """Speedups over plain decoding of both ends that draft K tokens a step, [2, nB]. [-]"""
    beside_s = sum((curve.round_components[name] for name in BESIDE), np.zeros(()))
    # More may be verified than is chosen, where that is quicker.
    falling_s = (curve.round_s - beside_s)[:, k::-1]
    verify_s = np.minimum.accumulate(falling_s, axis=1)[:, ::-1]
    verified = np.arange(k + 1)
    # Drafts that hold are verified up to their mean number, which lies between two whole ones.
    held = np.minimum(verified, curve.accepted_length[k] - 1.0)
    whole = held.astype(int)
    share = held - whole
    held_s = (1.0 - share) * verify_s[:, whole] + share * verify_s[:, np.minimum(whole + 1, k)]
    times_s = beside_s[:, k, None] + np.stack([verify_s, held_s])
    # Drafts of a longer block may hold less often, so that K is measured below a shorter one.
    blind = np.minimum(curve.accepted_length[: k + 1], curve.accepted_length[k])
    tokens = np.stack([blind, 1.0 + held])[:, None]
    plain_s = curve.plain_step_s[:, None]
    prefill_s = np.broadcast_to(curve.prefill_s, curve.batches.shape)[:, None]
    return speedup(tokens, plain_s, times_s, prefill_s).max(axis=-1)
