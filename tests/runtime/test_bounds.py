"""Upper bounds of draft lengths by sequence, and what a change of K costs in a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.round_costs import KRange, RoundCosts, costs_of, round_costs
from advisor.answers.simulation.compare import SimulationPlan, simulate_policies
from advisor.answers.simulation.policies import BatchSchedule, SplitCosts, StaticK, StopsAtRejection
from advisor.answers.simulation.simulator import closed_loop, per_position, simulate
from advisor.predict.curve import speedup_curve
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

EAGLE = Scenario(acceptance="2.4@3", drafter_id="eagle3", k_max=4)


def made_up(groups: int = 4) -> RoundCosts:
    """Verification of K + 1 tokens takes 10 + K; each draft 1 for each started pair of sequences."""
    k, batches = np.arange(4), np.arange(1, groups + 1)
    draft = np.ceil(batches / 2)[:, None] * k
    return round_costs(batches, 10.0 + k + draft, 1.0 + 0.5 * k, draft_s=draft)


def test_a_gated_round_pays_for_the_drafts_that_are_accepted_and_no_others() -> None:
    """Run lengths 0, 1, 3 and 2 at K <= 3: by hand, pass by pass."""
    trace = np.array([[0], [1], [3], [2]], dtype=np.int8)
    load = closed_loop(1, 4, 4, 100)
    gated = simulate(made_up(), StopsAtRejection(3, gates_drafting=True), trace, load, 1)
    # Pass 1 runs three sequences (2), pass 2 two (1), pass 3 one (1); six drafts of four sequences verified: 10 + 1.5.
    assert gated.busy_time_s[0] == pytest.approx(2 + 1 + 1 + 11.5)
    assert (gated.drafted, gated.verified, int(gated.tokens[0])) == (6, 10, 10)
    trimmed = simulate(made_up(), StopsAtRejection(3, gates_drafting=False), trace, load, 1)
    assert trimmed.busy_time_s[0] == pytest.approx(3 * 2 + 11.5)
    assert (trimmed.drafted, trimmed.verified) == (12, 10)
    static = simulate(made_up(), StaticK(3), trace, load, 1)
    assert static.busy_time_s[0] == pytest.approx(3 * 2 + 13)
    assert (static.drafted, static.verified) == (12, 16)
    assert static.tokens[0] == gated.tokens[0]


def test_where_every_draft_is_accepted_a_bound_is_static_k() -> None:
    trace = np.full((4, 1), 3, dtype=np.int8)
    load = closed_loop(1, 4, 4, 40)
    times = [
        simulate(made_up(), policy, trace, load, 40).busy_time_s[0]
        for policy in (StaticK(3), StopsAtRejection(3, True), StopsAtRejection(3, False))
    ]
    assert times == pytest.approx([times[0]] * 3)


def test_where_no_draft_is_accepted_a_gated_round_is_a_plain_step() -> None:
    trace, load = np.zeros((4, 1), dtype=np.int8), closed_loop(1, 4, 4, 20)
    gated = simulate(made_up(), StopsAtRejection(3, True), trace, load, 20)
    plain = simulate(made_up(), StaticK(0), trace, load, 20)
    assert gated.busy_time_s == pytest.approx(plain.busy_time_s)


def test_bounds_of_a_scenario_beat_every_k_and_save_what_is_rejected() -> None:
    curve = speedup_curve(EAGLE)
    costs = costs_of(curve)
    plan = SimulationPlan(requests=64, iterations=200, request_tokens=60, batch_size=16)
    report = simulate_policies(
        costs, (KRange(1, 1024, 3, 1.0),), per_position(costs.accepted_length), plan, bounds=True
    )
    static = {one.static_k: one for one in report.outcomes if one.static_k}
    assert [bound.static_k for bound in report.bounds] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert all(bound.policy.startswith("bound: ") for bound in report.bounds)
    assert not any(one.policy.startswith("bound") for one in report.outcomes)
    for trimmed, gated in zip(report.bounds[::2], report.bounds[1::2], strict=True):
        own = static[trimmed.static_k]
        assert own.speedup <= trimmed.speedup <= gated.speedup
        assert gated.verified_per_token == pytest.approx(1.0, abs=0.02), "a last round may run past the request's end"
        assert gated.drafted_per_token < own.drafted_per_token == trimmed.drafted_per_token
    deep = [bound.speedup for bound in report.bounds[1::2]]
    assert deep == sorted(deep), "a deeper gate that is never wrong loses nothing"


def test_a_simulation_computes_no_bounds_unless_asked() -> None:
    costs = costs_of(speedup_curve(EAGLE))
    plan = SimulationPlan(requests=4, iterations=20, request_tokens=10)
    report = simulate_policies(costs, (KRange(1, 1024, 3, 1.0),), per_position(costs.accepted_length), plan)
    assert report.bounds == ()


def test_drafting_apart_is_part_of_the_round() -> None:
    costs = costs_of(speedup_curve(EAGLE))
    split = SplitCosts.of(costs, 8)
    time, _ = costs.dense(8)
    assert split.draft_s + split.rest_s == pytest.approx(time)
    assert np.all(np.diff(split.draft_s[1:], axis=1) > 0)
    with pytest.raises(AdvisorError, match="draft_s"):
        round_costs([1], [[1.0, 1.2]], [1.0, 1.5], draft_s=[[0.0, 1.3]])


def test_each_change_of_k_costs_what_is_given_and_nothing_by_default() -> None:
    """Two requests of 4 tokens end after four and eight iterations at K = 0: the batch falls once, and K with it."""
    costs = round_costs([1, 2], [[1.0, 1.5], [1.0, 1.5]], [1.0, 1.5])
    table = BatchSchedule((KRange(1, 1, 0, 1.0), KRange(2, 2, 1, 1.0)), keeps_drafter=False)
    load = closed_loop(1, 2, 2, np.array([[4, 8]]))
    trace = np.zeros((2, 8), dtype=np.int8)
    free, paid = (simulate(costs, table, trace, load, 50, switch_s=cost) for cost in (0.0, 0.7))
    assert free.busy_time_s[0] == pytest.approx(4 * 1.5 + 4 * 1.0)
    assert paid.busy_time_s[0] - free.busy_time_s[0] == pytest.approx(0.7)
    assert (free.switches, paid.switches) == (1, 1)
    assert simulate(costs, StaticK(1), trace, load, 50, switch_s=0.7).switches == 0
    assert simulate(costs, table, trace, load, 50).busy_time_s == pytest.approx(free.busy_time_s)
    with pytest.raises(AdvisorError, match="cost of a switch"):
        simulate(costs, table, trace, load, 50, switch_s=-1.0)
