"""Three whole reports, word by word."""

from __future__ import annotations

import pytest

from tests.golden.reports import REPORTS, file, report


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_says_what_it_said(name: str) -> None:
    assert report(name) == file(name).read_text(encoding="utf-8"), (
        "run: python -m tests.golden.reports"
    )
