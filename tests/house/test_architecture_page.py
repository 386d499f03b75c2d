"""docs/architecture.md shows the house as it is: every room on its floor, every file it sends
to."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.test_layout import FLOOR

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[list[str]]:
    table = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]
    ]


def test_the_rooms_are_those_that_imports_are_held_to_in_their_order() -> None:
    listed = [room for rooms, _ in rows_under("room") for room in re.findall(r"`(\w+)`", rooms)]
    assert set(listed) == set(FLOOR) - {"__main__"}
    row = [
        room
        for room in listed
        if room not in ("prediction", "profiles", "text", "profiling", "studies")
    ]
    assert [FLOOR[room] for room in row] == sorted(FLOOR[room] for room in row)
    assert re.search(r"^    (.*)$", PAGE, flags=re.M)[1] == " < ".join(row).replace(
        "cli < ui", "cli, ui"
    )


def test_every_file_that_a_change_is_sent_to_exists() -> None:
    asked_most = rows_under("to change")
    rest = rows_under("more to change")
    assert len(asked_most) == 12
    for what, where in [*asked_most, *rest]:
        named = re.findall(r"`([\w./-]+)`", where)
        assert named, f"{what}: no file"
        missing = [name for name in named if not (ROOT / name).exists()]
        assert not missing, f"{what}: no {missing}"


def test_a_change_stands_in_one_row() -> None:
    changes = [what for what, _ in [*rows_under("to change"), *rows_under("more to change")]]
    assert len(set(changes)) == len(changes)
