"""Logs of activated experts: SYNTHETIC logs whose routing must come back, what counts cannot tell, hostile files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.catalog.routing_presets import load_routing_preset, preset_for
from advisor.cli import main
from advisor.measured.ingest.logs import open_activation_log, read_passes
from advisor.measured.ingest.read import read_upload
from advisor.physics import routing_trace
from advisor.physics.routing_trace import CountCell, CountFit, CountParameter, fit_counts
from advisor.physics.touched_experts import touched_experts
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.profiling.routing_draw import Routing, draw_routing

N, K, LAYERS, SEQUENCES, TOKENS = 128, 8, 6, 64, 256
PRESET = load_routing_preset("class-fine-no-shared")


def synthetic_log(truth, lengths=(1,), batches=(1, 2, 4, 8, 16, 32), per_size=60, seed=0):
    """Lines of a SYNTHETIC log: running sequences of a router with k distinct experts per token."""
    rng = np.random.default_rng(seed)
    routing = Routing("synthetic", *truth)
    ids = np.stack([draw_routing(rng, SEQUENCES, TOKENS, N, K, routing) for _ in range(LAYERS)], axis=2)
    lines = []
    for batch in batches:
        for tokens in lengths:
            for step in range(per_size):
                if step % 10 == 0:
                    running = rng.permutation(SEQUENCES)[:batch]
                    place = rng.integers(0, TOKENS - 11 * tokens, batch)
                touched = np.zeros((LAYERS, N), bool)
                for row, start in zip(running, place, strict=True):
                    touched[np.arange(LAYERS)[None, :, None], ids[row, start : start + tokens]] = True
                place = place + tokens
                lines.append(line(batch, tokens, float(touched.sum(axis=1).mean())))
    return lines


def line(batch, tokens, experts):
    if tokens == 1:
        return {
            "batch_size": batch,
            "latency": 0.01,
            "seq_lens_sum": batch,
            "forward_mode": "decode",
            "expert_activation": experts,
        }
    return {
        "batch_size": batch * tokens,
        "latency": 0.01,
        "seq_lens_sum": batch * tokens,
        "forward_mode": "prefill",
        "expert_activation": experts,
        "per_req_info": [{"req_id": str(i), "extend_len": tokens} for i in range(batch)],
    }


def fit(lines, preset=PRESET):
    log = read_passes("log", lines)
    return fit_counts(log.sequences, log.tokens_per_sequence, log.experts, N, K, preset)


@pytest.mark.parametrize("truth", [(0.5, 0.15, 0.25), (1.0, 0.05, 0.4), (0.2, 0.3, 0.1)])
def test_decode_passes_give_back_the_load_variation_and_leave_the_rest_to_the_preset(truth):
    found = fit(synthetic_log(truth))
    cv, phi, rho = found.parameters
    assert cv.value == pytest.approx(truth[0], abs=0.05)
    assert cv.low <= truth[0] <= cv.high
    assert (cv.identified, phi.identified, rho.identified) == (True, False, False)
    assert (phi.value, rho.value) == (PRESET.affinity.value, PRESET.stickiness.value)
    assert found.routing.endswith(",-,-")
    assert "say nothing about affinity and stickiness" in found.warnings[0]
    for batch in (1, 2, 4, 8, 16):
        true = touched_experts(batch, 1, N, K, truth[0])
        assert touched_experts(batch, 1, N, K, cv.value) == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("truth", [(0.5, 0.15, 0.25), (1.0, 0.05, 0.4), (0.2, 0.3, 0.1)])
def test_passes_of_several_lengths_give_back_all_three_and_the_touched_experts(truth):
    found = fit(synthetic_log(truth, lengths=(1, 2, 4, 8)))
    assert all(item.identified for item in found.parameters)
    assert [item.value for item in found.parameters] == pytest.approx(truth, abs=0.05)
    batch, tokens = np.meshgrid([1, 2, 4, 8, 16], np.arange(2, 9))
    true = touched_experts(batch, tokens, N, K, *truth)
    fitted = touched_experts(batch, tokens, N, K, *(item.value for item in found.parameters))
    assert np.abs(fitted / true - 1.0).max() < 0.02
    assert not found.warnings


def test_passes_of_one_length_say_that_the_two_effects_cannot_be_told_apart():
    found = fit(synthetic_log((0.5, 0.15, 0.25), lengths=(1, 4)))
    assert any("hardly how much each does" in text for text in found.warnings)
    apart = fit(synthetic_log((0.5, 0.15, 0.25), lengths=(1, 2, 4, 8)))
    for one, several in zip(found.parameters[1:], apart.parameters[1:], strict=True):
        assert one.high - one.low > 2 * (several.high - several.low)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    inside = 0
    for seed in range(12):
        cv = fit(synthetic_log((0.5, 0.15, 0.25), per_size=30, seed=seed)).parameters[0]
        inside += cv.low <= 0.5 <= cv.high
    assert inside >= 7  # 80 % nominal; fewer than 7 of 12 has a chance below 2 %


def test_layers_without_experts_in_the_mean_are_taken_out_and_said():
    lines = synthetic_log((0.5, 0.15, 0.25))
    diluted = [{**item, "expert_activation": item["expert_activation"] * 45 / 48} for item in lines]
    found, pure = fit(diluted), fit(lines)
    assert found.parameters[0].value == pytest.approx(pure.parameters[0].value, abs=1e-6)
    assert "layers without experts are in the mean" in found.warnings[0]


def test_what_is_not_used_is_counted_by_reason():
    chunk = {"batch_size": 900, "forward_mode": "prefill", "expert_activation": 128.0}
    lines = [
        *synthetic_log((0.5, 0.15, 0.25)),
        chunk,
        {**line(4, 100, 127.0)},
        {**line(4, 2, 40.0), "seq_lens_sum": 900},
        line(2, 1, 0),
        line(2, 1, None),
        {"foo": 1},
    ]
    lines[-4] = {**line(4, 2, 40.0), "per_req_info": [{"extend_len": 1}, {"extend_len": 3}], "seq_lens_sum": 4}
    log = read_passes("log", lines)
    assert len(log.experts) == 360
    assert dict(log.left_out) == {
        "several tokens per sequence, how many is not said (per_req_info)": 1,
        "prefill: more than 16 tokens per sequence touch nearly all experts": 1,
        "sequences with different numbers of tokens in one pass": 1,
        "no activated experts recorded": 2,
        "without batch_size, forward_mode and expert_activation": 1,
    }


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([line(1, 1, 8.0)] * 50, "0 passes with two or more tokens"),
        ([line(4, 1, 28.0)] * 5, "5 passes with two or more tokens"),
        ([line(4, 1, 300.0)] * 50, "choose the model that was logged"),
        ([line(4, 1, 3.0)] * 50, "choose the model that was logged"),
        ([line(1, 1, 2.0), *[line(4, 1, 28.0)] * 50], "log of one rank"),
        ([{**line(4, 1, 28.0), "batch_size": "x"}] * 50, "batch_size is no count"),
        ([{**line(4, 1, 28.0), "batch_size": 10**400}] * 50, "batch_size is no count"),
        ([{**line(4, 1, 28.0), "expert_activation": float("nan")}] * 50, "no activated experts"),
        ([], "it is empty"),
    ],
)
def test_a_log_that_tells_nothing_is_refused_in_one_sentence(lines, reason):
    with pytest.raises(AdvisorError, match=reason):
        fit(lines)


def test_a_log_is_recognised_by_its_content_and_a_benchmark_reader_points_to_the_trace():
    data = "\n".join(map(json.dumps, synthetic_log((0.5, 0.1, 0.2), batches=(2,)))).encode()
    log = open_activation_log("x.bin", data)
    assert log is not None
    assert len(log.experts) == 60
    assert open_activation_log("x", b'{"routed_experts": [[1]]}') is None
    assert open_activation_log("x", b"sequence,token,e0\n0,0,1\n") is None
    with pytest.raises(AdvisorError, match="give it as a routing trace"):
        read_upload("x.jsonl", data)


def test_the_command_prints_the_routing_that_a_scenario_takes(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "expert_distribution_record.jsonl"
    file.write_text("\n".join(map(json.dumps, synthetic_log((0.5, 0.15, 0.25)))))
    with pytest.raises(SystemExit) as stopped:
        main(["trace", str(file), "--model", "qwen3-30b-a3b"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    assert "not told by the log" in out
    routing = out.rsplit("--routing ", 1)[1].strip()
    setup = load_setup(Scenario(acceptance="2.4@3", routing=routing))
    own, _ = preset_for(setup.architecture)
    assert setup.routing is not None
    assert setup.routing.affinity == own.affinity
    assert setup.routing.load_cv.source == "the user's own routing trace"
    assert "leaves affinity and stickiness open" in setup.routing_because
    assert advise(Scenario(acceptance="2.4@3", routing=routing)).recommendation.verdict
    for options, reason in (("--experts 128", "--active"), ("--experts 64 --active 8", "choose the model")):
        with pytest.raises(SystemExit) as stopped:
            main(["trace", str(file), *options.split()])
        assert stopped.value.code == 2
        assert reason in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["trace", str(file), "--experts", "128", "--active", "8", "--json"])
    assert json.loads(capsys.readouterr().out)["routing"].endswith(",-,-")


LEARNT = np.array([True, True, True])


@pytest.mark.parametrize(("single", "factor"), [(8.0, 1.0), (7.95, 1.0), (8.07, 1.0), (7.5, 1 / 0.9375), (4.0, 2.0)])
def test_counts_are_divided_by_what_one_token_touches_of_its_experts(single: float, factor: float):
    """Within 1 % of k nothing is taken to be missing."""
    counted, warnings = routing_trace._scaled(np.array([1.0, 1.0, 4.0]), np.array([single, single, 20.0]), 128, 8)
    assert counted == pytest.approx(np.array([single, single, 20.0]) * factor)
    assert bool(warnings) == (factor != 1.0)
    assert all(f"touch {single:.3g} experts instead of 8" in text for text in warnings)


def test_counts_without_passes_of_one_token_stay_as_they_are_up_to_all_experts():
    counted, warnings = routing_trace._scaled(np.array([2.0, 4.0]), np.array([7.93, 129.0]), 128, 8)
    assert counted.tolist() == [7.93, 128.0]
    assert warnings == []


@pytest.mark.parametrize(("tokens", "counted"), [(1.0, 3.9), (1.0, 8.1), (2.0, 129.5), (2.0, 7.9)])
def test_counts_that_k_of_n_experts_cannot_give_are_refused(tokens: float, counted: float):
    with pytest.raises(AdvisorError, match="choose the"):
        routing_trace._scaled(np.array([tokens]), np.array([counted]), 128, 8)


def test_passes_of_a_stretch_are_added_up_for_each_size():
    sums, passes = routing_trace._by_block(
        np.array([0, 1, 0, 0]), np.array([0, 0, 0, 7]), np.array([1.0, 2.0, 4.0, 8.0]), 2
    )
    assert sums.shape == passes.shape == (20, 2)
    assert (sums[0].tolist(), sums[7].tolist()) == ([5.0, 2.0], [8.0, 0.0])
    assert (passes[0].tolist(), passes[7].tolist(), passes.sum()) == ([2.0, 1.0], [1.0, 0.0], 4.0)


def test_the_error_of_a_mean_is_the_scatter_of_its_stretches_and_one_per_cent_of_the_model():
    """Nine stretches 10 % above and nine below: the variance of 18 such, over 18. A size with few stretches has at
    least what sizes scatter in the mean; one of a single stretch has no scatter of its own."""
    sums, passes = np.zeros((20, 3)), np.zeros((20, 3))
    sums[:18, 0], passes[:18, 0] = np.tile([22.0, 18.0], 9), 2.0
    sums[:2, 1], passes[:2, 1] = [10.0, 10.0], 1.0
    sums[0, 2], passes[0, 2] = 7.0, 1.0
    found = routing_trace._relative_error(sums, passes, np.array([10.0, 10.0, 7.0]))
    many = 18 * 0.01 / 17
    pooled = many / 2
    expected = [many / 18 + 1e-4, pooled / 2 + 1e-4, pooled + 1e-4]
    assert found == pytest.approx(np.sqrt(expected))
    alone = routing_trace._relative_error(sums[:, 2:], passes[:, 2:], np.array([7.0]))
    assert alone == pytest.approx(np.sqrt([0.05**2 + 1e-4])), "5 % where no size has a second stretch"


def test_two_stretches_scatter_by_what_they_differ():
    """10 % above and below: a variance of 2 times 0.01 over one degree of freedom, half of that of their mean."""
    sums, passes = np.zeros((20, 1)), np.zeros((20, 1))
    sums[:2, 0], passes[:2, 0] = [1.1, 0.9], 1.0
    assert routing_trace._relative_error(sums, passes, np.ones(1)) == pytest.approx(np.sqrt([0.02 / 2 + 1e-4]))


def test_eight_stretches_are_enough_for_a_scatter_of_their_own():
    sums, passes = np.ones((20, 2)), np.ones((20, 2))
    sums[:, 0] = np.tile([1.1, 0.9], 10)
    sums[8:, 1] = passes[8:, 1] = 0.0
    found = routing_trace._relative_error(sums, passes, np.ones(2))
    assert found[1] == pytest.approx(0.01)
    sums[7, 1] = passes[7, 1] = 0.0
    assert routing_trace._relative_error(sums, passes, np.ones(2))[1] > 0.02


def test_the_prior_is_the_presets_value_and_band_within_what_the_experts_allow():
    centre, spread = routing_trace._prior(PRESET, N, K)
    assert centre.tolist() == [0.5, 0.16, 0.25]
    assert spread == pytest.approx([0.5, 0.1, 0.1]), "at least"
    wide = PRESET.model_copy(update={"load_cv": PRESET.load_cv.model_copy(update={"low": 0.0, "high": 2.0})})
    assert routing_trace._prior(wide, N, K)[1][0] == pytest.approx(2.0 / (2 * 1.2815515655446004))
    assert routing_trace._prior(PRESET, 10, 8)[0].tolist() == [0.5, 0.16, 0.25]
    assert routing_trace._prior(PRESET, 9, 8)[0][0] == pytest.approx(np.sqrt(1 / 8))
    assert routing_trace._limits(32, 8) == pytest.approx([np.sqrt(3.0), 1.0, 1.0])
    assert routing_trace._limits(8, 8).tolist() == [0.0, 1.0, 1.0]


def draws_of(slopes: np.ndarray, sums: np.ndarray, error: float = 0.01) -> np.ndarray:
    """Draws around (0.5, 0.2, 0.1) under a prior of spread 0.1, each size counted once in each stretch."""
    mean = sums.mean(axis=0)
    n = np.ones_like(sums)
    theta, spread = np.array([0.5, 0.2, 0.1]), np.full(3, 0.1)
    rng = np.random.default_rng(1)
    return routing_trace._draws(sums, n, mean, np.full(len(mean), error), slopes, theta, spread, rng)


def test_a_log_that_tells_nothing_leaves_the_prior():
    found = draws_of(np.zeros((1, 3)), np.full((20, 1), 10.0))
    assert found.shape == (400, 3)
    assert found.mean(axis=0) == pytest.approx([0.5, 0.2, 0.1], abs=0.02)
    assert np.cov(found.T) == pytest.approx(0.01 * np.eye(3), abs=0.002)


def test_a_log_without_scatter_leaves_the_error_of_the_model():
    """The counts rise by as much as the first parameter, in logarithms: one per cent of the model is one of it."""
    found = draws_of(np.array([[1.0, 0.0, 0.0]]), np.full((20, 1), 10.0))
    assert found[:, 0].mean() == pytest.approx(0.5, abs=0.002)
    assert found[:, 0].std() == pytest.approx(0.01, rel=0.1)
    assert found[:, 1].std() == pytest.approx(0.1, rel=0.1)


def test_stretches_that_differ_scatter_the_parameter_as_their_mean():
    """Stretches at 0.8 and 1.2 of the mean: that of 20 drawn ones scatters by 0.2 over the root of 20."""
    sums = np.tile([[8.0], [12.0]], (10, 1))
    error = float(np.hypot(0.01, 0.2 / np.sqrt(20)))
    found = draws_of(np.array([[2.0, 0.0, 0.0]]), sums, error)
    assert found[:, 0].std() == pytest.approx(error / 2, rel=0.12)
    assert found[:, 0].mean() == pytest.approx(0.5, abs=0.004)


class Drawn:
    """A generator without noise, which draws these stretches."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = np.array(rows)

    def integers(self, *_: int) -> np.ndarray:
        return self.rows

    def standard_normal(self, n: int) -> np.ndarray:
        return np.zeros(n)


