"""What ranks do in a step, by hand on planted traces; draws against the loads and the law they follow."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.physics.expert_ranks import (
    RankBalance,
    Sources,
    balanced,
    contiguous,
    drawn_choices,
    expert_loads,
    fitted_loads,
    heated,
    rank_counts,
    skewed_loads,
    windows,
)
from advisor.physics.touched_experts import local_experts, touched_experts
from advisor.prediction import AdvisorError

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
    assert found.reached[:, 0] == pytest.approx([1.0, 1.5, 4 / 3])


def test_messages_to_other_ranks_are_counted_by_expert_and_by_rank() -> None:
    # Two attention groups: sequence 0 starts on rank 0, sequence 1 on rank 1; both choose experts 4 and 5, of rank 1.
    chosen = np.array([[[[4, 5]]], [[[4, 5]]]])
    found = rank_counts(chosen, contiguous(8, 2), RNG(0), Sources(groups=2))
    assert found.received_pairs[0, 0].tolist() == [0, 2]  # sequence 0 sends a message for each expert
    assert found.received_tokens[0, 0].tolist() == [0, 1]  # or one for the rank
    assert found.other_rank[0, 0] == pytest.approx(0.5)


def test_tokens_of_a_group_are_spread_over_its_ranks_before_they_are_sent() -> None:
    # One group of two ranks: tokens 0 and 1 of the one sequence start on ranks 0 and 1, both want rank 0's expert.
    found = rank_counts(ids([0], [0]), contiguous(4, 2), RNG(0), Sources(groups=1))
    assert found.received_pairs[:, 0].tolist() == [[0, 0], [1, 0]]


def test_other_nodes_are_counted_once_a_token() -> None:
    # Four ranks, two to a node; the token starts on rank 0 and goes to ranks 2, 3 (other node) and 1 (its own).
    found = rank_counts(ids([2, 4, 6]), contiguous(8, 4), RNG(0), Sources(groups=4, ranks_per_node=2))
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
    fullest, read = [], []
    for copies in (0, 8, 16):
        found = rank_counts(chosen, balanced(loads, 8, copies), RNG(2))
        fullest.append(found.pairs[-1, 0].max())
        read.append(found.touched[-1, 0].max())
    assert fullest[1] < 0.6 * fullest[0]
    assert read[0] < read[1] < read[2]


def test_without_copies_a_balanced_layout_reads_what_there_is() -> None:
    loads = skewed_loads(32, 4, 0.8, 2, RNG(0))
    chosen = drawn_choices(loads, 4, 8, 3, RNG(1))
    found = rank_counts(chosen, balanced(loads, 4), RNG(2))
    assert found.touched.sum(axis=2) == pytest.approx(found.touched_overall)
    assert found.pairs.sum(axis=2)[:, 0].tolist() == [32, 64, 96]


def test_draws_follow_their_loads_and_never_repeat_an_expert_in_a_token() -> None:
    loads = skewed_loads(32, 4, 0.7, 3, RNG(0))
    chosen = drawn_choices(loads, 4, 4000, 1, RNG(1))
    assert expert_loads(list(chosen), 32) == pytest.approx(loads, abs=0.04)
    ordered = np.sort(chosen, axis=-1)
    assert (ordered[..., 1:] > ordered[..., :-1]).all()


def test_loads_have_the_spread_that_was_asked() -> None:
    loads = skewed_loads(128, 8, 0.9, 2, RNG(0))
    assert loads.sum(axis=1) == pytest.approx([8.0, 8.0])
    assert loads.std(axis=1) / loads.mean(axis=1) == pytest.approx([0.9, 0.9], rel=1e-6)


def test_loads_are_scaled_to_k_and_capped_at_one() -> None:
    assert fitted_loads([[100.0, 1.0, 1.0]], 2).tolist() == [[1.0, 0.5, 0.5]]
    assert fitted_loads([[1.0, 1.0, 2.0]], 1).tolist() == [[0.25, 0.25, 0.5]]


@pytest.mark.parametrize(("cv", "phi", "rho"), [(0.0, 0.0, 0.0), (0.5, 0.16, 0.25), (0.9, 0.08, 0.31)])
def test_steps_that_are_drawn_touch_as_many_experts_as_the_law_says(cv: float, phi: float, rho: float) -> None:
    loads = skewed_loads(128, 8, cv, 8, RNG(0))
    counted = np.mean(
        [
            rank_counts(drawn_choices(loads, 8, 16, 4, RNG(seed), phi, rho), contiguous(128, 8), RNG(1)).touched_overall
            for seed in range(12)
        ],
        axis=(0, 2),
    )
    assert counted == pytest.approx(touched_experts(16, np.arange(1, 5), 128, 8, cv, phi, rho), rel=0.03)


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_the_assumed_slowest_rank_holds_for_the_experts_read_where_hot_experts_lie_by_chance(ranks: int) -> None:
    loads = skewed_loads(256, 8, 0.9, 16, RNG(5))
    counts = [
        rank_counts(drawn_choices(loads, 8, 16, 2, RNG(seed), 0.08, 0.3), contiguous(256, ranks), RNG(1))
        for seed in range(12)
    ]
    slowest = np.mean([one.touched.max(axis=2).mean(axis=1) for one in counts], axis=0)
    touched_overall = np.mean([one.touched_overall.mean(axis=1) for one in counts], axis=0)
    assert local_experts(touched_overall, 256, ranks) == pytest.approx(slowest, rel=0.06)


def test_heating_raises_the_hottest_expert_by_as_much_and_takes_it_from_the_others_alike() -> None:
    order = RNG(0).permuted(np.tile(np.arange(10), (20000, 1)), axis=1)
    chosen = order[:, None, None, :2]
    before = expert_loads(list(chosen), 10)
    after = expert_loads(list(heated(chosen, [0], 0.5, RNG(1))), 10)
    assert after[0, 0] / before[0, 0] == pytest.approx(1.5, rel=0.03)
    assert after.sum() == pytest.approx(2.0)
    assert (after[0, 1:] / before[0, 1:]).std() < 0.02
    ordered = np.sort(heated(chosen, [0], 0.5, RNG(1)), axis=-1)
    assert (ordered[..., 1:] > ordered[..., :-1]).all()


def test_a_little_heat_converts_a_part_of_the_tokens_that_much_heat_does() -> None:
    chosen = drawn_choices(np.full((2, 10), 0.2), 2, 500, 3, RNG(0))
    little, much = (heated(chosen, [0, 3], more, RNG(7)) for more in (0.1, 0.5))
    assert ((little != chosen) <= (much != chosen)).all()
    assert (heated(chosen, [0, 3], 0.0, RNG(7)) == chosen).all()


def test_windows_are_consecutive_tokens_of_different_sequences() -> None:
    sequences = [np.arange(10)[:, None, None] + 100 * row for row in range(4)]
    found = windows(sequences, 4, 3, RNG(0))[..., 0, 0]
    assert (np.diff(found, axis=1) == 1).all()
    assert len(set((found[:, 0] // 100).tolist())) == 4
    assert len(windows(sequences, 9, 3, RNG(0))) == 9


def test_a_trace_shorter_than_a_step_is_refused() -> None:
    with pytest.raises(AdvisorError, match="no sequence of the trace has 5 tokens"):
        windows([np.zeros((4, 1, 2), int)], 1, 5, RNG(0))


def test_a_balance_is_read_between_its_batches_in_the_logarithm() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = RankBalance(np.array([4.0, 16.0]), table[None], table[None], table, 8.0)
    assert found.at(8, 1)[0].touched == pytest.approx(2.0)
    assert found.at([[1.0], [64.0]], [1, 2])[0].pairs.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.at(16, 9)[0].received == pytest.approx(4.0)


def test_a_balance_of_one_batch_holds_everywhere() -> None:
    one = np.array([[1.5, 1.25]])
    balance = RankBalance(np.array([16.0]), one[None], one[None], one, 8.0)
    assert balance.at([1.0, 512.0], 2)[0].touched.tolist() == [1.25, 1.25]
