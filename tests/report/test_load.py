"""What a report says of the load: cost and energy always, context unless brief, other models when asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.context import context_map
from advisor.answers.explore.leaderboard import RankQuestion, Wanted, one_load
from advisor.answers.explore.standing import leaderboard
from advisor.show.report.build import build_report
from advisor.show.report.formats import document_of, render
from tests.command_line import QWEN as OPTIONS
from tests.command_line import run
from tests.report_fixtures import DATE, QWEN, report_on

POWER = Path(__file__).parents[1] / "fixtures/power/nvidia_smi_constructed.csv"


def test_every_report_says_what_a_token_costs_and_rests_on() -> None:
    text = render(report_on(), "md").decode()
    part = text.split("## Cost and energy")[1].split("\n## ")[0]
    assert "USD per million output tokens" in part
    assert "one-year reserved price" in part
    assert "not measured: TDP" in part
    section = document_of(report_on()).spend
    assert section is not None
    assert section.recommended.usd_per_million_tokens is not None
    assert section.recommended.n_draft == report_on().advice.recommendation.n_draft
    assert sum(section.plain.share_of_time.values()) == pytest.approx(1.0, abs=1e-5)


def test_context_and_other_models_stand_in_every_format_when_they_were_looked_up() -> None:
    load = RankQuestion(QWEN, one_load(16), "cost", wanted=Wanted(("qwen3-30b-a3b", "gpt-oss-120b")))
    report = build_report(advise(QWEN), DATE, over_context=context_map(QWEN), board=leaderboard(load))
    text = render(report, "md").decode()
    assert "## Over context" in text
    assert "Attention's share" in text
    assert "## Other models at this load" in text
    part = text.split("## Other models at this load")[1].split("\n## ")[0]
    assert "Qwen3-30B-A3B stands" in part
    assert "| rank | model | placement | drafter | accepted | K | memory |" in part
    assert "| rank | model | USD/M tokens | ms/token | tokens/s/GPU | J/token |" in part
    assert "Only models chosen by name take part." in part
    for form in ("html", "pdf", "json"):
        assert render(report, form)
    found = document_of(report)
    assert found.over_context is not None
    assert found.other_models is not None
    assert [one.rank for one in found.other_models.models] == [1, 2]
    bare = document_of(report_on())
    assert (bare.over_context, bare.other_models) == (None, None)


def test_the_json_names_every_model_that_is_not_ranked_and_why_as_the_page_does() -> None:
    wanted = Wanted(("qwen3-30b-a3b", "deepseek-v3"))
    board = leaderboard(RankQuestion(QWEN, one_load(16), "cost", wanted=wanted))
    report = build_report(advise(QWEN), DATE, board=board)
    found = json.loads(render(report, "json"))["other_models"]
    assert [one["model"] for one in found["models"]] == ["qwen3-30b-a3b"]
    assert [one["model"] for one in found["missed"]] == ["deepseek-v3"]
    why = found["missed"][0]
    assert f"{why['reason']}: DeepSeek-V3 ({why['detail']})" in render(report, "md").decode()


def test_the_command_ranks_models_of_a_least_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    asked = ("report", *OPTIONS, "--output", file, "--brief", "--no-checks", "--min-total-params", "2e11")
    status, _, error = run(capsys, *asked)
    assert status == 2
    assert "give --models too" in error
    status, _, _ = run(capsys, *asked, "--tp", 8, "--models")
    assert status == 0
    found = json.loads(file.read_text("utf-8"))["other_models"]
    assert "at least 200 B parameters" in found["verdict"]
    assert found["models"]
    assert all(one["total_params"] >= 2e11 for one in found["models"])


def test_the_command_takes_a_price_and_a_power_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    asked = ("report", *OPTIONS, "--output", file, "--brief", "--usd-per-hour", "2", "--power-log", POWER)
    status, _, error = run(capsys, *asked)
    assert status == 2
    assert "2 GPUs worked in it (0, 1) and the scenario's instance has 1" in error
    status, _, _ = run(capsys, *asked, "--tp", 2)
    assert status == 0
    spend = json.loads(file.read_text("utf-8"))["spend"]
    assert spend["price_usd_per_gpu_hour"] == 2.0
    assert spend["recommended"]["power_w_per_gpu"]["tier"] == "measured"
    assert spend["plain"]["power_w_per_gpu"]["tier"] == "roofline"


def test_cost_and_energy_of_a_batch_that_does_not_fit_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    large = QWEN.model_copy(update={"batch_size": 4096, "context_tokens": 32768})
    report = build_report(advise(large), DATE)
    assert report.spend is None
    part = render(report, "md").decode().split("## Cost and energy")[1].split("\n## ")[0]
    assert "not told: batch 4,096 does not fit" in part
    assert document_of(report).spend is None
    for form in ((), ("--json",)):
        _, out, _ = run(capsys, "advise", *OPTIONS, "--batch", 4096, "--context", 32768, *form)
        assert "USD per million" not in out
        assert ('"spend": null' if form else "Cost and energy are not told") in out
