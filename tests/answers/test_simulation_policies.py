"""Cascade's state machine, and the policies it is compared with.

R16: numbers of arXiv:2506.20675 that need no hardware: the controller's counts, and what they cost
on a step that reads weights alone. Its slowdowns and gains are held to the paper's setting in
tests/studies/test_runtime.py.

Setting (assumed where the paper is silent): batch 1, Mixtral-8x7B, a step purely bound by reading
weights. Its routed experts are 0.887 of the bytes of a plain step (per layer 2 x 3 x 4096 x 14336
weights of experts, 4096 x (2 x 4096 + 2 x 1024) of attention; 32 layers; a 4096 x 32000 head).
Distinct experts over t consecutive tokens, as multiples of k: 1.64, 2.47 and 3.29 at t = 2, 4, 8,
measured on Mixtral (arXiv:2505.16056; ljcleo/moe-lrc), log-interpolated.
"""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.best_k import KRange, RoundCosts, round_costs
from advisor.answers.simulation.policies import (
    BatchSchedule,
    Cascade,
    CascadeSettings,
    Controller,
    EmaAdaptive,
    IterationOutcome,
    Oracle,
    Policy,
    StaticK,
)
from advisor.answers.simulation.simulator import (
    PerPosition,
    Switching,
    closed_loop,
    draw_trace,
    simulate,
)
from advisor.prediction import AdvisorError
from studies.runtime import cascade_study, ngram_task, ngram_workloads

PLAIN_S = 0.015


def costs_of(relative: list[float], warm_s: float = 0.0) -> RoundCosts:
    return round_costs([1], [[PLAIN_S * c for c in relative]], [1.0] * len(relative), warm_s)


def constant_trace(run: int, tokens: int = 5000) -> np.ndarray:
    """The drafter is right for exactly `run` tokens at every round."""
    return np.full((1, tokens), run, dtype=np.int8)


