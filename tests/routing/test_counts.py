"""Logs of activated experts: SYNTHETIC logs whose routing must come back, what counts cannot tell, hostile files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from advisor.advice import advise
from advisor.cli import main
from advisor.ingest import open_activation_log, read_upload
from advisor.ingest.activation_log import read_passes
from advisor.prediction import AdvisorError
from advisor.profiling.routing_draw import Routing, draw_routing
from advisor.routing.counts import fit_counts
from advisor.routing.law import distinct_experts
from advisor.routing.presets import load_routing_preset, preset_for
from advisor.scenario.scenario import Scenario
from advisor.setup import load_setup

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
        true = distinct_experts(batch, 1, N, K, truth[0])
        assert distinct_experts(batch, 1, N, K, cv.value) == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("truth", [(0.5, 0.15, 0.25), (1.0, 0.05, 0.4), (0.2, 0.3, 0.1)])
def test_passes_of_several_lengths_give_back_all_three_and_the_touched_experts(truth):
    found = fit(synthetic_log(truth, lengths=(1, 2, 4, 8)))
    assert all(item.identified for item in found.parameters)
    assert [item.value for item in found.parameters] == pytest.approx(truth, abs=0.05)
    batch, tokens = np.meshgrid([1, 2, 4, 8, 16], np.arange(2, 9))
    true = distinct_experts(batch, tokens, N, K, *truth)
    fitted = distinct_experts(batch, tokens, N, K, *(item.value for item in found.parameters))
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
