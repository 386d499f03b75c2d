"""For all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from advisor.measured import profiler_runs as profile
from advisor.ui import answers
from tests.pages.app_page import WAIT_S


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages must work without a store; tests that want one set the variable themselves."""
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """No browser draws here, so nothing is left time to."""
    monkeypatch.setattr(answers, "_PAUSES", 0)


@pytest.fixture
def own_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing remembered, no leave to measure, and whatever still runs at a test's end is ended."""
    monkeypatch.delenv(profile.ALLOW_VARIABLE, raising=False)
    st.cache_data.clear()
    st.cache_resource.clear()
    yield
    for child in profile._CHILDREN.values():
        child.kill()
        child.wait(timeout=WAIT_S)
    profile._CHILDREN.clear()
