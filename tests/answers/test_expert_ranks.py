"""Experts on ranks: the assumption left as it is, planted traces that must show, exchange by hand,
attention groups."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer, ranks_answer
from advisor.physics.expert_loads import traffic_of_loads, traffic_of_preset, traffic_of_trace
from advisor.physics.expert_ranks import drawn_choices
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.words.expert_ranks import exchange_text, notes, verdict
from tests.physics.test_expert_loads import ON_RANKS

RNG = np.random.default_rng


def setup_of(**values: object) -> Setup:
    given = {"drafter_id": "eagle3", "acceptance": "2.4@3", "k_max": 3, "batch_size": 32}
    return load_setup(build_scenario(**ON_RANKS | given | values))


@pytest.fixture(scope="module")
def found() -> RanksAnswer:
    setup = setup_of()
    return ranks_answer(
        setup, traffic_of_preset(setup.router, RNG(0)), LayoutOptions(redundant=(0, 8))
    )


def block_loads(hot: float) -> np.ndarray:
    """Loads of two layers whose first 16 experts, one rank's, are `hot` times as popular as the
    others."""
    return np.repeat(np.r_[np.full(16, hot), np.ones(112)][None], 2, axis=0)


def hot_block(hot: float, **values: object) -> RanksAnswer:
    setup = setup_of(**values)
    return ranks_answer(
        setup, traffic_of_loads(block_loads(hot), setup.router), LayoutOptions(redundant=(0,))
    )


def test_without_counts_the_prediction_is_the_curve_s(found: RanksAnswer) -> None:
    curve = curve_for(found.setup, [32])
    assert (found.assumed.curve.speedup == curve.speedup).all()
    assert (found.assumed.curve.round_s == curve.round_s).all()


def test_counts_change_the_routed_experts_and_the_exchange_alone(found: RanksAnswer) -> None:
    before, after = (arm.curve.round_components for arm in found.arms[:2])
    changed = {name for name in before if not np.allclose(before[name], after[name], rtol=1e-12)}
    # The last two are shares of the step.
    assert changed == {"routed", "communication", "verified", "verify_tokens"}


def test_equal_loads_without_correlation_leave_the_assumption_within_three_percent() -> None:
    setup = setup_of(routing="uniform")
    answer = ranks_answer(setup, traffic_of_loads(np.ones((8, 128)), setup.router), LayoutOptions())
    assert answer.in_order.touched == pytest.approx(answer.assumed.touched, rel=0.03)
    assert answer.in_order.curve.plain_step_s == pytest.approx(
        answer.assumed.curve.plain_step_s, rel=0.03
    )


def test_a_hot_block_is_found_and_balancing_spreads_it() -> None:
    calm = hot_block(1.0)
    hot = hot_block(6.0)
    # 16 x 6 of 16 x 6 + 112 parts fall on the first of eight ranks.
    assert hot.in_order.pairs_ratio[-1] == pytest.approx(8 * 96 / 208, rel=0.05)
    assert calm.in_order.pairs_ratio[-1] < 1.35
    assert hot.arms[2].pairs_ratio[-1] < 1.35
    assert hot.best.name == "balanced"


def test_a_balanced_layout_planned_on_other_traffic_is_judged_on_its_own() -> None:
    # The halves of this trace have different hot experts: what one half plans does not help the
    # other.
    def half(first: int) -> list[np.ndarray]:
        hot = np.ones((2, 128))
        hot[:, first : first + 16] = 8.0
        loads = hot / hot.sum(axis=1, keepdims=True) * 8
        return list(drawn_choices(loads, 8, 8, 32, RNG(first)))

    setup = setup_of()
    (a, b) = (half(0), half(64))
    drifting = traffic_of_trace([one for pair in zip(a, b, strict=True) for one in pair], 128, 4)
    steady = traffic_of_trace([*a, *half(0)], 128, 4)
    placing = LayoutOptions(redundant=(0,))
    away = ranks_answer(setup, drifting, placing).arms[2]
    home = ranks_answer(setup, steady, placing).arms[2]
    assert home.pairs_ratio[-1] < 1.5
    assert away.pairs_ratio[-1] > 1.2 * home.pairs_ratio[-1]


def test_copies_are_charged_for_the_weights_that_they_hold_and_read(found: RanksAnswer) -> None:
    copies = found.arms[3]
    assert copies.redundant == 8
    moe = found.setup.architecture.moe
    assert moe is not None
    assert copies.extra_bytes == pytest.approx(
        48 * 3 * 2048 * 768 * 2
    )  # one expert on each rank, in bf16
    assert (copies.touched >= found.arms[2].touched).all()


def test_the_best_layout_is_one_that_fits_in_memory() -> None:
    hot = hot_block(6.0)
    assert hot.best is hot.arms[2]
    memory = hot.setup.memory
    too_much = dataclasses.replace(hot.arms[2], extra_bytes=float(memory.usable_bytes))
    crowded = dataclasses.replace(hot, arms=(*hot.arms[:2], too_much))
    assert crowded.quickest is too_much
    assert crowded.best is crowded.in_order
    assert "No balanced layout that was tried and fits in memory is quicker." in verdict(crowded)


def test_bytes_of_an_exchange_are_what_a_hand_counts() -> None:
    # Eight groups of one rank. Everybody's eight experts lie on rank 0, whose own eighth of the
    # tokens stays there.
    setup = setup_of(batch_size=64, drafter_id="none")
    sequences = [np.tile(np.arange(8), (40, 2, 1)) for _ in range(4)]
    for at, ids in enumerate(sequences):
        ids[::2, :, 7] = 8 + at % 2  # a trace that never varies is no trace
    answer = ranks_answer(setup, traffic_of_trace(sequences, 128, 1), LayoutOptions())
    low, normal, gather = answer.moved
    assert low.combine[0] == pytest.approx(56 * 8 * 2048 * 2)
    assert low.dispatch[0] == pytest.approx(56 * 8 * (2048 * 1.03125 + 16))
    assert normal.combine[0] == pytest.approx(56 * 2048 * 2)
    assert gather.dispatch[0] == gather.combine[0] == pytest.approx(7 * 8 * 2048 * 2)
    assert low.per_token[0] == pytest.approx(48 * (low.dispatch[0] + low.combine[0]) / 64)


def test_a_step_of_k_drafts_moves_k_plus_one_times_a_plain_one_s_bytes(found: RanksAnswer) -> None:
    gather = found.moved[2]
    assert gather.dispatch == pytest.approx(gather.dispatch[0] * (gather.drafts + 1))
    low = found.moved[0]
    assert low.per_token == pytest.approx(
        low.per_token[0] * (low.drafts + 1) / found.in_order.curve.accepted_length, rel=0.02
    )


@pytest.mark.parametrize(
    ("values", "copies", "says"),
    [
        ({"expert_parallel": 1}, (), "give --ep"),
        ({}, (3,), "choose 0, 8 or 16 copies"),
        ({"model_id": "command-a", "expert_parallel": 1}, (), "is dense"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    values: dict[str, object], copies: tuple[int, ...], says: str
) -> None:
    setup = setup_of(**values)
    with pytest.raises(AdvisorError, match=says):
        ranks_answer(
            setup, traffic_of_preset(setup.router, RNG(0)), LayoutOptions(redundant=copies)
        )


def test_beyond_one_node_it_is_said_what_the_exchange_holds_and_whose_nodes_were_counted() -> None:
    def told(hardware_id: str, given: int | None) -> tuple[str, str, float]:
        setup = setup_of(hardware_id=hardware_id, expert_parallel=16, n_gpus=16)
        placing = LayoutOptions((0,), ranks_per_node=given)
        answer = ranks_answer(setup, traffic_of_loads(np.ones((2, 128)), setup.router), placing)
        return exchange_text(answer), " ".join(notes(answer)), float(answer.counts.other_nodes[0])

    text, said, others = told("h200-sxm", None)
    # 2 sequences of 4 tokens on each rank at K = 3, 8 choices of 2,048 numbers in 16 bits, half of
    # them to either side.
    assert "is the longer of that of 0.13 MB over the links inside a node" in text
    assert "and that of 0.13 MB over the network between nodes, 50% of the messages" in text
    assert text.endswith("at 47 GB/s a GPU after 8 us; bytes times the fullest rank's share.")
    assert "Nodes of" not in said
    assert others == pytest.approx(1.0, abs=0.02), "of 8 choices some lie on the one other node"
    text, said, others = told("gb200", None)
    assert "network" not in text
    assert others == 0.0
    text, said, others = told("gb200", 4)
    assert "Nodes of 4 place the experts" in said
    assert "nodes of 72, the accelerator's own" in said
    assert others > 1.0
