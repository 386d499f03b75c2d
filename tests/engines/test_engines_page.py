"""docs/engines.md says what profiles/engines says."""

from __future__ import annotations

from typing import get_args

from advisor.catalog.engines import GuardTag, export_engines
from tests.golden.engines_page import FILE, WHEN, with_tables


def test_the_page_s_tables_are_written_from_the_profiles() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: python -m tests.golden.engines_page"
    assert with_tables(text.replace("| vLLM | before 0.24 |", "| vLLM | before 0.25 |")) == text


def test_every_kind_of_export_has_words_on_the_page() -> None:
    assert set(WHEN) == set(get_args(GuardTag))


def test_the_page_names_the_releases_whose_rules_were_read() -> None:
    text = FILE.read_text(encoding="utf-8")
    for engine in export_engines():
        assert engine.reviewed is not None
        assert f"{engine.reviewed.version}, {engine.reviewed.date}" in text
