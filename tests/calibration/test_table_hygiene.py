"""Expert tables are fitted and shipped without spikes, and without times that fall with tokens."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.measured.fits.experts import clean_table, moe_record
from advisor.measured.fits.solver import NOISY_SHARE, monotone, without_spikes
from tests.calibration.test_fits import IDENTITY, moe_table


def series(times, **changed) -> pd.DataFrame:
    keys = {"hidden_size": 2048, "inter_size": 768, "topk": 8, "num_experts": 128, "moe_tp_size": 1, "moe_ep_size": 1}
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
    table = pd.concat([series([1.0, 1.1, 1.2]), series([5.0, 5.1, 5.2], inter_size=1536)], ignore_index=True)
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
    hit = (spoiled["num_tokens"] == 32) & (spoiled["moe_tp_size"] == 1) & (spoiled["distribution"] == "balanced")
    spoiled.loc[hit, "latency_s"] *= 4.0
    record = moe_record(spoiled, IDENTITY)
    assert {d.n_rows for d in record.dropped if "neighbours" in d.reason} == {int(hit.sum())}
    assert record.n_rows + sum(d.n_rows for d in record.dropped) == len(table)
    assert record.parameters == moe_record(table[~hit], IDENTITY).parameters
    assert moe_record(table, IDENTITY).n_lowered == 0


def test_a_table_whose_times_keep_falling_is_called_noisy():
    rng = np.random.default_rng(1)
    table = moe_table()
    noisy = table.assign(latency_s=table["latency_s"] * np.exp(0.15 * rng.standard_normal(len(table))))
    record = moe_record(noisy, IDENTITY)
    assert record.n_lowered > NOISY_SHARE * record.n_rows
    assert record.message.startswith("noisy")


def test_cleaning_twice_changes_nothing():
    rng = np.random.default_rng(2)
    table = moe_table()
    clean, _ = clean_table(table.assign(latency_s=table["latency_s"] * np.exp(0.1 * rng.standard_normal(len(table)))))
    again = monotone(clean)
    assert again["latency_s"].tolist() == clean["latency_s"].tolist()
