"""Two dials on a design, and the designs beside them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from advisor.answers.design.candidates import candidates
from advisor.answers.design.dials import (
    RATIO_WITHIN,
    Experts,
    baseline_experts,
    cloud,
    costed,
    dials,
    experts_of,
)
from advisor.answers.design.grid import CONSTRAINTS, DesignGrid
from advisor.answers.design.search import design_space
from advisor.answers.design.space import DesignSpace
from advisor.predict.scenario import build_scenario

GRID = DesignGrid(
    n_experts=(32, 64, 96, 128, 192, 256), n_active=(2, 4, 6, 8, 12, 16), n_shared=(0, 1, 2)
)


@lru_cache(maxsize=8)
def space(model_id: str = "qwen3-30b-a3b", batch: int = 4, **options: float) -> DesignSpace:
    place = {"n_gpus": 8, "tensor_parallel": 8} if model_id == "deepseek-v3" else {}
    scenario = build_scenario(
        model_id=model_id, hardware_id="h200-sxm", batch_size=batch, acceptance="2.4@3", **place
    )
    return design_space(scenario, grid=GRID, **options)


def test_a_held_dial_costs_what_a_search_of_the_rest_loses_to_the_best() -> None:
    found = space()
    for dial in dials(found):
        for position, loss in zip(dial.position, dial.loss, strict=True):
            if dial.name == "ratio":
                away = np.abs(np.log2(found.n_active / found.n_experts / position))
                held = away <= RATIO_WITHIN + 1e-9
            else:
                held = found.n_shared == np.float32(position)
            kept = held & (found.failed == 0)
            if not kept.any():
                assert np.isnan(loss)
                continue
            assert loss == pytest.approx(found.score[found.best] / found.score[kept].max() - 1.0)


@pytest.mark.parametrize("batch", [1, 32])
def test_every_dial_costs_nothing_at_the_best_design_s_value_and_never_less_elsewhere(
    batch: int,
) -> None:
    found = space(batch=batch)
    assert found.best is not None
    best = experts_of(found, found.best)
    for dial in dials(found, best):
        assert dial.loss[dial.own] == pytest.approx(0.0, abs=1e-12)
        assert np.nanmin(dial.loss) >= 0.0
        assert dial.designs[dial.own] == best


def test_a_dial_turned_alone_keeps_the_others() -> None:
    found = space()
    own = baseline_experts(found)
    for dial in dials(found):
        assert dial.designs[dial.own] == own
        turned = [
            one for one in dial.designs if dial.name != "ratio" or one.n_experts == own.n_experts
        ]
        fixed = [
            field for field in Experts._fields if len({getattr(one, field) for one in turned}) == 1
        ]
        assert len(turned) > 2
        assert len(fixed) == 3


@pytest.mark.parametrize("model_id", ["qwen3-30b-a3b", "deepseek-v3", "mixtral-8x7b"])
def test_k_over_n_is_turned_at_the_total_size_and_twice_the_share_is_twice_the_k(
    model_id: str,
) -> None:
    found = space(model_id)
    own = baseline_experts(found)
    dial = dials(found)[0]
    total = costed(found, own).total_params
    assert [costed(found, one).total_params for one in dial.designs] == pytest.approx(
        [total] * len(dial.designs), rel=0.05
    )
    assert np.all(np.diff(dial.position) > 0)
    assert dial.position[0] < own.n_active / own.n_experts < dial.position[-1]
    if model_id != "mixtral-8x7b":  # of whose 8 experts 4 have no design of equal quality
        assert own._replace(n_active=2 * own.n_active) in dial.designs


def test_a_design_beside_the_grid_is_costed_and_has_no_loss_there() -> None:
    found = space()
    typed = Experts(100, 7, 0.0, 1000)
    ratio, shared = dials(found, typed)
    assert ratio.designs[ratio.own] == shared.designs[shared.own] == typed
    assert np.isnan(ratio.loss[ratio.own])
    one = costed(found, typed)
    assert one.experts == typed
    assert len(one.quality) == 3


def test_a_design_fits_where_its_largest_batch_does_wherever_the_smallest_would() -> None:
    """By hand: weights of every layer beside the caches of the largest batch."""
    small = space(batch=1)
    limit = 70e9
    found = design_space(small.setup.scenario, grid=GRID, batches=(1, 256), max_memory_bytes=limit)
    alone = design_space(small.setup.scenario, grid=GRID, batches=(256,), max_memory_bytes=limit)
    tight = (found.largest_batch >= 1) & (found.largest_batch < 256)
    assert 0 < tight.sum() < len(found)
    memory = np.uint16(1 << CONSTRAINTS.index("memory"))
    np.testing.assert_array_equal(found.failed & memory > 0, found.largest_batch < 256)
    np.testing.assert_array_equal(found.failed & memory, alone.failed & memory)
    for index in np.flatnonzero(tight)[:3]:
        assert not costed(found, experts_of(found, int(index))).fits
    for index in np.flatnonzero(found.largest_batch >= 256)[:3]:
        assert costed(found, experts_of(found, int(index))).fits


def test_a_design_costed_alone_is_the_search_s_own() -> None:
    found = space("deepseek-v3", 8)
    assert found.best is not None
    one = costed(found, experts_of(found, found.best))
    item = candidates(found, [found.best])[0]
    assert one.tpot_s == pytest.approx(item.tpot_s[0], rel=1e-5)
    assert one.n_draft == item.n_draft
    assert one.speedup == pytest.approx(item.speedup[0], rel=1e-5)
    assert one.quality == pytest.approx([law.ratio for law in item.quality], rel=1e-5)
    assert (one.total_params, one.active_params) == pytest.approx(
        (item.total_params, item.active_params)
    )
    assert one.fits
    assert costed(found, baseline_experts(found)).quality == pytest.approx((1.0, 1.0, 1.0))


def test_where_nothing_fits_there_is_no_loss_and_no_best() -> None:
    found = space(max_total_params=1e8)
    assert found.best is None
    assert all(np.isnan(dial.loss).all() and dial.best is None for dial in dials(found))
    assert len(cloud(found)) == 0


def test_the_cloud_is_thinned_over_speed_and_stays_within_the_limits() -> None:
    found = space()
    shown = cloud(found, 50)
    assert len(shown) <= 50
    assert np.all(np.diff(found.score[shown]) >= 0)
    assert np.all(found.keeps_apart_from("quality")[shown])