def test_counts_above_the_mean_move_a_parameter_by_their_slope_and_the_prior_holds_it_back():
    """A stretch 20 % above the mean, drawn each time, that a slope of 2 explains; the prior counts as one per cent."""
    sums, n = np.full((20, 1), 10.0), np.ones((20, 1))
    sums[0] = 12.0
    slopes, error, theta = np.array([[2.0, 0.0, 0.0]]), np.array([0.02]), np.array([0.5, 0.2, 0.1])
    spread, mean = np.full(3, 0.1), np.array([10.0])
    found = routing_trace._draws(sums, n, mean, error, slopes, theta, spread, Drawn([0] * 20))  # type: ignore[arg-type]
    moved = 2 / 0.02**2 * np.log(1.2) / (4 / 0.02**2 + 100)
    assert found[0] == pytest.approx([0.5 + moved, 0.2, 0.1])
    sums[1:], n[1:] = 0.0, 0.0
    once = routing_trace._draws(sums, n, mean, error, slopes, theta, spread, Drawn([0] + [3] * 19))  # type: ignore[arg-type]
    assert once[0] == pytest.approx(found[0]), "a size that one drawn stretch has once counts as well"


def test_a_log_and_a_prior_that_tell_as_much_share_the_spread():
    """Both know the parameter to 0.1: together they know it to half of what the prior alone scatters it by."""
    found = draws_of(np.array([[1.0, 0.0, 0.0]]), np.full((20, 1), 10.0), error=0.1)
    assert found[:, 0].std() == pytest.approx(np.hypot(0.05, 0.005), rel=0.1)


