"""The measured tables' synthetic loads, rebuilt: counts, sums, skew.

Expert tables are fitted and shipped without spikes, and without times that fall with tokens.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measured.kernel_fits import balanced_counts, sample_counts, touched_under_power_law
from advisor.prediction import AdvisorError
from studies.fits.experts import moe_record
from studies.fits.tables import NOISY_SHARE, monotone, without_spikes
from tests.studies.test_fits_experts import IDENTITY, moe_table

SHAPES = st.sampled_from([(128, 8), (256, 8), (8, 2), (512, 10), (512, 22), (60, 4), (16, 1)])


@given(
    SHAPES,
    st.integers(1, 400),
    st.sampled_from([1.01, 1.2, 1.5]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 2**31),
)
def test_counts_sum_to_tokens_times_k_and_no_token_chooses_an_expert_twice(
    shape, tokens, exponent, ep, seed
):
    n, k = shape
    counts = sample_counts(tokens, n, k, exponent, np.random.default_rng(seed), ep)
    assert counts.sum() == tokens * k
    assert counts.min() >= 0
    assert counts.max() <= tokens


def test_the_busiest_rank_comes_first():
    for seed in range(20):
        loads = (
            sample_counts(64, 128, 8, 1.2, np.random.default_rng(seed), 8)
            .reshape(8, -1)
            .sum(axis=1)
        )
        assert loads[0] == loads.max()


def test_balanced_load_touches_as_many_experts_as_it_can():
    for tokens in (1, 2, 4, 8, 16, 64):
        assert touched_under_power_law(tokens, 128, 8, "balanced").touched == min(128, 8 * tokens)
    counts = balanced_counts(64, 128, 8)
    assert counts.min() == counts.max() == 4


def test_a_skewed_load_touches_fewer_experts_than_a_balanced_one():
    for tokens in (8, 16, 32):
        balanced = touched_under_power_law(tokens, 128, 8, "balanced").touched
        assert touched_under_power_law(tokens, 128, 8, "power_law_1.01").touched < balanced
    assert (
        touched_under_power_law(8, 128, 8, "power_law_1.2").touched
        < touched_under_power_law(8, 128, 8, "power_law_1.01").touched
    )


def test_touched_experts_rise_with_tokens_and_are_reproducible():
    values = [
        touched_under_power_law(t, 256, 8, "power_law_1.2").touched
        for t in (1, 2, 4, 8, 16, 32, 64, 256, 1024)
    ]
    assert all(b > a for a, b in pairwise(values))
    assert values[-1] <= 256
    assert touched_under_power_law(16, 256, 8, "power_law_1.2") == touched_under_power_law(
        16, 256, 8, "power_law_1.2"
    )


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


def series(times, **changed) -> pd.DataFrame:
    keys = {
        "hidden_size": 2048,
        "inter_size": 768,
        "topk": 8,
        "num_experts": 128,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
    }
    tokens = 2 ** np.arange(len(times))
    frame = pd.DataFrame({"num_tokens": tokens, "latency_s": times, "distribution": "balanced"})
    return frame.assign(**{**keys, **changed})


def test_a_point_beyond_one_and_a_half_times_both_neighbours_is_dropped():
    kept, n_spikes = without_spikes(series([1.0, 1.1, 5.0, 1.2, 1.3]))
    assert n_spikes == 1
    assert kept["latency_s"].tolist() == [1.0, 1.1, 1.2, 1.3]


def test_a_step_up_and_the_ends_are_not_spikes():
    times = [9.0, 1.0, 1.1, 2.0, 2.1, 9.0]
    assert without_spikes(series(times))[1] == 0


def test_neighbours_are_those_of_the_same_shape_shard_ranks_and_load():
    table = pd.concat(
        [series([1.0, 1.1, 1.2]), series([5.0, 5.1, 5.2], inter_size=1536)], ignore_index=True
    )
    shuffled = table.sample(frac=1.0, random_state=0)
    assert without_spikes(shuffled)[1] == 0
    assert not monotone(shuffled)["lowered"].any()


def test_each_time_is_lowered_to_the_least_at_more_tokens_and_only_clear_ones_are_counted():
    made = monotone(series([1.0, 1.5, 1.21, 1.2, 2.0]))
    assert made["latency_s"].tolist() == [1.0, 1.2, 1.2, 1.2, 2.0]
    assert made["lowered"].tolist() == [False, True, False, False, False]


def test_a_record_says_what_was_dropped_and_lowered():
    table = moe_table()
    spoiled = table.copy()
    hit = (
        (spoiled["num_tokens"] == 32)
        & (spoiled["moe_tp_size"] == 1)
        & (spoiled["distribution"] == "balanced")
    )
    spoiled.loc[hit, "latency_s"] *= 4.0
    record = moe_record(spoiled, IDENTITY)
    assert {d.n_rows for d in record.dropped if "neighbours" in d.reason} == {int(hit.sum())}
    assert record.n_rows + sum(d.n_rows for d in record.dropped) == len(table)
    assert record.parameters == moe_record(table[~hit], IDENTITY).parameters
    assert moe_record(table, IDENTITY).n_lowered == 0


def test_a_table_whose_times_keep_falling_is_called_noisy():
    rng = np.random.default_rng(1)
    table = moe_table()
    noisy = table.assign(
        latency_s=table["latency_s"] * np.exp(0.15 * rng.standard_normal(len(table)))
    )
    record = moe_record(noisy, IDENTITY)
    assert record.n_lowered > NOISY_SHARE * record.n_rows
    assert record.message.startswith("noisy")
