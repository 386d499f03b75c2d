"""The app in a real Chromium, each step beside its goal: opening it, dragging, changing, designing,
dropping a file.

`python -m tools.benchmarks app` prints wall seconds, whose goals are for two idle cores, processor
time of server and browser, which hardly depend on other load, and the layout shifts.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from advisor.catalog.models import model_ids
from tests.e2e.app_server import (
    chromium_path,
    free_port,
    new_context,
    running_browser,
    start_app,
    started_app,
    wait_until_drawn,
    wait_until_up,
)
from tests.e2e.ten_users import cpu_s, tree_cpu_s
from tests.e2e.views import ANSWER, DROP, WIDE, go_to, open_page, upload
from tools.benchmarks.wire_users import wire_users

STARTS = 3
CHANGES = 16
USERS = 10
LIMIT_S = 30.0
SCREEN = {"width": 1440, "height": 900}
TEN = "hardware_id=b200-sxm&n_gpus=8&tensor_parallel=8&acceptance=2.4%403"
"""Scenario in which most models fit."""
CHOICES = {
    "Model": ("Qwen3-30B-A3B", "gpt-oss-120b", "OLMoE"),
    "Accelerator": ("H100 SXM", "B200 SXM", "H200 SXM"),
}

# Resolves with the milliseconds from now until the screen is drawn for another batch, and until the
# script has ended with the library's own answer for it.
_WATCH = """batch => new Promise(done => {
  const start = performance.now();
  let headline = 0;
  const look = () => {
    if (!headline && window.moeLive?.last?.batch === batch) headline = performance.now() - start;
    const answer = window.moeLive?.taken === batch;
    const ended = document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning';
    if (headline && answer && ended) done([headline, performance.now() - start]);
    else if (performance.now() - start > LIMIT_MS)
      done(['headline ' + !!headline, 'answer ' + !!answer, 'script ended ' + ended].join(', '));
    else requestAnimationFrame(look);
  };
  look();
})""".replace("LIMIT_MS", str(1e3 * LIMIT_S))  # noqa: E501
_SHIFTS = """buffered => {
  window.shifted = 0;
  new PerformanceObserver(list => { for (const entry of list.getEntries()) window.shifted += entry.value; })
    .observe({type: 'layout-shift', buffered});
}"""  # noqa: E501
_ANSWERED = """(() => { const look = () => window.moeLive && window.moeLive.taken !== null
  ? requestAnimationFrame(() => { window.answered = performance.now(); }) : requestAnimationFrame(look); look(); })()"""  # noqa: E501
"""From the start of the navigation until the answer is on screen, noted in every page that
opens."""
_CHANGED = """([node, css, whole]) => {
  const text = () => { const at = css ? node.querySelector(css) : node; return at?.value ?? at?.textContent; };
  const ended = () => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning';
  const before = text();
  let start = 0;
  for (const kind of ['click', 'keydown', 'change'])
    addEventListener(kind, () => { start ||= performance.now(); }, {capture: true, once: true});
  const limit = performance.now() + LIMIT_MS;
  window.took = new Promise((done, failed) => {
    const look = () => {
      if (start && text() !== before && (!whole || ended())) requestAnimationFrame(() => done(performance.now() - start));
      else if (performance.now() > limit) failed(new Error('unchanged: ' + before));
      else requestAnimationFrame(look);
    };
    look();
  });
}""".replace("LIMIT_MS", str(1e3 * LIMIT_S))  # noqa: E501
"""From the user's click, key or file until a text is another and, of a whole page, the script has
ended. What stays as it was fails: a choice that stands already changes nothing."""
_DRAGGED = """(slider, values) => values.map(value => {
  const start = performance.now();
  slider.value = value;
  slider.dispatchEvent(new Event('input'));
  slider.getBoundingClientRect();
  return performance.now() - start;
})"""


@dataclass
class Row:
    """One line of the table."""

    name: str
    goal: float
    unit: str = "s"
    values: list[float] = field(default_factory=list)
    server_s: float = 0.0
    browser_s: float = 0.0

    def __str__(self) -> str:
        unit = f" {self.unit:<1}"
        each = 1e3 / max(len(self.values), 1)
        figures = f"{statistics.median(self.values):>8.3f}{unit}{max(self.values):>8.3f}{unit}{self.goal:>8.2f}{unit}"  # noqa: E501
        spent = (
            f"{self.server_s * each:>12.0f}{self.browser_s * each:>12.0f}"
            if self.server_s or self.browser_s
            else ""
        )
        return f"{self.name:<40}{figures}{spent}"


@dataclass
class Bench:
    """A browser on an app, and the lines found so far."""

    browser: Any
    url: str
    server: int
    rows: list[Row] = field(default_factory=list)
    n_shown: int = 0

    def show(self) -> None:
        """Print the lines found since the last time."""
        print(*self.rows[self.n_shown :], sep="\n", flush=True)
        self.n_shown = len(self.rows)

    @contextmanager
    def row(self, name: str, goal: float) -> Iterator[list[float]]:
        """Line whose values the block adds, with the processor time that it takes."""
        self.rows.append(Row(name, goal))
        with self.metered():
            yield self.rows[-1].values

    @contextmanager
    def metered(self) -> Iterator[Row]:
        """Add to the last line the processor time that the block takes."""
        found = self.rows[-1]
        server = cpu_s(self.server)
        every = tree_cpu_s(os.getpid())
        yield found
        server = cpu_s(self.server) - server
        found.server_s += server
        found.browser_s += tree_cpu_s(os.getpid()) - every - server

    def opened(self, count: int) -> None:
        """Cold tabs of a warm server, each reloaded once."""
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        paints: list[float] = []
        reloads = Row("warm reload to answer", 1.5)
        with self.row("cold tab to answer", 2.5) as answers:
            for _ in range(count):
                context = new_context(self.browser, viewport=SCREEN)
                context.add_init_script(_ANSWERED)
                page = context.new_page()
                for found in (answers, reloads.values):
                    page.goto(self.url, wait_until="commit") if found is answers else page.reload(
                        wait_until="commit"
                    )
                    page.wait_for_function("window.answered", polling=100)
                    found.append(float(page.evaluate("window.answered")) / 1e3)
                    if found is answers:
                        paints.append(float(page.evaluate(paint)) / 1e3)
                    wait_until_drawn(page)
                context.close()
        self.rows += [reloads, Row("first paint of a cold tab", 0.6, values=paints)]

    def dragged(self, page: Any, count: int) -> None:
        """Both sliders under the hand, input event to layout."""
        for place, name, values in (
            (0, "batch dragged", [step % 9 + step / 100 for step in range(count)]),
            (1, "accepted length dragged", [1.2 + step % 20 / 10 for step in range(count)]),
        ):
            with self.row(name, 0.1) as found:
                took = page.locator(".live input[type=range]").nth(place).evaluate(_DRAGGED, values)
                found += [value / 1e3 for value in took]

    def changed(self, page: Any, found: list[float], act: Callable[[], Any], css: str = "") -> None:
        """One change: of the live answer or sheet, or of the text of `css` and the script's end."""
        node = page.locator("body" if css else ".sheet, .live .reason").first.element_handle()
        page.evaluate(_CHANGED, [node, css, bool(css)])
        act()
        found.append(float(page.evaluate("window.took")) / 1e3)
        wait_until_drawn(page)

    def chosen(self, page: Any, count: int) -> None:
        """Another engine, model and accelerator."""
        with self.row("engine changed", 0.6) as found:
            for engine in ("SGLang", "TensorRT-LLM", "vLLM")[:count]:
                self.changed(page, found, page.get_by_role("radio", name=engine).click)
        for label, options in CHOICES.items():
            with self.row(f"{label.lower()} changed", 0.6) as found:
                for option in options[:count]:
                    box = page.get_by_role("combobox", name=label)
                    box.click()
                    box.fill(option)
                    self.changed(page, found, lambda box=box: box.press("Enter"))

    def designed(self, page: Any, count: int) -> None:
        """Another target batch, each new to the app's caches."""
        go_to(page, "Design")
        box = page.get_by_label("Target batch")
        box.wait_for()
        wait_until_drawn(page, ".sheet svg")
        with self.row("design batch", 1.0) as found:
            for step in range(count):
                box.fill(str(20 + step))
                self.changed(page, found, lambda: box.press("Enter"))

    def dropped(self, page: Any, count: int) -> None:
        """A CSV of six rows to its verdict, in a session of its own each."""
        self.rows.append(Row("CSV of six rows to its verdict", 1.5))
        for _ in range(count):
            open_page(
                page,
                self.url,
                "measure",
                "model_id=gpt-oss-20b&hardware_id=b200-sxm&acceptance=2.4%403",
            )
            with self.metered() as found:
                self.changed(page, found.values, lambda: upload(page, DROP, "wide.csv", WIDE), "h1")

    def committed(self, page: Any, count: int) -> None:
        """Commit another batch size `count` times, each new to the app's caches."""
        box = page.get_by_label("Batch, exact value")
        page.evaluate(_SHIFTS, False)
        settled = Row("batch typed to settled page", 0.8)
        shift = Row("layout shift of a change", 0.01, "")
        with self.row("batch typed to headline", 0.1) as headlines:
            for step in range(count):
                batch = 17 + 2 * step
                box.fill(str(batch))
                page.evaluate("window.shifted = 0")
                page.evaluate(f"batch => {{ window.redrawn = ({_WATCH})(batch); }}", batch)
                box.press("Enter")
                answer = page.evaluate("window.redrawn")
                if isinstance(answer, str):
                    raise TimeoutError(
                        f"batch {batch} is not on the page after {LIMIT_S:.0f} s: {answer}"
                    )
                page.wait_for_timeout(400)
                for values, value in zip((headlines, settled.values), answer, strict=True):
                    values.append(value / 1e3)
                shift.values.append(float(page.evaluate("window.shifted")))
        self.rows += [settled, shift]


