"""Words that go with a number."""

from __future__ import annotations

from advisor.text.numbers import counted


def test_one_is_singular_and_thousands_are_parted() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == ["0 rows", "1 row", "2 rows", "1,200 rows"]
    assert counted(2, "entry", "entries") == "2 entries"
