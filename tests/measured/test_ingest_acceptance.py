"""Acceptance by draft position from vLLM's metrics text or a list. The scrapes here are
constructed, not measured.

Acceptance from SGLang's metrics, acceptance histograms and golden curves. All numbers here are
constructed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measured.ingest.acceptance import (
    falling,
    rates_from_histogram,
    rates_from_list,
    read_acceptance_file,
)
from advisor.measured.ingest.read import read_upload
from advisor.physics.acceptance import parse_acceptance
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.command_line import Run
from tests.golden.sentences import Golden, lines_with


def scrape(
    drafts: float,
    accepted: list[float],
    engine: int = 0,
    model: str = "Qwen/Qwen3-30B-A3B",
    proposed: float | None = None,
) -> str:
    """CONSTRUCTED text in the layout that prometheus_client writes for vLLM's counters."""
    labels = f'engine="{engine}",model_name="{model}"'
    proposed = drafts * len(accepted) if proposed is None else proposed
    lines = [
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        f"vllm:num_requests_running{{{labels}}} 3.0",
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}",
        f"vllm:spec_decode_num_drafts_created{{{labels}}} 1.7e+09",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {proposed}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {sum(accepted)}",
    ]
    for position, count in enumerate(accepted):
        lines.append(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{position}"}} '
            f"{count}"
        )
        lines.append(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_created{{{labels},position="{position}"}} '  # noqa: E501
            "1.7e+09"
        )
    return "\n".join(lines) + "\n"


def test_shares_of_rounds_become_conditional_probabilities() -> None:
    found = read_acceptance_file("metrics.txt", scrape(10_000, [8_000, 6_000, 3_000]).encode())
    assert found.conditional == pytest.approx((0.8, 0.75, 0.5))
    assert found.text == "0.8,0.75,0.5"
    assert found.n_drafts == 10_000
    assert found.warnings == ()
    lengths = found.accepted_lengths(5).set_index("n_draft")
    # 1 + accepted / drafts, the engine's own mean acceptance length; beyond, 0.3 x 0.5 and 0.15 x
    # 0.5 more
    assert lengths["accepted_length"].tolist() == pytest.approx([1, 1.8, 2.4, 2.7, 2.85, 2.925])
    assert lengths["measured"].tolist() == [True, True, True, True, False, False]
    width = np.log(lengths["high"] / lengths["low"])
    assert width[5] > width[4] > width[3] > 0


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=20))
def test_the_scenario_text_gives_back_the_engine_s_accepted_length(counts: list[int]) -> None:
    drafts, *accepted = sorted([n + 1 for n in counts], reverse=True)
    found = read_acceptance_file("m", scrape(drafts, accepted).encode())
    length = parse_acceptance(found.text, len(accepted)).accepted_length
    assert length[-1] == pytest.approx(
        1 + sum(accepted) / drafts, rel=2e-3
    )  # four digits a probability


def test_engines_are_summed(golden: Golden) -> None:
    text = scrape(1_000, [900, 500]) + scrape(3_000, [1_500, 700], engine=1)
    found = read_acceptance_file("m", text.encode())
    assert found.conditional == pytest.approx((0.6, 0.5))
    golden(engines_are=lines_with(reading_texts(found.warnings), "2 engines"))


def test_two_scrapes_give_what_was_counted_between_them(golden: Golden) -> None:
    before = scrape(5_000, [100, 50])
    after = scrape(15_000, [8_100, 4_050]) + scrape(10_000, [8_000, 4_000], engine=1)
    found = read_acceptance_file("after", after.encode(), ("before", before.encode()))
    assert found.conditional == pytest.approx((0.8, 0.5))
    assert found.n_drafts == 20_000
    golden(after_since=lines_with(found.source, "after since"))


def test_a_restarted_server_and_swapped_scrapes_are_told() -> None:
    low = scrape(5_000, [100, 50]).encode()
    high = scrape(15_000, [8_100, 4_050]).encode()
    with pytest.raises(AdvisorError, match=r"fell from 15000 in b to 5000 in a; .* restarted"):
        read_acceptance_file("a", low, ("b", high))
    with pytest.raises(AdvisorError, match="no round"):
        read_acceptance_file("a", low, ("b", low))
    with pytest.raises(AdvisorError, match="scrapes of one server"):
        read_acceptance_file("a", high, ("b", low + scrape(1, [1, 1], engine=7).encode()))


def test_the_sampling_error_is_that_of_independent_rounds() -> None:
    share = np.array([0.8, 0.6, 0.3])
    found = read_acceptance_file("m", scrape(400, (share * 400).tolist()).encode())
    rounds = (
        np.repeat([0, 1, 2, 3], [80, 80, 120, 120]) + 1.0
    )  # tokens emitted by each of the 400 rounds
    assert found.relative_error == pytest.approx(rounds.std() / rounds.mean() / 20)
    few = read_acceptance_file("m", scrape(40, (share * 40).tolist()).encode())
    assert any("only 40 rounds" in text for text in reading_texts(few.warnings))
    assert found.warnings == ()


def test_rounds_that_drafted_fewer_tokens_are_told_and_positions_never_reached_are_zero(
    golden: Golden,
) -> None:
    found = read_acceptance_file("m", scrape(10_000, [6_000, 2_000], proposed=15_000).encode())
    golden(drafted_tokens=lines_with(reading_texts(found.warnings), "drafted 1.50"))
    found = read_acceptance_file("m", scrape(10_000, [5_000, 0, 0]).encode())
    assert found.conditional == (0.5, 0, 0)
    lengths = found.accepted_lengths(4)
    assert lengths["accepted_length"].tolist() == [1, 1.5, 1.5, 1.5, 1.5]
    assert lengths["measured"].tolist() == [True, True, True, True, False]


