"""Acceptance from SGLang's metrics, acceptance histograms and golden curves. All numbers here are constructed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from advisor.cli import main
from advisor.measured.ingest.acceptance import falling, rates_from_histogram, read_acceptance_file
from advisor.measured.ingest.read import read_upload
from advisor.physics.acceptance import parse_acceptance
from advisor.prediction import AdvisorError

GOLDEN = """# Acceptance Length (AL) reference values measured with SPEED-Bench.
# key = num_speculative_tokens (MTP level); value = golden AL
some-model-fp8:
  thinking_on:
    1: 1.80
    2: 2.40
    3: 2.80
    4: 3.25
"""


def sglang(tokens: float, calls: float, length: float = 2.5, steps: int = 3) -> bytes:
    labels = 'engine_type="unified",model_name="m",tp_rank="0"'
    return (
        "# TYPE sglang:spec_accept_length gauge\n"
        f"sglang:spec_accept_length{{{labels}}} {length}\n"
        f"sglang:spec_num_steps{{{labels}}} {steps}\n"
        f'sglang:generation_tokens_total{{{labels},is_streaming="true"}} {tokens / 2}\n'
        f'sglang:generation_tokens_total{{{labels},is_streaming="false"}} {tokens / 2}\n'
        f"sglang:spec_verify_calls_total{{{labels}}} {calls}\n"
    ).encode()


def test_a_histogram_of_rounds_gives_conditional_probabilities() -> None:
    # 100 rounds: 20 accept none, 30 one, 50 both; S = 0.8, 0.5
    found = rates_from_histogram({0: 20, 1: 30, 2: 50}, "test")
    assert found.conditional == pytest.approx((0.8, 0.625))
    assert found.n_drafts == 100
    mean, second = 1.3, (30 + 4 * 50) / 100
    assert found.relative_error == pytest.approx(np.sqrt((second - mean**2) / 100) / 2.3)


def test_aiperf_s_pooled_histogram_and_vllm_s_replies_are_read() -> None:
    pooled = {"pooled_spec_decode_acceptance_histogram": {"0": 20, "1": 30, "2": 50}, "request_count": {"avg": 4}}
    assert read_acceptance_file("export.json", json.dumps(pooled).encode()).conditional == pytest.approx((0.8, 0.625))
    replies = [
        {"choices": [{"index": 0}], "metrics": {"speculative_decoding": {"acceptance_histogram": counts}}}
        for counts in ([10, 20, 20], [10, 10, 30])
    ]
    text = "\n".join(map(json.dumps, replies)).encode()
    assert read_acceptance_file("replies.jsonl", text).conditional == pytest.approx((0.8, 0.625))
    with pytest.raises(AdvisorError, match="without an acceptance histogram"):
        read_acceptance_file("x.json", b'{"a": 1}')
    with pytest.raises(AdvisorError, match="counts no round"):
        read_acceptance_file("x.json", b'{"acceptance_histogram": [0, 0]}')


def test_an_uploaded_aiperf_run_takes_acceptance_from_its_histogram() -> None:
    run = {
        "request_latency": {"unit": "ms", "avg": 900.0},
        "inter_token_latency": {"unit": "ms", "avg": 5.0},
        "pooled_spec_decode_acceptance_histogram": {"0": 20, "1": 30, "2": 50},
    }
    row = read_upload("x.json", json.dumps(run).encode()).result.frame.iloc[0]
    assert row["acceptance_by_position"] == "0.8;0.5"
    assert row["accepted_length"] == pytest.approx(2.3)


def test_sglang_s_counters_give_one_accepted_length_at_its_k() -> None:
    found = read_acceptance_file("metrics", sglang(25_000, 10_000))
    assert found.text == "2.5@3"
    assert parse_acceptance(found.text, 3).accepted_length[3] == pytest.approx(2.5)
    assert sum(found.conditional[0] ** i for i in range(4)) == pytest.approx(2.5)
    between = read_acceptance_file("after", sglang(25_000, 10_000), ("before", sglang(5_000, 5_000)))
    assert between.text == "4@3"
    assert read_acceptance_file("gauge", sglang(0, 0, length=2.2)).text == "2.2@3"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sglang(0, 0, length=0.0), "counts no round"),
        (sglang(50_000, 10_000), "do not fit K = 3"),
        (sglang(25_000, 10_000, steps=0), "no single sglang:spec_num_steps"),
    ],
)
def test_sglang_metrics_without_rounds_or_with_a_varied_k_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        read_acceptance_file("metrics", data)


def test_a_golden_curve_keeps_its_longest_accepted_length() -> None:
    found = read_acceptance_file("golden.yaml", GOLDEN.encode())
    length = found.accepted_lengths(4)["accepted_length"]
    assert length.iloc[1] == pytest.approx(1.8, rel=1e-3)
    assert length.iloc[4] == pytest.approx(3.25, rel=1e-3)
    assert length.iloc[3] == pytest.approx(2.825, rel=1e-3)  # the shares 0.4 and 0.45 became 0.425 each
    two = GOLDEN + "  thinking_off:\n    1: 1.7\n"
    with pytest.raises(AdvisorError, match="holds 2 curves"):
        read_acceptance_file("golden.yaml", two.encode())


def test_shares_that_rise_are_averaged_and_keep_their_sum() -> None:
    assert falling([0.8, 0.4, 0.5, 0.6]).tolist() == pytest.approx([0.8, 0.5, 0.5, 0.5])
    assert falling([0.9, 0.5]).tolist() == [0.9, 0.5]


def test_the_command_says_how_to_use_a_length(capsys: pytest.CaptureFixture[str], tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "metrics.txt"
    file.write_bytes(sglang(25_000, 10_000))
    with pytest.raises(SystemExit) as stopped:
        main(["acceptance", str(file)])
    assert stopped.value.code == 0
    assert "To use it: --accepted-length 2.5@3" in capsys.readouterr().out
