"""What is placed for: traces in halves, loads as files, and a preset's spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.physics.expert_loads import (
    Counted,
    Steps,
    Traffic,
    by_weight,
    counted,
    traffic_of_loads,
    traffic_of_preset,
    traffic_of_trace,
)
from advisor.physics.expert_ranks import (
    Sources,
    contiguous,
    drawn_choices,
    expert_loads,
    rank_counts,
    skewed_loads,
)
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario, read_loads
from advisor.prediction import AdvisorError
from tests.measured.test_ingest_traces import npy

ON_RANKS = {
    "hardware_id": "h200-sxm",
    "model_id": "qwen3-30b-a3b",
    "expert_parallel": 8,
    "n_gpus": 8,
}
SETUP = load_setup(build_scenario(**ON_RANKS, drafter_id="none", acceptance="0"))


def trace(sequences: int, tokens: int = 32, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return list(
        drawn_choices(skewed_loads(128, 8, 0.5, 3, rng), 8, sequences, tokens, rng, 0.1, 0.2)
    )


def test_a_trace_is_planned_on_one_half_and_judged_on_the_other() -> None:
    sequences = trace(6)
    folds = traffic_of_trace(sequences, 128, 9).folds()
    assert len(folds) == 2
    for (loads, judged), own in zip(folds, (sequences[::2], sequences[1::2]), strict=True):
        assert loads == pytest.approx(expert_loads(own, 128))
        assert not {id(one) for one in judged} & {id(one) for one in own}
        assert all(any((a.shape == b.shape) and (a == b).all() for b in sequences) for a in judged)
        assert not any((a == b).all() for a in judged for b in own)


def test_a_trace_of_three_sequences_says_that_it_judges_where_it_planned() -> None:
    found = traffic_of_trace(trace(3), 128, 9)
    assert len(found.folds()) == 1
    assert found.notes[-1].kind == "trace_not_halved"


def test_a_trace_gives_the_scenario_its_routing() -> None:
    found = traffic_of_trace(trace(12, 64), 128, 9)
    cv, phi, rho = (float(group.split("/")[0]) for group in found.routing.split(","))
    assert cv == pytest.approx(0.5, abs=0.1)
    assert (phi, rho) == pytest.approx((0.1, 0.2), abs=0.06)


def test_a_trace_too_short_for_a_step_is_refused() -> None:
    with pytest.raises(AdvisorError, match="40 tokens, as many as a step verifies"):
        traffic_of_trace(trace(4), 128, 40)
    assert len(traffic_of_trace(trace(4), 128, 32).folds()) == 2, "32 tokens are just enough"


def test_a_rank_s_time_goes_by_its_choices_over_the_mean_rank_s_at_each_length() -> None:
    layer = SETUP.routed_layer
    layout = contiguous(128, 8)
    rng = np.random.default_rng
    chosen = drawn_choices(skewed_loads(128, 8, 0.5, 2, rng(0)), 8, 4, 3, rng(1))
    whole = rank_counts(chosen[:, :3], layout, rng(2))
    first = rank_counts(chosen[:, :1], layout, rng(2))
    seconds = layer.rank_seconds(layout, whole, 4)
    assert seconds[:, :1] == pytest.approx(layer.rank_seconds(layout, first, 4))
    assert seconds == pytest.approx(
        layer.rank_seconds(layout, replace(whole, pairs=2 * whole.pairs), 4)
    )


def test_loads_of_the_user_keep_their_proportions() -> None:
    counts = np.ones((2, 128))
    counts[0, 5] = 3.0
    found = traffic_of_loads(counts / 1e6, SETUP.router)  # any unit
    assert found.loads.sum(axis=1) == pytest.approx([8.0, 8.0])
    assert found.loads[0, 5] == pytest.approx(3.0 * found.loads[0, 6])
    assert found.correlation == SETUP.routing_parameters()[1:]


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (np.ones((2, 64)), r"expected \[layers, 128\]"),
        (np.full((1, 128), -1.0), "numbers >= 0"),
        (np.full((1, 128), np.nan), "numbers >= 0"),
        (np.zeros((1, 128)), "some load in every layer"),
    ],
)
def test_loads_that_cannot_be_are_refused(counts: np.ndarray, says: str) -> None:
    with pytest.raises(AdvisorError, match=says):
        traffic_of_loads(counts, SETUP.router)


def test_without_a_trace_the_spread_is_the_preset_s_and_called_assumed() -> None:
    found = traffic_of_preset(SETUP.router, np.random.default_rng(0))
    assert found.loads.std() / found.loads.mean() == pytest.approx(
        SETUP.routing.load_cv.value, rel=1e-3
    )
    assert found.because.startswith("assumed")


def test_a_spread_wider_than_k_of_n_experts_can_have_is_drawn_at_its_limit() -> None:
    # Loads of 4 in 8 experts lie between 0 and 1, so that they vary by sqrt(8 / 4 - 1) at most.
    four = replace(
        SETUP.router,
        moe=SETUP.router.moe.model_copy(update={"n_experts": 8, "n_active": 4}),
        spread=(3.0, 0.0, 0.0),
    )
    loads = traffic_of_preset(four, np.random.default_rng(0)).loads
    assert loads.max() <= 1.0
    assert loads.std() / loads.mean() == pytest.approx(0.98, rel=0.01)


def test_a_csv_and_an_array_give_the_same_loads() -> None:
    loads = np.array([[1.0, 2.0, 0.0], [4.0, 0.5, 3.0]])
    lines = ["layer,expert,tokens"]
    lines += [
        f"{layer + 3},{expert},{value}"
        for (layer, expert), value in np.ndenumerate(loads)
        if value or expert
    ]
    assert read_loads("a.csv", "\n".join(lines).encode()).tolist() == loads.tolist()
    assert read_loads("a.npy", npy(loads)).tolist() == loads.tolist()


def test_a_csv_without_the_last_experts_is_filled_up_to_the_model_s() -> None:
    rows = "\n".join(f"0,{expert},2" for expert in range(126))
    data = f"layer,expert,tokens\n{rows}".encode()
    assert read_loads("a.csv", data, 128).tolist() == [[2.0] * 126 + [0.0] * 2]
    with pytest.raises(AdvisorError, match=r"\(1, 126\).*128.*never chosen with 0"):
        traffic_of_loads(read_loads("a.csv", data), SETUP.router)


def test_a_short_csv_cannot_ask_for_all_memory() -> None:
    rows = "\n".join(f"{layer},65535,1" for layer in range(100))
    with pytest.raises(AdvisorError, match="more than any model has"):
        read_loads("a.csv", f"layer,expert,tokens\n{rows}".encode())


def test_experts_without_any_load_are_told() -> None:
    loads = np.ones((2, 128))
    loads[:, :2] = 0.0
    few, idle = traffic_of_loads(loads, SETUP.router).notes
    assert few.facts == {"layers": 2, "routed_layers": 48}
    assert (idle.kind, idle.facts) == ("experts_without_load", {"idle": 2, "experts": 128})
    assert traffic_of_loads(np.ones((48, 128)), SETUP.router).notes == ()


def test_a_csv_that_was_cut_off_is_refused() -> None:
    rows = [f"{layer},{expert},7" for layer in range(3) for expert in range(64)]
    with pytest.raises(
        AdvisorError,
        match="names 24 experts in its last layer, 2, and 64 in its first: it seems cut",
    ):
        read_loads("a.csv", "\n".join(["layer,expert,tokens", *rows[:-40]]).encode())


def test_one_step_is_drawn_from_the_trace_where_there_is_one() -> None:
    sequences = trace(4)
    found: Traffic = traffic_of_trace(sequences, 128, 9)
    chosen = found.choices(tuple(sequences[:1]), 1, 4, np.array([0, 2]), np.random.default_rng(0))
    assert chosen.shape == (1, 4, 2, 8)
    assert any((chosen[0] == sequences[0][at : at + 4, [0, 2]]).all() for at in range(28))


def of_trace(*layers: list[list[int]]) -> Counted:
    """Counts of the one step that a sequence with these experts, layer by layer, holds: 8 experts
    on 2 ranks."""
    sequence = np.array(layers).swapaxes(0, 1)
    traffic = Traffic("trace", expert_loads([sequence], 8), 2, "planted", (sequence,))
    steps = Steps(1, len(sequence))
    (found,) = counted(
        by_weight, traffic, [lambda _: contiguous(8, 2)], Sources(ranks_per_node=1), steps
    )
    return found


def test_counts_of_a_planted_step_are_what_a_hand_counts() -> None:
    # Experts 0-3 on rank 0, 4-7 on rank 1; tokens start on ranks 0, 1, 0. Layer 1 uses both, layer
    # 2 only rank 0.
    found = of_trace([[0, 1], [0, 4], [5, 4]], [[0, 1], [2, 3], [0, 1]])
    by_hand = {
        "touched": [2, 3, 3],
        "pairs": [2, 3.5, 4.5],
        "mean_pairs": [1, 2, 3],
        "touched_overall": [2, 3.5, 4],
        "received_pairs": [0, 1.5, 2],
        "received_tokens": [0, 1, 1],
        "mean_received_pairs": [0, 0.75, 1.25],
        "mean_received_tokens": [0, 0.5, 0.75],
        "reached": [1, 1.25, 7 / 6],
        "other_rank": [0, 3 / 8, 5 / 12],
        "other_nodes": [0, 0.5, 0.5],
    }
    for name, numbers in by_hand.items():
        assert getattr(found, name) == pytest.approx(numbers), name
    assert found.slowness[0, 0] == pytest.approx([2, 0.98 * 5 / 3 + 0.02 * 7 / 4, 1.5])
    assert found.slots_of_fullest == 4


def test_the_slowest_rank_is_another_where_reading_counts_than_where_serving_does() -> None:
    # Rank 0 serves 5 of 8 choices with 2 experts, rank 1 serves 3 with 3.
    balance = of_trace([[0, 4], [0, 5], [0, 6], [0, 1]]).balance(3.0)
    assert balance.touched[:, 0, -1] == pytest.approx([1.2, 1.2, 0.8, 0.8, 0.8])
    assert balance.pairs[:, 0, -1] == pytest.approx([0.75, 0.75, 1.25, 1.25, 1.25])
    assert balance.received[0, -1] == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("batch", "tokens", "sequences", "draws", "layers"),
    [
        (64, 4, 0, 15, 48),
        (64, 4, 4, 7, 48),
        (1024, 8, 0, 4, 9),
        (2**16, 8, 0, 4, 4),
        (8, 1, 0, 64, 48),
    ],
)
def test_a_budget_of_choices_is_spent_on_layers_first(
    batch: int, tokens: int, sequences: int, draws: int, layers: int
) -> None:
    # 1.5 million choices at 8 a token; one step may take 0.4 of them, each half of a trace has half
    # of the steps.
    ids = (np.zeros((1, 48, 8), int),) * sequences
    traffic = Traffic("trace", np.full((48, 128), 8 / 128), 8, "planted", ids)
    assert Steps(batch, tokens).n_draws(traffic) == (draws, layers)
