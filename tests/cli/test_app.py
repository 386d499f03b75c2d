"""`advisor app`: the store first, then Streamlit on this machine alone; what Streamlit does then is its own."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from advisor.cli import data
from advisor.measured.store_build import BuildSummary, StoreStatus
from tests.command_line import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that Streamlit was run with, instead of running it."""
    calls: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["advisor"])
    monkeypatch.setattr(runpy, "run_module", lambda name, **_: calls.append([name, *sys.argv[1:]]))
    return calls


def test_an_old_store_is_rebuilt_before_the_app_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, started: list[list[str]], tmp_path: Path
) -> None:
    monkeypatch.setattr(data, "store_status", lambda: StoreStatus(tmp_path, exists=True, stale_because=("it is old",)))
    summary = BuildSummary(tmp_path / "new.duckdb", rows_by_table={"moe": 1})
    monkeypatch.setattr(data, "build_store", lambda **_: summary)
    code, out, _ = run(capsys, "app")
    assert code == 0
    assert "new.duckdb: 1 rows" in out
    assert len(started) == 1


def test_the_app_is_served_to_this_machine_alone_from_any_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, started: list[list[str]], tmp_path: Path
) -> None:
    monkeypatch.setattr(data, "store_status", lambda: StoreStatus(tmp_path, exists=True))
    monkeypatch.chdir(tmp_path)
    run(capsys, "app", "--port", 8611)
    options = ["--server.address", "127.0.0.1", "--server.port", "8611"]
    assert started == [["streamlit", "run", str(ROOT / "serve.py"), *options]]


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], started: list[list[str]], port: str
) -> None:
    code, _, err = run(capsys, "app", "--port", port)
    assert code == 2
    assert "--port" in err
    assert not started
