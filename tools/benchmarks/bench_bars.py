"""What the project holds itself to, each as a ratio of two figures of one run.

`make bench` writes the table to docs/performance.md, with the load of the machine beside each row:
seconds depend on the machine, ratios hardly do.
"""

from __future__ import annotations

import datetime as dt
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from advisor.answers.advice import advise
from advisor.answers.explore.cells import sweep_rows
from advisor.answers.explore.grid import read_plan
from advisor.measured.points import judged_rows
from advisor.measured.validation import validate
from advisor.predict.scenario import build_scenario
from tests.e2e.app_server import chromium_path, new_context, running_browser, started_app
from tests.e2e.ten_users import cpu_s, tree_cpu_s
from tests.e2e.views import open_page
from tools.benchmarks.bench_app import SCREEN, Bench
from tools.benchmarks.bench_commands import ROOT, cost, of_command

PAGE = ROOT / "docs" / "performance.md"
RUNS = 5
ROWS = 1_000_000
"""Measured rows that are validated at most. [-]"""
IN_A_BROWSER = True
PAGES: tuple[str, ...] = ("serve", "design", "trust")
DRAGS = 48
FRAME_S = 1.0 / 60.0
_IMPORTS = ("-c", "import click, numpy, pydantic, yaml")
"""What the core of the package needs, and nothing else."""
PLAN = """
cases:
  - {model_id: qwen3-30b-a3b}
  - {model_id: deepseek-v3, tensor_parallel: 8, drafter_id: mtp}
hardware_id: h200-sxm
k_max: [3, 5, 8]
acceptance: ["1.6@3", "2.0@3", "2.4@3", "2.8@3", "3.2@3"]
context_tokens: [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
batch_size: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
"""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    over: str
    """What it is a ratio to; empty for a size."""
    value: float
    load: float
    """Of the machine when it was measured: processes that want a processor. [-]"""

    def __str__(self) -> str:
        figure = f"{self.value:.3g} times" if self.over else f"{self.value / 1e3:,.0f} kB"
        return f"{self.what:<62} {figure:>12}  {self.over:<34} load {self.load:.1f}"


Measure = Callable[[], float]


def measures() -> Iterator[tuple[str, str, Measure]]:
    """What is measured without a browser: what, over what, and how."""
    imports = _of_process(*_IMPORTS)
    core = "bare imports of the core"
    yield "`advisor advise`", core, lambda: _of_process(*of_command("advise")) / imports
    alone = "`advisor --help`"
    yield (
        "`advisor advise --help`",
        alone,
        lambda: (
            _of_process("-m", "advisor", "advise", "--help")
            / _of_process("-m", "advisor", "--help")
        ),
    )
    answer = "one answer in a warm process"
    yield "a scenario of a sweep (batch, K, length, context)", answer, _sweep
    yield "a row of `validate`", answer, _validation
    yield "size of an answer as a file (HTML)", "", _file_bytes


def _of_process(*words: str) -> float:
    """Processor time of a whole process, the median of several. [s]"""
    return statistics.median(cost(words)[0] for _ in range(RUNS))


def _answer_s() -> float:
    """Processor time of one answer after the first, each of another batch. [s]"""
    scenario = build_scenario(
        hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3", batch_size=1
    )
    advise(scenario)
    start = time.process_time()
    for batch in range(2, 2 + RUNS):
        advise(scenario.model_copy(update={"batch_size": batch}))
    return (time.process_time() - start) / RUNS


def _sweep() -> float:
    plan = read_plan(PLAN)
    sweep_rows(plan.part(0), plan.batches)  # profiles read
    start = time.process_time()
    for index in range(plan.n_parts):
        sweep_rows(plan.part(index), plan.batches)
    return (time.process_time() - start) / plan.n_scenarios / _answer_s()


def _validation() -> float:
    rows = judged_rows().head(ROWS)
    start = time.process_time()
    judged = validate(rows)
    taken = time.process_time() - start
    return taken / (len(judged.rows) - judged.n_refused) / _answer_s()


def _file_bytes() -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.html"
        words = [sys.executable, *of_command("report"), "--output", str(file)]
        subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
        return float(file.stat().st_size)


def in_a_browser() -> Iterator[tuple[str, str, Measure]]:
    """What is measured in one, of one server."""
    imports = _of_process(*_IMPORTS)
    with running_browser() as browser, started_app() as (url, pid):
        for name in PAGES:

            def visit(name: str = name) -> float:
                page = new_context(browser, viewport=SCREEN).new_page()
                server_s = cpu_s(pid)
                all_s = tree_cpu_s(os.getpid())
                open_page(page, url, name)
                server_s = cpu_s(pid) - server_s
                browser_s = tree_cpu_s(os.getpid()) - all_s - server_s
                page.context.close()
                return browser_s / imports

            yield f"first visit of {name.title()}, the browser", "bare imports of the core", visit
        page = new_context(browser, viewport=SCREEN).new_page()
        open_page(page, url, "serve")
        bench = Bench(browser, url, pid)
        bench.dragged(page, DRAGS)
        for dragged in bench.rows:
            frames = statistics.median(dragged.values) / FRAME_S
            what = f"{dragged.name}, a step (wall time)"
            yield what, "a frame of 60 Hz", lambda frames=frames: frames


def page_text(rows: list[Row]) -> str:
    """docs/performance.md."""
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` on {dt.date.today():%Y-%m-%d}, on {os.cpu_count()} cores. Each",
        "figure is a ratio of two processor times of one run, unless it says otherwise; load is",
        "how many processes wanted a processor at the time.",
        "",
        "| what | figure | over | load |",
        "|---|---|---|---|",
    ]
    for row in rows:
        figure = f"{row.value:.3g}" if row.over else f"{row.value / 1e3:,.0f} kB"
        lines.append(f"| {row.what} | {figure} | {row.over} | {row.load:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print each row as it is measured, and write the page where none failed; else 1."""
    rows: list[Row] = []
    failed = False
    sources = [measures]
    if IN_A_BROWSER and chromium_path() is not None:
        sources.append(in_a_browser)
    else:
        print("bars: no Chromium found, not measured in a browser")
    for source in sources:
        for what, over, measure in source():
            load = os.getloadavg()[0]
            try:
                row = Row(what, over, measure(), load)
            except Exception as error:
                print(f"{what}: {type(error).__name__}: {error}")
                failed = True
                continue
            rows.append(row)
            print(row, flush=True)
    if not failed:
        PAGE.write_text(page_text(rows), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
