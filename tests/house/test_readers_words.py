"""What readers are told has no word of the house: looked for in every text of the package that a
screen may show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.house.test_layout import SOURCES

DRAWS = re.compile(r"\bdraws?\b(?!\.|_)", re.IGNORECASE)
"""The variations that a band is made of: readers are told of simulated cases."""


def told(source: str) -> Iterator[tuple[int, str]]:
    """Line and words of each text of several words; docstrings are for developers."""
    tree = ast.parse(source)
    bodies = [
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    of_developers = {
        id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in of_developers
        )
        if is_text and " " in node.value.strip(" "):
            yield node.lineno, node.value


def places(words: re.Pattern[str], modules: Iterable[str]) -> list[str]:
    """Where a text of some modules has one of the words; a module without them is not parsed."""
    anywhere = re.compile(re.sub(r"[$^]", "", words.pattern), words.flags)
    texts = (
        (name, *found)
        for name in modules
        if anywhere.search(SOURCES[name])
        for found in told(SOURCES[name])
    )
    return [f"{module}:{line}: {text}" for module, line, text in texts if words.search(text)]


def test_no_reader_is_told_of_draws() -> None:
    found = places(DRAWS, (name for name in SOURCES if "studies." not in name))
    assert not [one for one in found if "power.draw" not in one]


OLD = re.compile(
    r"\bregret\b|\bbehind the best K\b|\b(80 ?% |likely )bands?\b|\bis none of the\b"
    r"|\blogits apart\b"
    r"|\blaunch differently\b|\bspeaks? against\b|\bstands? (there|in the list) twice\b",
    re.IGNORECASE,
)
"""What today is called expected loss and 80% range; turns of phrase that no engineer uses."""


def test_one_quantity_has_one_word() -> None:
    published = ("cli.measure", "show.words.compare", "measured.validation")
    rooms = ("cli.", "show.", "answers.", "ui.", "measured.")
    assert not places(
        OLD, (name for name in SOURCES if name.startswith(rooms) and name not in published)
    )


def test_a_text_with_the_word_is_found_and_a_docstring_is_not() -> None:
    source = (
        '"""Shared draws."""\n\ndef f():\n    """All draws."""\n    return f"{1} of the draws"\n'
    )
    assert [words for _, words in told(source) if DRAWS.search(words)] == [" of the draws"]
