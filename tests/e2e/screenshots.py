"""Screenshots of every page, light and dark, at three widths: `python -m tests.e2e.screenshots FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.app_server import running_app, running_browser, wait_until_drawn

PAGES = {"advise": "", "design": "design", "why": "why", "measurements": "measurements", "sources": "sources"}
WIDTHS = (390, 820, 1440)
FIRST_DRAWN = dict.fromkeys(("advise", "design", "why"), ".js-plotly-plot .main-svg")


def take(
    folder: Path,
    query: str = "",
    pages: tuple[str, ...] = tuple(PAGES),
    widths: tuple[int, ...] = WIDTHS,
    height: int = 1000,
) -> None:
    """Write PAGE-SCHEME-WIDTH.png for each page, colour scheme and width into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with running_app() as url, running_browser() as browser:
        for scheme in ("light", "dark"):
            for width in widths:
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                for name in pages:
                    page.goto(f"{url}/{PAGES[name]}{query}")
                    wait_until_drawn(page, FIRST_DRAWN.get(name, "h1"))
                    page.wait_for_timeout(600)
                    page.screenshot(path=folder / f"{name}-{scheme}-{width}.png")
                    print(folder / f"{name}-{scheme}-{width}.png")
                page.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), *(sys.argv[2:3]))
