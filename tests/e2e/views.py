"""What the screen can show, by name: every page, and the states of pages that need a few clicks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.e2e.app_server import wait_until_drawn
from tests.refit_synthetic import synthetic_points

SCENARIO = "acceptance=2.4%403"
CHART = ".js-plotly-plot .main-svg"
PAGES: Mapping[str, tuple[str, str]] = {
    "advise": ("", CHART),
    "design": ("design", CHART),
    "why": ("why", CHART),
    "run-time-k": ("runtime_k", CHART),
    "measurements": ("measurements", "[data-testid=stMain] [data-testid=stFileUploader]"),
    "profile": ("profile", "h1"),
    "report": ("report", "[data-testid=stMain] [data-testid=stDownloadButton]"),
    "sources": ("sources", "h1"),
}
"""Page name: path of its address, and what is on it once it is drawn."""


def open_page(page: Any, url: str, name: str, query: str = SCENARIO) -> None:
    """Open one of PAGES on a scenario."""
    path, drawn = PAGES[name]
    page.goto(f"{url}/{path}?{query}")
    page.wait_for_selector("h1")
    wait_until_drawn(page, drawn)


def show_sidebar(page: Any) -> None:
    """Open the sidebar where the screen is too narrow for it, or the browser remembers it closed."""
    expand = page.get_by_test_id("stExpandSidebarButton")
    if expand.count():
        expand.click()


def upload(page: Any, label: str, name: str, content: bytes) -> None:
    """Give one file to the uploader whose label contains `label`."""
    box = page.locator("[data-testid=stFileUploader]", has_text=label).locator("input[type=file]")
    box.set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})
    wait_until_drawn(page)


def benchmark_csv() -> bytes:
    """SYNTHETIC rows under a slower round than the shipped constants say, with one line that is far off."""
    frame = synthetic_points((1, 2, 4, 8, 16, 32, 64), (1, 3), truth={"round_host": 4.0}, noise=0.02)
    frame.loc[8, "speedup"] /= 2.5
    return bytes(frame.dropna(axis=1, how="all").to_csv(index=False).encode())


def refitted(page: Any, url: str) -> None:
    """The Measurements page with an upload and the refit on it."""
    open_page(page, url, "measurements")
    upload(page, "Benchmark results", "mine.csv", benchmark_csv())
    page.get_by_role("button", name="Refit on these points").click()
    page.get_by_text("What your data changed").wait_for()
    wait_until_drawn(page, CHART)


def refused(page: Any, url: str) -> None:
    """The Measurements page with a file that cannot be read."""
    open_page(page, url, "measurements")
    upload(page, "Benchmark results", "picture.png", b"\x89PNG\r\n\x1a\n\x00\xff")
    page.get_by_role("alert").first.wait_for()


def how_made(page: Any, url: str) -> None:
    """The dialog that says how the headline's speedup was made."""
    open_page(page, url, "advise")
    page.get_by_role("button", name="How was this made").first.click()
    page.get_by_role("dialog").get_by_text("Speedup").first.wait_for()
    wait_until_drawn(page)


def compared(page: Any, url: str) -> None:
    """The Advise page with a pinned scenario beside another."""
    open_page(page, url, "advise")
    show_sidebar(page)
    page.get_by_role("button", name="Pin to compare").click()
    box = page.get_by_label("Batch", exact=True)
    box.fill("256")
    box.press("Enter")
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length === 2")
    wait_until_drawn(page)


def sidebar_open(page: Any, url: str) -> None:
    """The sidebar with its folded parts open."""
    open_page(page, url, "advise")
    show_sidebar(page)
    for label in ("Your own config.json", "Your own accelerator", "Advanced"):
        page.locator("summary", has_text=label).click()
    wait_until_drawn(page)


STATES: Mapping[str, Callable[[Any, str], None]] = {
    "measurements-refit": refitted,
    "measurements-refused": refused,
    "advise-how-made": how_made,
    "advise-compared": compared,
    "sidebar": sidebar_open,
}


def open_view(page: Any, url: str, name: str) -> None:
    """Open a page of PAGES or a state of STATES, wholly drawn."""
    if name in PAGES:
        open_page(page, url, name)
    else:
        STATES[name](page, url)
