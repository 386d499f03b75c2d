"""What is placed for: traces in halves, loads as files, and a preset's spread."""

from __future__ import annotations

import io

import numpy as np
import pytest

from advisor.physics.expert_loads import Traffic, traffic_of_loads, traffic_of_preset, traffic_of_trace
from advisor.physics.expert_ranks import drawn_choices, expert_loads, skewed_loads
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario, read_loads
from advisor.prediction import AdvisorError

SETUP = load_setup(
    build_scenario(
        hardware_id="h200-sxm",
        model_id="qwen3-30b-a3b",
        drafter_id="none",
        acceptance="0",
        expert_parallel=8,
        n_gpus=8,
    )
)


def trace(sequences: int, tokens: int = 32, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return list(drawn_choices(skewed_loads(128, 8, 0.5, 3, rng), 8, sequences, tokens, rng, 0.1, 0.2))


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


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
    assert "planned and judged on the same tokens" in found.warnings[-1]


def test_a_trace_gives_the_scenario_its_routing() -> None:
    found = traffic_of_trace(trace(12, 64), 128, 9)
    assert found.routing is not None
    cv, phi, rho = (float(group.split("/")[0]) for group in found.routing.split(","))
    assert cv == pytest.approx(0.5, abs=0.1)
    assert (phi, rho) == pytest.approx((0.1, 0.2), abs=0.06)


def test_a_trace_too_short_for_a_step_is_refused() -> None:
    with pytest.raises(AdvisorError, match="40 tokens, as many as a step verifies"):
        traffic_of_trace(trace(4), 128, 40)


def test_loads_of_the_user_keep_their_proportions() -> None:
    counts = np.ones((2, 128))
    counts[0, 5] = 3.0
    found = traffic_of_loads(counts, SETUP.router)
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
    assert SETUP.routing is not None
    assert found.loads.std() / found.loads.mean() == pytest.approx(SETUP.routing.load_cv.value, rel=1e-3)
    assert found.because.startswith("assumed")


def test_a_csv_and_an_array_give_the_same_loads() -> None:
    loads = np.array([[1.0, 2.0, 0.0], [4.0, 0.5, 3.0]])
    lines = ["layer,expert,tokens"]
    lines += [f"{layer + 3},{expert},{value}" for (layer, expert), value in np.ndenumerate(loads) if value or expert]
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
    warned = traffic_of_loads(loads, SETUP.router).warnings
    assert "of 2 of 48 routed layers" in warned[0]
    assert "2 of 128 experts have no load" in warned[1]
    assert traffic_of_loads(np.ones((48, 128)), SETUP.router).warnings == ()


def test_a_csv_that_was_cut_off_is_refused() -> None:
    rows = [f"{layer},{expert},7" for layer in range(3) for expert in range(64)]
    with pytest.raises(AdvisorError, match="names 24 experts in its last layer, 2, and 64 in its first: it seems cut"):
        read_loads("a.csv", "\n".join(["layer,expert,tokens", *rows[:-40]]).encode())


def test_one_step_is_drawn_from_the_trace_where_there_is_one() -> None:
    sequences = trace(4)
    found: Traffic = traffic_of_trace(sequences, 128, 9)
    chosen = found.choices(tuple(sequences[:1]), 1, 4, np.array([0, 2]), np.random.default_rng(0))
    assert chosen.shape == (1, 4, 2, 8)
    assert any((chosen[0] == sequences[0][at : at + 4, [0, 2]]).all() for at in range(28))
