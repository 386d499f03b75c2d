"""All policies on one load: same seed same result, full and varying batches, what is compared with
what.

Traces of accepted drafts read from files.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.best_k import RoundCosts, costs_of, round_costs
from advisor.answers.by_batch import ranges_of
from advisor.answers.flags import holds
from advisor.answers.simulation.compare import (
    LOAD_FLAGS,
    SimulationPlan,
    SimulationReport,
    policies_for,
    recorded,
    simulate_policies,
)
from advisor.answers.simulation.policies import CascadeSettings
from advisor.answers.simulation.simulator import per_position, switching_around
from advisor.predict.curve import speedup_curve
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.simulation import LOAD

SCENARIO = Scenario(acceptance="2.4@3", k_max=5)
CURVE = speedup_curve(SCENARIO)
COSTS = costs_of(CURVE)
RANGES = ranges_of(load_setup(SCENARIO), CURVE)


def run(plan: SimulationPlan, costs: RoundCosts = COSTS, **settings: float) -> SimulationReport:
    process = per_position(costs.accepted_length)
    cascade = CascadeSettings(**settings) if settings else None  # type: ignore[arg-type]
    return simulate_policies(costs, RANGES, process, plan, cascade)


def test_the_policies_come_in_order_with_plain_decoding_at_one() -> None:
    report = run(SimulationPlan(requests=50, batch_size=4))
    assert [o.policy for o in report.outcomes] == [
        *(f"static K={k}" for k in range(6)),
        "batch schedule",
        "Cascade",
        "acceptance only (EMA)",
        "oracle (hindsight)",
    ]
    assert report.outcomes[0].speedup == 1.0
    assert report.of(f"static K={report.best_static_k}").gain_over_best_static == 0.0


def test_no_request_finished_leaves_the_percentile_empty_and_not_zero() -> None:
    report = run(SimulationPlan(requests=10, iterations=5, request_tokens=250))
    assert all(o.p95_request_tpot_s is None for o in report.outcomes)


def test_control_gains_where_passages_are_long_and_far_apart() -> None:
    """Passages of 400 tokens, almost all drafts right or almost none, and 0.3 plain steps for each
    draft."""
    costs = round_costs([1], [1 + 0.3 * np.arange(8)], np.concatenate([[1.0], np.full(7, 1.5)]))
    length = np.concatenate([[1.0], 1 + np.cumsum(0.6 ** np.arange(1, 8))])
    process = switching_around(length, 3, spread=4.0, good_tokens=400)
    report = simulate_policies(
        costs, RANGES, process, SimulationPlan(requests=60, request_tokens=2000, iterations=8000)
    )
    assert report.of("Cascade").gain_over_best_static > 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests": 0},
        {"requests": 100_001},
        {"iterations": 0},
        {"request_tokens": 0},
        {"load_share": 0.0},
        {"load_share": 3.0},
        {"seed": -1},
    ],
)
def test_an_impossible_plan_is_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(AdvisorError, match=next(iter(wrong))):
        SimulationPlan(**wrong)  # type: ignore[arg-type]


def test_a_long_simulation_says_how_far_it_is_and_can_be_ended_between_policies() -> None:
    plan = SimulationPlan(requests=20)
    told: list[tuple[str, float]] = []
    process = per_position(COSTS.accepted_length)
    whole = simulate_policies(
        COSTS, RANGES, process, plan, on_policy=lambda name, done: told.append((name, done))
    )
    assert [name for name, _ in told] == [outcome.policy for outcome in whole.outcomes]
    assert [done for _, done in told] == [i / len(told) for i in range(len(told))]

    def end_halfway(name: str, done: float) -> None:
        if done >= 0.5:
            raise KeyboardInterrupt(name)

    with pytest.raises(KeyboardInterrupt, match="static K=5"):
        simulate_policies(COSTS, RANGES, process, plan, on_policy=end_halfway)


@pytest.mark.parametrize(
    ("requests", "batch", "served"), [(200, 32, 200), (201, 4, 201), (10, 32, 32)]
)
def test_exactly_the_requests_asked_for_are_served_and_never_less_than_one_batch(
    requests: int, batch: int, served: int
) -> None:
    report = run(SimulationPlan(requests=requests, batch_size=batch, request_tokens=20))
    assert report.requests == served
    assert {outcome.finished for outcome in report.outcomes} == {served}
    assert (report.facts["asked_requests"], report.facts["requests"]) == (requests, served)


def test_the_note_says_that_slots_run_empty_at_the_end_where_they_do() -> None:
    full = run(SimulationPlan(requests=200, batch_size=32, request_tokens=100))
    batches = [outcome.mean_batch for outcome in full.outcomes]
    assert LOAD.say("load", full.facts) == (
        f"Mean batch {min(batches):.1f} to {max(batches):.1f}, by policy, of 32: the tail, when no "
        "request waits and slots empty, is included."
    )
    assert not holds(LOAD_FLAGS, "tail", run(SimulationPlan(requests=4)).facts)
    arriving = run(SimulationPlan(requests=20, batch_size=4, load_share=0.6))
    assert arriving.facts["load_share"] == 0.6


def test_a_plan_that_takes_longer_than_a_minute_is_refused_with_what_fits() -> None:
    plan = SimulationPlan(requests=100_000, iterations=100_000, request_tokens=16_384)
    with pytest.raises(
        AdvisorError, match=r"minutes; ask for fewer requests, or for at most [0-9,]+ iterations"
    ) as told:
        run(plan)
    fitting = int(str(told.value).split("at most ")[1].split(" ")[0].replace(",", ""))
    dataclasses.replace(plan, iterations=fitting).check_duration(
        len(policies_for(RANGES, COSTS.k_max))
    )
    with pytest.raises(AdvisorError):
        dataclasses.replace(plan, iterations=2 * fitting).check_duration(
            len(policies_for(RANGES, COSTS.k_max))
        )


@pytest.mark.parametrize(("batch", "load"), [(1, None), (16, None), (16, 0.7), (64, 1.5)])
def test_no_policy_needs_more_iterations_than_the_estimate_counts(
    batch: int, load: float | None
) -> None:
    plan = SimulationPlan(
        requests=100, iterations=100_000, request_tokens=40, batch_size=batch, load_share=load
    )
    assert plan.most_iterations < plan.iterations
    report = run(plan)
    assert report.complete
    assert all(
        sum(one.iterations_by_draft) <= plan.servers * plan.most_iterations
        for one in report.outcomes
    )


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("[3, 0, 2]", ((3, 0, 2),)),
        ("[[3, 0, 2], [1]]", ((3, 0, 2), (1,))),
        ('{"accepted": [[1, 1]]}', ((1, 1),)),
        ("accepted\n3\n0\n", ((3, 0),)),
        ("\ufeffrequest,accepted\na,3\nb,1\na,0\n", ((3, 0), (1,))),
        ("step, accepted \n1, 3\n2,0\n", ((3, 0),)),
    ],
)
def test_json_and_csv_traces_are_read(text: str, steps: tuple[tuple[int, ...], ...]) -> None:
    assert recorded(text.encode(), "trace").steps == steps


REPLIES = Path(__file__).parents[1] / "fixtures" / "vllm_replies_detailed.jsonl"


def test_replies_of_vllm_with_detailed_metrics_are_a_trace() -> None:
    data = REPLIES.read_bytes()
    found = recorded(data, "replies.jsonl")
    assert found.steps == ((3, 0, 2, 1, 2), (1, 1, 0))
    lines = [json.loads(line) for line in data.decode().splitlines()]
    assert recorded(json.dumps(lines).encode(), "list.json") == found
    assert recorded(json.dumps(lines[0]).encode(), "one.json").steps == ((3, 0, 2, 1, 2),)
    records = {
        "records": [
            {"spec_decode_acceptance": one["metrics"]["speculative_decoding"]} for one in lines
        ]
    }
    assert recorded(json.dumps(records).encode(), "aiperf.json") == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("[1, 1, 0]", "[1, 1.5, 0]"),
            "request 2, step 2: '1.5' is no whole number",
        ),
        (lambda text: text + "{broken\n", "line 3, is not valid JSON"),
        (
            lambda text: text.replace("per_step_accepted", "something_else"),
            "holds no list of accepted drafts",
        ),
    ],
)
def test_replies_that_hold_no_trace_are_refused_with_what_to_give(
    change: Callable[[str], str], message: str
) -> None:
    with pytest.raises(AdvisorError, match=re.escape(message)) as told:
        recorded(change(REPLIES.read_text(encoding="utf-8")).encode(), "replies.jsonl")
    assert "request" in str(told.value)
