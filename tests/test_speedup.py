"""Speedup algebra: published identities, limits, properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.physics.acceptance import (
    accepted_length,
    amdahl_ratio,
    hidden_share,
    solve_alpha,
    speedup,
    target_efficiency,
    utility,
    verification_ratio,
)


def test_an_accepted_length_of_2_73_at_k_3_gives_the_textbook_curve() -> None:
    alpha = solve_alpha(2.73, 3)
    assert float(alpha) == pytest.approx(0.749, abs=5e-4)
    expected = [1.749, 2.310, 3.045, 3.280, 3.589]
    assert accepted_length(alpha, np.array([1, 2, 4, 5, 7])) == pytest.approx(expected, abs=1e-3)


def test_coheres_identity_of_accepted_length_over_draft_and_verify_cost() -> None:
    """2.73 tokens for 0.143 + 1.25 plain steps (Cohere blog, 2026-04-21)."""
    assert float(speedup(2.73, 1.0, 1.25 + 0.143)) == pytest.approx(1.960, abs=5e-4)


def test_coheres_amdahl_bound() -> None:
    assert float(amdahl_ratio(0.30, 2.545)) == pytest.approx(1.464, abs=5e-4)


def test_the_measured_ratio_says_which_part_of_the_loading_was_hidden() -> None:
    """R = 1.25 measured with f = 0.30 and a union of 2.545 k: about 46 % of the extra loading does not show."""
    assert float(hidden_share(1.25, 0.30, 2.545)) == pytest.approx(1 - 0.54, abs=0.01)
    assert np.isnan(hidden_share(1.0, 0.3, 1.0))


def test_prefill_is_paid_by_every_token_of_both_arms() -> None:
    """Two tokens in 4 s and 1 s of prefill each: 3 s a token, against 3 + 1 s of plain decoding."""
    assert float(speedup(2.0, 3.0, 4.0, 1.0)) == pytest.approx(4 / 3)


def test_half_of_the_loading_hidden_halves_what_the_ratio_rises_by() -> None:
    assert float(amdahl_ratio(0.3, 2.5, 0.5)) == pytest.approx(1.225)
    assert float(hidden_share(1.225, 0.3, 2.5)) == pytest.approx(0.5)
    assert float(hidden_share(1.1, 0.5, 1.4)) == pytest.approx(0.5)


def test_nothing_was_hidden_where_no_further_expert_is_touched_or_no_time_goes_to_experts() -> None:
    found = hidden_share([1.2, 1.2, 1.2], [0.3, 0.3, 0.0], [1.0, 0.9, 2.0])
    assert np.isnan(found).all()


def test_the_speedup_exceeds_one_exactly_when_the_round_costs_fewer_steps_than_it_emits_tokens() -> None:
    assert float(speedup(2.0, 1e-3, 2e-3)) == 1.0
    assert float(speedup(2.0, 1e-3, 1.9e-3)) > 1.0
    assert float(speedup(2.0, 1e-3, 2.1e-3)) < 1.0


@given(st.floats(1, 9), st.floats(1e-4, 1), st.floats(1, 5), st.floats(0, 1))
def test_shared_prefill_pulls_any_speedup_towards_one(
    length: float, plain: float, ratio: float, prefill: float
) -> None:
    alone = float(speedup(length, plain, ratio * plain))
    shared = float(speedup(length, plain, ratio * plain, prefill))
    assert abs(shared - 1) <= abs(alone - 1) + 1e-9


@given(st.floats(1e-4, 1), st.floats(1e-4, 1), st.floats(1, 9))
def test_time_per_token_falls_by_the_utility(plain: float, round_s: float, tokens: float) -> None:
    gained = float(utility(tokens, round_s, plain))
    assert round_s / tokens == pytest.approx(plain / gained)
    assert gained == pytest.approx(float(speedup(tokens, plain, round_s)))


def test_target_efficiency_is_the_inverse_of_the_verification_ratio() -> None:
    assert float(target_efficiency(2.0, 2.5) * verification_ratio(2.0, 2.5)) == pytest.approx(1.0)


def test_mixtral_at_k_7_has_the_published_utility() -> None:
    """ETR 3.2 at cost 2.3 (Cascade, arXiv:2506.20675)."""
    assert float(utility(3.2, 2.3, 1.0)) == pytest.approx(1.39, abs=5e-3)
