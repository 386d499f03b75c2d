"""One app process and one browser for all journeys of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.app_server import chromium_path, new_context, running_browser, started_app

SHIFTS = """window.shifts = [];
new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(entry => entry.value)))
    .observe({type: 'layout-shift', buffered: true});"""


@pytest.fixture(scope="session")
def app() -> Iterator[tuple[str, int]]:
    """The app's address and process id."""
    with started_app() as started:
        yield started


@pytest.fixture(scope="session")
def app_url(app: tuple[str, int]) -> str:
    return app[0]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if chromium_path() is None:
        pytest.skip("no Chromium found; tests/e2e/install_chromium.sh says how to install one")
    with running_browser() as found:
        yield found


@pytest.fixture(scope="session")
def context(browser: Any, app_url: str) -> Iterator[Any]:
    """One context, so that the app's scripts are fetched once; each page is a session of its
    own."""
    made = new_context(
        browser,
        viewport={"width": 1280, "height": 1000},
        accept_downloads=True,
        reduced_motion="reduce",
    )
    made.new_page().goto(
        f"{app_url}/_stcore/health"
    )  # as long as one page is open, the next share its process
    yield made
    made.close()


@pytest.fixture
def page(context: Any, app_url: str) -> Iterator[Any]:
    """A fresh session."""
    with watched_page(context, app_url) as opened:
        yield opened


@pytest.fixture
def first_page(browser: Any, app_url: str) -> Iterator[Any]:
    """A fresh session of a browser that was never here; it notes how far what is drawn shifts."""
    context = new_context(browser, viewport={"width": 1440, "height": 900}, color_scheme="light")
    context.add_init_script(SHIFTS)
    try:
        with watched_page(context, app_url) as opened:
            yield opened
    finally:
        context.close()


@contextlib.contextmanager
def watched_page(context: Any, app_url: str) -> Iterator[Any]:
    """The test fails when the page logs an error, shows a traceback or asks another host."""
    opened = context.new_page()
    errors: list[str] = []
    local = (app_url, app_url.replace("http://", "ws://"), "data:", "blob:")
    elsewhere: list[str] = []
    opened.on(
        "request", lambda sent: None if sent.url.startswith(local) else elsewhere.append(sent.url)
    )
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    trace = opened.locator("[data-testid=stException]").count()
    opened.close()
    assert not errors
    assert not elsewhere, "the page asked another host"
    assert not trace, "a traceback was on screen"