class Recorded:
    """A policy that notes its K and the batch of every iteration, [T, G]; -1 where a group is
    idle."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.name = policy.name
        self.keeps_drafter = policy.keeps_drafter
        self.k: list[np.ndarray] = []
        self.batch: list[np.ndarray] = []

    def controller(self, n_groups: int, time_s: np.ndarray) -> Controller:
        inner = self.policy.controller(n_groups, time_s)
        observe = inner.observe

        def noted(outcome: IterationOutcome) -> None:
            self.k.append(np.where(outcome.busy, outcome.n_draft, -1))
            self.batch.append(outcome.batch)
            observe(outcome)

        inner.observe = noted  # type: ignore[method-assign]
        return inner


def k_sequence(policy: Policy, costs: RoundCosts, run: int, iterations: int) -> list[int]:
    recorded = Recorded(policy)
    simulate(costs, recorded, constant_trace(run), closed_loop(1), iterations)
    return np.stack(recorded.k)[:, 0].tolist()


CHEAP = (1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07)


@pytest.mark.parametrize(
    ("costs", "start", "run", "climb"),
    [
        # Every draft accepted and nearly free: four trials, 16 iterations at the best, and on from
        # there.
        (CHEAP, 1, 7, [1, 2, 3, 4, *[4] * 4, 4, 5]),
        # One draft right per round: utility 2/1.2 = 1.67 at K = 1, 1.43 at K = 2; K = 0 lies on the
        # other side.
        ((1, 1.2, 1.4, 1.6), 1, 1, [1, 2, *[1] * 4]),
        # Utility 1.67, 1.88, 1.15, .94 at K = 1..4. From 3 up to 4 (worse), back to 2 (better),
        # then 1 (worse).
        ((1, 1.2, 1.6, 2.6, 3.2), 3, 2, [3, 4, 2, 1, *[2] * 4]),
        # Utility 1.82 at the start, then 1.33 at K = 4, then 1.58 at K = 2: the maximum is passed
        # on both sides.
        ((1, 1.2, 1.9, 2.2, 3.0), 3, 3, [3, 4, 2, *[3] * 4]),
        # Utility 0.9 at the start; one step down it is 0.7. K = 3 on the other side is not tried.
        ((1, 1 / 0.7, 1 / 0.9, 1.2), 2, 0, [2, 1, *[0] * 4]),
    ],
    ids=["climbs", "passes a maximum", "turns back", "stays", "gives up"],
)
def test_cascade_measures_the_baseline_then_climbs_and_stays_at_the_best_k(
    costs: tuple[float, ...], start: int, run: int, climb: list[int]
) -> None:
    policy = Cascade(CascadeSettings(initial_draft=start))
    ks = k_sequence(policy, costs_of(list(costs)), run=run, iterations=4 + 4 * len(climb))
    assert ks == [0] * 4 + [k for k in climb for _ in range(4)]


def test_a_utility_that_moves_by_ten_percent_or_less_ends_the_test() -> None:
    # Utility 2/1.3 = 1.54 at K = 1 and 3/1.8 = 1.67 at K = 2: 8 % apart.
    ks = k_sequence(Cascade(), costs_of([1, 1.3, 1.8, 2.0]), run=3, iterations=4 + 8 + 2)
    assert ks == [0] * 4 + [1] * 4 + [2] * 4 + [2] * 2


def test_each_return_to_k_0_doubles_the_set_phase() -> None:
    ks = k_sequence(Cascade(), costs_of([1, 1.5]), run=0, iterations=250)
    starts = [i for i in range(1, 250) if ks[i] == 1 and ks[i - 1] == 0]
    assert np.diff(starts).tolist() == [4 + 16, 4 + 32, 4 + 64]


def test_set_phases_return_to_their_first_length_once_speculation_pays() -> None:
    trace = np.zeros((1, 400), dtype=np.int8)
    trace[0, 100:] = 1  # turns good after 100 tokens
    recorded = Recorded(Cascade())
    simulate(costs_of([1, 1.2]), recorded, trace, closed_loop(1), 180)
    assert np.stack(recorded.k)[128:148, 0].tolist() == [1] * 20  # the fourth test finds it
    trace[0, 160:] = (
        0  # and bad again: set phases at K = 0 are 16, then 32; grown ones would be 128 and 256
    )
    simulate(costs_of([1, 1.2]), recorded, trace, closed_loop(1), 300)
    sequence = np.stack(recorded.k)[180:, 0]
    begins = np.flatnonzero((sequence[1:] == 1) & (sequence[:-1] == 0)) + 1
    assert np.diff(begins[begins > 148])[0] == 4 + 32


def test_the_baseline_is_refreshed_after_a_hundred_iterations() -> None:
    cheap = costs_of([1, 1.01])
    ks = k_sequence(Cascade(), cheap, run=1, iterations=260)
    zero_runs = [i for i in range(1, 260) if ks[i] == 0 and ks[i - 1] != 0]
    assert len(zero_runs) == 2
    assert 100 <= zero_runs[0] - 4 < 100 + 20
    assert ks[zero_runs[0] : zero_runs[0] + 5] == [0, 0, 0, 0, 1]


def test_cascade_starts_afresh_with_every_request() -> None:
    load = closed_loop(1, requests_per_group=2, output_tokens=30)
    recorded = Recorded(Cascade())
    simulate(costs_of([1, 1.5]), recorded, constant_trace(0), load, 100)
    sequence = np.stack(recorded.k)[:, 0].tolist()
    assert sequence[:9] == [0] * 4 + [1] * 4 + [0]
    assert sequence[30:39] == sequence[:9]


def test_a_warm_drafter_makes_k_0_dearer_for_policies_that_keep_it() -> None:
    costs = costs_of([1, 1.5], warm_s=0.03 * PLAIN_S)
    plain = simulate(costs, StaticK(0), constant_trace(0), closed_loop(1), 50)
    kept = simulate(
        costs, BatchSchedule((KRange(1, 1, 0, 1.0),)), constant_trace(0), closed_loop(1), 50
    )
    assert plain.tpot_s[0] == pytest.approx(PLAIN_S)
    assert kept.tpot_s[0] == pytest.approx(1.03 * PLAIN_S)


def test_ema_climbs_when_drafts_are_accepted_and_falls_when_they_are_not() -> None:
    costs = costs_of([1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4])
    up = k_sequence(EmaAdaptive(), costs, run=7, iterations=80)
    # Middle candidate of (1, 3, 5, 7) first; no move in 10 warm-up batches; decisions every fifth
    # after that.
    assert up[:15] == [5] * 15
    assert up[-1] == 7
    down = k_sequence(EmaAdaptive(), costs, run=0, iterations=80)
    assert down[:15] == [5] * 15
    assert down[-1] == 1


def test_ema_follows_the_published_example_numbers() -> None:
    # alpha 1: the average is the last round. It falls from 3 to 1 at or below 1 - 0.5 - 0.25
    # accepted drafts.
    policy = EmaAdaptive(
        slots={1: ((1, 3), -0.25)}, ema_alpha=1.0, warmup_batches=0, update_interval=1
    )
    costs = costs_of([1, 1.1, 1.2, 1.3])
    assert k_sequence(policy, costs, run=0, iterations=3) == [3, 1, 1]
    assert k_sequence(policy, costs, run=1, iterations=4) == [3, 3, 3, 3]  # 1 > 1 - 0.5 - 0.25


def test_ema_probes_again_after_an_interval_without_drafts() -> None:
    policy = EmaAdaptive(
        slots={1: ((0, 3), 0.0)}, ema_alpha=1.0, warmup_batches=0, update_interval=1
    )
    costs = costs_of([1, 1.1, 1.2, 1.3])
    # Drafts fail, K = 0, then a probe of 3 whatever the average was; the engine's own tests show
    # the same alternation.
    assert k_sequence(policy, costs, run=0, iterations=5) == [3, 0, 3, 0, 3]


def test_shipped_ema_defaults_turn_speculation_off_at_batch_64() -> None:
    batches = [1, 8, 32, 64]
    costs = round_costs(batches, np.ones((4, 8)) * PLAIN_S, [1.0] * 8)
    trace = np.full((64, 50), 7, dtype=np.int8)
    for batch, expected in ((64, {0}), (32, {0, 1}), (8, {0, 1, 3}), (1, {1, 3, 5, 7})):
        recorded = Recorded(EmaAdaptive())
        simulate(costs, recorded, trace, closed_loop(1, concurrency=batch), 60)
        assert set(np.stack(recorded.k)[:, 0].tolist()) <= expected


def test_no_policy_beats_the_oracle() -> None:
    costs = costs_of([1, 1.57, 1.96, 2.3, 2.52, 2.7, 2.87, 3.03])
    schedule = BatchSchedule((KRange(1, 1, 2, 1.0),))
    policies = [StaticK(0), *(StaticK(k) for k in range(1, 8)), schedule, Cascade(), EmaAdaptive()]
    for seed, process in enumerate(
        [PerPosition((0.7, 0.7, 0.6, 0.5)), Switching((0.9,) * 7, (0.1,) * 7, 40, 40)]
    ):
        trace = draw_trace(process, 50, 400, 7, np.random.default_rng(seed))
        load = closed_loop(50, requests_per_group=1, output_tokens=400)
        best = simulate(costs, Oracle(), trace, load, 400).busy_time_s.sum()
        for policy in policies:
            assert simulate(costs, policy, trace, load, 400).busy_time_s.sum() >= best


def test_the_oracle_leaves_accepted_drafts_alone_that_cost_more_than_they_bring() -> None:
    costs = costs_of([1, 2.5, 2.6, 2.7])
    assert set(k_sequence(Oracle(), costs, run=1, iterations=50)) == {0}
    assert set(k_sequence(Oracle(), costs, run=3, iterations=50)) == {3}


def test_a_k_beyond_the_costs_is_refused() -> None:
    with pytest.raises(AdvisorError, match="static K=9"):
        simulate(costs_of([1, 1.2]), StaticK(9), constant_trace(0), closed_loop(1), 5)
    with pytest.raises(AdvisorError, match="the schedule uses K=4"):
        simulate(
            costs_of([1, 1.2]),
            BatchSchedule((KRange(1, 1, 4, 1.0),)),
            constant_trace(0),
            closed_loop(1),
            5,
        )


EXPERTS = 32 * 2 * 3 * 4096 * 14336
OTHER = 32 * 4096 * (2 * 4096 + 2 * 1024) + 4096 * 32000


def mixtral(distinct_over_k: np.ndarray | None = None, draft_warm_s: float = 0.0) -> RoundCosts:
    """Costs for K = 0..7 relative to a plain step of 1 second."""
    tokens = np.arange(1, 9)
    if distinct_over_k is None:
        distinct_over_k = np.exp(
            np.interp(np.log(tokens), np.log([1, 2, 4, 8]), np.log([1, 1.64, 2.47, 3.29]))
        )
    relative = 1 + EXPERTS / (EXPERTS + OTHER) * (distinct_over_k - 1)
    return round_costs([1], [relative], np.ones(8), draft_warm_s)


def test_the_code_stand_in_has_the_published_etr_of_3_2_at_k_7() -> None:
    trace = draw_trace(ngram_task(0.77), 300, 2000, 7, np.random.default_rng(11))
    run = simulate(
        mixtral(),
        StaticK(7),
        trace,
        closed_loop(300, requests_per_group=1, output_tokens=2000),
        2000,
    )
    assert run.tokens.sum() / run.iterations.sum() == pytest.approx(3.2, abs=0.05)


def test_a_study_names_the_model_that_lacks_a_process() -> None:
    with pytest.raises(ValueError, match="olmoe"):
        cascade_study({"olmoe": mixtral()}, {})


def test_adding_a_workload_does_not_move_the_others() -> None:
    tasks = ngram_workloads()
    one = cascade_study({"m": mixtral()}, {"m": {"math": tasks["math"]}}, n_requests=20)
    two = cascade_study(
        {"m": mixtral()}, {"m": {"code": tasks["code"], "math": tasks["math"]}}, n_requests=20
    )
    assert one == tuple(row for row in two if row.workload == "math")
