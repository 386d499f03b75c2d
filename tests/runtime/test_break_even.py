"""When speculation pays: least accepted length, sweet spot, batches where a K stops paying."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.best_k import break_even_accepted_length, break_even_batch, can_pay, paying_intervals, sweet_spot
from advisor.answers.round_costs import round_costs


def test_break_even_is_the_cost_of_a_round_in_plain_steps() -> None:
    time = np.array([[10.0, 15.0, 18.0], [20.0, 44.0, 70.0]])
    assert np.allclose(break_even_accepted_length(time), [[1, 1.5, 1.8], [1, 2.2, 3.5]])
    # At the second batch K = 1 would need 2.2 of at most 2 tokens: no drafter can make it pay.
    assert can_pay(time).tolist() == [[True, True, True], [True, False, False]]


def test_speedup_is_one_exactly_at_break_even() -> None:
    time = np.array([[10.0, 15.0, 18.0]])
    costs = round_costs([1], time, [1.0, 1.5, 1.8])
    assert np.allclose(costs.speedup, 1.0)


def test_the_end_of_paying_is_interpolated_and_tells_never_from_always() -> None:
    batches = [1, 4, 16]
    assert paying_intervals(batches, [1.0, 1.0, 1.0]) == ((1.0, np.inf),)
    ((_, end),) = paying_intervals(batches, [1.2, 1.0 / 1.2, 0.5])
    assert end == pytest.approx(2.0)  # halfway in log speedup between batch 1 and 4
    assert paying_intervals(batches, [0.9, 0.8, 0.7]) == ()
    assert paying_intervals(batches, [1.5, 1.4, 1.3]) == ((1.0, np.inf),)


def test_a_dip_at_middle_batches_gives_two_paying_intervals() -> None:
    intervals = paying_intervals([1, 4, 16, 64], [1.1, 1 / 1.1, 1.1, 1 / 1.1])
    assert [tuple(np.round(i, 6)) for i in intervals] == [(1.0, 2.0), (8.0, 32.0)]


def test_break_even_is_found_between_two_batches_and_absent_when_it_always_pays() -> None:
    batches = np.array([1.0, 10.0, 100.0])
    assert break_even_batch(batches, np.array([1.5, 1.2, 0.8])) == pytest.approx(10 * 10**0.5)
    assert break_even_batch(batches, np.array([1.5, 1.2, 1.1])) is None
    assert break_even_batch(batches, np.array([0.9, 0.8, 0.7])) is None
    assert sweet_spot(batches, np.array([1.0, 1.4, 1.2])) == 10
