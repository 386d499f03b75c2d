"""What `make test-engines` does before an engine's code is there: its exports, planted faults, and skipping."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.engine_code import __main__ as driver


def test_a_wheel_that_cannot_be_had_is_a_reason_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "FOLDER", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert driver.main() == 0
    assert capsys.readouterr().out.count("skipped: the wheel cannot be downloaded") == len(driver.ENGINES)


@pytest.mark.parametrize("engine", driver.ENGINES)
def test_at_least_ten_scenarios_are_exported_and_faults_planted(engine: str) -> None:
    refused, exports = driver.exports_for(engine)
    assert len(exports) >= 10
    assert any("MiniMax-M2" in name for name, _ in refused)
    assert len(driver.planted(engine, exports)) >= 3


def test_an_export_refused_or_a_planted_fault_taken_counts_as_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    results = [{"name": "a", "ok": True, "found": []}, {"name": "b", "ok": False, "found": []}]
    assert driver.report({"results": results, "stubs": []}, 1) == 0
    assert driver.report({"results": results, "stubs": []}, 2) == 1
    assert driver.report({"results": results[::-1], "stubs": []}, 1) == 2
    assert "REFUSED" in capsys.readouterr().out
