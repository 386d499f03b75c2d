"""A measured run in a report: its section, its place in the JSON, and the option that gives it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.answers.advice import advise
from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import Given
from advisor.show.report.build import build_report
from advisor.show.report.formats import document_of, render
from advisor.show.words.diagnosis import view_of
from tests.command_line import QWEN as QWEN_OPTIONS
from tests.command_line import run
from tests.report_fixtures import DATE, QWEN, report_on

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis"


def test_a_report_without_a_measured_run_says_nothing_of_one() -> None:
    assert document_of(report_on()).diagnosis is None
    assert "diagnosed" not in render(report_on(), "md").decode()


def test_a_report_on_a_measured_run_has_its_verdict_evidence_and_remedy() -> None:
    name = "mismeasured.jsonl"
    found = view_of(diagnose([Given(name, (FIXTURES / name).read_bytes())]))
    report = build_report(advise(QWEN), DATE, diagnosis=found)
    text = render(report, "md").decode()
    assert "## A measured run, diagnosed" in text
    assert "Measure again before anything is tuned" in text
    assert "philschmid/mt-bench" in text
    section = document_of(report).diagnosis
    assert section is not None
    assert section.verdict == "mismeasured"
    assert {one.kind for one in section.findings} == {"measurement"}


def test_the_command_takes_measured_files_and_the_scenario_fills_what_they_leave_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    options = (*QWEN_OPTIONS, "--brief", "--no-checks", "--output", output)
    status, _, _ = run(capsys, "report", *options, "--diagnose", FIXTURES / "misconfigured.txt")
    assert status == 0
    document = json.loads(output.read_text(encoding="utf-8"))
    assert [one["title"][:23] for one in document["diagnosis"]["findings"]] == ["SGLang admits 48 reques"]
    assert document["diagnosis"]["gaps"], "the scenario's accelerator let the run be predicted"


def test_what_the_files_say_stands_against_the_scenario() -> None:
    given = Given("honest.csv", (FIXTURES / "honest.csv").read_bytes())
    with_h100, with_h200 = diagnose([given]), diagnose([given], otherwise={"hardware_id": "h200-sxm"})
    assert with_h100.comparisons[-1][1].rows == with_h200.comparisons[-1][1].rows
    assert diagnose([given], {"hardware_id": "h200-sxm"}).comparisons[-1][1].rows != with_h100.comparisons[-1][1].rows
