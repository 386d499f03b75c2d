"""`explain`: how one prediction was made, on a terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.predict.curve import speedup_curve
from advisor.predict.scenario import Scenario
from tests.command_line import QWEN, run

WORDS = ["explain", *QWEN]


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str, int]:
    code, out, err = run(capsys, *WORDS, *more)
    return out, err, code


def test_it_prints_each_formula_with_its_numbers_and_says_that_there_is_no_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, err, code = printed(capsys, "--k", "3")
    speedup = speedup_curve(Scenario(acceptance="2.4@3"), [16], [3]).speedup[0, 0]
    assert code == 0
    assert "speedup = AL × T_plain / T_round = 2.4 × " in out
    assert f"= {speedup:.4g}\n" in out
    assert "Where the 80% band comes from" in out
    assert "no measured points" in err


def test_json_carries_values_expressions_and_constants(capsys: pytest.CaptureFixture[str]) -> None:
    out, _, _ = printed(capsys, "--json", "--no-nearby")
    document = json.loads(out)
    speedup = next(step for step in document["steps"] if step["id"] == "speedup")
    assert speedup["expression"] == "AL * T_plain / T_round"
    assert set(speedup["values"]) == {"AL", "T_plain", "T_round"}
    assert all(use["source"] for use in document["constants"])


def test_a_k_that_is_not_considered_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    _, err, code = printed(capsys, "--k", "99")
    assert code == 2
    assert err == "error: K = 99 is not considered; choose one from 0 to 8\n"
