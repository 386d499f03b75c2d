"""The measured tables' synthetic loads, rebuilt: counts, sums, skew."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measured.fits.solver import balanced_counts, sample_counts, touched_under_power_law
from advisor.prediction import AdvisorError

SHAPES = st.sampled_from([(128, 8), (256, 8), (8, 2), (512, 10), (512, 22), (60, 4), (16, 1)])


@given(
    SHAPES,
    st.integers(1, 400),
    st.sampled_from([1.01, 1.2, 1.5]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 2**31),
)
def test_counts_sum_to_tokens_times_k_and_no_token_chooses_an_expert_twice(shape, tokens, exponent, ep, seed):
    n, k = shape
    counts = sample_counts(tokens, n, k, exponent, np.random.default_rng(seed), ep)
    assert counts.sum() == tokens * k
    assert counts.min() >= 0
    assert counts.max() <= tokens


def test_the_busiest_rank_comes_first():
    for seed in range(20):
        loads = sample_counts(64, 128, 8, 1.2, np.random.default_rng(seed), 8).reshape(8, -1).sum(axis=1)
        assert loads[0] == loads.max()


def test_one_token_touches_k_experts_whatever_the_load():
    for load in ("balanced", "power_law_1.01", "power_law_1.2"):
        assert touched_under_power_law(1, 128, 8, load).touched == 8


def test_balanced_load_touches_as_many_experts_as_it_can():
    for tokens in (1, 2, 4, 8, 16, 64):
        assert touched_under_power_law(tokens, 128, 8, "balanced").touched == min(128, 8 * tokens)
    counts = balanced_counts(64, 128, 8)
    assert counts.min() == counts.max() == 4


def test_balanced_load_wraps_where_k_does_not_divide_n():
    # stride ceil(512 / 10) = 52; the tenth choice of the last tokens wraps onto experts already chosen
    assert 500 <= touched_under_power_law(52, 512, 10, "balanced").touched <= 512


def test_a_skewed_load_touches_fewer_experts_than_a_balanced_one():
    for tokens in (8, 16, 32):
        balanced = touched_under_power_law(tokens, 128, 8, "balanced").touched
        assert touched_under_power_law(tokens, 128, 8, "power_law_1.01").touched < balanced
    assert (
        touched_under_power_law(8, 128, 8, "power_law_1.2").touched
        < touched_under_power_law(8, 128, 8, "power_law_1.01").touched
    )


def test_touched_experts_rise_with_tokens_and_are_reproducible():
    values = [touched_under_power_law(t, 256, 8, "power_law_1.2").touched for t in (1, 2, 4, 8, 16, 32, 64, 256, 1024)]
    assert all(b > a for a, b in pairwise(values))
    assert values[-1] <= 256
    assert touched_under_power_law(16, 256, 8, "power_law_1.2") == touched_under_power_law(16, 256, 8, "power_law_1.2")


def test_more_ranks_mean_fewer_experts_on_the_busiest_but_at_least_its_share():
    whole = touched_under_power_law(64, 256, 8, "power_law_1.2").touched
    quarter = touched_under_power_law(64, 256, 8, "power_law_1.2", expert_parallel=4)
    assert quarter.touched <= 64
    assert quarter.routed_rows >= 64 * 8 / 4
    assert quarter.touched < whole


@pytest.mark.parametrize("arguments", [(0, 128, 8, 1.2), (4, 8, 9, 1.2), (4, 128, 8, 1.0)])
def test_an_impossible_load_is_refused(arguments):
    tokens, n, k, exponent = arguments
    with pytest.raises(AdvisorError, match="cannot sample a load"):
        sample_counts(tokens, n, k, exponent, np.random.default_rng(0))


def test_an_unknown_load_name_is_refused():
    with pytest.raises(AdvisorError, match="expected 'balanced' or 'power_law_"):
        touched_under_power_law(4, 128, 8, "zipf")
