"""R16: numbers of arXiv:2506.20675 that need no hardware: the controller's counts, and what they cost on a step that
reads weights alone. Its slowdowns and gains are held to the paper's setting in tests/studies/test_runtime.py.

Setting (assumed where the paper is silent): batch 1, Mixtral-8x7B, a step purely bound by reading weights. Its routed
experts are 0.887 of the bytes of a plain step (per layer 2 x 3 x 4096 x 14336 weights of experts, 4096 x (2 x 4096 +
2 x 1024) of attention; 32 layers; a 4096 x 32000 head). Distinct experts over t consecutive tokens, as multiples of
k: 1.64, 2.47 and 3.29 at t = 2, 4, 8, measured on Mixtral (arXiv:2505.16056; ljcleo/moe-lrc), log-interpolated.
"""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.round_costs import RoundCosts, round_costs
from advisor.answers.simulation.policies import Cascade, CascadeSettings, StaticK
from advisor.answers.simulation.simulator import closed_loop, draw_trace, simulate
from studies.runtime import cascade_study, ngram_task, ngram_workloads

EXPERTS = 32 * 2 * 3 * 4096 * 14336
OTHER = 32 * 4096 * (2 * 4096 + 2 * 1024) + 4096 * 32000
ITERATIONS = 250


def mixtral(distinct_over_k: np.ndarray | None = None, draft_warm_s: float = 0.0) -> RoundCosts:
    """Costs for K = 0..7 relative to a plain step of 1 second."""
    tokens = np.arange(1, 9)
    if distinct_over_k is None:
        distinct_over_k = np.exp(np.interp(np.log(tokens), np.log([1, 2, 4, 8]), np.log([1, 1.64, 2.47, 3.29])))
    relative = 1 + EXPERTS / (EXPERTS + OTHER) * (distinct_over_k - 1)
    return round_costs([1], [relative], np.ones(8), draft_warm_s)


def uniform_routing() -> np.ndarray:
    """Distinct experts over k under independent uniform routing, N = 8, k = 2 (arXiv:2505.19645 eq. 8)."""
    return 8 * (1 - 0.75 ** np.arange(1, 9)) / 2


def always_bad(costs: RoundCosts, back_off_factor: float) -> tuple[int, int, float]:
    """Test iterations, tests and slowdown of a request of 250 iterations whose drafts are never accepted."""
    policy = Cascade(CascadeSettings(back_off_factor=back_off_factor))
    run = simulate(costs, policy, np.zeros((1, 400), dtype=np.int8), closed_loop(1), ITERATIONS, record=True)
    assert run.test_iterations is not None
    assert run.k_by_iteration is not None
    drafting = run.k_by_iteration[:, 0] > 0
    begins = int((drafting[1:] & ~drafting[:-1]).sum())
    assert drafting.sum() == run.test_iterations[0]  # it never drafts outside a test
    return int(run.test_iterations[0]), begins, float(run.tpot_s[0]) - 1


def test_an_always_bad_request_has_52_test_iterations_without_back_off() -> None:
    iterations, sets, _ = always_bad(mixtral(), back_off_factor=1)
    assert iterations == pytest.approx(52, abs=3)
    assert sets == 13


def test_an_always_bad_request_has_16_to_18_test_iterations_with_back_off() -> None:
    iterations, _, _ = always_bad(mixtral(), back_off_factor=2)
    assert 16 <= iterations <= 18


@pytest.mark.parametrize("routing", ["measured overlap", "independent uniform"])
def test_back_off_keeps_the_slowdown_within_5_percent_against_more_than_10_without(routing: str) -> None:
    costs = mixtral(None if routing == "measured overlap" else uniform_routing())
    assert always_bad(costs, back_off_factor=2)[2] <= 0.05
    assert always_bad(costs, back_off_factor=1)[2] > 0.10


def test_mixtral_at_k_7_gains_39_percent_from_its_published_etr_and_cost() -> None:
    relative = np.concatenate([np.linspace(1, 2.2, 7), [2.3]])
    length = np.concatenate([np.linspace(1, 3.1, 7), [3.2]])
    assert round_costs([1], [relative], length).speedup[0, 7] == pytest.approx(1.39, abs=0.005)


def test_the_memory_bound_cost_of_k_7_is_near_the_published_2_3_to_3_times() -> None:
    cost = mixtral().round_time_s[0, 7]
    assert 2.3 <= cost <= 3.1  # 3.03: no step is purely memory-bound, so the bound sits at the upper end


def test_the_code_stand_in_has_the_published_etr_of_3_2_at_k_7() -> None:
    trace = draw_trace(ngram_task(0.77), 300, 2000, 7, np.random.default_rng(11))
    run = simulate(mixtral(), StaticK(7), trace, closed_loop(300, requests_per_group=1, output_tokens=2000), 2000)
    assert run.tokens.sum() / run.iterations.sum() == pytest.approx(3.2, abs=0.05)


def test_a_study_names_the_model_that_lacks_a_process() -> None:
    with pytest.raises(ValueError, match="olmoe"):
        cascade_study({"olmoe": mixtral()}, {})


def test_adding_a_workload_does_not_move_the_others() -> None:
    tasks = ngram_workloads()
    one = cascade_study({"m": mixtral()}, {"m": {"math": tasks["math"]}}, n_requests=20)
    two = cascade_study({"m": mixtral()}, {"m": {"code": tasks["code"], "math": tasks["math"]}}, n_requests=20)
    assert one == tuple(row for row in two if row.workload == "math")
