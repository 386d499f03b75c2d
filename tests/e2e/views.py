"""What the screen can show, by name: every page, and the states of pages that need a few clicks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from tests.e2e.app_server import wait_until_drawn
from tests.measured.refit_synthetic import benchmark_csv

SCENARIO = "acceptance=2.4%403"
PINS = "!".join(
    f"model_id=gpt-oss-20b~hardware_id=b200-sxm~acceptance=2.4%403~engine={engine}"
    for engine in ("vllm", "sglang", "trtllm")
)
"""Pinned setups of an address."""
CHART = ".js-plotly-plot .main-svg"
ANSWER = ".live h1"
SHEET = ".sheet .plate svg"
DROP = "Drop anything"
WIDE = (
    b"concurrency,num_speculative_tokens,tpot_plain_ms,itl_with_eagle,acceptance_length\n1,3,2.32,2.4,1.8\n"
    b"4,3,2.72,2.6,1.8\n16,3,3.55,3.3,1.8\n64,3,5.0,5.0,1.8\n128,3,6.4,7.2,1.8\n256,3,9.0,12.4,1.8\n"
)
"""MADE-UP rows as a newcomer keeps them, one a batch, with a short accepted length."""
PAGES: Mapping[str, tuple[str, str]] = {
    "serve": ("", ANSWER),
    "design": ("design", ".sheet svg"),
    "measure": ("measure", "[data-testid=stMain] [data-testid=stFileUploader]"),
    "trust": ("trust", SHEET),
    "share": ("share", "[data-testid=stMain] [data-testid=stDownloadButton]"),
}
"""Page name: path of its address, and what is on it once it is drawn."""
TABS: Mapping[str, tuple[str, str]] = {
    "serve-drafters": ("serve", "serve_tab=Drafters"),
    "serve-pins": ("serve", f"pins={quote(PINS)}"),
    "serve-explore": ("serve", "serve_tab=Explore"),
    "serve-compare-models": ("serve", "serve_tab=Explore&explore_as=Compare+models"),
    "serve-evidence": ("serve", "serve_tab=Evidence"),
    "serve-command-check": ("serve", "serve_tab=Command+check"),
    "serve-simulate": ("serve", "serve_tab=Simulate"),
    "serve-sweep": ("serve", "serve_tab=Sweep"),
}
"""Tabs of pages that show much: the page, and what its address says besides the scenario."""


def open_page(page: Any, url: str, name: str, query: str = SCENARIO) -> None:
    """Open one of PAGES on a scenario."""
    path, drawn = PAGES[name]
    page.goto(f"{url}/{path}?{query}")
    page.wait_for_selector("h1")
    wait_until_drawn(page, drawn)


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


def refitted(page: Any, url: str) -> None:
    """The page Measure with an upload and the refit on it."""
    open_page(page, url, "measure")
    upload(page, DROP, "mine.csv", benchmark_csv())
    page.get_by_role("button", name="Refit to these").click()
    page.get_by_text("What your data changed").wait_for()
    page.get_by_text("Before and after, constants").click()
    wait_until_drawn(page, CHART)


def judged(page: Any, url: str) -> None:
    """The page Measure with the verdict on six rows of a wide table."""
    open_page(page, url, "measure", f"{SCENARIO}&model_id=gpt-oss-20b&hardware_id=b200-sxm")
    upload(page, DROP, "wide.csv", WIDE)
    page.get_by_role("button", name="Use my accepted length").wait_for()
    wait_until_drawn(page, SHEET)


def refused(page: Any, url: str) -> None:
    """The page Measure with a file that cannot be read."""
    open_page(page, url, "measure")
    upload(page, DROP, "picture.png", b"\x89PNG\r\n\x1a\n\x00\xff")
    page.get_by_role("alert").first.wait_for()


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
    "measure-verdict": judged,
    "measure-refit": refitted,
    "measure-refused": refused,
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
