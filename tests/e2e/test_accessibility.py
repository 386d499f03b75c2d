"""axe-core on every page and on the states behind a click: no serious or critical violation, light and dark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.views import PAGES, STATES, open_view

pytestmark = pytest.mark.browser
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [*PAGES, *STATES])
def test_no_grave_violation(page: Any, app_url: str, view: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    open_view(page, app_url, view)
    page.wait_for_timeout(400)  # fades and colour transitions
    assert not violations(page)
