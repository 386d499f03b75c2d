"""The refit: recovery from synthetic truth, few points that must not wreck, outliers, what data
cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.catalog.adjustment import (
    carried,
    change_text,
    parse_adjustment,
    slower,
    write_adjustment,
)
from advisor.catalog.fit_records import class_costs
from advisor.measured.multipliers import fit_multipliers, multiplier_prior
from advisor.measured.observations import NAMES, joined, log_predicted
from advisor.measured.points import refit_points
from advisor.measured.refit import (
    MIN_POINTS,
    adjustment_of,
    before_after,
    curve_groups,
    curve_name,
    refitted,
)
from advisor.physics.acceptance import speedup
from advisor.physics.components import FACTORS
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.prefill import prefill_per_token_s
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.words.refit import notes, sentence
from tests.golden.sentences import Golden, lines_with
from tests.measured.refit_synthetic import refit, synthetic_points

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


@pytest.fixture(scope="module")
def grid():
    """Prior of the multipliers and observations over batch and K (measured values are replaced)."""
    points, _ = refit_points(synthetic_points(BATCHES))
    return multiplier_prior(points), joined(point.observations for point in points)


def errors(observed, theta, rows):
    return np.abs(np.expm1(log_predicted(observed, theta) - observed.log_measured))[rows]


def test_known_multipliers_come_back_from_many_times_with_little_noise():
    # Within what laboratories differ by: a prior that has learnt from several outweighs one file
    # far outside it.
    truth = {"launch": 1.5, "draft_host": 0.7, "round_host": 1.8, "routed": 1.05}
    timed = [
        synthetic_points(BATCHES, (1, 3, 5), truth=truth, noise=0.01, quantity="step_time_s"),
        synthetic_points((1, 8, 64), (0,), truth=truth, noise=0.01, seed=1, quantity="step_time_s"),
    ]
    result = refit(pd.concat(timed, ignore_index=True).rename_axis("line"))
    factors = {item.name: item for item in result.parameters}
    # What the prior already knows (experts of a measured shape to 4 %) has less to gain.
    for name, log_stderr in (("draft_host", 0.35), ("round_host", 0.35), ("routed", 0.03)):
        item = factors[name]
        assert item.identified
        assert abs(np.log(item.factor / truth[name])) < 3 * item.log_stderr
        assert item.log_stderr < log_stderr
    assert result.own_errors.after.mape < 0.02 < result.own_errors.before.mape


def test_data_that_agree_with_the_model_move_nothing():
    result = refit(synthetic_points(BATCHES))
    assert all(abs(np.log(item.factor)) < 0.02 for item in result.parameters)
    assert result.moved < 0.005
    assert not result.outliers


def test_five_points_help_in_the_mean_and_seldom_hurt(grid):
    prior, observed = grid
    rng = np.random.default_rng(7)
    before = []
    after = []
    for _ in range(240):
        truth = np.linalg.cholesky(prior.covariance) @ rng.standard_normal(len(NAMES))
        noise = prior.residual_log_sd * rng.standard_normal(len(observed.line))
        clean = replace(observed, measured=np.exp(log_predicted(observed, truth)))
        drawn = replace(observed, measured=clean.measured * np.exp(noise))
        used = np.zeros(len(observed.line), bool)
        used[rng.permutation(len(used))[:5]] = True
        # Against what the rows would say without noise, which no refit can foresee and which is
        # most of their scatter.
        before.append(errors(clean, np.zeros(len(NAMES)), ~used).mean())
        after.append(errors(clean, fit_multipliers(drawn.where(used), prior).theta, ~used).mean())
    gains = np.subtract(before, after)
    assert gains.mean() > 3.0 * gains.std() / np.sqrt(len(gains)), (
        "beyond what 240 worlds leave to chance"
    )
    assert (
        np.quantile(np.subtract(after, before), 0.95) < 0.02
    )  # two points of error on rows not seen


def test_five_points_of_pure_noise_do_not_wreck_a_right_model(grid):
    prior, observed = grid
    rng = np.random.default_rng(8)
    worst = []
    for _ in range(240):
        truth = log_predicted(observed, np.zeros(len(NAMES)))
        noisy = replace(observed, measured=np.exp(truth + 0.15 * rng.standard_normal(len(truth))))
        used = np.zeros(len(truth), bool)
        used[rng.permutation(len(used))[:5]] = True
        moved = log_predicted(observed, fit_multipliers(noisy.where(used), prior).theta) - truth
        worst.append(np.abs(moved).mean())
    assert np.mean(worst) < 0.05
    assert max(worst) < 0.15


def test_an_outlier_is_set_aside_with_its_line_and_does_not_change_the_rest(golden):
    clean = synthetic_points(BATCHES, truth={"round_host": 3.0}, noise=0.02)
    spoilt = clean.copy()
    spoilt.loc[10, "speedup"] *= 2.5
    result = refit(spoilt)
    expected = refit(clean.drop(index=10))
    assert [item.line for item in result.outliers] == [10]
    golden(all_other=lines_with(result.outliers[0].reason, "all other"))
    assert "line 10" in sentence(result)
    assert [item.factor for item in result.parameters] == pytest.approx(
        [item.factor for item in expected.parameters], rel=1e-3
    )
    assert not result.rows.loc[result.rows["line"] == 10, "used"].any()
    spoilt = synthetic_points((1, 8, 32, 128), (3,))
    spoilt.loc[3, "speedup"] *= 3
    assert not refit(spoilt).outliers


def test_speedups_alone_cannot_tell_the_host_time_of_a_step():
    result = refit(synthetic_points(BATCHES, (1, 3), truth={"host": 2.0}))
    host = next(item for item in result.parameters if item.name == "host")
    assert (
        host.log_stderr > 0.85 * host.prior_log_sd
    )  # told only through what bounds verified tokens
    assert "communication" not in {item.name for item in result.parameters}


def test_absolute_plain_step_times_do_tell_it_when_steps_are_short():
    dense = {
        "model_id": "llama-3.1-8b",
        "drafter": "eagle3",
    }  # few launches beside which the host's time would hide
    frame = synthetic_points(
        (1, 1, 1, 2, 2, 2), (0,), truth={"host": 6.0}, quantity="step_time_s", **dense
    )
    host = next(item for item in refit(frame).parameters if item.name == "host")
    assert host.factor > 1.3


def test_a_borrowed_accepted_length_is_learnt_instead_of_bending_kernels():
    frame = synthetic_points(BATCHES, accepted_length_same_run=0)
    frame["speedup"] *= 1.25
    result = refit(frame)
    factors = {item.name: item.factor for item in result.parameters}
    assert factors["accepted_length"] > 1.1
    assert abs(np.log(factors["routed"])) < 0.1


def test_an_impossible_truth_ends_at_bounds_that_are_named():
    result = refit(synthetic_points((1, 2, 4, 8, 16), (1, 3, 5), truth={"launch": 40.0}))
    assert {one.name for one in result.parameters if one.at_bound} & {"launch", "host"}
    honest = refit(synthetic_points((1, 2, 4, 8, 16), (1, 3, 5)))
    assert not any(one.at_bound for one in honest.parameters)


def test_the_after_curve_is_the_refits_own_prediction():
    frame = synthetic_points(
        BATCHES, (3,), truth={"launch": 2.0, "routed": 1.2, "round_host": 3.0, "drafter": 1.3}
    )
    result = refit(frame)
    points, _ = refit_points(frame)
    setup = refitted(points[0].setup, result)
    curve = curve_for(setup, BATCHES, [3])
    scale = 2.4 / curve.accepted_length[0]  # the rows' own accepted length
    after = result.rows.set_index("batch_size")["after"]
    # What verified tokens add follows the steps, which the refit has moved as well: the one
    # second-order difference.
    factor = next(item.factor for item in result.parameters if item.name == "verified")
    before = curve_for(points[0].setup, BATCHES, [3]).round_components
    second_order_s = sum(
        curve.round_components[name][:, 0] - of_refit * before[name][:, 0]
        for name, of_refit in (("verified", factor), ("verify_tokens", 1.0))
    )
    prefill = prefill_per_token_s(setup, np.array(BATCHES, float))
    same = speedup(
        curve.accepted_length, curve.plain_step_s, curve.round_s[:, 0] - second_order_s, prefill
    )
    assert same * scale == pytest.approx(after[list(BATCHES)].to_numpy(), rel=1e-9)


def test_the_refit_narrows_the_band_where_it_has_many_points():
    twice = [
        synthetic_points(BATCHES, truth={"round_host": 3.0}, noise=0.02, seed=seed)
        for seed in (0, 1)
    ]
    frame = pd.concat(twice, ignore_index=True).rename_axis("line")
    points, _ = refit_points(frame)
    assert not refit(frame).reasons_against  # one that its checks reject narrows nothing
    setup = next(point.setup for point in points if point.n_draft == 3)
    before = curve_for(setup, [8], [3])
    after = curve_for(refitted(setup, refit(frame)), [8], [3])
    assert after.high - after.low < before.high - before.low


def test_a_refit_does_not_serve_another_accelerator():
    points, _ = refit_points(synthetic_points((1, 2, 4), (3,)))
    other, _ = refit_points(synthetic_points((1, 2, 4), (3,), hardware_id="b200-sxm"))
    result = refit(synthetic_points(BATCHES, (3,)))
    with pytest.raises(AdvisorError, match="not for b200-sxm"):
        refitted(other[0].setup, result)
    assert refitted(points[0].setup, result).hardware.id == "h200-sxm"


def test_slower_kernels_take_exactly_that_much_longer():
    points, _ = refit_points(synthetic_points((1, 16), (3,)))
    setup = points[0].setup
    twice = replace(setup, costs=slower(setup.costs, 2.0))
    one = curve_for(setup, [1, 64], [3]).plain_components
    two = curve_for(twice, [1, 64], [3]).plain_components
    for name, time in one.items():
        assert two[name] == pytest.approx(
            time * (1.0 if name in ("host", "launch") else 2.0), rel=1e-12
        )


def test_a_refit_of_links_scales_the_network_between_nodes_too():
    wide = {"model_id": "deepseek-v3", "n_gpus": 16, "expert_parallel": 16, "batch_size": 64}
    setup = load_setup(Scenario(acceptance="2.4@3", **wide))
    said = "on=h200-sxm/vllm/vllm;n=13;data=3219dd51bbca;communication=2/0.3;corr=0/0/0/0/0/0/0/0/0/0;scatter=0.05"  # noqa: E501
    refitted_setup = load_setup(Scenario(acceptance="2.4@3", refit=said, **wide))
    before = curve_for(setup, [64], [3]).plain_components["communication"]
    after = curve_for(refitted_setup, [64], [3]).plain_components["communication"]
    assert setup.costs.network is not None
    assert after == pytest.approx(2.0 * before, rel=1e-9)
    slowed = replace(setup, costs=slower(setup.costs, 2.0))
    assert curve_for(slowed, [64], [3]).plain_components["communication"] == pytest.approx(
        2.0 * before, rel=1e-9
    )


def test_the_largest_accelerator_group_is_fitted_and_the_rest_says_so():
    frame = pd.concat(
        [synthetic_points(BATCHES, (3,)), synthetic_points((1, 2), (3,), hardware_id="b200-sxm")]
    )
    frame.index = pd.RangeIndex(2, len(frame) + 2, name="line")
    result = refit(frame)
    assert result.hardware_id == "h200-sxm"
    assert [item.line for item in result.refused] == [10, 11]
    assert "by itself" in result.refused[0].reason


def test_a_computed_speedup_counts_once_not_again_as_its_own_time():
    frame = synthetic_points((1, 2, 4), (3,))
    frame["tpot_s"] = 5e-3
    frame["derived"] = "speedup"
    points, _ = refit_points(frame)
    assert [name for point in points for name in point.observations.quantity] == ["speedup"] * 3


def test_too_few_usable_rows_are_refused_with_the_reason():
    frame = synthetic_points((1, 2, 4), (3,))
    frame.loc[2:3, "hardware_id"] = "h999"
    with pytest.raises(
        AdvisorError, match=rf"1 row can be used; a refit needs at least {MIN_POINTS}.*h999"
    ):
        refit(frame)


def test_a_scenario_carries_the_refit_into_every_prediction_its_hash_and_its_link():
    frame = synthetic_points(BATCHES, noise=0.02, truth={"round_host": 4.0, "routed": 1.2})
    result = refit(frame)
    point = next(point for point in refit_points(frame)[0] if point.n_draft == 3)
    text = write_adjustment(adjustment_of(result))
    plain = Scenario(acceptance="2.4@3")
    own = plain.model_copy(update={"refit": text})
    assert own.hash != plain.hash
    assert Scenario.from_query(own.to_query()) == own
    by_scenario = curve_for(load_setup(point.scenario.model_copy(update={"refit": text})), [4], [3])
    by_result = curve_for(refitted(point.setup, result), [4], [3])
    assert by_scenario.round_s == pytest.approx(by_result.round_s, rel=1e-3)
    assert by_scenario.plain_step_s == pytest.approx(by_result.plain_step_s, rel=1e-3)
    answer = advise(own)
    shipped = advise(plain)
    assert answer.recommendation.speedup.value < shipped.recommendation.speedup.value
    assert answer.setup.adjustment.label == f"refitted on {result.n_points} uploaded points"
    assert any(f"data {result.data}" in source for source in answer.setup.sources)


def test_every_page_reads_the_same_factor_from_a_refit_and_from_the_scenario_that_carries_it():
    result = refit(synthetic_points(BATCHES, noise=0.02, truth={"round_host": 4.0, "routed": 1.2}))
    on_scenario = parse_adjustment(write_adjustment(adjustment_of(result))).factors
    assert on_scenario == {
        item.name: item.factor for item in result.parameters if item.name in FACTORS
    }
    assert change_text(carried(1.17496)) == change_text(carried(1.175)) == "+18%"
    assert change_text(0.996) == "0%"


def test_a_scenario_refuses_a_refit_of_another_accelerator_and_text_that_is_none():
    text = write_adjustment(adjustment_of(refit(synthetic_points((1, 2, 4, 8), (3,)))))
    assert write_adjustment(parse_adjustment(text)) == text
    with pytest.raises(AdvisorError, match="not for b200-sxm"):
        advise(Scenario(acceptance="2.4@3", hardware_id="b200-sxm", refit=text))
    for wrong in (
        "",
        "on=a/b",
        text.replace("n=4", "n=x"),
        text + ";launch=1/1",
        text.replace("routed=", "magic="),
        text.replace("corr=", "corr=9"),
        text.replace("launch=1", "launch=nan"),
    ):
        with pytest.raises(AdvisorError, match="is no refit; expected on="):
            advise(Scenario(acceptance="2.4@3", refit=wrong))


def test_an_old_engine_is_judged_against_its_own_vintage_and_refitted_by_itself(golden):
    old = synthetic_points((1, 4, 16), (3,), engine_version="0.9.2", date="2026-06-01")
    new = synthetic_points((1, 4, 16, 32), (3,), engine_version="v0.20.1rc1")
    frame = pd.concat([old, new])
    frame.index = pd.RangeIndex(2, len(frame) + 2, name="line")
    points, _ = refit_points(frame)
    assert [point.engine_class for point in points] == ["vllm-synchronous"] * 3 + ["vllm"] * 4
    by_class = {point.engine_class: point.setup.costs.host_per_round_s for point in points}
    assert by_class == {name: class_costs(name)["host_per_round_s"] for name in by_class}
    result = refit(frame)
    assert (result.engine_class, result.n_points) == ("vllm", 4)
    golden(vllm_synchronous=lines_with(result.refused[0].reason, "vllm"))
    result = refit(old)
    setup = load_setup(Scenario(acceptance="2.4@3", refit=write_adjustment(adjustment_of(result))))
    after = {item.name: item.after for item in result.parameters}
    assert setup.costs.host_per_round_s == pytest.approx(after["round_host"], rel=1e-3)


def test_errors_are_of_all_values_and_apart_by_kind() -> None:
    speedups = synthetic_points((1, 8, 32), (3,), truth={"round_host": 3.0})
    times = synthetic_points((1, 8, 32), (0,), quantity="tpot_s")
    times.loc[:, "tpot_s"] *= [1.0, 1.08, 1.0]
    found = refit(pd.concat([speedups, times], ignore_index=True).rename_axis("line"))
    rows = found.rows
    errors = found.own_errors
    before = (rows["before"] / rows["measured"] - 1.0).abs()
    after = (rows["left_out"] / rows["measured"] - 1.0).abs()
    assert (errors.before.n, errors.after.n) == (6, 6)
    assert errors.after.mape == pytest.approx(after.mean())
    assert errors.before.mape == pytest.approx(before.mean())
    kinds = {kind.quantity: kind.after.mape for kind in errors.kinds}
    assert kinds == {
        name: pytest.approx(after[rows["quantity"] == name].mean())
        for name in ("speedup", "tpot_s")
    }
    said = (
        f"Its 6 values, each left out of the fit in turn: {after.mean():.1%} off, "
        f"{before.mean():.1%} before."
    )
    assert sentence(found).endswith(said)


def test_rows_without_drafts_name_no_drafter(golden: Golden) -> None:
    frame = synthetic_points((1, 4, 16), (0,), quantity="tpot_s")
    found = refit(frame)
    assert set(found.rows["drafter"]) == {"none"}
    (group,) = curve_groups(found)
    golden(qwen_without=curve_name(*group))
    assert len(before_after(refit_points(frame)[0], found, group).points) == 3


def test_what_the_rows_determine_is_carried_by_the_text_of_a_refit() -> None:
    found = adjustment_of(refit(synthetic_points(BATCHES, truth={"round_host": 4.0}, noise=0.01)))
    assert "round_host" in found.learnt
    assert parse_adjustment(write_adjustment(found)).learnt == found.learnt
    nothing = replace(found, learnt=())
    assert parse_adjustment(write_adjustment(nothing)).learnt == ()
    with pytest.raises(AdvisorError, match="is no refit"):
        parse_adjustment(write_adjustment(found).replace("learnt=", "learnt=magic/"))


def test_fifty_runs_of_each_setting_move_constants_as_far_as_their_mean_does(
    golden: Golden,
) -> None:
    once = synthetic_points(BATCHES, truth={"round_host": 3.0}, noise=0.02)
    rng = np.random.default_rng(3)
    runs = [
        once.assign(speedup=once["speedup"] * np.exp(0.01 * rng.standard_normal(len(once))))
        for _ in range(15)
    ]
    frame = pd.concat(runs, ignore_index=True).rename_axis("line")
    found = refit(frame)
    alone = refit(once)
    assert (found.repeats.n_rows, found.repeats.n_settings) == (len(frame), len(once))
    assert found.repeats.log_sd == pytest.approx(0.01, rel=0.1)
    assert not any(one.at_bound for one in (*found.parameters, *alone.parameters))
    for many, one in zip(found.parameters, alone.parameters, strict=True):
        assert np.log(many.factor) == pytest.approx(np.log(one.factor), abs=0.5 * one.log_stderr)
        assert many.log_stderr == pytest.approx(one.log_stderr, rel=0.1)
    golden(each_counts=lines_with(notes(found), "each counts"))
    assert alone.repeats is None