def first_answer_s(browser_page: Any, port: int) -> float:
    """From starting the app's process to the first answer on screen; the browser is open, its cache
    filled. [s]"""
    url = f"http://127.0.0.1:{port}"
    start = time.perf_counter()
    process = start_app(port)
    try:
        wait_until_up(url)
        browser_page.goto(url)
        browser_page.wait_for_selector(ANSWER)
        return time.perf_counter() - start
    finally:
        process.terminate()
        process.wait(timeout=10)


def main(count: int = CHANGES, starts: int = STARTS) -> None:
    """Print the table."""
    if chromium_path() is None:
        print("app: no Chromium found, not measured")
        return
    with running_browser() as browser:
        page = new_context(browser, viewport=SCREEN).new_page()
        with started_app() as (url, pid):
            bench = Bench(browser, url, pid)
            page.goto(url)
            page.wait_for_selector(ANSWER)
            page.wait_for_timeout(1500)
            page.evaluate(_SHIFTS, True)
            page.wait_for_timeout(300)
            first_shift = float(page.evaluate("window.shifted"))
            print(
                f"{'app':<40}{'median':>10}{'worst':>10}{'goal':>10}{'server ms':>12}"
                f"{'browser ms':>12}"
            )
            for measure in (
                lambda: bench.opened(max(starts, 1)),
                lambda: bench.committed(page, count),
                lambda: bench.dragged(page, 3 * count),
                lambda: bench.chosen(page, min(count, 3)),
                lambda: bench.designed(page, count),
                lambda: bench.dropped(page, max(starts, 1)),
            ):
                measure()
                bench.show()
        port = free_port()  # one address for all, else the browser would fetch its scripts anew
        first, *warm = (first_answer_s(page, port) for _ in range(1 + starts))
    load = wire_users(min(USERS, count), 2, TEN, model_ids())
    bench.rows += [
        Row("layout shift of the first load", 0.1, "", [first_shift]),
        Row("process start to first answer (warm)", 4.0, values=warm or [first]),
        Row(
            f"{load.users} users change the model at once",
            1.5,
            "s",
            [*load.settled_s],
            load.server_cpu_s * len(load.settled_s),
        ),
    ]
    bench.show()


if __name__ == "__main__":
    main()