def test_the_slopes_are_those_of_the_logarithm_of_the_touched_experts():
    """At the fitted parameters, by differences of a tenth of a per cent of a unit on both sides."""
    shapes = np.array([[2.0, 1.0], [8.0, 1.0], [2.0, 4.0], [4.0, 8.0]])
    truth = np.array([0.6, 0.15, 0.2])
    mean = routing_trace._experts(shapes, truth, N, K)
    prior, spread = routing_trace._prior(PRESET, N, K)
    theta, slopes, covariance = routing_trace._solve(shapes, mean, np.full(4, 0.01), prior, spread, N, K)
    for column in range(3):
        step = 1e-3 * np.eye(3)[column]
        up, down = (np.log(routing_trace._experts(shapes, theta + sign * step, N, K)) for sign in (1, -1))
        assert slopes[:, column] == pytest.approx((up - down) / 2e-3, rel=0.02, abs=1e-4)
    precision = slopes.T @ slopes / 0.01**2 + np.diag(spread**-2.0)
    assert np.linalg.inv(covariance) == pytest.approx(precision, rel=1e-3, abs=1e-6 * precision.max())


def test_a_size_that_no_drawn_stretch_has_moves_nothing():
    sums, n = np.zeros((20, 1)), np.zeros((20, 1))
    sums[0], n[0] = 10.0, 1.0
    slopes, spread = np.array([[1.0, 0.0, 0.0]]), np.full(3, 0.1)
    found = routing_trace._draws(
        sums, n, np.array([10.0]), np.array([0.01]), slopes, np.zeros(3), spread, np.random.default_rng(1)
    )
    assert np.abs(found[:, 0]).max() < 0.06


