"""Every page and state behind a click: no grave violation of axe-core, light or dark; fits a
telephone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.views import VIEWS, open_view

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
GRAVE = ("serious", "critical")
_BOXES = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
WIDEST = f"Math.max(...{_BOXES}.map(box => box.scrollWidth))"
"""Width of what a page holds, in pixels; more than the screen's is scrolled sideways."""


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


_IS_LIGHT = """() => getComputedStyle(document.querySelector('[data-testid=stApp]'))
  .backgroundColor.match(/[\\d.]+/g).slice(0, 3).every(channel => channel > 127)"""


def turn(page: Any, scheme: str) -> None:
    """Have the page in a color scheme. A busy machine takes its time to draw it."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(f"scheme => ({_IS_LIGHT})() === (scheme === 'light')", arg=scheme)


def no_violation_in_either_theme(page: Any) -> None:
    """Hold a page that is open in the light theme, then in the dark one."""
    found = {}
    for scheme in ("light", "dark"):
        turn(page, scheme)
        page.wait_for_timeout(500)  # fades and colour transitions
        found[scheme] = violations(page)
    assert found == {"light": [], "dark": []}


@pytest.mark.parametrize("view", VIEWS)
def test_no_grave_violation_light_or_dark(page: Any, app_url: str, view: str) -> None:
    page.emulate_media(color_scheme="light")
    open_view(page, app_url, view)
    no_violation_in_either_theme(page)


_CHART_INK = """() => {
  const channels = color => color.match(/[\\d.]+/g).slice(0, 3).map(value => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = color => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * channels(color)[i], 0);
  const paper = luminance(getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor);
  const texts = document.querySelectorAll(
    '.xtick text, .ytick text, .xtitle, .ytitle, .legendtext, .bartext-outside, .textpoint text, ' +
    'rect.bg[style*="fill-opacity: 0"] + .annotation-text');
  return Array.from(texts, text => luminance(getComputedStyle(text).fill))
    .map(ink => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
}"""  # noqa: E501
"""Contrast of each text of a chart's axes and legend with the page; axe does not look into
drawings."""


@pytest.mark.parametrize("view", ["serve-explore"])
def test_text_of_charts_has_contrast_also_after_the_theme_changed(
    page: Any, app_url: str, view: str
) -> None:
    open_view(page, app_url, view)
    for scheme in ("light", "dark", "light"):
        turn(page, scheme)
        page.wait_for_function(f"({_CHART_INK})().filter(ink => ink >= 4.5).length > 10")
        page.wait_for_function(f"({_CHART_INK})().every(ink => ink >= 4.5)")


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_a_telephone(page: Any, app_url: str, view: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_view(page, app_url, view)
    page.wait_for_timeout(400)
    assert page.evaluate(WIDEST) <= 390
