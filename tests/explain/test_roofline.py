"""Position against the roofline: work counted by hand, rates below the roofs, and the chart's finding."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.advice import Advice, advise
from advisor.physics.components import BY_KEY
from advisor.predict.scenario import Scenario
from advisor.predict.setup import touched_in_pass
from advisor.show.charts.why import roofline_chart
from advisor.show.explain.nearby import pass_work, positions, roof_of

MODELS = {
    "moe": Scenario(acceptance="2.4@3"),
    "latent": Scenario(acceptance="2.4@3", model_id="deepseek-v3", n_gpus=8, tensor_parallel=8),
    "experts split": Scenario(acceptance="2.4@3", model_id="deepseek-v3", n_gpus=8, expert_parallel=8),
    "dense": Scenario(acceptance="2.4@3", model_id="command-a", n_gpus=4, tensor_parallel=4, batch_size=512),
    "roofline": Scenario(acceptance="2.4@3", hardware_id="mi300x"),
}


@pytest.fixture(params=MODELS, ids=str)
def advice(request: pytest.FixtureRequest) -> Advice:
    return advise(MODELS[request.param])


def test_the_work_of_a_pass_is_what_a_hand_counts() -> None:
    setup = advise(MODELS["moe"]).setup
    moved, computed = pass_work(setup, 16, 4)
    architecture = setup.architecture
    moe, hidden = architecture.moe, architecture.hidden_size
    assert moe is not None
    touched = float(touched_in_pass(setup, 16, 4))
    weights = touched * 3 * hidden * moe.expert_width * 2
    activations = 64 * 8 * 2 * (2 * hidden + 3 * moe.expert_width) + 4 * 64 * hidden
    assert moved["routed"] == pytest.approx(moe.count * (weights + activations))
    rows = max(16.0, 64 * 8 / touched + 7.5)
    assert computed["routed"] == pytest.approx(moe.count * 2 * 3 * hidden * moe.expert_width * touched * rows)
    assert moved["lm_head"] == pytest.approx(architecture.vocab_size * hidden * 2)
    assert computed["lm_head"] == pytest.approx(2 * 64 * architecture.vocab_size * hidden)
    mixer = architecture.mixers[0]
    assert moved["attention"] == pytest.approx(mixer.count * 16 * (2048 + 4) * mixer.kv_elements_per_token * 2)
    idle = [name for name in moved if BY_KEY[name].bound != "device"]
    assert idle
    assert all(moved[name] == 0 and computed[name] == 0 for name in idle)


def test_no_component_exceeds_a_roof(advice: Advice) -> None:
    roof = roof_of(advice.setup)
    found = positions(advice.setup, advice.curve, advice.batch_index, 3)
    assert {item.arm for item in found} == {"plain", "verify"}
    for item in found:
        assert 0 < item.of_bandwidth(roof) < 1.1, item
        assert 0 < item.rate < 1.1 * max(roof.peak_flops_per_s.values()), item


def test_verifying_more_tokens_raises_the_intensity_of_all_but_small_expert_blocks(advice: Advice) -> None:
    found = positions(advice.setup, advice.curve, advice.batch_index, 3)
    by_arm = {arm: {item.component: item.intensity for item in found if item.arm == arm} for arm in ("plain", "verify")}
    for component, plain in by_arm["plain"].items():
        if component != "routed":
            assert by_arm["verify"][component] > 1.5 * plain


def test_a_dense_model_at_large_batch_stands_right_of_the_ridge_and_says_so() -> None:
    dense = advise(MODELS["dense"])
    found = positions(dense.setup, dense.curve, dense.batch_index, 3)
    roof = roof_of(dense.setup)
    chart = roofline_chart(found, roof, n_draft=3, batch_size=512, name="H200")
    assert next(item for item in found if item.component == "dense" and item.arm == "verify").intensity > roof.ridge
    assert "right of the ridge" in chart.alt
    assert "compute-bound" in chart.alt


def test_the_chart_has_units_roofs_both_steps_and_its_numbers(advice: Advice) -> None:
    found = positions(advice.setup, advice.curve, advice.batch_index, 3)
    chart = roofline_chart(found, roof_of(advice.setup), n_draft=3, batch_size=16, name="an accelerator")
    layout = chart.figure.layout
    assert "FLOP/s" in layout.title.text
    assert layout.xaxis.title.text == "Arithmetic intensity (FLOP/B)"
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", "log")
    roofs = [trace for trace in chart.figure.data if trace.name.startswith("roof")]
    assert len(roofs) == len(roof_of(advice.setup).peak_flops_per_s)
    for trace in chart.figure.data:
        if trace not in roofs:
            assert list(trace.marker.symbol) == ["circle-open", "diamond"]
    assert set(chart.data["step"]) == {"plain", "verify"}
    assert np.allclose(chart.data["flop_per_byte"], chart.data["flop"] / chart.data["bytes"])
    assert any(letter.isdigit() for letter in chart.alt)