def words_of(lengths: list[float], learnt: list[bool], spread: list[float], n_passes: int = 200) -> list[str]:
    """What is said of a log of these lengths, whose posterior has these shares of the prior's spread."""
    shapes = np.array([[4.0, length] for length in lengths])
    prior = np.array([0.5, 0.1, 0.2])
    return routing_trace._words(shapes, np.array(learnt), np.diag((np.array(spread) * prior) ** 2), prior, n_passes)


def test_what_counts_leave_open_is_said_once_and_nothing_else():
    assert words_of([1, 2, 4], [True] * 3, [0.1] * 3) == []
    (one_token,) = words_of([1, 1], [True, False, False], [0.1, 1.0, 1.0])
    assert one_token.startswith("all passes bring one token per sequence")
    (together,) = words_of([1, 4], [True] * 3, [0.1, 0.41, 0.39])
    assert together.startswith("counts tell how much affinity and stickiness save together")
    assert words_of([1, 4], [True] * 3, [0.1, 0.399, 0.399]) == []
    assert words_of([2], [True] * 3, [0.1] * 3) == []
    only_affinity = words_of([1, 4], [True, True, False], [0.1, 0.5, 0.95])
    assert only_affinity[0].startswith("counts tell")
    assert only_affinity[1:] == ["stickiness stay at the preset: the log does not tell"]
    first, second = words_of([1, 4], [True, False, True], [0.1, 0.95, 0.5])
    assert first.startswith("counts tell")
    assert second == "affinity stay at the preset: the log does not tell"
    both = words_of([1, 4], [True, False, False], [0.1, 0.95, 0.95])
    assert both == ["affinity and stickiness stay at the preset: the log does not tell"]
    assert words_of([1, 4], [False, True, True], [0.95, 0.1, 0.1]) == [
        "load variation stays at the preset: the log does not tell"
    ]
    assert words_of([1, 4], [True] * 3, [0.1] * 3, 199) == ["only 199 passes: the intervals are rough"]


