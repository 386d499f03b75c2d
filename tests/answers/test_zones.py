"""Zones of a chart: where experts are few, new, loaded anyway, and where arithmetic limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.answers.advice import Advice, advise
from advisor.answers.by_length import served_columns
from advisor.answers.experts_loaded import Loading
from advisor.answers.zones import Zone, zone_at, zones
from advisor.predict.scenario import Scenario

COMMAND = Scenario(
    model_id="command-a-plus",
    hardware_id="h200-sxm",
    n_gpus=4,
    tensor_parallel=4,
    acceptance="2.96@4",
    batch_size=32,
)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(COMMAND)


def of(advice: Advice, speedup: list[float], loaded: list[float]) -> list[tuple[str, int]]:
    """Zones of made-up speedups at batch 1, 2, 4, ... of one K, and of experts loaded."""
    n = len(speedup)
    curve = advice.curve
    column = curve.column(4)
    batches = 2.0 ** np.arange(n)
    rows = np.searchsorted(curve.batches, batches)
    values = np.tile(np.array(speedup)[:, None], (1, curve.drafts.size))
    made = replace(
        curve,
        batches=batches,
        speedup=values,
        verify_step_s=curve.verify_step_s[rows],
        plain_step_s=curve.plain_step_s[rows],
    )
    loading = Loading.of(advice.setup, curve)
    shaped = Loading(np.array(loaded), loading.growth[rows], loading.time_share[rows])
    found = zones(advice.setup, made, shaped, np.full(n, column))
    return [(zone.kind, zone.last) for zone in found]


RISING_LOAD = [0.06, 0.12, 0.25, 0.45, 0.7, 0.85, 0.95, 1.0]


def test_a_dip_a_peak_and_an_end_are_four_zones(advice: Advice) -> None:
    speedup = [1.8, 1.7, 1.5, 1.6, 1.9, 1.9, 1.6, 1.2]
    assert of(advice, speedup, RISING_LOAD) == [
        ("few", 2),
        ("new", 8),
        ("sweet", 32),
        ("arithmetic", 128),
    ]


def test_a_top_is_no_sweet_spot_before_half_of_the_experts_are_loaded(advice: Advice) -> None:
    speedup = [1.8, 1.7, 1.5, 1.6, 1.9, 1.9, 1.6, 1.2]
    late = [load / 3.0 for load in RISING_LOAD]
    assert of(advice, speedup, late) == [("few", 2), ("new", 32), ("arithmetic", 128)]
    half = of(advice, speedup, [0.1, 0.1, 0.2, 0.3, 0.4, 0.6, 0.9, 1.0])
    assert half[1:3] == [("new", 16), ("sweet", 32)]


def test_a_gain_that_only_falls_has_no_new_experts_before_it(advice: Advice) -> None:
    kinds = [kind for kind, _ in of(advice, [2.0, 1.9, 1.7, 1.5, 1.3, 1.2, 1.1, 1.0], RISING_LOAD)]
    assert kinds[0] == "few"
    assert "sweet" not in kinds


def test_a_dense_model_has_two() -> None:
    dense = advise(COMMAND.model_copy(update={"model_id": "command-a"}))
    served = served_columns(dense.curve, dense.to_serve, dense.curve_k)
    found = zones(dense.setup, dense.curve, Loading.of(dense.setup, dense.curve), served)
    assert [zone.kind for zone in found] == ["free", "arithmetic"]


def test_zones_cover_every_batch_that_fits_and_scale_with_nothing(advice: Advice) -> None:
    loading = Loading.of(advice.setup, advice.curve)
    served = served_columns(advice.curve, advice.to_serve, advice.curve_k)
    found = zones(advice.setup, advice.curve, loading, served)
    lasts = [zone.last for zone in found]
    assert lasts == sorted(set(lasts))
    assert lasts[-1] == advice.setup.memory.largest_batch
    faster = replace(advice.curve, speedup=advice.curve.speedup * 1.3)
    assert zones(advice.setup, faster, loading, served) == found


def test_a_batch_beyond_the_last_zone_is_in_it() -> None:
    found = (Zone("new", 8), Zone("sweet", 32))
    assert [zone_at(found, batch) for batch in (1, 8, 9, 100)] == ["new", "new", "sweet", "sweet"]
