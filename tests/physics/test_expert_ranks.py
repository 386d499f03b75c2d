"""Experts on ranks: in order, and balanced with copies, held to a published example and to what
must hold of any.

What ranks do in a step, by hand on planted traces; draws against the loads and the law they follow.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.physics.expert_ranks import (
    RankBalance,
    Sources,
    balanced,
    contiguous,
    drawn_choices,
    expert_loads,
    rank_counts,
    skewed_loads,
    windows,
)
from advisor.physics.touched_experts import local_experts, touched_experts
from advisor.prediction import AdvisorError
from advisor.profiling.routing_draw import fitted_loads

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


def test_the_published_example_of_eplb_comes_back_with_groups_of_experts_together_on_a_node() -> (
    None
):
    found = balanced(EPLB_LOADS, ranks=8, redundant=4, nodes=2, groups=4)
    published = np.array([[np.sum(row == expert) for expert in range(12)] for row in EPLB_SLOTS])
    assert (found.copies == published).all()
    rank_loads = (
        np.take_along_axis(EPLB_LOADS / published, EPLB_SLOTS, axis=1).reshape(2, 8, 2).sum(axis=2)
    )
    assert np.sort(found.rank_loads(EPLB_LOADS)) == pytest.approx(np.sort(rank_loads))
    for layer in found.expert_of_slot:
        first = set(layer[:8] // 3)
        second = set(layer[8:] // 3)
        assert not first & second


def test_experts_in_order_lie_in_blocks() -> None:
    found = contiguous(8, 4)
    assert found.rank_of_slot.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    loads = np.array([[1, 2, 3, 4, 5, 6, 7, 8], [8, 0, 0, 0, 0, 0, 0, 0]], float)
    assert found.rank_loads(loads).tolist() == [[3, 7, 11, 15], [8, 0, 0, 0]]
    assert np.bincount(contiguous(10, 4).rank_of_slot).tolist() == [3, 3, 2, 2], (
        "the first hold one more"
    )


def test_a_copy_goes_to_the_hottest_expert_and_the_coldest_go_beside_the_hot() -> None:
    # 8 6 1 1 on two ranks, two copies: 8 -> 4 + 4, then 6 -> 3 + 3; packed 4 4 3 3 1 1: 4 3 1 on
    # each.
    found = balanced([[8.0, 6.0, 1.0, 1.0]], ranks=2, redundant=2)
    assert found.copies.tolist() == [[2, 2, 1, 1]]
    assert found.rank_loads([[8.0, 6.0, 1.0, 1.0]]).tolist() == [[8.0, 8.0]]
    assert found.n_slots == 4 + 2
    loads = np.array([[8.0, 8.0, 8.0, 8.0, 1.0, 1.0, 1.0, 1.0]])
    assert contiguous(8, 2).rank_loads(loads).max() == 32.0
    assert balanced(loads, 2).rank_loads(loads).max() == 18.0


@settings(max_examples=60)
@given(LOADS, st.sampled_from([0, 4, 8, 12]))
def test_all_load_is_served_and_slots_are_equal(row: list[float], copies: int) -> None:
    found = balanced([row], ranks=4, redundant=copies)
    assert found.rank_loads([row]).sum() == pytest.approx(sum(row))
    assert np.bincount(found.rank_of_slot).tolist() == [4 + copies // 4] * 4
    assert found.copies.min() >= 1
    for expert, slots in enumerate(found.slot_of[0]):
        assert (found.expert_of_slot[0][slots] == expert).all()
    hottest = [
        (np.array(row) / balanced([row], 4, more).copies[0]).max() for more in (copies, copies + 4)
    ]
    assert hottest[1] <= hottest[0] + 1e-12, "more copies never make the hottest hotter"
    assert found.rank_loads([row]).max() <= sum(row) / 4 + hottest[0] + 1e-9


@settings(max_examples=60)
@given(st.sampled_from([0, 4, 16]))
def test_equal_loads_give_ranks_that_carry_the_same(copies: int) -> None:
    loads = np.ones((2, 16))
    for found in (contiguous(16, 4), balanced(loads, 4)):
        assert np.ptp(found.rank_loads(loads)) == pytest.approx(0.0)
    assert balanced(loads, 4, 16).rank_loads(loads) == pytest.approx(np.full((2, 4), 4.0))
    assert balanced(loads, 4, copies).rank_loads(loads).max() <= 4.0 + 1.0


def test_some_layers_of_a_layout_are_those_layers() -> None:
    loads = skewed_loads(16, 2, 0.8, 5, np.random.default_rng(0))
    whole = balanced(loads, 4, 4)
    some = np.array([1, 3])
    assert (
        whole.of_layers(some).rank_loads(loads[some]).tolist()
        == whole.rank_loads(loads)[some].tolist()
    )
    assert contiguous(16, 4).of_layers(some).rank_loads(loads[some]).shape == (2, 4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: contiguous(4, 8), "choose 1 to 4 ranks"),
        (lambda: contiguous(4, 1), None),
        (lambda: contiguous(4, 4), None),
        (lambda: balanced(np.ones((1, 9)), 9), None),
        (lambda: balanced(np.ones((1, 9)), 1), None),
        (lambda: balanced(np.ones((1, 9)), 0), "choose 0, 0 or 0 copies"),
        (lambda: balanced(np.ones((1, 9)), 4), "choose 3, 7 or 11 copies"),
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
        assert call().n_ranks == call().rank_of_slot.max() + 1  # type: ignore[operator]
        return
    with pytest.raises(AdvisorError, match=says):
        call()  # type: ignore[operator]


RNG = np.random.default_rng


def ids(*tokens: list[int]) -> np.ndarray:
    """One sequence of one layer: [1, t, 1, k]."""
    return np.array(tokens)[None, :, None, :]


def test_a_planted_trace_on_two_ranks_is_counted_as_by_hand() -> None:
    # Experts 0-3 on rank 0, 4-7 on rank 1. Tokens: {0, 1}, {0, 4}, {5, 4}.
    found = rank_counts(ids([0, 1], [0, 4], [5, 4]), contiguous(8, 2), RNG(0))
    assert found.touched[:, 0].tolist() == [[2, 0], [2, 1], [2, 2]]
    assert found.pairs[:, 0].tolist() == [[2, 0], [3, 1], [3, 3]]
    assert found.touched_overall[:, 0].tolist() == [2, 3, 4]
    twice = rank_counts(
        np.repeat(ids([0, 1], [0, 4], [5, 4]), 2, axis=0), contiguous(8, 2), RNG(0), Sources(1, 8)
    )
    for one in (found, twice):
        assert one.reached[:, 0] == pytest.approx([1.0, 1.5, 4 / 3])
    assert Sources() == Sources(1, 8)


def test_messages_to_other_ranks_are_counted_by_expert() -> None:
    # Two attention groups: sequence 0 starts on rank 0, sequence 1 on rank 1; both choose experts 4
    # and 5, of rank 1.
    chosen = np.array([[[[4, 5]]], [[[4, 5]]]])
    found = rank_counts(chosen, contiguous(8, 2), RNG(0), Sources(groups=2))
    assert found.received_pairs[0, 0].tolist() == [
        0,
        2,
    ]  # sequence 0 sends a message for each expert
    assert found.received_tokens[0, 0].tolist() == [0, 1]  # or one for the rank
    assert found.other_rank[0, 0] == pytest.approx(0.5)
    # One group of two ranks: tokens 0 and 1 of the one sequence start on ranks 0 and 1, both want
    # rank 0's expert.
    found = rank_counts(ids([0], [0]), contiguous(4, 2), RNG(0), Sources(groups=1))
    assert found.received_pairs[:, 0].tolist() == [[0, 0], [1, 0]]
    # Two groups of two ranks: the third sequence goes on round the ranks where the first one's
    # three tokens ended.
    home = np.array([[0, 2, 0], [4, 6, 4], [2, 0, 2]])[..., None, None]
    assert not rank_counts(home, contiguous(8, 4), RNG(0), Sources(groups=2)).other_rank.any()


def test_other_nodes_are_counted_once_a_token() -> None:
    # Four ranks, two to a node; the token starts on rank 0 and goes to ranks 2, 3 (other node) and
    # 1 (its own).
    found = rank_counts(
        ids([2, 4, 6]), contiguous(8, 4), RNG(0), Sources(groups=4, ranks_per_node=2)
    )
    assert found.other_nodes[0, 0] == 1.0
    assert found.received_tokens[0, 0].tolist() == [0, 1, 1, 1]


def test_choices_of_an_expert_with_copies_go_to_both() -> None:
    hot = np.zeros((400, 1, 1, 1), int)
    layout = balanced([[9.0, 1.0, 1.0, 1.0]], 2, 2)
    assert layout.copies[0, 0] >= 2
    found = rank_counts(hot, layout, RNG(3))
    served = found.pairs[0, 0]
    share = layout.rank_loads([[1.0, 0.0, 0.0, 0.0]])[0]
    assert served / 400 == pytest.approx(share, abs=0.1)
    assert rank_counts(hot, contiguous(4, 2), RNG(3)).pairs[0, 0].tolist() == [400, 0]


def test_copies_of_a_planted_hot_expert_relieve_the_fullest_rank_and_add_experts_to_read() -> None:
    loads = fitted_loads(np.r_[20.0, np.ones(31)][None], 4)
    chosen = drawn_choices(loads, 4, 64, 2, RNG(1))
    fullest = []
    read = []
    for copies in (0, 8, 16):
        found = rank_counts(chosen, balanced(loads, 8, copies), RNG(2))
        fullest.append(found.pairs[-1, 0].max())
        read.append(found.touched[-1, 0].max())
    assert fullest[1] < 0.6 * fullest[0]
    assert read[0] < read[1] < read[2]


def test_draws_follow_their_loads_and_never_repeat_an_expert_in_a_token() -> None:
    loads = skewed_loads(32, 4, 0.7, 3, RNG(0))
    chosen = drawn_choices(loads, 4, 4000, 1, RNG(1))
    assert expert_loads(list(chosen), 32) == pytest.approx(loads, abs=0.04)
    ordered = np.sort(chosen, axis=-1)
    assert (ordered[..., 1:] > ordered[..., :-1]).all()


def test_loads_have_the_spread_that_was_asked_and_fit_k_below_one_each() -> None:
    loads = skewed_loads(128, 8, 0.9, 2, RNG(0))
    assert loads.sum(axis=1) == pytest.approx([8.0, 8.0])
    assert loads.std(axis=1) / loads.mean(axis=1) == pytest.approx([0.9, 0.9], rel=1e-6)
    assert fitted_loads([[100.0, 1.0, 1.0]], 2).tolist() == [[1.0, 0.5, 0.5]]
    assert fitted_loads([[1.0, 1.0, 2.0]], 1).tolist() == [[0.25, 0.25, 0.5]]


@pytest.mark.parametrize(
    ("cv", "phi", "rho"), [(0.0, 0.0, 0.0), (0.5, 0.16, 0.25), (0.9, 0.08, 0.31)]
)
def test_steps_that_are_drawn_touch_as_many_experts_as_the_law_says(
    cv: float, phi: float, rho: float
) -> None:
    loads = skewed_loads(128, 8, cv, 8, RNG(0))
    counted = np.mean(
        [
            rank_counts(
                drawn_choices(loads, 8, 16, 4, RNG(seed), phi, rho), contiguous(128, 8), RNG(1)
            ).touched_overall
            for seed in range(12)
        ],
        axis=(0, 2),
    )
    assert counted == pytest.approx(
        touched_experts(16, np.arange(1, 5), 128, 8, cv, phi, rho), rel=0.03
    )


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_the_assumed_slowest_rank_holds_for_the_experts_read_where_hot_experts_lie_by_chance(
    ranks: int,
) -> None:
    loads = skewed_loads(256, 8, 0.9, 16, RNG(5))
    counts = [
        rank_counts(
            drawn_choices(loads, 8, 16, 2, RNG(seed), 0.08, 0.3), contiguous(256, ranks), RNG(1)
        )
        for seed in range(12)
    ]
    slowest = np.mean([one.touched.max(axis=2).mean(axis=1) for one in counts], axis=0)
    touched_overall = np.mean([one.touched_overall.mean(axis=1) for one in counts], axis=0)
    assert local_experts(touched_overall, 256, ranks) == pytest.approx(slowest, rel=0.06)


def test_windows_are_consecutive_tokens_of_different_sequences_and_no_longer() -> None:
    sequences = [np.arange(10)[:, None, None] + 100 * row for row in range(4)]
    found = windows(sequences, 4, 3, RNG(0))[..., 0, 0]
    assert (np.diff(found, axis=1) == 1).all()
    assert len(set((found[:, 0] // 100).tolist())) == 4
    assert [len(windows(sequences, 9, tokens, RNG(0))) for tokens in (3, 10)] == [9, 9]
    with pytest.raises(AdvisorError, match="no sequence of the trace has 11 tokens"):
        windows(sequences, 1, 11, RNG(0))


def test_a_balance_is_read_between_its_batches_in_the_logarithm() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0], [9.0, 8.0]])
    found = RankBalance(np.array([4.0, 16.0, 64.0]), table[None], table[None], table, 8.0)
    assert found.at(8, 1)[0].touched == pytest.approx(2.0)
    assert found.at([[1.0], [256.0]], [1, 2])[0].pairs.tolist() == [[1.0, 2.0], [9.0, 8.0]]
    assert found.at(16, 9)[0].received == pytest.approx(4.0)


@pytest.mark.parametrize("affinity", [0.0, 0.1])
def test_sequences_differ_and_each_expert_keeps_its_share(affinity: float) -> None:
    """A beta distribution's mean is the load, up to what making each row sum to k moves."""
    loads = np.array([[0.9, 0.6, 0.25, 0.15, 0.06, 0.04]])
    chosen = drawn_choices(loads, 2, 20_000, 2, RNG(2), affinity=affinity)
    counts = np.stack(
        [(chosen[:, :, 0] == expert).sum(axis=2) for expert in range(6)], axis=-1
    )  # [B, t, N]
    assert counts.max() == 1, "k different experts"
    assert counts.mean(axis=(0, 1)) == pytest.approx(loads[0], abs=0.02 if affinity else 0.01)
    both = (counts[:, 0] & counts[:, 1]).mean(axis=0)
    own = (both / loads[0] - loads[0]) / (1.0 - loads[0])  # correlation of two tokens of a sequence
    assert own[1:4] == pytest.approx(affinity, abs=0.04)
