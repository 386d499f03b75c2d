"""The app's speed in a real Chromium: process start to first chart, widget change to redrawn chart.

`python -m tests.benchmarks.bench_app` prints a table; goals on two cores: 4 s and 400 ms at the median.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.e2e.app_server import chromium_path, free_port, running_app, running_browser, start_app, wait_until_up

CHART = ".js-plotly-plot .main-svg"
STARTS, CHANGES = 3, 16
GOALS_S = {"process start to first chart (warm)": 4.0, "widget change to redrawn chart": 0.4}

# Resolves with the milliseconds from now until the headline and the chart both show another batch.
_WATCH = """batch => new Promise(done => {
  const start = performance.now();
  const shown = () => document.querySelector('h1')?.innerText.includes('batch ' + batch + ' ')
    && document.querySelector('.js-plotly-plot')?.layout?.annotations?.some(note => note.text === 'batch ' + batch);
  const look = () => shown() ? done(performance.now() - start) : requestAnimationFrame(look);
  look();
})"""


def first_chart_s(browser_page: Any, port: int) -> float:
    """From starting the app's process to the first chart on screen; the browser is open, its cache filled. [s]"""
    url = f"http://127.0.0.1:{port}"
    start = time.perf_counter()
    process = start_app(port)
    try:
        wait_until_up(url)
        browser_page.goto(url)
        browser_page.wait_for_selector(CHART)
        return time.perf_counter() - start
    finally:
        process.terminate()
        process.wait(timeout=10)


def redraw_times_s(page: Any, n_changes: int) -> list[float]:
    """From committing a new batch size to the redrawn chart, each batch size new to the app's cache. [s]"""
    box = page.get_by_label("Batch", exact=True)
    times = []
    for step in range(n_changes):
        batch = 17 + 2 * step
        box.fill(str(batch))
        waiting = page.evaluate_handle(f"(batch) => {{ window.redrawn = ({_WATCH})(batch); }}", batch)
        box.press("Enter")
        times.append(float(page.evaluate("window.redrawn")) / 1e3)
        waiting.dispose()
    return times


def main() -> None:
    """Print the table."""
    if chromium_path() is None:
        print("app: no Chromium found, not measured")
        return
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        with running_app() as url:
            page.goto(url)
            page.wait_for_selector(CHART)
            page.wait_for_timeout(1000)
            changes = redraw_times_s(page, CHANGES)
        port = free_port()  # one address for all, else the browser would fetch its scripts anew
        starts = [first_chart_s(page, port) for _ in range(1 + STARTS)]
    print(f"{'app':<40}{'median':>10}{'worst':>10}{'goal':>10}")
    for (name, goal), times in zip(GOALS_S.items(), (starts[1:], changes), strict=True):
        print(f"{name:<40}{statistics.median(times):>8.2f} s{max(times):>8.2f} s{goal:>8.2f} s")


if __name__ == "__main__":
    main()
