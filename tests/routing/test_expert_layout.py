"""Experts on ranks: in order, and balanced with copies, held to a published example and to what must hold of any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.physics.expert_ranks import Layout, balanced, contiguous, skewed_loads
from advisor.prediction import AdvisorError

LOADS = st.lists(st.floats(0.0, 1.0), min_size=16, max_size=16).filter(lambda row: sum(row) > 0.0)

EPLB_LOADS = np.array(
    [
        [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
        [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
    ],
    float,
)
EPLB_SLOTS = np.array(
    [
        [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
        [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
    ]
)
"""The example of deepseek-ai/EPLB's README: 16 slots, 4 groups, 2 nodes, 8 GPUs."""


def published_rank_loads() -> np.ndarray:
    copies = np.array([[np.sum(row == expert) for expert in range(12)] for row in EPLB_SLOTS])
    each = np.take_along_axis(EPLB_LOADS / copies, EPLB_SLOTS, axis=1)
    return each.reshape(2, 8, 2).sum(axis=2)


def test_the_published_example_of_eplb_comes_back() -> None:
    found = balanced(EPLB_LOADS, ranks=8, redundant=4, nodes=2, groups=4)
    published = np.array([[np.sum(row == expert) for expert in range(12)] for row in EPLB_SLOTS])
    assert (found.copies == published).all()
    assert np.sort(found.rank_loads(EPLB_LOADS)) == pytest.approx(np.sort(published_rank_loads()))


def test_groups_of_experts_stay_together_on_a_node() -> None:
    found = balanced(EPLB_LOADS, ranks=8, redundant=4, nodes=2, groups=4)
    for layer in found.expert_of_slot:
        first, second = set(layer[:8] // 3), set(layer[8:] // 3)
        assert not first & second


def test_experts_in_order_lie_in_blocks() -> None:
    found = contiguous(8, 4)
    assert found.rank_of_slot.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    loads = np.array([[1, 2, 3, 4, 5, 6, 7, 8], [8, 0, 0, 0, 0, 0, 0, 0]], float)
    assert found.rank_loads(loads).tolist() == [[3, 7, 11, 15], [8, 0, 0, 0]]


def test_where_ranks_do_not_divide_the_experts_the_first_hold_one_more() -> None:
    assert np.bincount(contiguous(10, 4).rank_of_slot).tolist() == [3, 3, 2, 2]


def test_a_copy_goes_to_the_hottest_expert_and_the_coldest_go_beside_the_hot() -> None:
    # 8 6 1 1 on two ranks, two copies: 8 -> 4 + 4, then 6 -> 3 + 3; packed 4 4 3 3 1 1: 4 3 1 on each.
    found = balanced([[8.0, 6.0, 1.0, 1.0]], ranks=2, redundant=2)
    assert found.copies.tolist() == [[2, 2, 1, 1]]
    assert found.rank_loads([[8.0, 6.0, 1.0, 1.0]]).tolist() == [[8.0, 8.0]]
    assert found.n_redundant == 2


@settings(max_examples=60, deadline=None)
@given(LOADS)
def test_without_copies_each_expert_has_one_place(row: list[float]) -> None:
    found = balanced([row], ranks=4)
    assert sorted(found.expert_of_slot[0].tolist()) == list(range(16))
    assert np.bincount(found.rank_of_slot).tolist() == [4] * 4


@settings(max_examples=60, deadline=None)
@given(LOADS, st.sampled_from([0, 4, 8, 12]))
def test_all_load_is_served_and_slots_are_equal(row: list[float], copies: int) -> None:
    found = balanced([row], ranks=4, redundant=copies)
    assert found.rank_loads([row]).sum() == pytest.approx(sum(row))
    assert np.bincount(found.rank_of_slot).tolist() == [4 + copies // 4] * 4
    assert found.copies.min() >= 1
    for expert, slots in enumerate(found.slot_of[0]):
        assert (found.expert_of_slot[0][slots] == expert).all()


@settings(max_examples=60, deadline=None)
@given(LOADS)
def test_more_copies_never_make_the_hottest_copy_hotter(row: list[float]) -> None:
    hottest = [(np.array(row) / balanced([row], 4, copies).copies[0]).max() for copies in (0, 4, 8, 12)]
    assert (np.diff(hottest) <= 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(LOADS, st.sampled_from([0, 4, 8]))
def test_the_fullest_rank_has_at_most_one_hottest_copy_more_than_the_mean(row: list[float], copies: int) -> None:
    found = balanced([row], 4, copies)
    hottest = (np.array(row) / found.copies[0]).max()
    assert found.rank_loads([row]).max() <= sum(row) / 4 + hottest + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 4, 16]))
