"""The app in a real Chromium: process start to first answer; a widget change to headline and to the settled page.

`python -m tools.benchmarks.bench_app` prints a table with its goals, on two idle cores, and the layout shifts.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.app_server import chromium_path, free_port, running_app, running_browser, start_app, wait_until_up

ANSWER = ".live h1"
STARTS, CHANGES, LIMIT_S = 3, 16, 30.0
GOALS = {"headline": 0.1, "settled": 0.8, "shift": 0.01, "start": 4.0, "first shift": 0.1}

# Resolves with the milliseconds from now until the screen is drawn for another batch, and until the script has ended
# with the library's own answer for it.
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
})""".replace("LIMIT_MS", str(1e3 * LIMIT_S))
_SHIFTS = """buffered => {
  window.shifted = 0;
  new PerformanceObserver(list => { for (const entry of list.getEntries()) window.shifted += entry.value; })
    .observe({type: 'layout-shift', buffered});
}"""


@dataclass
class Changes:
    """What changes of the batch took, each batch size new to the app's caches. Seconds; shifts without a unit."""

    headline_s: list[float] = field(default_factory=list)
    settled_s: list[float] = field(default_factory=list)
    shift: list[float] = field(default_factory=list)


def first_answer_s(browser_page: Any, port: int) -> float:
    """From starting the app's process to the first answer on screen; the browser is open, its cache filled. [s]"""
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


def changes(page: Any, count: int) -> Changes:
    """Commit another batch size `count` times."""
    box, found = page.get_by_label("Batch, exact value"), Changes()
    page.evaluate(_SHIFTS, False)
    for step in range(count):
        batch = 17 + 2 * step
        box.fill(str(batch))
        page.evaluate("window.shifted = 0")
        page.evaluate(f"batch => {{ window.redrawn = ({_WATCH})(batch); }}", batch)
        box.press("Enter")
        answer = page.evaluate("window.redrawn")
        if isinstance(answer, str):
            raise TimeoutError(f"batch {batch} is not on the page after {LIMIT_S:.0f} s: {answer}; does _WATCH fit it?")
        headline, settled = answer
        page.wait_for_timeout(400)
        found.headline_s.append(headline / 1e3)
        found.settled_s.append(settled / 1e3)
        found.shift.append(float(page.evaluate("window.shifted")))
    return found


def main(count: int = CHANGES, starts: int = STARTS) -> None:
    """Print the table."""
    if chromium_path() is None:
        print("app: no Chromium found, not measured")
        return
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        with running_app() as url:
            page.goto(url)
            page.wait_for_selector(ANSWER)
            page.wait_for_timeout(1500)
            page.evaluate(_SHIFTS, True)
            page.wait_for_timeout(300)
            first_shift = float(page.evaluate("window.shifted"))
            found = changes(page, count)
        port = free_port()  # one address for all, else the browser would fetch its scripts anew
        first, *warm = (first_answer_s(page, port) for _ in range(1 + starts))
    rows = (
        ("process start to first answer (warm)", warm or [first], GOALS["start"], "s"),
        ("widget change to headline", found.headline_s, GOALS["headline"], "s"),
        ("widget change to settled page", found.settled_s, GOALS["settled"], "s"),
        ("layout shift of a change", found.shift, GOALS["shift"], ""),
        ("layout shift of the first load", [first_shift], GOALS["first shift"], ""),
    )
    print(f"{'app':<40}{'median':>10}{'worst':>10}{'goal':>10}")
    for name, values, goal, unit in rows:
        print(f"{name:<40}{statistics.median(values):>8.3f} {unit:<1}{max(values):>8.3f} {unit:<1}{goal:>8.2f} {unit}")


if __name__ == "__main__":
    main()
