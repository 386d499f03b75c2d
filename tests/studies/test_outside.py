"""Directions that published work reports, on the model as shipped (printed in
docs/validation.md)."""

from __future__ import annotations

import pytest

from studies.validation.outside import WIDE_BATCHES, by_active, cohere, plateau


def test_verifying_four_tokens_at_batch_one_costs_a_quarter_more_on_the_moe() -> None:
    """Measured R = 1.25 (Cohere blog, 2026-04-21); nothing was fitted on it."""
    moe, dense = cohere()
    assert float(moe.verify_ratio[0, 0]) == pytest.approx(1.25, abs=0.1)
    assert float(dense.verify_ratio[0, 0]) == pytest.approx(1.0, abs=0.03)


def test_fewer_active_experts_peak_later_and_hold_their_gain_over_more_batches() -> None:
    curves = by_active((8, 16, 32))  # at 2 and 4 nothing peaks any more: docs/validation.md, R12
    peaks = [WIDE_BATCHES[curve[5:].argmax() + 5] for curve in curves.values()]
    plateaus = [plateau(curve) for curve in curves.values()]
    assert peaks[0] > peaks[1] > peaks[2] > 1
    assert plateaus[0] >= plateaus[1] >= plateaus[2]
    assert plateaus[0] > plateaus[2]