def test_a_parameter_is_learnt_within_its_limits_or_the_presets_own():
    theta, interval = np.array([0.9, 0.3, 0.4]), (np.array([-0.1, 0.31, 0.2]), np.array([3.0, 0.29, 0.6]))
    limit, prior = np.array([2.0, 1.0, 1.0]), np.array([0.45, 0.16, 0.25])
    found = routing_trace._count_parameters(theta, interval, np.array([True, True, False]), PRESET, prior, limit)
    assert found == (
        CountParameter("load_cv", 0.9, 0.0, 2.0, True),
        CountParameter("affinity", 0.3, 0.3, 0.3, True),
        CountParameter("stickiness", 0.25, PRESET.stickiness.low, PRESET.stickiness.high, False),
    )


def test_the_largest_error_is_that_of_the_worst_size_above_or_below():
    cells = (CountCell(1, 2, 30, 10.0, 10.5, 11.0), CountCell(2, 2, 30, 10.0, 9.2, 11.0))
    found = CountFit((), cells, 60, N, K, ())
    assert found.largest_error == pytest.approx(0.08)


def test_each_size_has_its_passes_its_mean_and_what_uniform_routing_would_touch():
    batch, tokens = np.repeat([1, 2, 4], 20), np.repeat([1, 1, 2], 20)
    counted = np.repeat([8.0, 15.0, 45.0], 20) + np.tile([-0.001, 0.001], 30)
    found = fit_counts(batch, tokens, counted, N, K, PRESET)
    assert [(c.batch_size, c.tokens, c.passes) for c in found.cells] == [(2, 1, 20), (4, 2, 20)]
    assert [c.counted for c in found.cells] == pytest.approx([15.0, 45.0])
    assert [c.uniform for c in found.cells] == pytest.approx([128 * (1 - (15 / 16) ** n) for n in (2, 8)])
    assert (found.n_passes, found.n_experts, found.n_active) == (40, N, K)
    values = [item.value for item in found.parameters]
    assert [c.predicted for c in found.cells] == pytest.approx(
        [float(touched_experts(b, t, N, K, *values)) for b, t in ((2, 1), (4, 2))], rel=0.01
    )


