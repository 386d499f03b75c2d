"""Routing carried to other counts of experts: touched experts and baseline steps over k."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.design.grid import DesignGrid, Mixes
from advisor.answers.design.space import Touched, arms, make_body, touched_by
from advisor.catalog.models import load_model, model_ids
from advisor.catalog.routing_presets import preset_for
from advisor.catalog.routing_shift import carried_cv, counts_of, shifted_routing
from advisor.physics.touched_experts import touched_experts
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import Setup, by_form

MOES = [name for name in model_ids() if load_model(name).moe is not None]
BATCHES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
DRAFTS = np.arange(1, 8)
EVERY_K = (*range(1, 33), 40, 48, 64, 96, 128, 192, 256, 384, 512)


def design_setup(model_id: str) -> Setup:
    place = {"hardware_id": "h200-sxm", "n_gpus": 8, "tensor_parallel": 8, "acceptance": "2.4@3"}
    return by_form(load_setup(build_scenario(model_id=model_id, **place)))


def over_k(setup: Setup) -> tuple[Mixes, Touched]:
    """The model with every number of active experts, else as it is."""
    assert setup.architecture.moe is not None
    n, k, s = counts_of(setup.architecture.moe)
    active = np.array(sorted({*(float(each) for each in EVERY_K if each <= n), k}))
    mix = Mixes(np.full(len(active), n), active, np.full(len(active), s))
    routing = shifted_routing(setup.routing, (n, k, s), *mix.counts)
    return mix, touched_by(setup, mix, routing, BATCHES, DRAFTS)


@pytest.mark.parametrize("model_id", MOES)
def test_more_active_experts_touch_as_many_or_more_at_every_size_of_design(model_id: str) -> None:
    architecture = load_model(model_id)
    assert architecture.moe is not None
    baseline = counts_of(architecture.moe)
    preset, _ = preset_for(architecture)
    grid = DesignGrid()
    batch = np.array([1.0, 8.0, 32.0, 128.0, 512.0])[:, None, None]
    tokens = np.array([1.0, 4.0, 8.0])[:, None]
    for n in {*grid.n_experts, baseline[0]}:
        active = np.array([float(k) for k in EVERY_K if k <= n])
        for s in {0, 1, 4, baseline[2]}:
            routing = shifted_routing(preset, baseline, n, active, s)
            touched = touched_experts(batch, tokens, n, active, *vars(routing).values())
            assert np.all(np.diff(touched) >= -1e-9 * n), (n, s)


@pytest.mark.parametrize("model_id", MOES)
def test_a_baseline_step_with_more_active_experts_is_never_shorter(model_id: str) -> None:
    setup = design_setup(model_id)
    assert setup.architecture.moe is not None
    body = make_body(setup, setup.architecture)
    mix, touched = over_k(setup)
    assert np.all(np.diff(touched.steps, axis=2) >= 0.0)
    width = np.full(len(mix), float(setup.architecture.moe.expert_width))
    step_s = arms(body, mix, width, touched, BATCHES, DRAFTS).plain_s
    assert np.all(np.diff(step_s, axis=1) > 0.0)


def test_command_a_plus_with_48_active_experts_touches_all_of_them_at_batch_32() -> None:
    mix, touched = over_k(design_setup("command-a-plus"))
    at = BATCHES.tolist().index(32.0)
    by_k = dict(zip(mix.n_active.tolist(), touched.steps[0, at].tolist(), strict=True))
    assert by_k[8.0] == pytest.approx(92.6, abs=0.1)
    assert by_k[24.0] == pytest.approx(122.3, abs=0.1)
    assert by_k[48.0] > 126.0


@pytest.mark.parametrize("load_cv", [0.1, 0.94, 2.0, 3.8])
def test_the_spread_of_the_odds_is_carried_and_comes_back(load_cv: float) -> None:
    there = carried_cv(load_cv, 128.0, 8.0, 64.0, 24.0)
    assert float(there) <= np.sqrt(64.0 / 24.0 - 1.0)
    assert float(carried_cv(there, 64.0, 24.0, 128.0, 8.0)) == pytest.approx(load_cv)


def test_loads_as_uneven_as_can_be_stay_so_and_all_experts_active_are_even() -> None:
    assert float(carried_cv(9.9, 128.0, 8.0, 128.0, 32.0)) == pytest.approx(np.sqrt(3.0))
    assert float(carried_cv(0.5, 128.0, 8.0, 128.0, 128.0)) == 0.0
    assert float(carried_cv(0.0, 8.0, 8.0, 8.0, 8.0)) == 0.0
