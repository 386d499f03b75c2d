"""The curve: identities between its parts, bands, tiers, limits."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.curve import curve_columns, curve_for, curve_rows, speedup_curve
from advisor.prediction import AdvisorError, Tier
from advisor.prefill import prefill_per_token_s
from advisor.routing.law import expected_experts
from advisor.scenario.scenario import Scenario
from advisor.setup import load_setup, touched_experts

QWEN = Scenario(
    hardware_id="h200-sxm", model_id="qwen3-30b-a3b", drafter_id="eagle3", acceptance="2.4@3", batch_size=16
)
DENSE = QWEN.model_copy(update={"model_id": "qwen3-8b"})
BATCHES = [1, 4, 16, 64, 256]


def test_k_0_is_plain_decode_at_every_batch_without_a_band() -> None:
    curve = speedup_curve(QWEN, BATCHES)
    for values in (curve.speedup, curve.low, curve.high, curve.verify_ratio):
        assert values[:, 0] == pytest.approx(1.0)
    assert curve.round_s[:, 0] == pytest.approx(curve.plain_step_s)


def test_the_components_add_up_to_the_round_and_the_speedup_follows_from_them() -> None:
    curve = speedup_curve(QWEN, BATCHES)
    assert sum(curve.round_components.values()) == pytest.approx(curve.round_s)
    assert sum(curve.plain_components.values()) == pytest.approx(curve.plain_step_s)
    assert curve.speedup == pytest.approx(curve.accepted_length * curve.plain_step_s[:, None] / curve.round_s)
    assert curve.tpot_s == pytest.approx(curve.plain_step_s[:, None] / curve.speedup)


def test_the_band_contains_the_centre_and_most_draws() -> None:
    curve = speedup_curve(QWEN, BATCHES)
    assert np.all(curve.low <= curve.speedup)
    assert np.all(curve.speedup <= curve.high)
    inside = (curve.draws >= curve.low) & (curve.draws <= curve.high)
    assert inside[:, :, 1:].mean() == pytest.approx(0.8, abs=0.02)


def test_equal_questions_have_equal_answers() -> None:
    first, again = speedup_curve(QWEN, BATCHES), speedup_curve(QWEN, BATCHES)
    assert np.array_equal(first.draws, again.draws)


def test_one_batch_alone_equals_its_row_of_a_grid() -> None:
    grid, alone = speedup_curve(QWEN, BATCHES), speedup_curve(QWEN, [16])
    assert alone.speedup[0] == pytest.approx(grid.speedup[2])
    assert alone.low[0] == pytest.approx(grid.low[2])


def test_a_higher_accepted_length_speeds_up_and_costs_nothing() -> None:
    low, high = (speedup_curve(QWEN.model_copy(update={"acceptance": text}), BATCHES) for text in ("2.0@3", "3.0@3"))
    assert np.all(high.speedup[:, 3] > low.speedup[:, 3])
    assert high.round_s == pytest.approx(low.round_s)


def test_uniform_routing_touches_more_experts_than_the_models_measured_routing() -> None:
    setup, uniform = load_setup(QWEN), load_setup(QWEN.model_copy(update={"routing": "uniform"}))
    measured, independent = touched_experts(setup, 8, 4), touched_experts(uniform, 8, 4)
    assert float(independent) == pytest.approx(float(expected_experts(32, 128, 8)), rel=1e-6)
    assert float(measured) < float(independent)
    ends = [float(touched_experts(setup, 8, 4, end)) for end in ("low", "value", "high")]  # type: ignore[arg-type]
    assert ends == sorted(ends)


def test_a_dense_model_touches_no_experts_and_its_ratio_only_rises_with_batch() -> None:
    curve = speedup_curve(DENSE, BATCHES)
    assert np.all(curve.distinct_verify == 0)
    assert np.all(np.diff(curve.verify_ratio[:, 3]) > 0)


def test_a_drafter_without_device_time_is_never_slower_than_one_with_it() -> None:
    free, eagle = (speedup_curve(QWEN.model_copy(update={"drafter_id": d}), BATCHES) for d in ("ngram", "eagle3"))
    assert np.all(free.speedup >= eagle.speedup - 1e-12)


def test_prefill_is_charged_only_when_lengths_are_given_and_pulls_towards_one() -> None:
    lengths = QWEN.model_copy(update={"input_tokens": 4000, "output_tokens": 200})
    assert np.all(prefill_per_token_s(load_setup(QWEN), np.array([8.0])) == 0)
    shared, alone = speedup_curve(lengths, BATCHES), speedup_curve(QWEN, BATCHES)
    assert np.all(np.abs(shared.speedup[:, 1:] - 1) < np.abs(alone.speedup[:, 1:] - 1))
    assert alone.ttft_s is None


def test_a_tree_pays_for_every_node_it_verifies() -> None:
    setup = load_setup(QWEN)
    chain, tree = curve_for(setup, [8], [3]), curve_for(setup, [8], [3], verify_tokens=16)
    assert tree.distinct_verify[0, 0] > chain.distinct_verify[0, 0]
    assert tree.speedup[0, 0] < chain.speedup[0, 0]


def test_steps_beyond_the_calibrated_tokens_are_flagged_and_their_band_widened() -> None:
    curve = speedup_curve(QWEN, [256, 16384], [3])
    assert curve.extrapolated.tolist() == [[False], [True]]
    width = np.log(curve.high / curve.low)
    assert width[1, 0] > width[0, 0]


def test_an_accelerator_without_measured_kernels_is_roofline_with_a_wider_band() -> None:
    unmeasured = speedup_curve(QWEN.model_copy(update={"hardware_id": "mi300x"}), [16], [3])
    measured = speedup_curve(QWEN, [16], [3])
    assert unmeasured.tier[0, 0] is Tier.ROOFLINE
    assert measured.tier[0, 0] is Tier.FITTED
    assert np.log(unmeasured.high / unmeasured.low)[0, 0] > np.log(measured.high / measured.low)[0, 0]


@pytest.mark.parametrize(
    ("batches", "drafts"), [([0], None), ([], None), ([float("nan")], None), ([1], [9]), ([1], [-1])]
)
def test_axes_outside_their_range_are_refused(batches: list[float], drafts: list[int] | None) -> None:
    with pytest.raises(AdvisorError, match=r"batches|K must lie"):
        speedup_curve(QWEN, batches, drafts)


def test_the_table_of_a_curve_has_a_row_for_each_batch_and_k_with_k_changing_fastest() -> None:
    curve = speedup_curve(QWEN, [1, 16], [0, 2, 3])
    columns, rows = curve_columns(curve), curve_rows(curve)
    assert columns["batch_size"].tolist() == [1, 1, 1, 16, 16, 16]
    assert columns["k_draft"].tolist() == [0, 2, 3, 0, 2, 3]
    np.testing.assert_array_equal(columns["speedup"].reshape(2, 3), curve.speedup)
    np.testing.assert_array_equal(columns["routed_ms"].reshape(2, 3), curve.round_components["routed"] * 1e3)
    assert rows[4]["tpot_ms"] == float(f"{curve.tpot_s[1, 1] * 1e3:.6g}")
    assert rows[4] | {"batch_size": 16, "k_draft": 2, "tier": "fitted", "extrapolated": False} == rows[4]


def test_a_k_is_found_on_the_curves_axis_or_refused_with_what_there_is() -> None:
    curve = speedup_curve(QWEN, [1, 16], [0, 2, 3])
    assert curve.column(3) == 2
    with pytest.raises(AdvisorError, match="K = 1 is not in the curve, which has K = 0 to 3"):
        curve.column(1)


def test_the_components_at_a_point_are_those_of_the_plain_step_and_of_the_round() -> None:
    curve = speedup_curve(QWEN, [1, 16], [0, 3])
    plain, whole = curve.components_at(1, 1)
    assert sum(plain.values()) == pytest.approx(curve.plain_step_s[1])
    assert sum(whole.values()) == pytest.approx(curve.round_s[1, 1])


def test_a_curve_of_central_values_has_those_of_the_whole_curve_and_no_band() -> None:
    setup = load_setup(Scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3"))
    whole, central = (curve_for(setup, [1.0, 16.0, 256.0], central_only=only) for only in (False, True))
    for name in ("speedup", "tpot_s", "tokens_per_s_per_gpu", "round_s", "plain_step_s", "verify_ratio"):
        assert np.array_equal(getattr(whole, name), getattr(central, name)), name
    assert (whole.tier == central.tier).all()
    assert np.array_equal(central.low, central.speedup)
    assert np.array_equal(central.draws, central.speedup[None])