def test_equal_loads_give_ranks_that_carry_the_same(copies: int) -> None:
    loads = np.ones((2, 16))
    for found in (contiguous(16, 4), balanced(loads, 4)):
        assert np.ptp(found.rank_loads(loads)) == pytest.approx(0.0)
    assert balanced(loads, 4, 16).rank_loads(loads) == pytest.approx(np.full((2, 4), 4.0))
    assert balanced(loads, 4, copies).rank_loads(loads).max() <= 4.0 + 1.0


def test_more_skew_makes_blocks_more_uneven() -> None:
    def fullest(power: float) -> float:
        loads = np.arange(1, 17)[None] ** power
        return float(contiguous(16, 4).rank_loads(loads).max() / loads.sum() * 4)

    assert (np.diff([fullest(power) for power in (0.0, 0.5, 1.0, 2.0)]) > 0).all()


def test_balancing_beats_blocks_where_neighbours_are_hot() -> None:
    loads = np.array([[8.0, 8.0, 8.0, 8.0, 1.0, 1.0, 1.0, 1.0]])
    assert contiguous(8, 2).rank_loads(loads).max() == 32.0
    assert balanced(loads, 2).rank_loads(loads).max() == 18.0


def test_one_layer_stands_for_all_where_they_are_alike() -> None:
    loads = np.arange(32.0).reshape(4, 8)
    assert contiguous(8, 2).rank_loads(loads).shape == (4, 2)


def test_some_layers_of_a_layout_are_those_layers() -> None:
    loads = skewed_loads(16, 2, 0.8, 5, np.random.default_rng(0))
    whole, some = balanced(loads, 4, 4), np.array([1, 3])
    assert whole.of_layers(some).rank_loads(loads[some]).tolist() == whole.rank_loads(loads)[some].tolist()
    assert contiguous(16, 4).of_layers(some).rank_loads(loads[some]).shape == (2, 4)


@pytest.mark.parametrize("case", range(40))
def test_a_copy_for_each_rank_does_not_make_the_fullest_rank_fuller_beyond_the_packing_s_roughness(
    case: int,
) -> None:
    rng = np.random.default_rng(case)
    loads = skewed_loads(256, 8, float(rng.uniform(0.1, 1.5)), 1, rng)
    ranks = int(rng.choice([8, 16, 32, 64]))
    without, with_copies = (balanced(loads, ranks, copies).rank_loads(loads).max() for copies in (0, ranks))
    assert with_copies <= without * 1.002


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: contiguous(4, 8), "choose 1 to 4 ranks"),
        (lambda: balanced(np.ones((1, 8)), 4, 3), "choose 0, 4 or 8 copies"),
        (lambda: balanced(np.ones((1, 8)), 4, -4), "copies do not fill"),
        (lambda: balanced(np.ones((1, 8)), 4, 0, nodes=3), "a divisor of 4"),
        (lambda: balanced(np.ones((1, 8)), 4, 0, groups=3), "do not make 3 groups"),
        (lambda: balanced(np.ones((1, 8)), 4, 0, nodes=4, groups=4), None),
        (lambda: balanced(np.ones((1, 9)), 5, 1, nodes=5, groups=9), None),
    ],
)
def test_what_cannot_be_placed_is_refused_with_what_to_do(call: object, says: str | None) -> None:
    if says is None:
        assert isinstance(call(), Layout)  # type: ignore[operator]
        return
    with pytest.raises(AdvisorError, match=says):
        call()  # type: ignore[operator]
