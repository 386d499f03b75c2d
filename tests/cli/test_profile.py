"""`advisor profile`: the profiler's own options and exit status, and a sentence where torch is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli import report
from advisor.measured.store_build import build
from tests.command_line import run
from tests.sweep_fixture import DEVICE, write_sweep


def test_profile_without_torch_exits_2_with_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    code, out, err = run(capsys, "profile", "--preset", "quick", "--output", "x")
    assert (code, out) == (2, "")
    assert err == f"error: {report.TORCH_MISSING}\n"


@pytest.mark.parametrize("status", [0, 2, 3])
def test_profile_hands_on_options_and_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    seen: list[list[str]] = []

    def profiler(options: list[str]) -> int:
        seen.append(options)
        return status

    monkeypatch.setattr(report, "find_spec", lambda _: object())
    monkeypatch.setattr(report, "profiler", profiler)
    options = ["--preset", "smoke", "--only", "launch", "--only=gemm", "--json", "--output", "a folder"]
    assert run(capsys, "profile", *options)[0] == status
    assert seen == [options]


def test_profile_explains_its_options_without_torch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    code, out, _ = run(capsys, "profile", "--help")
    assert code == 0
    assert "--resume" in out


def test_profile_refuses_a_wrong_option_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "profile", "--preset", "quick", "--plan", "--presets")
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_store_status_names_the_sweeps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:

    write_sweep(tmp_path / "measurements" / "made-up", status="partial")
    path = tmp_path / "advisor.duckdb"
    build(path, kernels=None, measurements=tmp_path / "measurements")
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(path))
    code, out, _ = run(capsys, "store", "status")
    assert code == 0
    assert "Sweeps of the profiler:" in out
    line = next(line for line in out.splitlines() if line.startswith("made-up"))
    assert DEVICE in line
    assert "partial" in line
