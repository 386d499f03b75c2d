"""Answers drawn from a design space: gains with bands, cuts, sensitivity, hand-off, and the
command."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from advisor.answers.design.answer import DesignAnswer, best_by_objective, design_answer
from advisor.answers.design.candidates import candidates, setup_of
from advisor.answers.design.dials import experts_of
from advisor.answers.design.grid import DesignGrid, Mixes
from advisor.answers.design.search import design_space, distinct_candidates, pareto_front, serve
from advisor.answers.design.space import DesignSpace
from advisor.answers.design.start import added_keys, design_config, parse_batches
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import model_profile
from advisor.physics.architecture import parameter_counts
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.book import FORMS
from advisor.show.words.design import warnings

GRID = DesignGrid(
    n_experts=(16, 32, 64, 96, 128, 192, 256, 384),
    n_active=(2, 3, 4, 6, 8, 12, 16, 20),
    n_shared=(0, 1, 2),
)
PLACES: dict[str, dict[str, Any]] = {
    "deepseek-v3": {"n_gpus": 8, "tensor_parallel": 8, "drafter_id": "mtp"},
    "mixtral-8x7b": {"n_gpus": 2, "tensor_parallel": 2},
    "command-a-plus": {
        "n_gpus": 4,
        "tensor_parallel": 4,
        "weight_dtype": "fp8",
        "acceptance": "2.73@3",
    },
    "dbrx": {"n_gpus": 4, "tensor_parallel": 4},
    "llama4-scout": {"n_gpus": 4, "tensor_parallel": 4},
    "glm-4.5-air": {"n_gpus": 4, "tensor_parallel": 4},
}


@lru_cache(maxsize=32)
def space(
    model_id: str = "qwen3-30b-a3b",
    batch: int = 16,
    hardware_id: str = "h200-sxm",
    grid: DesignGrid = GRID,
    **options: Any,
) -> DesignSpace:
    given = {"acceptance": "2.4@3"} | PLACES.get(model_id, {})
    scenario = build_scenario(model_id=model_id, hardware_id=hardware_id, batch_size=batch, **given)
    return design_space(scenario, grid=grid, **options)


@lru_cache(maxsize=8)
def answer(**options: Any) -> DesignAnswer:
    return design_answer(space(**options), 5)


def baseline_of(found: DesignSpace) -> int:
    """Index of the baseline among the designs, looked up by its counts."""
    own = found.baseline
    itself = np.flatnonzero(
        (found.n_experts == own.n_experts)
        & (found.n_active == own.n_active)
        & (found.n_shared == 0)
        & (found.expert_width == own.expert_width)
    )
    return int(itself[0])


def test_a_gain_has_a_band_narrower_than_the_speeds_it_compares() -> None:
    found = space(objective="tpot")
    own = found.baseline
    best, same = candidates(found, [int(found.best or 0), baseline_of(found)])
    assert same.objective_gain.value == pytest.approx(1.0)
    assert (same.objective_gain.low, same.objective_gain.high) == pytest.approx((1.0, 1.0))
    assert best.objective_gain.low < best.objective_gain.value < best.objective_gain.high
    assert best.objective_gain.value == pytest.approx(found.score[found.best] / own.score)
    assert best.objective_gain.value == pytest.approx(best.tpot_gain.value)
    best = candidates(found, [int(found.best or 0)])[0]
    spread = np.log(best.tpot_gain.high / best.tpot_gain.low)
    from advisor.predict.curve import curve_for

    curve = curve_for(setup_of(found, best.index), [16])
    alone = np.log(curve.high[0, 3] / curve.low[0, 3])
    assert spread < alone


def test_the_best_of_each_objective_is_what_a_search_by_that_objective_finds() -> None:
    found = best_by_objective(space(objective="sd_speedup"))
    for objective in ("sd_speedup", "tpot", "tokens_per_s_per_gpu"):
        assert found[objective].index == space(objective=objective).best


def test_distinct_candidates_start_with_the_best_and_differ_in_kind() -> None:
    found = space()
    chosen = distinct_candidates(found, 6)
    assert chosen[0] == found.best
    assert np.all(np.diff(found.score[chosen]) <= 0)
    kinds = {
        (int(found.n_experts[i]), int(found.n_active[i]), float(found.n_shared[i])) for i in chosen
    }
    assert len(kinds) == 6


@pytest.mark.parametrize("model_id", ["command-a-plus", "qwen3-30b-a3b"])
def test_more_shared_experts_pay_at_low_batch_and_more_routed_ones_at_high_batch(
    model_id: str,
) -> None:
    # Cohere's advice (blog of 2026-04-21), on the speedup objective; high: where a step comes to
    # touch all experts. Far beyond, from batch 256, the curves flatten and nothing is claimed:
    # docs/decisions/design-search.md
    found = space(model_id, objective="sd_speedup")
    n, k, s = found.baseline.counts
    shared = np.arange(s % 1.0, k + s - 1.0 + 1e-9)
    mix = Mixes(n + s - shared, k + s - shared, shared)
    width = np.full(len(mix), float(found.baseline.expert_width))
    speedup = serve(found, found.bodies[0], mix, width, np.array([1.0, 16.0, 32.0, 64.0])).speedup
    share = mix.shared_share[speedup.argmax(axis=1)]
    assert share[0] > 0.8
    assert np.all(share[1:] <= 0.25)
    assert speedup[0, -1] > 1.05 * speedup[0, 0]
    assert np.all(speedup[1:, 0] > 1.1 * speedup[1:, -1])


def test_nothing_beats_a_design_of_the_pareto_front_in_both() -> None:
    found = space(objective="tpot")
    front = pareto_front(found)
    within = np.flatnonzero((found.failed & ~np.uint16(1)) == 0)
    lowest = found.quality.min(axis=0)
    for i in front:
        better = (lowest[within] >= lowest[i]) & (found.score[within] > found.score[i])
        assert not better.any()
    assert len(front) > 5
    assert np.all(np.diff(found.score[front]) > 0)
    assert np.all(np.diff(lowest[front]) < 0)


def test_sensitivity_covers_every_assumption_and_a_design_that_one_law_keeps_is_doubted() -> None:
    found = answer(batch=16, objective="tpot")
    kinds = {item.assumption for item in found.sensitivity}
    assert kinds == {"acceptance", "correlation", "skew", "bandwidth", "overheads", "law"}
    for item in found.sensitivity:
        assert item.flips == (np.isnan(item.regret) or item.regret > 0.01)
        if item.best == found.space.best:
            assert item.regret == pytest.approx(0.0, abs=1e-12)
    (law,) = (item for item in found.sensitivity if item.assumption == "law")
    assert law.best == found.one_law.index
    assert law.flips, "a much sparser design keeps the quality by one law alone"
    assert found.recommended.quality_range[0] >= 0.99
    assert found.one_law.quality_range[0] < 0.9
    assert found.one_law.quality[0].ratio >= 0.99
    assert found.one_law.objective_gain.value > found.recommended.objective_gain.value
    text = FORMS["experts"](experts_of(found.space, found.one_law.index))
    assert any(text in warning for warning in warnings(found))


def test_an_empty_space_answers_with_the_reason_and_no_candidates() -> None:
    found = design_answer(space(max_memory_bytes=5e9))
    assert found.recommended is None
    assert found.top == ()
    assert found.standing.best is None
    assert next(iter(found.infeasible.ruled_out)) == "memory"
    assert found.sensitivity == ()
    assert len(found.pareto) == 0


@pytest.mark.parametrize(
    "model_id",
    [
        "qwen3-30b-a3b",
        "deepseek-v3",
        "mixtral-8x7b",
        "command-a-plus",
        "dbrx",
        "glm-4.5-air",
        "nemotron-3-nano",
    ],
)
def test_a_design_reads_back_from_its_config_json(model_id: str) -> None:
    found = space(model_id)
    indices = [int(i) for i in found.candidates[:3]]
    indices.append(int(np.flatnonzero(found.n_shared == 2)[0]))
    for index in indices:
        config = json.loads(json.dumps(design_config(found, index)))
        wanted = parameter_counts(setup_of(found, int(index)).architecture)
        read = parameter_counts(architecture_from_config(config, "candidate"))
        assert read.total == pytest.approx(wanted.total, rel=1e-5)
        assert (read.routed, read.shared, read.router) == (
            wanted.routed,
            wanted.shared,
            wanted.router,
        )


def test_a_dialect_with_one_implicit_shared_expert_refuses_another_number() -> None:
    found = space("llama4-scout")
    with pytest.raises(AdvisorError, match="cannot express"):
        design_config(found, int(np.flatnonzero(found.n_shared == 0)[0]))


def test_router_groups_that_no_longer_divide_the_experts_are_dropped() -> None:
    grid = DesignGrid(n_experts=(100, 256), n_active=(8,), n_shared=(1,), width_step=128)
    found = space("deepseek-v3", grid=grid)
    uneven = int(np.flatnonzero(found.n_experts == 100)[0])
    even = int(np.flatnonzero(found.n_experts == 256)[0])
    assert "n_group" not in design_config(found, uneven)
    assert design_config(found, even)["n_group"] == 8


def test_keys_that_the_baseline_does_not_have_are_named() -> None:
    found = space()
    index = int(np.flatnonzero(found.n_shared == 1)[0])
    assert added_keys(found, design_config(found, index)) == ["n_shared_experts"]
    assert (
        added_keys(found, design_config(found, int(np.flatnonzero(found.n_shared == 0)[0]))) == []
    )


def test_a_range_of_batches_is_its_powers_of_two_and_its_ends() -> None:
    assert list(parse_batches("3-20")) == [3, 4, 8, 16, 20]
    assert list(parse_batches("1-8, 100")) == [1, 2, 4, 8, 100]


def test_a_design_s_config_does_not_claim_to_be_its_baseline_s_checkpoint() -> None:
    config = {**dict(model_profile("qwen3-30b-a3b").config), "_name_or_path": "Qwen/Qwen3-30B-A3B"}
    scenario = build_scenario(
        model_id="own", model_config_json=json.dumps(config), acceptance="2.4@3"
    )
    found = design_space(scenario, grid=GRID)
    assert found.best is not None
    assert "_name_or_path" not in design_config(found, found.best)