def test_a_list_is_read_as_shares_of_rounds_or_as_conditional() -> None:
    assert rates_from_list("0.8, 0.6, 0.3").conditional == pytest.approx((0.8, 0.75, 0.5))
    assert rates_from_list("[0.8;0.75 0.5]", conditional=True).conditional == pytest.approx(
        (0.8, 0.75, 0.5)
    )
    assert read_acceptance_file("rates.json", b"[0.8, 0.6, 0.3]\n").conditional == pytest.approx(
        (0.8, 0.75, 0.5)
    )
    assert read_acceptance_file("rates.txt", b"0.8 0.9", conditional=True).text == "0.8,0.9"
    with pytest.raises(AdvisorError, match=r"position 2 is accepted in 0.9 .* conditional"):
        rates_from_list("0.8, 0.9")


def test_label_values_may_hold_commas_braces_and_escaped_quotes() -> None:
    text = scrape(10_000, [8_000], model='a\\"b,c}{d')
    assert read_acceptance_file("m", text.encode()).text == "0.8"


def test_the_command_prints_a_text_that_a_scenario_takes(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    before = tmp_path / "before.txt"
    after = tmp_path / "after.txt"
    before.write_text(scrape(100, [10, 5]))
    after.write_text(scrape(10_100, [8_010, 4_005]))
    code, out, _ = run("acceptance", before, after, "--k-max", 4)
    assert code == 0
    golden(use_it=lines_with(out, "To use"))
    assert out.count("last probability held") == 2
    code, out, _ = run("acceptance", before, after, "--k-max", 4, "--json")
    answer = json.loads(out)
    assert build_scenario(acceptance=answer["acceptance"]).acceptance == "0.8,0.5"
    assert answer["accepted_lengths"][2]["accepted_length"] == pytest.approx(2.2)
    assert [row["measured"] for row in answer["accepted_lengths"]] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_the_command_takes_a_list_and_refuses_both_or_neither(run: Run) -> None:
    assert "--acceptance 0.8,0.75\n" in run("acceptance", "--rates", "0.8,0.6")[1]
    assert "--acceptance 0.6,0.7\n" in run("acceptance", "--rates", "0.6,0.7", "--conditional")[1]
    for arguments in ((), ("x", "--rates", "0.5"), ("no-such-file",), ("--rates", "2")):
        code, _, problem = run("acceptance", *arguments)
        assert code == 2
        assert problem.startswith("error: ")
        assert problem.count("\n") == 1


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
    mean = 1.3
    second = (30 + 4 * 50) / 100
    assert found.relative_error == pytest.approx(np.sqrt((second - mean**2) / 100) / 2.3)
    assert falling([0.8, 0.4, 0.5, 0.6]).tolist() == pytest.approx([0.8, 0.5, 0.5, 0.5])
    assert falling([0.9, 0.5]).tolist() == [0.9, 0.5]


def test_aiperf_s_pooled_histogram_and_vllm_s_replies_are_read() -> None:
    pooled = {
        "pooled_spec_decode_acceptance_histogram": {"0": 20, "1": 30, "2": 50},
        "request_count": {"avg": 4},
    }
    assert read_acceptance_file(
        "export.json", json.dumps(pooled).encode()
    ).conditional == pytest.approx((0.8, 0.625))
    replies = [
        {
            "choices": [{"index": 0}],
            "metrics": {"speculative_decoding": {"acceptance_histogram": counts}},
        }
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
    between = read_acceptance_file(
        "after", sglang(25_000, 10_000), ("before", sglang(5_000, 5_000))
    )
    assert between.text == "4@3"
    assert read_acceptance_file("gauge", sglang(0, 0, length=2.2)).text == "2.2@3"


def test_sglang_s_counters_have_the_checks_of_vllm_s() -> None:
    with pytest.raises(
        AdvisorError, match=r"generation_tokens fell from 12500 in before to 2500 in after"
    ):
        read_acceptance_file("after", sglang(5_000, 5_000), ("before", sglang(25_000, 10_000)))
    two = sglang(25_000, 10_000) + sglang(9_000, 9_000).replace(
        b'model_name="m"', b'model_name="other"'
    )
    with pytest.raises(AdvisorError, match="counts 2 models"):
        read_acceptance_file("metrics", two)
    with pytest.raises(AdvisorError, match="is no count"):
        read_acceptance_file("metrics", sglang(25_000, -1))
    first = sglang(25_000, 10_000) + b'sglang:num_requests_total{model_name="m"} 1000\n'
    assert read_acceptance_file("metrics", first).text == "2.4@3", (
        "a request's first token is of no round"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sglang(0, 0, length=0.0), "counts no round"),
        (sglang(50_000, 10_000), "do not fit K = 3"),
        (sglang(25_000, 10_000, steps=0), "no single sglang:spec_num_steps"),
    ],
)
def test_sglang_metrics_without_rounds_or_with_a_varied_k_are_refused(
    data: bytes, message: str
) -> None:
    with pytest.raises(AdvisorError, match=message):
        read_acceptance_file("metrics", data)


def test_a_golden_curve_keeps_its_longest_accepted_length() -> None:
    found = read_acceptance_file("golden.yaml", GOLDEN.encode())
    length = found.accepted_lengths(4)["accepted_length"]
    assert length.iloc[1] == pytest.approx(1.8, rel=1e-3)
    assert length.iloc[4] == pytest.approx(3.25, rel=1e-3)
    assert length.iloc[3] == pytest.approx(
        2.825, rel=1e-3
    )  # the shares 0.4 and 0.45 became 0.425 each
    two = GOLDEN + "  thinking_off:\n    1: 1.7\n"
    with pytest.raises(AdvisorError, match="holds 2 curves"):
        read_acceptance_file("golden.yaml", two.encode())
