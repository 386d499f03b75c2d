"""What `make test` checks of every page in Chromium: no grave violation in either theme, a telephone's width, users."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.e2e import ten_users
from tests.e2e.app_server import DONE, new_context, wait_until
from tests.e2e.test_accessibility import WIDEST, violations
from tests.e2e.test_journeys import START, enter, open_app, wait_for_answer
from tests.e2e.views import PAGES, open_page
from tools.benchmarks import bench_app, bench_users, wire_users

pytestmark = pytest.mark.browser
USERS = 3


MOST_SHIFT = 0.1
"""Of a first load: what web.dev/articles/cls calls good."""
BLUE, BLUE_ON_DARK = "rgb(0, 114, 178)", "rgb(86, 180, 233)"
LINE_DRAWN = """blue => Array.from(document.querySelectorAll('.js-plotly-plot .js-line'))
    .some(line => getComputedStyle(line).stroke === blue)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_without_jumps_is_accessible_in_both_themes_and_fits_a_telephone(
    first_page: Any, app_url: str, name: str
) -> None:
    """The chart's colours are held here since Streamlit does not document its placeholders (advisor/ui/server.py)."""
    page, found = first_page, {}
    open_page(page, app_url, name)
    for theme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(14, 17, 23)")):
        page.emulate_media(color_scheme=theme)
        wait_until(
            page,
            "paper => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor === paper",
            paper,
        )
        if name == "serve" and theme == "light":  # drawn lines keep their colours when the theme changes
            wait_until(page, LINE_DRAWN, BLUE)
        page.wait_for_timeout(500)  # fades and colour transitions
        if theme == "light":
            assert sum(page.evaluate("window.shifts")) <= MOST_SHIFT
        found[theme] = violations(page)
    assert found == {"light": [], "dark": []}
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".st-key-bar_fold").wait_for()
    page.wait_for_timeout(300)
    assert page.evaluate(WIDEST) <= 390
    assert not page.get_by_label("Batch", exact=True).is_visible()
    if name == "serve":
        open_page(page, app_url, name)
        wait_until(page, LINE_DRAWN, BLUE_ON_DARK)


def test_users_who_change_the_batch_at_once_each_see_their_own_answer(browser: Any, app_url: str) -> None:
    contexts = [new_context(browser, viewport={"width": 1280, "height": 900}) for _ in range(USERS)]
    try:
        pages = [context.new_page() for context in contexts]
        for opened in pages:
            open_app(opened, app_url)
        for user, opened in enumerate(pages):
            box = opened.get_by_label("Batch", exact=True)
            box.fill(str(21 + 10 * user))
            box.press("Enter")
        for user, opened in enumerate(pages):
            wait_for_answer(opened, START.model_copy(update={"batch_size": 21 + 10 * user}))
        enter(pages[0], "Context", 4096)
        for opened in pages:
            opened.wait_for_selector(DONE, state="attached")
            assert not opened.get_by_test_id("stException").count()
        wait_for_answer(pages[1], START.model_copy(update={"batch_size": 31}))
    finally:
        for context in contexts:
            context.close()


def test_the_benchmarks_of_the_browser_run_to_their_end(
    app: tuple[str, int], browser: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others run in tests/tools; here on the app and the browser of the tests, one user and one change."""
    here = contextlib.nullcontext
    for module in (bench_app, ten_users):
        monkeypatch.setattr(module, "running_browser", lambda: here(browser))
    monkeypatch.setattr(bench_app, "running_app", lambda: here(app[0]))
    for module in (ten_users, wire_users):
        monkeypatch.setattr(module, "started_app", lambda: here(app))
    monkeypatch.setattr(ten_users, "USERS", 1)
    monkeypatch.setattr(ten_users, "ROUNDS", 1)
    monkeypatch.setattr(bench_users, "LOADS", ((1, 1),))
    bench_app.main(count=1, starts=0)
    bench_users.main()
    out = capsys.readouterr().out
    assert "widget change to settled page" in out
    assert "errors: 0" in out
    assert "errors on screen: 0" in out
