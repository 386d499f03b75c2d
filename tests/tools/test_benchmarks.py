"""Each benchmark runs to its end on a small size: one that nobody runs for a month no longer fits
what it measures."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from pathlib import Path
from typing import Any

import pytest

import tools.benchmarks
from advisor.answers.design.grid import DesignGrid
from advisor.answers.explore.entrants import ModelFilter
from tools.benchmarks.__main__ import main
from tools.benchmarks.bench_bars import Row, page_text

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, dict[str, Any]] = {
    "bars": {
        "RUNS": 1,
        "PAGE": Path(os.devnull),
        "IN_A_BROWSER": False,
        "ROWS": 60,
        "PLAN": "{model_id: qwen3-30b-a3b, acceptance: 2.4@3, batch_size: [1, 16]}",
    },
    "commands": {"RUNS": 1},
    "context": {"REPEATS": 1},
    "design": {
        "BATCHES": ((1, 64),),
        "GRID": DesignGrid(n_experts=(64, 128), n_active=(4, 8), n_shared=(0,)),
    },
    "ingest": {"n_rows": 400, "MAX_GIB": inf},
    "model": {},
    "profiling": {"arguments": [str(ROOT / "measurements" / "cpu-epyc-turin-quick")]},
    "rank": {"WANTED": ModelFilter(("qwen3.5-35b-a3b", "gpt-oss-20b"))},
    "ranks": {"SIZES": ((4, 8, 1),), "LAYERS": 2, "SECTION_BATCH": 8},
    "refit": {"RUNS": 1},
    "simulator": {"REQUESTS": 50, "ITERATIONS": 20},
    "sweep": {
        "PLAN": (
            "cases: [{model_id: qwen3-30b-a3b, acceptance: 2.4@3}]\nmax_tpot_ms: [20, "
            "100]\nbatch_size: [1, 16]\n"
        )
    },
    "trace": {"SEQUENCES": 8, "LAYERS": 2},
    "upload": {"n_rows": 400, "MAX_GIB": inf},
}
"""Sizes of those that need no browser (tests/e2e/test_fast_checks.py runs the others): in capitals
what stands in the module, small what `main` is given. Memory has no limit here: the peak is that of
the process that ran other tests before."""
IN_A_BROWSER = {"app", "users"}


class Here(contextlib.AbstractContextManager["Here"]):
    """Runs in this process what a benchmark runs in one of its own to know its peak memory."""

    def __init__(self, **_: object) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def submit(self, function: Callable[..., Any], *given: object) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*given))
        return done


def test_every_benchmark_has_a_small_size() -> None:
    names = {
        path.stem.removeprefix("bench_")
        for path in Path(tools.benchmarks.__file__).parent.glob("bench_*.py")
    }
    assert names == {*SMALL, *IN_A_BROWSER}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_prints_its_table(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"tools.benchmarks.bench_{name}")
    arguments = {size: value for size, value in SMALL[name].items() if size.islower()}
    for size in SMALL[name].keys() - arguments.keys():
        monkeypatch.setattr(module, size, SMALL[name][size])
    if hasattr(module, "ProcessPoolExecutor"):
        monkeypatch.setattr(module, "ProcessPoolExecutor", Here)
    module.main(
        **arguments
    )  # what it returns says whether limits of time held: `make bench` judges that
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_a_part_that_fails_prints_its_error_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise ValueError("no such profile")

    for name, part in (("rank", fails), ("trace", lambda: print("measured"))):
        monkeypatch.setattr(f"tools.benchmarks.bench_{name}.main", part)
    assert main(["rank", "trace"]) == 1
    printed = capsys.readouterr().out
    assert "rank: ValueError: no such profile" in printed
    assert "measured" in printed
    assert main(["trace"]) == 0


def test_the_page_of_performance_holds_each_row_with_its_load() -> None:
    rows = [Row("advise", "imports", 2.4, 0.3), Row("size", "", 205_000.0, 0.5)]
    printed = page_text(rows)
    assert "| advise | 2.4 | imports | 0.3 |" in printed
    assert "| size | 205 kB |  | 0.5 |" in printed
