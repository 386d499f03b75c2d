"""docs/architecture.md shows the house as it is: every room on its floor, every file it sends to."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_layout import FLOORS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[list[str]]:
    table = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]


def test_the_floors_are_those_that_imports_are_held_to() -> None:
    listed = [set(re.findall(r"`(\w+)`", rooms)) for _, rooms in rows_under("floor")]
    upper, lower = {"cli", "ui", "studies", "__main__"}, FLOORS[:-2]
    assert listed[0] == upper == FLOORS[-1] | FLOORS[-2]
    assert listed[:0:-1] == lower


def test_every_file_that_a_change_is_sent_to_exists() -> None:
    asked_most, rest = rows_under("to change"), rows_under("more to change")
    assert len(asked_most) == 12
    for what, where in [*asked_most, *rest]:
        named = re.findall(r"`([\w./-]+)`", where)
        assert named, f"{what}: no file"
        missing = [name for name in named if not (ROOT / name).exists()]
        assert not missing, f"{what}: no {missing}"


def test_a_change_stands_in_one_row() -> None:
    changes = [what for what, _ in [*rows_under("to change"), *rows_under("more to change")]]
    assert len(set(changes)) == len(changes)
