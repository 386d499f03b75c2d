"""What a design is called and why: the title, training cost, quality by each law, corners, curves
against batch."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from advisor.answers.design.answer import DesignAnswer, design_answer
from advisor.answers.design.candidates import Band, candidates, is_clear
from advisor.answers.design.dials import Experts, experts_of
from advisor.answers.design.grid import DesignGrid
from advisor.answers.design.search import design_space
from advisor.answers.design.standing import standing_of
from advisor.physics.quality import law_range
from advisor.predict.scenario import build_scenario
from advisor.show.words.design import corner_texts
from tests.answers.test_design_search import baseline_of

GRID = DesignGrid(n_experts=(32, 64, 128, 256), n_active=(2, 4, 8, 12, 16), n_shared=(0, 1, 2))


@lru_cache(maxsize=8)
def answer(model_id: str = "qwen3-30b-a3b", batch: int = 32, **options: Any) -> DesignAnswer:
    scenario = build_scenario(
        model_id=model_id,
        hardware_id="h200-sxm",
        batch_size=batch,
        acceptance="2.4@3",
        max_tpot_ms=None,
    )
    return design_answer(design_space(scenario, grid=GRID, **options), 5)


def test_designs_are_ranked_by_time_per_token() -> None:
    found = answer()
    assert found.space.question.objective == "tpot"
    fastest = found.space.tpot_s[0, found.space.candidates].min()
    assert found.recommended.tpot_s[0] == fastest
    standing = found.standing
    assert standing.best == experts_of(found.space, found.recommended.index)
    assert standing.start == Experts(128, 8, 0.0, 768)
    assert standing.best_ms == pytest.approx(found.recommended.tpot_s[0] * 1e3)
    assert standing.gain == found.recommended.objective_gain.value
    assert standing.tpot_gain == found.recommended.tpot_gain.value
    assert (standing.problem, standing.quality) == (None, found.recommended.quality)
    assert standing.training_cost == found.recommended.training_cost


def test_a_gain_is_clear_throughout_its_band_and_no_slower_per_token() -> None:
    found = answer()
    best = found.recommended
    assert best is not None
    sure = Band(1.2, 1.1, 1.3, 0.99)
    unsure = Band(1.05, 0.97, 1.2, 0.7)
    slower = Band(0.9, 0.8, 1.0, 0.1)
    for gain, time, clear in ((sure, sure, True), (unsure, sure, False), (sure, slower, False)):
        other = replace(best, objective_gain=gain, tpot_gain=time)
        standing = standing_of(found.space, other)
        assert (standing.clear, standing.keeps) == (clear, not clear)
        assert is_clear(found.space, other) == clear
    assert found.clear == is_clear(found.space, best)
    nothing = standing_of(found.space, None)
    assert (nothing.best, nothing.clear, nothing.keeps) == (None, False, False)


def test_where_the_baseline_is_the_best_design_nothing_else_is_guessed() -> None:
    alone = DesignGrid(n_experts=(128,), n_active=(8,), n_shared=(0,), expert_width=(768,))
    scenario = build_scenario(
        model_id="qwen3-30b-a3b", hardware_id="h200-sxm", batch_size=32, acceptance="2.4@3"
    )
    found = design_answer(design_space(scenario, grid=alone), 1)
    assert (found.standing.same, found.standing.keeps, found.clear) == (True, True, False)
    assert found.standing.start_k == (3,)


def test_where_the_baseline_does_not_fit_the_best_of_those_that_do_is_named() -> None:
    scenario = build_scenario(
        model_id="qwen3-30b-a3b", hardware_id="h200-sxm", batch_size=380, acceptance="2.4@3"
    )
    standing = design_answer(design_space(scenario, grid=GRID), 1).standing
    assert standing.best is not None
    assert (standing.problem, standing.target_batch, standing.keeps) == ("memory", 380, False)
    assert standing.start_largest < 380


def test_a_baseline_measured_far_from_the_fit_is_not_beaten_by_the_fit() -> None:
    found = answer()
    best = found.recommended
    assert best is not None
    far = replace(found.space, gap=2.85)
    sure = Band(1.5, 1.4, 1.6, 1.0)
    standing = standing_of(far, replace(best, objective_gain=sure, tpot_gain=sure))
    assert (standing.gap_large, standing.gap, standing.clear) == (True, 2.85, False)


def test_the_speculative_gain_stands_beside_the_time_per_token() -> None:
    standing = answer(objective="sd_speedup").standing
    assert standing.objective == "sd_speedup"
    ratio = standing.tpot_gain
    assert standing.facts["tpot_factor"] == max(ratio, 1.0 / ratio) >= 1.0
    assert standing.clear <= (ratio >= 1.0)


def test_training_cost_is_active_parameters_over_the_baselines_and_flop() -> None:
    found = answer(training_tokens=1e12)
    for item in found.top:
        assert item.training_cost == pytest.approx(
            item.active_params / found.space.baseline.active_params
        )
        assert item.training_flop == pytest.approx(6.0 * item.active_params * 1e12)
    assert answer().top[0].training_flop is None


def test_each_law_judges_a_design_and_all_of_them_the_baseline_as_itself() -> None:
    found = answer().space
    (same,) = candidates(found, [baseline_of(found)])
    assert [item.law for item in same.quality] == ["leverage", "anchor", "loss"]
    assert [item.ratio for item in same.quality] == pytest.approx([1.0, 1.0, 1.0])
    assert same.quality[0].low == pytest.approx(1.0), "no octave away, no spread"
    assert same.corners == ()
    sparse = candidates(found, [int(found.candidates[0])])[0].quality
    assert min(item.ratio for item in sparse) >= 0.99, "every law keeps a candidate"
    for item in sparse[:2]:
        assert item.high is not None
        assert item.low <= item.ratio <= item.high
    assert (sparse[2].low, sparse[2].high) == (None, None)


def test_laws_lie_thirty_per_cent_apart_two_octaves_away() -> None:
    low, high = law_range(1.0, 0.25, 1.0)
    assert float(high) == pytest.approx(1.15**2)
    assert float(low) == pytest.approx(1 / 1.15**2)


def test_a_corner_of_the_search_is_named_and_said_of_the_recommended_design() -> None:
    found = answer().space
    most = int(
        np.flatnonzero((found.n_experts == 256) & (found.n_active == 16) & (found.n_shared == 0))[3]
    )
    (item,) = candidates(found, [most])
    assert ("most_n_experts", 256.0) in item.corners
    assert ("most_n_active", 16.0) in item.corners
    inner = int(
        np.flatnonzero((found.n_experts == 64) & (found.n_active == 8) & (found.n_shared == 1))[3]
    )
    cases = {case for case, _ in candidates(found, [inner])[0].corners}
    assert not [case for case in cases if case.startswith(("most", "fewest"))]
    best = answer().recommended
    assert bool(best.corners) == bool(corner_texts(best.corners))
