"""Charts as they were looked at: sizes, margins, fonts, marks and their places."""

import json

import pytest

from tests.golden import figures

KEPT = json.loads(figures.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KEPT)
def test_a_chart_looks_as_it_was_looked_at(name: str) -> None:
    """Where a change is meant: `python -m tests.golden.figures`, and look at the charts."""
    assert figures.figures()[name] == KEPT[name]
