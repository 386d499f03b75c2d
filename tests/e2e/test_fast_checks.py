"""What `make test` checks of every page in Chromium: no grave violation in either theme, a
telephone's width, users."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.e2e import ten_users
from tests.e2e.test_accessibility import WIDEST, no_violation_in_either_theme
from tests.e2e.views import PAGES, open_page, open_view
from tools.benchmarks import bench_app, bench_users, wire_users

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_both_themes_and_fits_a_telephone(
    page: Any, app_url: str, name: str
) -> None:
    page.emulate_media(color_scheme="light")
    open_page(page, app_url, name)
    no_violation_in_either_theme(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".st-key-bar_fold").wait_for()
    page.get_by_label("Context", exact=True).wait_for(state="hidden")
    page.wait_for_timeout(500)
    assert page.evaluate(WIDEST) <= 390
    page.set_viewport_size({"width": 1280, "height": 1000})


def test_the_list_of_pages_closes_once_one_is_chosen(page: Any, app_url: str) -> None:
    """It covers a telephone's page; Streamlit leaves it open."""
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, app_url, "measure")
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_role("link", name="Trust").click()
    page.locator("[data-testid=stSidebar][data-collapsed=true]").wait_for(state="attached")
    page.set_viewport_size({"width": 1280, "height": 1000})


@pytest.mark.parametrize("label", ["GPUs", "Batch, exact value"])
def test_a_first_click_into_a_number_takes_all_of_it(page: Any, app_url: str, label: str) -> None:
    """A 4 typed behind a 1 asked for 14 GPUs."""
    open_page(page, app_url, "serve")
    field = page.get_by_label(label, exact=True)
    field.click()
    page.keyboard.type("4")
    assert field.input_value() == "4"


MOST_SHIFT = 0.1  # of a first load: what web.dev/articles/cls calls good


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_jumps_while_a_page_first_loads(
    first_page: Any, app_url: str, name: str, width: int
) -> None:
    first_page.set_viewport_size({"width": width, "height": 900})
    open_page(first_page, app_url, name)
    first_page.wait_for_timeout(500)
    assert sum(first_page.evaluate("window.shifts")) <= MOST_SHIFT


def test_a_chart_s_bars_take_the_color_of_the_theme(page: Any, app_url: str) -> None:
    """Held here since Streamlit does not document the placeholder colours
    (advisor/ui/server.py)."""
    drawn = """blue => Array.from(document.querySelectorAll('.js-plotly-plot .bars path'))
        .some(bar => getComputedStyle(bar).fill === blue)"""
    for scheme, blue in (("light", "rgb(0, 114, 178)"), ("dark", "rgb(86, 180, 233)")):
        page.emulate_media(color_scheme=scheme)
        open_view(page, app_url, "serve-simulate")
        page.wait_for_function(drawn, arg=blue, timeout=10_000)


@pytest.mark.thorough
def test_the_benchmarks_of_the_browser_run_to_their_end(
    app: tuple[str, int],
    browser: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The others run in tests/tools; here on the app and the browser of the tests, one user and one
    change."""
    here = contextlib.nullcontext
    for module in (bench_app, ten_users):
        monkeypatch.setattr(module, "running_browser", lambda: here(browser))
    for module in (bench_app, ten_users, wire_users):
        monkeypatch.setattr(module, "started_app", lambda: here(app))
    monkeypatch.setattr(ten_users, "USERS", 1)
    monkeypatch.setattr(ten_users, "ROUNDS", 1)
    monkeypatch.setattr(bench_users, "LOADS", ((1, 1),))
    bench_app.main(count=1, starts=0)
    bench_users.main()
    out = capsys.readouterr().out
    assert "CSV of six rows to its verdict" in out
    assert "errors: 0" in out
    assert "errors on screen: 0" in out
