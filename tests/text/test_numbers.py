"""Words that go with a number."""

from __future__ import annotations

import pytest

from advisor.text.numbers import counted, with_prefix


def test_one_is_singular_and_thousands_are_parted() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == ["0 rows", "1 row", "2 rows", "1,200 rows"]
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.5625, "B", "0.5625 B"),
        (1.0, "B", "1 B"),
        (1536.0, "B", "1.536 kB"),
        (0.25, "FLOP", "0.25 FLOP"),
        (0.02, "B/s", "0.02 B/s"),
        (0.002, "s", "2 ms"),
    ],
)
def test_bytes_and_operations_never_go_below_one_with_a_prefix(value: float, unit: str, shown: str) -> None:
    assert with_prefix(value, unit) == shown