def test_an_interval_leaves_a_tenth_of_the_draws_on_each_side(monkeypatch: pytest.MonkeyPatch):
    """Draws from 0.1 below to 0.1 above 0.5, evenly: 0.42 to 0.58. What was not learnt keeps the preset's band."""
    even = np.linspace(0.4, 0.6, 101)[:, None] * np.ones(3)
    monkeypatch.setattr(routing_trace, "_draws", lambda *_: even)
    batch = np.repeat([2, 4, 8, 16], 40)
    counted = touched_experts(batch, 1, N, K, 0.5)
    cv, phi, _ = fit_counts(batch, np.ones(160), counted, N, K, PRESET).parameters
    assert (cv.low, cv.high) == pytest.approx((0.42, 0.58))
    assert cv.value == pytest.approx(0.5, abs=0.01)
    assert (phi.low, phi.high) == (PRESET.affinity.low, PRESET.affinity.high)


def test_what_was_learnt_is_written_and_the_rest_left_to_the_preset():
    learnt = CountParameter("load_cv", 0.5, 0.4, 0.6, True)
    left = CountParameter("affinity", 0.16, 0.1, 0.2, False)
    found = CountFit((learnt, left, CountParameter("stickiness", 0.25, 0.2, 0.3, True)), (), 60, N, K, ())
    assert found.routing == "0.5/0.4/0.6,-,0.25/0.2/0.3"


def test_twenty_passes_with_two_or_more_tokens_are_enough_and_nineteen_are_not():
    assert fit_counts([2] * 20, [1] * 20, [15.4] * 20, N, K, PRESET).n_passes == 20
    with pytest.raises(AdvisorError, match="19 passes with two or more tokens"):
        fit_counts([2] * 19, [1] * 19, [15.4] * 19, N, K, PRESET)
