"""docs/tour.md follows one scenario through the functions that it names, with what they return
today."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.golden.tour_page import PAGE, with_outputs

ROOT = PAGE.parents[1]
STOP = re.compile(r"^## \d+\. .+\n\n`([\w/]+\.py)`, `([\w.]+)`", flags=re.M)


def stops(page: str) -> list[tuple[str, str]]:
    """File and function of each stop, in order."""
    return STOP.findall(page)


def defines(path: Path, name: str) -> bool:
    """Whether a file defines a function or class; `Name.method` looks inside a class."""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part
        ]
        if not found:
            return False
        body = found[0].body
    return True


def test_the_outputs_are_those_of_today() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_outputs(page) == page, "run: python -m tests.golden.tour_page"


def test_the_tour_stops_at_ten_functions_where_the_page_says() -> None:
    found = stops(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 10
    assert len(re.findall(r"^## \d+\. ", PAGE.read_text(encoding="utf-8"), flags=re.M)) == 10
    missing = [f"{file}: {name}" for file, name in found if not defines(ROOT / file, name)]
    assert not missing


def test_each_stop_calls_the_function_it_is_about() -> None:
    page = PAGE.read_text(encoding="utf-8")
    parts = re.split(r"^## \d+\. ", page, flags=re.M)[1:]
    for part, (_, name) in zip(parts, stops(page), strict=True):
        code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) (.*)", part, flags=re.M))
        assert re.search(rf"\b{name}\(", code), f"{name} is not called"


def test_the_prose_has_no_number_that_could_go_stale() -> None:
    prose = re.sub(r"```python\n.*?```", "", PAGE.read_text(encoding="utf-8"), flags=re.S)
    told = re.sub(
        r"`[^`]*`|\([^)]*\.md\)|^## \d+\.|K \+ 1|K = 0|80 %|arXiv:[\d.]+", "", prose, flags=re.M
    )
    assert not re.findall(r"(?<![\w-])\d[\d.,]*", told)


@pytest.mark.parametrize("printed", ["K = 3", "K = 3\nK = 4", ""])
def test_an_output_that_is_no_longer_right_is_written_anew(printed: str) -> None:
    page = "# Tour\n\n```python\n>>> k = 4\n>>> print('K =', k)\n{}```\n"
    stale = page.format(f"{printed}\n" if printed else "")
    assert with_outputs(stale) == page.format("K = 4\n") != stale
