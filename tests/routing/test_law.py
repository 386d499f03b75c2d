"""Distinct experts by hand: a whole step, the slowest of several ranks, what unrelated tokens share."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from advisor.routing.law import local_experts


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
