"""Screenshots of every page and state, light and dark, at three widths:
`python -m tests.e2e.screenshots [FOLDER]`.

`make screenshots` writes them under test-artifacts/screenshots, and the one of the README when it
is asked for by name: `python -m tests.e2e.screenshots --readme`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.app_server import ROOT, running_app, running_browser, wait_until_drawn
from tests.e2e.views import ANSWER, VIEWS, open_view

WIDTHS = (1440, 768, 390)
SCHEMES = ("light", "dark")
HEIGHT = 1000
_SETTLED_MS = 800  # charts follow a new width or colour scheme, dialogs fade in
_INNER_HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"


def take(folder: Path, views: Sequence[str] = VIEWS) -> None:
    """Write VIEW-SCHEME-WIDTH.png, whole pages, for each view, colour scheme and width into
    `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with running_app() as url, running_browser() as browser:
        for width in WIDTHS:
            for view in views:
                page = browser.new_page(viewport={"width": width, "height": HEIGHT})
                open_view(page, url, view)
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    _shoot(page, folder / f"{view}-{scheme}-{width}.png", width)
                page.close()


def _shoot(page: Any, file: Path, width: int) -> None:
    """One screenshot as tall as the page: the app scrolls inside a box of the window's height."""
    page.wait_for_timeout(_SETTLED_MS)
    page.set_viewport_size(
        {"width": width, "height": max(HEIGHT, int(page.evaluate(_INNER_HEIGHT)))}
    )
    page.wait_for_timeout(_SETTLED_MS)
    wait_until_drawn(page)
    page.screenshot(path=file)
    page.set_viewport_size({"width": width, "height": HEIGHT})
    print(file)


def take_readme(file: Path) -> None:
    """The README's picture: the first screen of the page Serve."""
    with running_app() as url, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(url)
        page.locator(ANSWER).wait_for()
        wait_until_drawn(page)
        page.wait_for_timeout(_SETTLED_MS)
        page.screenshot(path=file)
        print(file)


def main() -> None:
    """Command line."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("folder", nargs="?", type=Path, default=ROOT / "test-artifacts/screenshots")
    reader.add_argument("--only", nargs="+", choices=VIEWS, default=VIEWS, metavar="VIEW")
    reader.add_argument("--readme", action="store_true", help="write docs/images/serve.png instead")
    given = reader.parse_args()
    if given.readme:
        take_readme(ROOT / "docs/images/serve.png")
    else:
        take(given.folder, given.only)


if __name__ == "__main__":
    main()
