"""Distinct experts by hand: a whole step, the slowest of several ranks, what unrelated tokens share."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from advisor.physics.touched_experts import _load_nodes, _nodes, local_experts, touched_experts
from advisor.prediction import AdvisorError


def mean_maximum(count: int) -> float:
    """Mean of the largest of `count` standard normals, integrated."""
    x = np.linspace(-8.0, 8.0, 20_001)
    normal = NormalDist()
    below = np.array([normal.cdf(value) for value in x])
    density = np.exp(-(x**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return float(np.sum(x * count * density * below ** (count - 1)) * (x[1] - x[0]))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_the_slowest_rank_is_as_far_above_the_mean_as_the_largest_of_so_many_normals(ranks: int) -> None:
    """Half of 4096 experts touched: a rank holds 2048/ep in the mean, with a standard deviation of sqrt(1024/ep)."""
    deviation = math.sqrt(2048 / ranks * 0.5)
    found = (float(local_experts(2048.0, 4096, ranks)) - 2048 / ranks) / deviation
    assert found == pytest.approx(mean_maximum(ranks), abs=6e-3)


def test_experts_on_the_slowest_rank_by_hand() -> None:
    """64 of 128 experts on 8 ranks: 8 each in the mean, sqrt(8 / 2) = 2 apart, and 1.42 of those on the slowest."""
    assert float(local_experts(64, 128, 8)) == pytest.approx(8 + 1.42 * 2)
    assert float(local_experts(32, 128, 4)) == pytest.approx(8 + 1.03 * math.sqrt(8 * 0.75))
    assert float(local_experts(64, 256, 12)) == pytest.approx(
        64 / 12 + (1.42 + 0.35 * (math.log2(12) - 3)) * math.sqrt(64 / 12 * 0.75)
    ), "between two measured numbers of ranks straight in their logarithm"


def test_no_rank_touches_more_experts_than_it_holds() -> None:
    assert float(local_experts(100, 128, 32)) == 4.0
    assert float(local_experts(126, 128, 8)) == 16.0
    assert local_experts([8.0, 128.0], 128, [[1], [2]]) == pytest.approx(
        np.array([[8.0, 128.0], [4 + 0.57 * math.sqrt(4 * 120 / 128), 64.0]])
    )


def test_all_experts_touched_leave_no_rank_slower_than_another() -> None:
    assert local_experts(128.0, 128, [1, 2, 4, 8, 16, 32]) == pytest.approx(128 / np.array([1, 2, 4, 8, 16, 32]))


def loads(n_experts: object, n_active: object, cv: object) -> tuple[np.ndarray, np.ndarray]:
    experts, active, asked = (np.asarray(value, float) for value in (n_experts, n_active, cv))
    return _load_nodes(active / experts, asked, experts, active)


def test_expert_loads_have_the_mean_and_the_variation_asked_for_also_where_the_busiest_take_every_token() -> None:
    """No load exceeds 1; three of the four rows have experts that every token chooses."""
    experts, active = np.array([128.0, 64.0, 8.0, 8.0]), np.array([8.0, 6.0, 6.0, 2.0])
    cv = np.array([0.5, 2.4, 0.5, 1.2])
    load, weight = loads(experts, active, cv)
    mean = load @ weight
    assert mean == pytest.approx(active / experts, rel=1e-9)
    assert np.sqrt(load**2 @ weight / mean**2 - 1.0) == pytest.approx(cv, rel=1e-9)
    assert (load.max(axis=1) <= 1.0).all()
    assert (load.max(axis=1) == 1.0).tolist() == [False, True, True, True]
    assert (np.diff(load, axis=1) >= 0.0).all()


@pytest.mark.parametrize("n_experts", [2, 8, 32])
def test_no_expert_is_busier_than_the_one_in_the_middle_of_the_last_rank(n_experts: int) -> None:
    """The loads of N experts stand at ranks (i + 1/2)/N, so quantiles beyond 1 - 1/(2N) have that one's load."""
    load, _ = loads(n_experts, 1, 0.3)
    place = np.array([NormalDist().cdf(float(z)) for z in _nodes()[0]])
    outside = place >= 1.0 - 0.5 / n_experts
    edge = NormalDist().inv_cdf(1.0 - 0.5 / n_experts)
    assert 0 < outside.sum() < 12
    assert len(set(load[outside].tolist())) == 1
    slope = math.log(load[20] / load[12]) / float(_nodes()[0][20] - _nodes()[0][12])
    assert math.log(load[-1] / load[16]) == pytest.approx(slope * (edge - float(_nodes()[0][16])), rel=1e-9)


def test_even_loads_are_equal() -> None:
    assert loads(64, 8, 0.0)[0] == pytest.approx(np.full(32, 0.125), rel=1e-12)


def test_the_most_uneven_load_that_k_of_n_can_have_is_the_limit() -> None:
    """2 of 8: two experts that every token chooses have a variation of sqrt(3) = 1.732."""
    assert float(touched_experts(4, 1, 8, 2, math.sqrt(3.0))) >= 2.0
    for cv, n_active in ((1.74, 2), (0.01, 8), (-0.1, 2)):
        with pytest.raises(AdvisorError, match="load_cv"):
            touched_experts(1, 1, 8, n_active, cv)


def test_a_sequence_brings_up_to_512_tokens() -> None:
    assert float(touched_experts(1, 512, 8, 2)) == pytest.approx(8.0)
    for batch, tokens, name in ((1, 513, "tokens_per_sequence"), (1, 0, "tokens_per_sequence"), (math.inf, 1, "batch")):
        with pytest.raises(AdvisorError, match=name):
            touched_experts(batch, tokens, 8, 2)


def test_many_questions_at_once_are_answered_as_each_alone() -> None:
    """5000 batches are more than are computed in one piece."""
    batches = np.arange(1.0, 5001.0)
    many = touched_experts(batches, 4, 128, 8, 0.5, 0.2, 0.1)
    for batch in (1, 77, 5000):
        assert many[batch - 1] == pytest.approx(float(touched_experts(batch, 4, 128, 8, 0.5, 0.2, 0.1)), rel=1e-12)
