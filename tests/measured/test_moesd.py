"""The ten-parameter form: shape of G, and R15: seeded SYNTHETIC truths recovered from every eleventh point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.measured.moesd import MIN_POINTS, NAMES, Floors, Runs, fit_moesd, growth, moesd_speedup
from advisor.prediction import AdvisorError

FLOORS = Floors(target_s=4e-3, expert_s=0.15e-3, draft_s=0.4e-3, reject_max_s=0.5e-3, ridge_tokens=150.0)
ACTIVE = (1, 2, 4, 8, 16, 32)
DRAFTS = (2, 4)
BATCHES = (1, 2, 4, *range(8, 61, 4), 80, 100)


def grid():
    k, gamma, batch = (axis.ravel() for axis in np.meshgrid(ACTIVE, DRAFTS, BATCHES, indexing="ij"))
    return Runs(
        batch_size=batch.astype(float),
        n_draft=gamma.astype(float),
        accepted_length=np.where(gamma == 2, 2.5, 3.6),
        n_experts=64.0,
        n_active=k.astype(float),
    )


def truth(rng):
    within = rng.uniform(1.0, 3.0, 3)
    return np.array(
        [
            within[0] * FLOORS.target_s,
            rng.uniform(0.0, 0.5) * FLOORS.target_s,
            within[1] * FLOORS.expert_s,
            rng.uniform(0.0, 0.5) * FLOORS.target_s,
            within[2] * FLOORS.draft_s,
            rng.uniform(0.0, 0.5) * FLOORS.draft_s,
            *rng.uniform(0.0, 1.0, 2) * FLOORS.reject_max_s * (1.0, 0.02),
            rng.uniform(0.3, 0.9),
            rng.uniform(1.005, 1.03),
        ]
    )


def pick(points, rows):
    return Runs(**{name: values[rows] if np.ndim(values) else values for name, values in vars(points).items()})


def test_growth_is_smooth_at_the_ridge_and_linear_beyond():
    share, base, ridge = 0.5, 1.02, 100.0
    edge = 50.0
    below, above = growth([edge - 1e-6, edge + 1e-6], share, base, ridge)
    assert above - below < 1e-5
    left = (growth(edge, share, base, ridge) - growth(edge - 1e-4, share, base, ridge)) / 1e-4
    far = growth(300.0, share, base, ridge) - growth(299.0, share, base, ridge)
    assert far == pytest.approx(left, rel=1e-4)


def test_without_touched_experts_and_growth_the_speedup_is_constant_over_batch():
    flat = [4e-3, 0, 0, 0, 0.4e-3, 0, 0, 0, 0.5, 1.01]
    runs = Runs(batch_size=[1, 10, 100], n_draft=3, accepted_length=3.0, n_experts=64, n_active=8)
    answer = moesd_speedup(flat, 150.0, runs)
    assert answer == pytest.approx([3.0 * 4 / (4 + 1.2)] * 3)


def test_the_papers_count_verifies_one_token_less_than_engines_do():
    few = Runs(batch_size=4.0, n_draft=3, accepted_length=3.0, n_experts=64, n_active=8)
    steep = [4e-3, 0, 0.2e-3, 0, 0.4e-3, 0, 0, 0, 0.5, 1.01]
    assert moesd_speedup(steep, 150.0, replace(few, bonus_token=False)) > moesd_speedup(steep, 150.0, few)


def test_every_eleventh_of_228_points_predicts_the_rest_for_ten_truths():
    points = grid()
    assert len(points.batch_size) == 228
    fitted = np.zeros(228, bool)
    fitted[::11] = True
    rms, plain = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        exact = moesd_speedup(truth(rng), FLOORS.ridge_tokens, points)
        noisy = exact * (1.0 + 0.02 * rng.standard_normal(228))
        fit = fit_moesd(noisy[fitted], FLOORS, pick(points, fitted))
        rest = moesd_speedup(fit.parameters, FLOORS.ridge_tokens, pick(points, ~fitted))
        rms.append(np.sqrt(np.mean((rest - noisy[~fitted]) ** 2)))
        plain.append(noisy[~fitted].std())
    assert np.median(rms) <= 0.12
    assert max(rms) <= 0.2
    assert np.median(rms) < 0.25 * np.median(plain), "a constant would do as well"


def test_few_points_and_nonsense_are_refused():
    points = pick(grid(), np.arange(MIN_POINTS - 1))
    with pytest.raises(AdvisorError, match="at least 10"):
        fit_moesd(np.ones(MIN_POINTS - 1), FLOORS, points)
    with pytest.raises(AdvisorError, match="positive"):
        fit_moesd(np.zeros(12), FLOORS, pick(grid(), np.arange(12)))


def test_the_fit_names_parameters_at_their_bounds():
    points = pick(grid(), np.arange(0, 228, 11))
    exact = np.array([FLOORS.target_s, 0, FLOORS.expert_s, 0, FLOORS.draft_s, 0, 0, 0, 0.5, 1.0])
    fit = fit_moesd(moesd_speedup(exact, FLOORS.ridge_tokens, points), FLOORS, points)
    assert set(fit.at_bound) <= set(NAMES)
    assert "bias_s" in fit.at_bound or fit.rms < 1e-3
