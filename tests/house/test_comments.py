"""The physics says why: comments are at least 3 % of its lines of code.

`python -m tests.house.test_comments` prints the share of each file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.house.test_docstrings import PACKAGE, PHYSICS

LEAST = 0.03
"""Comments over lines of code in the files of the physics together."""
LEAST_OF_A_FILE = 0.025
"""The same of a single file or folder: none goes without."""
FOR_TOOLS = re.compile(r"#\s*(noqa|type:|fmt:|pragma)")


def lines_of_code(source: str) -> int:
    """Lines that hold code: neither blank, nor of a comment alone, nor of a docstring or a text beside a constant."""
    texts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    numbered = enumerate(source.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in texts for n, line in numbered)


def comment_lines(source: str) -> int:
    """Lines with a comment for readers; those for a linter or a formatter do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type == tokenize.COMMENT and not FOR_TOOLS.match(token.string) for token in tokens)


def files_of(place: str) -> list[Path]:
    path = PACKAGE / place.replace(".", "/")
    return sorted(path.rglob("*.py")) or [path.with_suffix(".py")]


def share(places: Iterable[str]) -> float:
    """Comments over lines of code of some files."""
    sources = [path.read_text(encoding="utf-8") for place in places for path in files_of(place)]
    return sum(map(comment_lines, sources)) / sum(map(lines_of_code, sources))


def test_the_physics_says_why() -> None:
    assert share(PHYSICS) >= LEAST


def test_no_file_of_the_physics_goes_without() -> None:
    assert not {place for place in PHYSICS if share([place]) < LEAST_OF_A_FILE}


def test_comments_for_tools_and_docstrings_are_not_counted() -> None:
    counted = "# Since four is too many.\nx = LIMIT  # fmt: skip\n"
    source = f'"""Text.\n\nMore."""\n\nLIMIT = 3  # noqa: E501\n"""Why."""\n{counted}'
    assert (comment_lines(source), lines_of_code(source)) == (1, 2)


SKIP = re.compile(r"#\s*fmt:\s*(skip|off)")


def skips(source: str) -> list[int]:
    """Lines whose comment keeps the formatter off."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.start[0] for token in tokens if token.type == tokenize.COMMENT and SKIP.match(token.string)]


def test_no_line_asks_the_formatter_to_look_away() -> None:
    """What does not fit a line wants a value object or a table, not a layout of its own."""
    found = []
    for root in (PACKAGE, PACKAGE.parent / "tests"):
        for path in sorted(root.rglob("*.py")):
            found += [f"{path.name}:{line}" for line in skips(path.read_text(encoding="utf-8"))]
    assert not found


@pytest.mark.parametrize("comment", ["# fmt: skip", "# fmt: off", "#fmt:skip"])
def test_a_planted_skip_is_seen_and_one_in_a_text_is_none(comment: str) -> None:
    assert skips(f"x = (1,  2)  {comment}\ny = '{comment}'\n") == [1]


if __name__ == "__main__":
    for name in sorted(PHYSICS):
        print(f"{name:24} {share([name]):6.1%}")
    print(f"{'together':24} {share(PHYSICS):6.1%}")
