"""What a design is called and why: the title, training cost, quality by each law, corners, curves
against batch."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from advisor.answers.design.answer import DesignAnswer, design_answer
from advisor.answers.design.candidates import (
    Band,
    candidates,
    design_words,
    gain_words,
    headline,
    is_clear,
    title,
)
from advisor.answers.design.grid import DesignGrid
from advisor.answers.design.search import design_space
from advisor.physics.quality import law_range
from advisor.predict.scenario import build_scenario
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
    best = found.recommended
    shared = f"{best.n_shared:g} shared" if best.n_shared else "no shared"
    start = (
        f"op-{best.n_active} of {best.n_experts}, {shared}, width {best.expert_width}, K = "
        f"{best.n_draft[0]}"
    )
    assert start in found.verdict
    assert "top-8 of 128" in found.verdict
    assert f"{best.tpot_s[0] * 1e3:.2f} ms per output token against" in found.verdict
    assert (
        f"training takes {best.training_cost:.2f} times the compute at equal tokens"
        in found.verdict
    )
    assert all(item.text in found.verdict for item in best.quality)


def test_the_headline_names_the_design_and_its_gain() -> None:
    found = answer()
    best = found.recommended
    assert best is not None
    sure = Band(1.2, 1.1, 1.3, 0.99)
    unsure = Band(1.05, 0.97, 1.2, 0.7)
    kept = f"Keep top-8 of 128, no shared, K = {found.space.baseline.served.n_draft[0, 0]}: "
    unsaid = "no design of equal quality is clearly faster"
    slower = "the best of equal quality by time per output token is slower per token"
    assert is_clear(found.space, replace(best, objective_gain=sure, tpot_gain=sure))
    for objective, time, said in ((unsure, sure, unsaid), (sure, Band(0.9, 0.8, 1.0, 0.1), slower)):
        other = replace(best, objective_gain=objective, tpot_gain=time)
        assert not is_clear(found.space, other)
        assert headline(found.space, other) == kept + said
        gain = (
            f"{objective.value:.2f}× as fast (80% range {objective.low:.2f}–{objective.high:.2f}×)"
        )
        assert f"the best alternative, {gain}, is top-" in title(found.space, other)
    even = replace(best, objective_gain=Band(1.004, 0.94, 1.06, 0.5))
    assert gain_words(found.space, even) == "no faster (80% range 0.94–1.06×)", "no 1.00×"
    assert found.clear == is_clear(found.space, best)
    sure = replace(
        best, objective_gain=Band(1.234, 1.1, 1.3, 0.99), tpot_gain=Band(1.234, 1.1, 1.3, 0.99)
    )
    said = ": 1.23× faster (80% range 1.10–1.30×) than top-8 of 128, no shared, at equal quality"
    assert headline(found.space, sure) == f"Build {design_words(found.space, sure, width='')}{said}"
    assert title(found.space, sure).startswith(headline(found.space, sure) + ". At batch 32 on ")
    assert headline(found.space, None) == "No design keeps every limit"


def test_where_the_baseline_is_the_best_design_nothing_else_is_guessed() -> None:
    alone = DesignGrid(n_experts=(128,), n_active=(8,), n_shared=(0,), expert_width=(768,))
    scenario = build_scenario(
        model_id="qwen3-30b-a3b", hardware_id="h200-sxm", batch_size=32, acceptance="2.4@3"
    )
    found = design_answer(design_space(scenario, grid=alone), 1)
    assert (
        found.headline
        == "Keep top-8 of 128, no shared, K = 3: no design of equal quality is faster"
    )
    assert found.verdict.startswith(found.headline)
    assert not found.clear


def test_where_the_baseline_does_not_fit_the_best_of_those_that_do_is_named() -> None:
    scenario = build_scenario(
        model_id="qwen3-30b-a3b", hardware_id="h200-sxm", batch_size=380, acceptance="2.4@3"
    )
    found = design_answer(design_space(scenario, grid=GRID), 1)
    assert found.recommended is not None
    assert found.verdict.split(": ")[1].startswith("today's design cannot serve this. ")
    assert "The baseline does not fit in memory at batch 380" in found.verdict


def test_a_baseline_measured_far_from_the_fit_is_not_beaten_by_the_fit() -> None:
    found = answer()
    best = found.recommended
    assert best is not None
    far = replace(found.space, measured_gap=2.85)
    assert not is_clear(
        far,
        replace(best, objective_gain=Band(1.5, 1.4, 1.6, 1.0), tpot_gain=Band(1.5, 1.4, 1.6, 1.0)),
    )
    assert title(far, best).startswith(
        "Measure first: the cost model is off by 285% for top-8 of 128, no shared, too much to "
        "compare designs"
    )


def test_the_speculative_gain_is_told_with_its_caveat_in_the_same_line() -> None:
    found = answer(objective="sd_speedup")
    best = found.recommended
    line = found.verdict.split(". ")[0]
    assert "speculative speedup" in found.verdict
    assert "a ratio to its own plain decoding, not a speed: per token it is" in found.verdict
    word = "faster" if best.tpot_gain.value >= 1 else "slower"
    assert f"times {word} than the baseline" in found.verdict
    assert line
    if best.tpot_gain.value < 1.0:
        assert not found.clear


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
    assert "no band published" in sparse[2].text


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
    assert "256 experts, the most tried" in item.corners
    assert "16 active experts, the most tried" in item.corners
    inner = int(
        np.flatnonzero((found.n_experts == 64) & (found.n_active == 8) & (found.n_shared == 1))[3]
    )
    assert not any("tried" in text for text in candidates(found, [inner])[0].corners)
    best = answer().recommended
    assert any(text.startswith("At a corner of the search") for text in answer().warnings) == bool(
        best.corners
    )
