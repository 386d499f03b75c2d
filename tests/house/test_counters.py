"""The tree stays as plain as it has become: each counter within its budget, which only falls."""

from __future__ import annotations

import ast

import pytest

from tests.house.counters import (
    BY_ROOM,
    budgets,
    by_room,
    empty_names,
    heavy_statements,
    js_tokens,
    overall,
    packed_statements,
    read_back_sites,
    size,
    texts_read_back,
    without_docstrings,
)
from tests.house.read_back import REVIEWED

LIMITS = budgets()
COUNTS = by_room()


def test_every_room_has_a_budget_no_higher_than_the_figures_of_the_release_before() -> None:
    assert set(COUNTS) == set(LIMITS["rooms"])
    before = LIMITS["version_0_3"]
    for counter in ("heavy", "packed", "empty_names", "text_below_show"):
        total = sum(room[counter] for room in LIMITS["rooms"].values())
        assert total <= sum(room[counter] for room in before.values())


@pytest.mark.parametrize("room", sorted(COUNTS))
def test_a_room_keeps_its_budget(room: str) -> None:
    limits = LIMITS["rooms"][room]
    over = {name: COUNTS[room][name] for name in BY_ROOM if COUNTS[room][name] > limits[name]}
    assert not over, f"over the budget {limits}; what of equal size could go?"


def test_the_whole_keeps_its_budget() -> None:
    limits = LIMITS["overall"]["budget"]
    counts = overall()
    assert {name: counts[name] for name in limits if counts[name] > limits[name]} == {}


def test_every_place_that_could_read_text_of_ours_back_has_been_reviewed() -> None:
    assert set(read_back_sites()) == set(REVIEWED), "update tests/house/read_back.py"


@pytest.mark.parametrize(
    ("counter", "planted"),
    [
        (packed_statements, "a, b = 1, 2"),
        (packed_statements, "a, b = (f(x) for x in y)"),
        (packed_statements, "total = (n := 3) + n"),
        (heavy_statements, "table = [" + "f(1), " * 40 + "]"),
        (empty_names, "found = 1"),
        (empty_names, "rows = [one for one in table]"),
        (texts_read_back, "x = 'range' in error.message"),
        (texts_read_back, "x = warning.startswith('Likely')"),
        (texts_read_back, "x = sentence[:1].upper()"),
    ],
)
def test_a_planted_fault_is_counted(counter: object, planted: str) -> None:
    assert len([*counter(ast.parse(planted))]) == 1  # type: ignore[operator]


def test_nodes_are_moved_by_neither_layout_nor_docstrings() -> None:
    plain = ast.parse("def f(a):\n    return a + 1\n")
    laid_out = ast.parse(
        'def f(\n    a\n):\n    """Say."""\n    # why\n    return (a\n      + 1)\n'
    )
    assert size(without_docstrings(plain)) == size(without_docstrings(laid_out)) == 8
    assert js_tokens("// no\nconst a = `x y` ?? 1; /* no */") == 7
