"""K by batch size, its gain, and break-even answers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cli.output import k_by_batch_on_terminal
from advisor.prediction import AdvisorError
from advisor.runtime import (
    buckets_by_context,
    k_at,
    k_by_batch,
    round_costs,
    schedule_gain,
)
from advisor.runtime.schedule import MIN_GAIN, KRange, k_by_batch_table

BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]
# Low-high-low, the shape of an MoE: K = 1, then 3 in the middle, then none.
MOE = np.array(
    [
        [1.0, 1.50, 1.40, 1.30],
        [1.0, 1.45, 1.44, 1.35],
        [1.0, 1.40, 1.50, 1.55],
        [1.0, 1.50, 1.70, 1.90],
        [1.0, 1.50, 1.75, 1.95],
        [1.0, 1.40, 1.25, 1.20],
        [1.0, 1.05, 0.95, 0.80],
        [1.0, 0.80, 0.70, 0.60],
    ]
)


def test_ranges_cover_every_batch_size_once_and_follow_the_best_k() -> None:
    ranges = k_by_batch(BATCHES, range(4), MOE)
    assert ranges[0].batch_start == 1
    assert ranges[-1].batch_end == 128
    assert all(b.batch_start == a.batch_end + 1 for a, b in pairwise(ranges))
    assert [r.k_draft for r in ranges] == [1, 3, 1, 0]
    assert k_at(ranges, [1, 8, 16, 128, 500]).tolist() == [1, 3, 3, 0, 0]


def test_noise_below_the_margin_does_not_flip_k() -> None:
    rng = np.random.default_rng(3)
    flat = np.tile([1.0, 1.5, 1.5, 1.4], (8, 1))
    noisy = flat * (1 + rng.uniform(-0.01, 0.01, flat.shape))
    noisy[:, 0] = 1.0
    assert len(set(noisy.argmax(axis=1))) > 1
    assert len(k_by_batch(BATCHES, range(4), noisy, margin=0.03)) == 1
    assert len(k_by_batch(BATCHES, range(4), noisy, margin=0.0)) > 1


def test_where_no_k_gains_more_than_noise_the_schedule_drafts_nothing() -> None:
    table = np.array([[1.0, 1.5], [1.0, 1.015], [1.0, 1.03]])
    assert [r.k_draft for r in k_by_batch([1, 2, 3], [0, 1], table, margin=0.02)] == [1, 0, 1]


def test_a_draft_that_loses_is_never_scheduled_even_within_the_margin() -> None:
    table = np.array([[1.0, 1.2], [1.0, 0.99]])
    ranges = k_by_batch([1, 64], [0, 1], table, margin=0.1)
    assert ranges[-1].k_draft == 0
    crossing = 64 ** (np.log(1.2 / 1.02) / np.log(1.2 / 0.99))
    assert ranges[0].batch_end == int(crossing)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(0.3, 3.0), min_size=3, max_size=3), min_size=3, max_size=3),
    st.floats(0.0, 0.2),
)
def test_regret_stays_within_the_margin_at_every_batch(rows: list[list[float]], margin: float) -> None:
    table = np.column_stack([np.ones(3), np.array(rows)])
    batches = [1, 6, 40]
    ranges = k_by_batch(batches, range(4), table, margin=margin)
    costs = round_costs(batches, 1 / table, [1.0, 1.0, 1.0, 1.0])
    whole = np.arange(1, 41)
    speedup = costs.time_s(whole, 0)[:, None] / costs.time_s(whole[:, None], np.arange(4))
    chosen = speedup[np.arange(40), k_at(ranges, whole)]
    assert np.all(chosen * (1 + max(margin, MIN_GAIN)) >= speedup.max(axis=1) * (1 - 1e-9))
    assert np.all(chosen >= 1 - 1e-9)


def test_limit_on_time_per_output_token_marks_batches_that_no_k_can_serve() -> None:
    plain = np.linspace(0.010, 0.080, 8)
    tpot = plain[:, None] / MOE
    ranges = k_by_batch(BATCHES, range(4), MOE, tpot_s=tpot, max_tpot_s=0.030)
    assert ranges[0].meets_limit
    assert not ranges[-1].meets_limit
    costs = round_costs(BATCHES, tpot, [1.0] * 4)
    last = max(r.batch_end for r in ranges if r.meets_limit)
    assert costs.time_s(last, np.arange(4)).min() <= 0.030 < costs.time_s(last + 1, np.arange(4)).min()


def test_limit_narrows_what_the_margin_may_choose() -> None:
    table = np.array([[1.0, 1.50, 1.52], [1.0, 1.54, 1.50]])
    tpot = 0.03 / table
    free = k_by_batch([1, 2], range(3), table, margin=0.05)
    tight = k_by_batch([1, 2], range(3), table, margin=0.05, tpot_s=tpot, max_tpot_s=0.03 / 1.515)
    assert [r.k_draft for r in free] == [1]
    assert [r.k_draft for r in tight] == [2, 1]


def test_context_buckets_with_the_same_ranges_are_joined() -> None:
    flat = np.tile([1.0, 1.5, 1.2, 1.1], (8, 1))
    schedules = [k_by_batch(BATCHES, range(4), table) for table in (MOE, MOE, flat)]
    found = buckets_by_context([1024, 4096, 32768], schedules)
    assert [(c.context_start, c.context_end) for c in found] == [(1, 11585), (11586, 10_000_000)]
    assert [c.has_end for c in found] == [True, False]
    assert [r.k_draft for r in found[1].ranges] == [1]


def test_gain_over_the_best_static_k_is_the_harmonic_mean_of_the_histogram() -> None:
    ranges = k_by_batch(BATCHES, range(4), MOE)
    gain = schedule_gain(ranges, BATCHES, range(4), MOE, [1, 16, 128], [1.0, 2.0, 1.0])
    scheduled = 4 / (1 / 1.5 + 2 / 1.95 + 1 / 1.0)
    static = [4 / (1 / MOE[0, k] + 2 / MOE[4, k] + 1 / MOE[7, k]) for k in range(4)]
    assert gain.schedule_speedup == pytest.approx(scheduled)
    assert gain.best_static_k == int(np.argmax(static))
    assert gain.gain == pytest.approx(scheduled / max(static) - 1)
    assert gain.gain > 0.1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.05, 1.0), min_size=8, max_size=8))
def test_a_schedule_without_margin_never_loses_to_a_static_k(weights: list[float]) -> None:
    ranges = k_by_batch(BATCHES, range(4), MOE, margin=0.0)
    gain = schedule_gain(ranges, BATCHES, range(4), MOE, BATCHES, weights)
    assert gain.gain >= -1e-12
    assert max(gain.static_speedup) == pytest.approx(gain.best_static_speedup)


@pytest.mark.parametrize(
    ("batches", "drafts", "table", "message"),
    [
        ([2, 4], [0, 1], np.ones((2, 2)), "start at 1"),
        ([1, 2], [1, 2], np.ones((2, 2)), "contain K = 0"),
        ([1, 2], [0, 1], np.ones((3, 2)), "shape"),
        ([1, 2], [0, 1], np.array([[1, np.nan], [1, 1]]), "finite"),
    ],
)
def test_bad_tables_are_refused_in_words(
    batches: list[int], drafts: list[int], table: np.ndarray, message: str
) -> None:
    with pytest.raises(AdvisorError, match=message):
        k_by_batch(batches, drafts, table)


def test_the_table_of_k_by_batch_says_whether_the_limit_is_kept_only_where_there_is_one() -> None:
    ranges = (KRange(1, 1024, 3, 1.8249, 0.0196), KRange(1025, 2048, 0, 1.0, 0.0, meets_limit=False))
    columns, rows = k_by_batch_table(ranges, limited=True)
    assert columns == ("Batch", "K", "Mean speedup", "Largest loss", "Meets the limit")
    assert rows == (
        ("1 to 1,024", "3", "1.82x", "2.0%", "yes"),
        ("1,025 to 2,048", "0", "1.00x", "0.0%", "no"),
    )
    assert k_by_batch_table(ranges, limited=False) == (columns[:4], tuple(row[:4] for row in rows))
    assert k_by_batch_on_terminal(ranges)[1][0] == ("1-1024", "3", "1.82", "2.0%")
