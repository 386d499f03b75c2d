"""Every page in twelve states, word by word."""

from __future__ import annotations

from tests.golden.pages import FILE, pages


def test_every_page_shows_what_it_showed() -> None:
    assert pages() == FILE.read_text(encoding="utf-8"), "run: python -m tests.golden.pages"
