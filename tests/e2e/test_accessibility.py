"""Every page and state behind a click: no grave violation of axe-core, light or dark; fits a telephone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.views import PAGES, STATES, open_view

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
GRAVE = ("serious", "critical")


def violations(page: Any) -> list[str]:
    """Grave violations on the page as it stands: rule, what axe says, and the element."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{item['id']}: {node['html'][:160]} | {' '.join(node['failureSummary'].split())[:300]}"
        for item in found
        if item["impact"] in GRAVE
        for node in item["nodes"]
    ]


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"))


@pytest.mark.parametrize("view", [*PAGES, *STATES])
def test_no_grave_violation_light_or_dark(page: Any, app_url: str, view: str) -> None:
    page.emulate_media(color_scheme="light")
    open_view(page, app_url, view)
    page.wait_for_timeout(400)  # fades and colour transitions
    light, found = background(page), {"light": violations(page)}
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(700)
    assert background(page) != light, "the page did not turn dark"
    found["dark"] = violations(page)
    assert found == {"light": [], "dark": []}


@pytest.mark.parametrize("view", [*PAGES, *STATES])
def test_nothing_is_wider_than_a_telephone(page: Any, app_url: str, view: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_view(page, app_url, view)
    page.wait_for_timeout(400)
    boxes = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
    assert page.evaluate(f"Math.max(...{boxes}.map(box => box.scrollWidth))") <= 390
