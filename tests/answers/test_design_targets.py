"""One design for several targets: least mean loss against each target's own best, and why a target
has none."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from advisor.answers.design.dials import experts_of
from advisor.answers.design.grid import DesignGrid
from advisor.answers.design.search import design_space
from advisor.answers.design.targets import (
    MAX_TARGETS,
    TIE,
    OneDesign,
    Place,
    one_design,
    parse_targets,
)
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError
from advisor.show.words.design import one_design_document, one_design_table, one_design_text

GRID = DesignGrid(
    n_experts=(32, 64, 96, 128, 192, 256),
    n_active=(2, 4, 6, 8, 12, 20),
    n_shared=(0, 1, 2),
    width_step=64,
)
SCENARIO = build_scenario(
    model_id="qwen3-30b-a3b", hardware_id="h200-sxm", acceptance="2.4@3", batch_size=16
)


@lru_cache(maxsize=8)
def answer(*targets: str, **question: float) -> OneDesign:
    return one_design(SCENARIO, parse_targets(targets), grid=GRID, **question)


def test_each_target_s_own_best_is_what_the_search_there_alone_recommends() -> None:
    for row in answer("h100-sxm:8", "b200-sxm:128").at:
        moved = Scenario(**dict(SCENARIO) | {"hardware_id": row.target.place.hardware_id})
        alone = design_space(moved, batches=[row.target.batch], grid=GRID)
        assert alone.best is not None
        assert row.best == experts_of(alone, alone.best)
        assert row.best_tpot_s == pytest.approx(float(alone.tpot_s[0, alone.best]))


def test_the_one_design_has_the_least_mean_loss_of_all_that_serve_every_target() -> None:
    result = answer("h100-sxm:8", "b200-sxm:128", "b200-sxm:1")
    scores = np.stack([np.where(space.failed == 0, space.score, 0.0) for space in result.spaces])
    serves = (scores > 0.0).all(axis=0)
    losses = (1.0 - scores / scores.max(axis=1, keepdims=True)).mean(axis=0)
    assert result.index is not None
    assert serves[result.index]
    assert losses[result.index] == losses[serves].min()
    assert result.facts["mean_loss"] == pytest.approx(float(losses[result.index]))
    assert [row.loss for row in result.at] == pytest.approx(
        [1.0 - row.best_tpot_s / row.tpot_s for row in result.at], abs=1e-6
    )


def test_one_target_alone_loses_nothing_and_two_of_one_kind_tie() -> None:
    (row,) = answer("h100-sxm:8").at
    assert (row.loss, row.tpot_s) == (0.0, row.best_tpot_s)
    facts = answer("h200-sxm:8", "h200-sxm:9").facts
    assert facts["worst_loss"] < TIE
    assert "each target" in one_design_text(answer("h200-sxm:8", "h200-sxm:9"))


def test_the_baseline_is_kept_and_another_design_used() -> None:
    result = answer("h200-sxm:8", "h200-sxm:9")
    baseline = result.spaces[0].baseline_index()
    assert baseline is not None
    assert result.index != baseline
    kept = replace(result, index=baseline)
    assert (result.facts["is_baseline"], kept.facts["is_baseline"]) == (False, True)
    assert one_design_text(result).split()[0] != one_design_text(kept).split()[0]


@pytest.mark.parametrize(
    ("question", "why"),
    [({"max_tpot_ms": 0.1}, "tpot"), ({"max_memory_bytes": 1e9}, "memory")],
)
def test_a_target_that_no_design_serves_says_why(question: dict[str, float], why: str) -> None:
    result = answer("h100-sxm:8", **question)
    assert result.index is None
    assert [row.why_not for row in result.at] == [why]
    document = one_design_document(result)
    assert (document["design"], document["targets"][0]["loss"]) == (None, None)
    assert len(one_design_table(result).cells) == 1


def test_designs_that_every_placement_can_hold_are_searched() -> None:
    result = answer("h100-sxm:8", "2xh100-sxm:8")
    sizes = {len(space) for space in result.spaces}
    assert len(sizes) == 1
    assert result.at[1].target.place == Place("h100-sxm", 2)
    assert result.spaces[1].setup.placement.tensor_parallel == 2


def test_cost_ranks_as_throughput_at_one_price_for_all_gpus() -> None:
    result = one_design(
        SCENARIO,
        parse_targets(["h100-sxm:8"]),
        grid=GRID,
        objective="cost_per_million_tokens",
        price_usd_per_hour=2.0,
    )
    assert result.spaces[0].question.objective == "tokens_per_s_per_gpu"


def test_too_many_targets_and_an_accelerator_without_room_are_refused() -> None:
    with pytest.raises(AdvisorError, match=f"give 1 to {MAX_TARGETS}"):
        parse_targets([f"h100-sxm:{batch}" for batch in range(1, MAX_TARGETS + 2)])
    with pytest.raises(AdvisorError, match="3xh100-sxm"):
        answer("3xh100-sxm:8")
