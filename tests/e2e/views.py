"""What the screen can show, by name: every page, and the states of pages that need a few clicks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.e2e.app_server import wait_until_drawn
from tests.measured.refit_synthetic import synthetic_points

SCENARIO = "acceptance=2.4%403"
CHART = ".js-plotly-plot .main-svg"
ANSWER = ".live h1"
PAGES: Mapping[str, tuple[str, str]] = {
    "serve": ("", ANSWER),
    "design": ("design", CHART),
    "data": ("data", "[data-testid=stMain] [data-testid=stFileUploader]"),
    "report": ("report", "[data-testid=stMain] [data-testid=stDownloadButton]"),
    "trust": ("trust", CHART),
}
"""Page name: path of its address, and what is on it once it is drawn."""
TABS: Mapping[str, tuple[str, str]] = {
    "serve-explore": ("serve", "serve_tab=Explore"),
    "serve-compare-models": ("serve", "serve_tab=Explore&explore_as=Compare+models"),
    "serve-evidence": ("serve", "serve_tab=Evidence"),
    "serve-command-check": ("serve", "serve_tab=Command+check"),
    "design-laws": ("design", "design_tab=Laws+and+limits"),
    "data-profile": ("data", "data_tab=Profile+this+machine"),
    "data-shipped": ("data", "data_tab=What+is+shipped"),
    "trust-claims": ("trust", "trust_tab=Published+claims"),
    "trust-sources": ("trust", "trust_tab=Sources"),
}
"""Tabs of pages that show much: the page, and what its address says besides the scenario."""


def open_page(page: Any, url: str, name: str, query: str = SCENARIO) -> None:
    """Open one of PAGES on a scenario."""
    path, drawn = PAGES[name]
    page.goto(f"{url}/{path}?{query}")
    page.wait_for_selector("h1")
    own_tab = "data_tab" in query or "trust_tab" in query  # which may have no chart
    wait_until_drawn(page, "" if own_tab else drawn)


def unfold_bar(page: Any) -> None:
    """Unfold the scenario's bar where the screen is too narrow for it."""
    switch = page.locator(".st-key-bar_fold label")
    if switch.is_visible():
        switch.click()


def open_more(page: Any) -> None:
    """Open what the bar keeps under More."""
    unfold_bar(page)
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_text("Start from an example").wait_for()


def go_to(page: Any, name: str) -> None:
    """Choose another page by its link; on a narrow screen the links lie in a drawer."""
    expand = page.get_by_test_id("stExpandSidebarButton")
    if expand.count() and expand.is_visible():
        expand.click()
    page.get_by_role("link", name=name, exact=True).first.click()


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
    """The page Data with an upload and the refit on it."""
    open_page(page, url, "data")
    upload(page, "Benchmark results", "mine.csv", benchmark_csv())
    page.get_by_role("button", name="Refit on these points").click()
    page.get_by_text("What your data changed").wait_for()
    wait_until_drawn(page, CHART)


def refused(page: Any, url: str) -> None:
    """The page Data with a file that cannot be read."""
    open_page(page, url, "data")
    upload(page, "Benchmark results", "picture.png", b"\x89PNG\r\n\x1a\n\x00\xff")
    page.get_by_role("alert").first.wait_for()


def swept(page: Any, url: str) -> None:
    """The tab Sweep with a grid computed."""
    open_page(page, url, "data", f"{SCENARIO}&data_tab=Sweep")
    box = page.get_by_label("Context", exact=True).last
    box.fill("1024, 8192")
    box.press("Enter")
    page.get_by_text("2 combinations at 5 batches").wait_for()
    page.get_by_role("button", name="Compute", exact=True).click()
    page.get_by_text("One K for everything").wait_for()
    wait_until_drawn(page, CHART)


def how_made(page: Any, url: str) -> None:
    """The dialog that says how the headline's speedup was made."""
    open_page(page, url, "serve")
    page.get_by_role("button", name="How computed").click()
    page.get_by_role("dialog").get_by_text("Speedup").first.wait_for()
    wait_until_drawn(page)


def not_fitting(page: Any, url: str) -> None:
    """The page Serve with a model that does not fit."""
    open_page(page, url, "serve", f"{SCENARIO}&model_id=deepseek-v3&drafter_id=mtp")


def bar_open(page: Any, url: str) -> None:
    """The bar with More and its folded parts open."""
    open_page(page, url, "serve")
    open_more(page)
    for label in ("Your own config.json", "Your own accelerator"):
        page.locator("summary", has_text=label).click()
    wait_until_drawn(page)


STATES: Mapping[str, Callable[[Any, str], None]] = {
    "data-refit": refitted,
    "data-refused": refused,
    "data-sweep": swept,
    "serve-how-made": how_made,
    "serve-does-not-fit": not_fitting,
    "bar-more": bar_open,
}
VIEWS = (*PAGES, *TABS, *STATES)
"""Everything that is looked at."""


def open_view(page: Any, url: str, name: str) -> None:
    """Open a page of PAGES, a tab of TABS or a state of STATES, wholly drawn."""
    if name in PAGES:
        open_page(page, url, name)
    elif name in TABS:
        of, setting = TABS[name]
        open_page(page, url, of, f"{SCENARIO}&{setting}")
    else:
        STATES[name](page, url)
