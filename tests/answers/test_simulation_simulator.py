"""The serving loop: bookkeeping, arrivals, determinism.

Acceptance processes, those made from a scenario, and the traces drawn from them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.answers.best_k import KRange, round_costs
from advisor.answers.simulation.policies import BatchSchedule, Cascade, StaticK
from advisor.answers.simulation.simulator import (
    PerPosition,
    RecordedSteps,
    Switching,
    closed_loop,
    concave,
    draw_trace,
    per_position,
    poisson_arrivals,
    simulate,
    switching_around,
)
from advisor.prediction import AdvisorError
from studies.runtime import Mixture
from tests.answers.test_simulation_policies import Recorded

BATCHES = [1, 2, 4, 8]


# Time grows with batch and with K.
TIME_S = np.outer([1.0, 1.2, 1.5, 2.2], [1.0, 1.3, 1.6, 1.9]) * 0.01
COSTS = round_costs(BATCHES, TIME_S, [1.0, 1.7, 2.1, 2.3])


def test_static_k_reaches_the_speedup_of_the_formula() -> None:
    process = PerPosition((0.7, 0.5, 0.3))
    trace = draw_trace(process, 400, 2000, 3, np.random.default_rng(0))
    plain = simulate(COSTS, StaticK(0), trace, closed_loop(400), 500)
    speculative = simulate(COSTS, StaticK(2), trace, closed_loop(400), 500)
    formula = process.accepted_length(2)[2] * TIME_S[0, 0] / TIME_S[0, 2]
    assert plain.mean_tpot_s / speculative.mean_tpot_s == pytest.approx(formula, rel=0.01)


def test_a_length_whose_steps_are_equal_but_for_rounding_is_a_process() -> None:
    survival = 1.0 - 1e-13 * np.array([0.0, 3.0, 2.0])
    process = PerPosition.from_accepted_length(np.cumsum(survival))
    assert process.conditional[1] == 1.0
    with pytest.raises(AdvisorError, match="ever smaller"):
        PerPosition.from_accepted_length([1.0, 1.5, 2.1])


def test_every_token_asked_for_is_delivered_once() -> None:
    trace = draw_trace(PerPosition((0.8, 0.8, 0.8)), 60, 100, 3, np.random.default_rng(1))
    lengths = np.random.default_rng(2).integers(1, 40, (6, 10))
    load = closed_loop(6, concurrency=3, requests_per_group=10, output_tokens=lengths)
    run = simulate(COSTS, StaticK(3), trace, load, 10_000)
    assert run.tokens.tolist() == lengths.sum(axis=1).tolist()
    assert run.request_tpot_s.size == 60
    assert run.iterations.max() < 10_000


def test_a_closed_loop_keeps_its_batch_full_and_then_drains() -> None:
    load = closed_loop(
        1, concurrency=4, requests_per_group=8, output_tokens=[[5, 5, 5, 5, 5, 5, 7, 9]]
    )
    recorded = Recorded(StaticK(0))
    run = simulate(COSTS, recorded, np.zeros((1, 10), dtype=np.int8), load, 100)
    assert np.stack(recorded.batch)[:, 0].tolist() == [4] * 10 + [2] * 2 + [1] * 2
    expected = 10 * TIME_S[2, 0] + 2 * TIME_S[1, 0] + 2 * TIME_S[0, 0]
    assert run.busy_time_s[0] == pytest.approx(expected)
    assert run.sequence_time_s[0] == pytest.approx(
        40 * TIME_S[2, 0] + 4 * TIME_S[1, 0] + 2 * TIME_S[0, 0]
    )


def test_the_schedule_follows_the_batch_as_it_drains() -> None:
    schedule = BatchSchedule((KRange(1, 2, 3, 1.0), KRange(3, 8, 0, 1.0)))
    load = closed_loop(1, concurrency=4, requests_per_group=4, output_tokens=[[2, 2, 9, 9]])
    recorded = Recorded(schedule)
    simulate(COSTS, recorded, np.zeros((1, 10), dtype=np.int8), load, 100)
    assert np.stack(recorded.k)[:, 0].tolist() == [0, 0] + [3] * 7


def test_light_poisson_traffic_runs_alone_and_heavy_traffic_fills_the_batch() -> None:
    trace = np.zeros((1, 100), dtype=np.int8)
    mean = []
    for rate in (0.05, 1000.0):
        load = poisson_arrivals(1, 8, 40, 20, rate, np.random.default_rng(4))
        recorded = Recorded(StaticK(0))
        run = simulate(COSTS, recorded, trace, load, 5000)
        assert run.tokens[0] == 800
        mean.append(np.mean(recorded.batch))
    assert mean[0] == pytest.approx(1.0, abs=0.1)
    assert mean[1] > 7


def test_waiting_in_the_queue_does_not_count_as_time_per_token() -> None:
    load = closed_loop(1, concurrency=1, requests_per_group=3, output_tokens=10)
    run = simulate(COSTS, StaticK(0), np.zeros((1, 20), dtype=np.int8), load, 100)
    assert np.allclose(run.request_tpot_s, TIME_S[0, 0])


def test_policies_of_one_comparison_meet_the_same_trace() -> None:
    trace = draw_trace(PerPosition((0.6, 0.4, 0.2)), 20, 100, 3, np.random.default_rng(3))
    load = closed_loop(20, requests_per_group=1, output_tokens=100)
    static = simulate(COSTS, StaticK(3), trace, load, 100)
    cascade = simulate(COSTS, Cascade(), trace, load, 100)
    # At K = 3 the rounds needed can be walked by hand on the shared trace.
    place = 0
    rounds = 0
    while place < 100:
        place += int(trace[0, place]) + 1
        rounds += 1
    assert static.iterations[0] == rounds
    assert static.tokens.tolist() == cascade.tokens.tolist() == [100] * 20


def test_a_request_longer_than_its_trace_starts_over() -> None:
    trace = np.array([[1, 0, 0]], dtype=np.int8)
    load = closed_loop(1, requests_per_group=1, output_tokens=9)
    assert simulate(COSTS, StaticK(1), trace, load, 100).iterations[0] == 6


def test_batches_beyond_the_costs_are_refused() -> None:
    with pytest.raises(AdvisorError, match="outside the costs' batches"):
        simulate(
            COSTS, StaticK(0), np.zeros((1, 5), dtype=np.int8), closed_loop(1, concurrency=9), 5
        )
    with pytest.raises(AdvisorError, match="whole numbers"):
        closed_loop(1, output_tokens=0)
    with pytest.raises(AdvisorError, match="rate_per_s"):
        poisson_arrivals(1, 1, 1, 5, 0.0, np.random.default_rng(0))


def test_servers_with_different_numbers_of_requests_serve_exactly_theirs() -> None:
    trace = np.zeros((1, 10), dtype=np.int8)
    for load in (
        closed_loop(3, 2, [4, 3, 3], 5),
        poisson_arrivals(3, 2, [4, 3, 3], 5, 2.0, np.random.default_rng(2)),
    ):
        run = simulate(COSTS, StaticK(0), trace, load, 1000)
        assert run.request_tpot_s.size == 10
        assert run.tokens.tolist() == [20, 15, 15]


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_per_position_list_yields_its_accepted_length() -> None:
    process = PerPosition((0.8, 0.5, 0.25))
    expected = [1.0, 1.8, 2.2, 2.3]
    assert np.allclose(process.accepted_length(3), expected)
    trace = draw_trace(process, 200, 1000, 3, rng())
    reached = [np.mean(trace >= k) for k in (1, 2, 3)]
    assert np.allclose(1.0 + np.cumsum(reached), expected[1:], atol=0.006)


def test_an_accepted_length_table_round_trips() -> None:
    table = [1.0, 1.75, 2.31, 2.73, 2.98]
    assert np.allclose(PerPosition.from_accepted_length(table).accepted_length(4), table)
    with pytest.raises(AdvisorError, match="smaller"):
        PerPosition.from_accepted_length([1.0, 1.2, 1.9])


def test_switching_has_the_passage_lengths_and_shares_asked_for() -> None:
    process = Switching((0.9,), (0.1,), good_tokens=40, bad_tokens=120)
    path = process.is_good(300, 4000, rng())
    assert path.mean() == pytest.approx(0.25, abs=0.01)
    starts = (path[:, 1:] & ~path[:, :-1]).sum()
    assert path.sum() / (starts + path[:, 0].sum()) == pytest.approx(40, rel=0.05)
    trace = draw_trace(process, 300, 4000, 1, rng())
    assert trace[path].mean() == pytest.approx(0.9, abs=0.01)
    assert trace[~path].mean() == pytest.approx(0.1, abs=0.01)


def test_recorded_steps_replay_at_the_recorded_draft_length() -> None:
    steps = [3, 0, 2, 1, 0, 3]
    trace = draw_trace(RecordedSteps.from_array(steps), 5, 60, 3, rng())
    for row in trace:
        place = 0
        seen = []
        while place < 24:
            seen.append(int(row[place]))
            place += int(row[place]) + 1
        doubled = steps + steps
        assert any(doubled[i : i + len(steps)] == seen[: len(steps)] for i in range(len(steps)))
    # One token into a step that accepted three drafts, two were still right.
    assert [3, 2, 1, 0] in [list(trace[0][i : i + 4]) for i in range(20)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "empty"),
        ([[1, 2], []], "request 1"),
        ([1, -1], "whole numbers"),
        ([1.5], "whole"),
        ([np.nan], "whole"),
    ],
)
def test_bad_traces_are_refused_with_the_request_named(bad: list[object], message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        RecordedSteps.from_array(bad)  # type: ignore[arg-type]


def test_a_mixture_draws_each_kind_with_its_weight() -> None:
    process = Mixture((PerPosition((1.0,)), PerPosition((0.0,))), (3.0, 1.0))
    trace = draw_trace(process, 4000, 3, 1, rng())
    assert set(map(tuple, trace)) == {(1, 1, 1), (0, 0, 0)}
    assert trace[:, 0].mean() == pytest.approx(0.75, abs=0.02)


def test_probabilities_outside_0_to_1_are_refused() -> None:
    with pytest.raises(AdvisorError, match=r"0\.\.1"):
        PerPosition((1.2,))
    with pytest.raises(AdvisorError, match=r"0\.\.1"):
        Switching((0.5,), (-0.1,), 10, 10)
    with pytest.raises(AdvisorError, match="at least 1"):
        Switching((0.5,), (0.1,), 0.5, 10)


COHERE = np.array([1, 1.75, 2.31, 2.73, 2.98, 3.12, 3.20, 3.25])


def measured_length(process: object, k: int, k_max: int = 7) -> float:
    """Tokens over rounds of a long run at one K, as an engine counts it."""
    trace = draw_trace(process, 200, 4000, k_max, np.random.default_rng(3))  # type: ignore[arg-type]
    costs = round_costs([1], [np.linspace(1, 2, k_max + 1)], np.ones(k_max + 1))
    run = simulate(
        costs, StaticK(k), trace, closed_loop(200, requests_per_group=1, output_tokens=4000), 4000
    )
    return float(run.tokens.sum() / run.iterations.sum())


@pytest.mark.parametrize("k", [1, 3, 7])
def test_independent_rounds_have_the_given_accepted_length_at_every_k(k: int) -> None:
    assert measured_length(per_position(COHERE), k) == pytest.approx(COHERE[k], rel=0.01)


@pytest.mark.parametrize(("spread", "share"), [(0.0, 0.5), (1.5, 0.5), (2.5, 0.3)])
def test_switching_keeps_the_accepted_length_that_an_engine_would_measure(
    spread: float, share: float
) -> None:
    process = switching_around(COHERE, 3, spread=spread, good_share=share)
    assert measured_length(process, 3) == pytest.approx(COHERE[3], rel=0.02)


@pytest.mark.parametrize(
    "change",
    [
        {"n_draft": 0},
        {"n_draft": 8},
        {"spread": -1.0},
        {"good_share": 0.0},
        {"good_share": 1.0},
        {"good_tokens": 0.5},
    ],
)
def test_impossible_passages_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(AdvisorError):
        switching_around(COHERE, int(change.pop("n_draft", 3)), **change)


def test_a_noisy_measured_curve_is_made_concave_without_moving_a_concave_one() -> None:
    np.testing.assert_allclose(concave(COHERE), COHERE)
    noisy = [
        1,
        1.84,
        2.51,
        3.01,
        3.36,
        3.61,
        3.77,
        3.73,
        3.47,
    ]  # DeepSeek-V4-Pro: longer drafts accepted less
    fixed = concave(noisy)
    assert np.all(np.diff(fixed) >= 0)
    assert np.all(np.diff(fixed, 2) <= 1e-12)
    np.testing.assert_allclose(fixed[:7], noisy[:7])


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=12))
def test_any_growth_becomes_a_possible_curve(growth: list[float]) -> None:
    fixed = concave(np.concatenate([[1.0], 1.0 + np.cumsum(growth)]))
    assert fixed[0] == 1
    assert np.all(np.diff(fixed) >= 0)
    assert np.all(np.diff(fixed) <= 1)
    assert np.all(np.diff(fixed, 2) <= 1e-9)
