"""The serving loop: bookkeeping, arrivals, determinism."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.round_costs import KRange, round_costs
from advisor.answers.simulation.policies import BatchSchedule, Cascade, StaticK
from advisor.answers.simulation.simulator import (
    PerPosition,
    closed_loop,
    compare,
    draw_trace,
    poisson_arrivals,
    simulate,
)
from advisor.prediction import AdvisorError

BATCHES = [1, 2, 4, 8]
# Time grows with batch and with K.
TIME_S = np.outer([1.0, 1.2, 1.5, 2.2], [1.0, 1.3, 1.6, 1.9]) * 0.01
COSTS = round_costs(BATCHES, TIME_S, [1.0, 1.7, 2.1, 2.3])


def test_static_k_reaches_the_speedup_of_the_formula() -> None:
    process = PerPosition((0.7, 0.5, 0.3))
    trace = draw_trace(process, 400, 2000, 3, np.random.default_rng(0))
    plain, speculative = (simulate(COSTS, StaticK(k), trace, closed_loop(400), 500) for k in (0, 2))
    formula = process.accepted_length(2)[2] * TIME_S[0, 0] / TIME_S[0, 2]
    assert speculative.tokens_per_s / plain.tokens_per_s == pytest.approx(formula, rel=0.01)


def test_every_token_asked_for_is_delivered_once() -> None:
    trace = draw_trace(PerPosition((0.8, 0.8, 0.8)), 60, 100, 3, np.random.default_rng(1))
    lengths = np.random.default_rng(2).integers(1, 40, (6, 10))
    load = closed_loop(6, concurrency=3, requests_per_group=10, output_tokens=lengths)
    run = simulate(COSTS, StaticK(3), trace, load, 10_000)
    assert run.tokens.tolist() == lengths.sum(axis=1).tolist()
    assert run.request_tpot_s.size == 60
    assert run.iterations.max() < 10_000


def test_a_closed_loop_keeps_its_batch_full_and_then_drains() -> None:
    load = closed_loop(1, concurrency=4, requests_per_group=8, output_tokens=[[5, 5, 5, 5, 5, 5, 7, 9]])
    run = simulate(COSTS, StaticK(0), np.zeros((1, 10), dtype=np.int8), load, 100, record=True)
    assert run.batch_by_iteration is not None
    assert run.batch_by_iteration[:, 0].tolist() == [4] * 10 + [2] * 2 + [1] * 2
    expected = 10 * TIME_S[2, 0] + 2 * TIME_S[1, 0] + 2 * TIME_S[0, 0]
    assert run.busy_time_s[0] == pytest.approx(expected)
    assert run.sequence_time_s[0] == pytest.approx(40 * TIME_S[2, 0] + 4 * TIME_S[1, 0] + 2 * TIME_S[0, 0])
    assert run.request_latency_s.max() == pytest.approx(expected)


def test_the_schedule_follows_the_batch_as_it_drains() -> None:
    schedule = BatchSchedule((KRange(1, 2, 3, 1.0), KRange(3, 8, 0, 1.0)))
    load = closed_loop(1, concurrency=4, requests_per_group=4, output_tokens=[[2, 2, 9, 9]])
    run = simulate(COSTS, schedule, np.zeros((1, 10), dtype=np.int8), load, 100, record=True)
    assert run.k_by_iteration is not None
    assert run.k_by_iteration[:, 0].tolist() == [0, 0] + [3] * 7


def test_light_poisson_traffic_runs_alone_and_heavy_traffic_fills_the_batch() -> None:
    trace = np.zeros((1, 100), dtype=np.int8)
    mean = []
    for rate in (0.05, 1000.0):
        load = poisson_arrivals(1, 8, 40, 20, rate, np.random.default_rng(4))
        run = simulate(COSTS, StaticK(0), trace, load, 5000, record=True)
        assert run.batch_by_iteration is not None
        assert run.tokens[0] == 800
        mean.append(run.batch_by_iteration.mean())
    assert mean[0] == pytest.approx(1.0, abs=0.1)
    assert mean[1] > 7


def test_waiting_in_the_queue_counts_as_latency_but_not_as_time_per_token() -> None:
    load = closed_loop(1, concurrency=1, requests_per_group=3, output_tokens=10)
    run = simulate(COSTS, StaticK(0), np.zeros((1, 20), dtype=np.int8), load, 100)
    assert np.allclose(run.request_tpot_s, TIME_S[0, 0])
    assert np.allclose(run.request_latency_s, np.array([10, 20, 30]) * TIME_S[0, 0])


def test_same_seed_same_result_and_another_seed_another() -> None:
    def once(seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        trace = draw_trace(PerPosition((0.6, 0.4, 0.2)), 30, 200, 3, rng)
        load = poisson_arrivals(5, 4, 10, 50, 3.0, rng)
        return simulate(COSTS, Cascade(), trace, load, 2000).busy_time_s.tolist()

    assert once(7) == once(7)
    assert once(7) != once(8)


def test_policies_of_one_comparison_meet_the_same_trace() -> None:
    trace = draw_trace(PerPosition((0.6, 0.4, 0.2)), 20, 100, 3, np.random.default_rng(3))
    load = closed_loop(20, requests_per_group=1, output_tokens=100)
    runs = compare(COSTS, [StaticK(3), Cascade()], trace, load, 100)
    assert set(runs) == {"static K=3", "Cascade"}
    # At K = 3 the rounds needed can be walked by hand on the shared trace.
    place, rounds = 0, 0
    while place < 100:
        place += int(trace[0, place]) + 1
        rounds += 1
    assert runs["static K=3"].iterations[0] == rounds
    assert runs["static K=3"].tokens.tolist() == runs["Cascade"].tokens.tolist() == [100] * 20


def test_a_request_longer_than_its_trace_starts_over() -> None:
    trace = np.array([[1, 0, 0]], dtype=np.int8)
    load = closed_loop(1, requests_per_group=1, output_tokens=9)
    assert simulate(COSTS, StaticK(1), trace, load, 100).iterations[0] == 6


def test_batches_beyond_the_costs_are_refused() -> None:
    with pytest.raises(AdvisorError, match="outside the costs' batches"):
        simulate(COSTS, StaticK(0), np.zeros((1, 5), dtype=np.int8), closed_loop(1, concurrency=9), 5)
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
