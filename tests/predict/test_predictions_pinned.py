"""Every profile predicts, and a change that moves predictions is seen (`make predict-diff`, then
--write)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from advisor.catalog.models import load_model, model_ids
from advisor.physics.hardware import hardware_ids
from advisor.predict.curve import speedup_curve
from advisor.predict.scenario import Scenario
from tests.golden.predict_grid import FILE, predictions, scenarios

BASE = Scenario(acceptance="2.4@3", k_max=4)


def test_pinned_predictions_have_not_moved_unnoticed() -> None:
    pinned = json.loads(FILE.read_text(encoding="utf-8"))
    now = predictions()
    assert set(now) == set(pinned)
    moved = {
        name: (pinned[name], now[name])
        for name in now
        if now[name] != pytest.approx(pinned[name], rel=2e-3)
    }
    assert not moved, (
        "run `make predict-diff`, say in the CHANGELOG what moved and why, then accept with --write"
    )


def test_the_pinned_grid_has_five_of_each_confidence_or_all_there_are() -> None:
    names = list(scenarios())
    assert sum(name.startswith("hardware/") for name in names) >= 11
    assert sum(name.startswith("model/") for name in names) >= 11


@pytest.mark.parametrize("hardware_id", hardware_ids())
def test_every_accelerator_gives_a_curve(hardware_id: str) -> None:
    curve = speedup_curve(BASE.model_copy(update={"hardware_id": hardware_id}), [1, 64])
    assert np.all(np.isfinite(curve.speedup))
    assert np.all((curve.speedup > 0.1) & (curve.speedup < 5.0))
    assert np.all(curve.plain_step_s > 0)


@pytest.mark.parametrize("model_id", model_ids())
def test_every_model_gives_a_curve_with_each_drafter_it_has(model_id: str) -> None:
    drafters = ["eagle3", "ngram", "p-eagle"] + (
        ["mtp"] if load_model(model_id).mtp_modules else []
    )
    for drafter in drafters:
        scenario = BASE.model_copy(
            update={"model_id": model_id, "drafter_id": drafter, "n_gpus": 8, "tensor_parallel": 8}
        )
        curve = speedup_curve(scenario, [1, 64])
        assert np.all((curve.speedup > 0.1) & (curve.speedup < 5.0))
        assert np.all(np.diff(curve.plain_step_s) > 0)
