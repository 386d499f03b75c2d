"""`diagnose` on the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import run

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis"


def test_the_verdict_comes_first_and_each_finding_has_evidence_and_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "diagnose", FIXTURES / "misconfigured.txt", "--hardware", "h200-sxm", "--tp", "1")
    assert status == 0
    assert out.splitlines()[0].startswith("The engine is misconfigured: SGLang admits 48 requests")
    for word in (
        "evidence: batch_size 128",
        "do: --max-running-requests",
        "source: sgl-project/sglang",
        "Not checked:",
    ):
        assert word in out


def test_json_holds_the_verdict_and_what_was_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "diagnose", FIXTURES / "honest.csv", "--json")
    document = json.loads(out)
    assert status == 0
    assert document["verdict"] == "as_predicted"
    assert all(one["needs"] for one in document["not_judged"])


def test_every_rule_is_listed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "diagnose", FIXTURES / "honest.csv", "--all")
    assert "  requests wait in the server's queue while others decode: needs waiting_requests" in out
