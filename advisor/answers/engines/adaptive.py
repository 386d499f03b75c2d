"""Gain of a server that drafts the same K at each step and chooses which drafts it verifies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.answers.best_k import last_batch
from advisor.answers.engines.config import AdaptiveRange
from advisor.answers.engines.export import adaptive_rule
from advisor.physics.acceptance import speedup
from advisor.predict.curve import BESIDE, Curve
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array


@dataclass(frozen=True, kw_only=True)
class AdaptiveGain:
    """Gain of an engine at one batch over the best fixed K. None where it does not verify
    adaptively."""

    adaptive_k: int | None = None
    """Tokens that are drafted for each request at every step, K_max."""
    adaptive_low: float | None = None
    """Output rate over that of the best fixed K, less 1, where nothing is known of a request: all
    verify as many. [-]"""
    adaptive_high: float | None = None
    """The same where it is known how many drafts of each request hold: only those are verified.
    [-]"""
    adaptive_key: str | None = None
    """What turns it on, as the engine spells it."""
    adaptive_release: str | None = None
    """Engine and version for readers: the scenario's release, else the reviewed one."""


def adaptive_ranges(
    setup: Setup, engine: str, curve: Curve, last: int, k_max: int | None = None
) -> tuple[AdaptiveRange, ...]:
    """Range that an engine verifies adaptively, up to the batch `last`. Raises AdvisorError where
    it does not.

    k_max : another K than that of `gains_by_k`. [tokens]
    """
    adaptive_rule(setup, engine)
    if k_max is None:
        k_max, _ = gains_by_k(curve, last)
    return (AdaptiveRange(1, last, k_max, 1.0),)


def adaptive_gain(setup: Setup, curve: Curve) -> AdaptiveGain:
    """Gain at the scenario's batch, on the scenario's engine."""
    try:
        rule, release = adaptive_rule(setup, setup.scenario.engine)
    except AdvisorError:
        return AdaptiveGain()
    k, gains = gains_by_k(curve, last_batch(setup, curve))
    low, high = gains[:, np.searchsorted(curve.batches, setup.scenario.batch_size)].tolist()
    return AdaptiveGain(
        adaptive_k=k,
        adaptive_low=low - 1.0,
        adaptive_high=high - 1.0,
        adaptive_key=rule.key,
        adaptive_release=release,
    )


def gains_by_k(curve: Curve, last: int) -> tuple[int, Array]:
    """The K that gains most, and its output rates over those of the best fixed K, [2, nB]. [-]

    An engine that estimates for each request how far its drafts hold lies between both ends, as far
    as its estimates are right and its choice is free. That K has the largest geometric mean of both
    ends, over the batches up to `last`.

    curve : from K = 0 on without a gap. last : largest batch that fits. [sequences]
    Source: docs/decisions/history.md (0047).
    """
    ends = np.stack([_speedups(curve, k) for k in curve.drafts[1:].tolist()], axis=-1)
    gains = ends / curve.speedup.max(axis=1)[:, None]
    column = int(np.log(gains[:, curve.batches <= last]).mean(axis=(0, 1)).argmax())
    return int(curve.drafts[1 + column]), gains[..., column]


def _speedups(curve: Curve, k: int) -> Array:
    """Speedups over plain decoding of both ends that draft K tokens a step, [2, nB]. [-]"""
    beside_s = sum(curve.round_components[name] for name in BESIDE)
    # More may be verified than is chosen, where that is quicker.
    falling_s = (curve.round_s - beside_s)[:, k::-1]
    verify_s = np.minimum.accumulate(falling_s, axis=1)[:, ::-1]
    verified = np.arange(k + 1)
    # Drafts of a longer block may hold less often, so that K is measured below a shorter one.
    blind = np.minimum(curve.accepted_length[: k + 1], curve.accepted_length[k])
    # Drafts that hold are verified up to their mean number, which lies between two whole ones.
    held = np.minimum(verified, curve.accepted_length[k] - 1.0)
    held_s = [np.interp(held, verified, times_s) for times_s in verify_s]
    rounds_s = np.asarray(beside_s)[:, k, None] + np.stack([verify_s, held_s])
    tokens = np.stack([blind, 1.0 + held])[:, None]
    prefill_s = np.reshape(curve.prefill_s, (-1, 1))
    return speedup(tokens, curve.plain_step_s[:, None], rounds_s, prefill_s).max(axis=-1)
