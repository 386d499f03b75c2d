"""Words that go with a number."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `1,200 rows`; `many` where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
