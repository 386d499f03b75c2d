"""Directions that published work reports, on the model as shipped (printed in docs/validation.md)."""

from __future__ import annotations

import numpy as np
import pytest

from studies.validation.outside import BATCHES, WIDE_BATCHES, by_active, by_ridge, cohere, plateau


def test_command_a_plus_rises_inside_and_falls_at_large_batch() -> None:
    moe, _ = cohere()
    speedup, batches = moe.speedup[:, 0], np.array(BATCHES)
    peak = int(speedup[1:].argmax()) + 1
    assert 0 < peak < len(batches) - 1
    assert np.all(np.diff(speedup[batches >= 64]) < 0)


def test_command_a_plus_verifies_four_tokens_at_batch_one_for_about_a_quarter_more() -> None:
    """Measured R = 1.25 (Cohere blog, 2026-04-21); nothing was fitted on it."""
    moe, _ = cohere()
    assert float(moe.verify_ratio[0, 0]) == pytest.approx(1.25, abs=0.1)


def test_dense_command_a_never_rises_and_verifies_for_free_at_small_batch() -> None:
    _, dense = cohere()
    assert np.all(np.diff(dense.speedup[:, 0]) <= 1e-9)
    assert float(dense.verify_ratio[0, 0]) == pytest.approx(1.0, abs=0.03)


def test_fewer_active_experts_peak_later_and_hold_their_gain_over_more_batches() -> None:
    curves = by_active((8, 16, 32))  # at 2 and 4 nothing peaks any more: docs/validation.md, R12
    peaks = [WIDE_BATCHES[curve[5:].argmax() + 5] for curve in curves.values()]
    plateaus = [plateau(curve) for curve in curves.values()]
    assert peaks[0] > peaks[1] > peaks[2] > 1
    assert plateaus[0] >= plateaus[1] >= plateaus[2]
    assert plateaus[0] > plateaus[2]


def test_a_higher_ridge_point_peaks_higher() -> None:
    peaks = by_ridge()
    assert peaks["h800-sxm"] > peaks["a800-80gb-sxm"]
