"""For all tests of pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.ui import answers


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages must work without a store; tests that want one set the variable themselves."""
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """No browser draws here, so nothing is left time to."""
    monkeypatch.setattr(answers, "_PAUSES", 0)
