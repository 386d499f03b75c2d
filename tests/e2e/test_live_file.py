"""The answer as one file in a real browser: it opens without a network and answers by itself."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.answers.advice import advise
from advisor.predict.scenario import Scenario
from advisor.show.live_file import live_file
from tests.e2e.app_server import new_context
from tests.e2e.test_accessibility import violations
from tests.e2e.test_live_answer import DEEPSEEK
from tests.e2e.views import ANSWER

pytestmark = pytest.mark.browser
SCENARIO = Scenario(**DEEPSEEK, acceptance="2.4@3", batch_size=16)


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The file in a browser without a network; it fails on a request, a warning or an error."""
    path = tmp_path / "answer.html"
    path.write_text(live_file(advise(SCENARIO), dt.date(2026, 11, 30)), encoding="utf-8")
    context = new_context(browser, viewport={"width": 1440, "height": 900}, color_scheme="light")
    context.set_offline(True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda sent: problems.append(sent.url))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert problems == [path.as_uri()], "the file itself alone"


def shown(page: Any) -> tuple[str, str, str]:
    """K of the headline, of the command's title and of the marked row."""
    headline = page.locator(ANSWER).inner_text()
    title = page.locator(".launch h2").inner_text()
    row = page.locator("tr.chosen th").first.text_content()
    return headline, title, row


def test_headline_command_and_row_have_one_k_wherever_the_batch_goes(opened: Any) -> None:
    exact = opened.get_by_label("Batch, exact value")
    commands = set()
    for batch in (2, 8, 64, 256, 16):
        exact.fill(str(batch))
        exact.press("Enter")
        headline, title, k = shown(opened)
        assert headline.startswith(f"Draft {k} token"), f"batch {batch}"
        assert headline.endswith(f"at batch {batch}")
        assert f"K = {k}" in title
        assert opened.locator(".launch.stale").count() == 0
        commands.add(opened.locator(".launch pre").inner_text())
    assert len(commands) >= 3
    exact.fill("900")
    exact.press("Enter")
    assert opened.locator(".launch pre").count() == 0, "it does not fit"


def test_another_length_moves_the_headline_and_says_what_to_ask(opened: Any) -> None:
    before, *_ = shown(opened)
    length = opened.locator("#length")
    length.focus()
    for _ in range(8):
        length.press("ArrowLeft")
    after, *_ = shown(opened)
    assert after != before
    command = opened.locator(".launch pre").inner_text()
    assert shlex.split(command)[-4:] == ["--batch", "16", "--accepted-length", "2@3"]
    opened.get_by_text("Amdahl").first.wait_for()
    for name in ("How computed", "Use "):
        assert not opened.get_by_role("button", name=name).count(), "a server alone answers that"


@pytest.mark.thorough
def test_it_fits_a_telephone_and_has_no_grave_violation(opened: Any) -> None:
    for width in (1440, 390):
        opened.set_viewport_size({"width": width, "height": 844})
        for summary in opened.locator("summary").all():
            summary.click()
        for scheme in ("light", "dark"):
            opened.emulate_media(color_scheme=scheme)
            opened.wait_for_timeout(300)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert violations(opened) == [], f"{width}, {scheme}"
