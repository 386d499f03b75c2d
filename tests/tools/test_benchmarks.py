"""Each benchmark runs on a small size: a benchmark that nobody runs for a month no longer fits what it measures."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import tools.benchmarks

SMALL: dict[str, dict[str, Any]] = {
    "commands": {"RUNS": 1},
    "context": {"REPEATS": 1},
    "model": {},
    "refit": {"RUNS": 1},
    "simulator": {"REQUESTS": 50, "ITERATIONS": 20},
}
"""Benchmarks run here, and the sizes they run at."""


def test_every_benchmark_can_be_imported_and_has_a_main() -> None:
    for path in Path(tools.benchmarks.__file__).parent.glob("bench_*.py"):
        assert callable(importlib.import_module(f"tools.benchmarks.{path.stem}").main), path.stem


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_prints_its_table(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"tools.benchmarks.bench_{name}")
    for size, value in SMALL[name].items():
        monkeypatch.setattr(module, size, value)
    module.main()
    assert len(capsys.readouterr().out.splitlines()) > 1
