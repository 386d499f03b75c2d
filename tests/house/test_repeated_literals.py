"""A list of four and more names is typed once: no two files have dict literals with the same keys.

A table by a named choice (a Literal, an enumeration) or by the symbols of a law has that choice's keys and says nothing
twice. `advisor.profiling` is apart, since it runs alone on a bare node.
"""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from advisor.physics import laws
from tests.house.test_layout import SOURCES

LEAST = 4


def keys_of(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    """Line and keys of each dict literal, and of each call of `dict`, with LEAST keys or more that are all texts."""
    for node in ast.walk(ast.parse(source)):
        keys: list[str] = []
        if isinstance(node, ast.Dict):
            texts = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            keys = texts if len(texts) == len(node.keys) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            keys = [word.arg for word in node.keywords if word.arg]
        if len(keys) >= LEAST:
            yield node.lineno, frozenset(keys)


def named_choices(sources: Mapping[str, str]) -> list[frozenset[str]]:
    """Values of each Literal and members of each text enumeration, and the symbols of each law."""
    found = []
    for source in sources.values():
        for node in ast.walk(ast.parse(source)):
            texts: list[str] = []
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
                texts = [one.value for one in ast.walk(node.slice) if isinstance(one, ast.Constant)]
            elif isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("StrEnum") for base in node.bases):
                values = (item.value for item in node.body if isinstance(item, ast.Assign))
                texts = [value.value for value in values if isinstance(value, ast.Constant)]
            found.append(frozenset(text for text in texts if isinstance(text, str)))
    all_laws = [law for name, law in vars(laws).items() if callable(law) and name.islower()]
    symbols = [inspect.signature(law).parameters for law in all_laws]
    return [*found, *map(frozenset, symbols)]


def repeated(sources: Mapping[str, str]) -> list[str]:
    """Keys that stand in several files, with the places."""
    choices = named_choices(sources)
    places: dict[frozenset[str], dict[str, int]] = defaultdict(dict)
    for module, source in sources.items():
        for line, keys in keys_of(source):
            places[keys].setdefault(module, line)
    found = []
    for keys, where in places.items():
        groups = ({m: n for m, n in where.items() if m.startswith("profiling") is apart} for apart in (True, False))
        for group in groups:
            if len(group) > 1 and not any(keys <= choice for choice in choices):
                found.append(f"{', '.join(sorted(keys))}: {', '.join(f'{m}:{n}' for m, n in sorted(group.items()))}")
    return found


def test_no_two_files_have_a_dict_with_the_same_keys() -> None:
    assert not repeated(SOURCES)


PLANTED = "SIZES = {'width': 1, 'height': 2, 'depth': 3, 'mass': 4}\n"


@pytest.mark.parametrize("again", [PLANTED, "x = dict(mass=1, depth=2, width=3, height=4)\n"])
def test_a_planted_repetition_is_seen(again: str) -> None:
    assert repeated({"store.a": PLANTED, "ingest.b": again}) == ["depth, height, mass, width: ingest.b:1, store.a:1"]


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"ingest.b": PLANTED.replace("'mass'", "'price'")},
        {"ingest.b": PLANTED, "hf.c": "Size = Literal['width', 'height', 'depth', 'mass']"},
        {"profiling.b": PLANTED},
    ],
)
def test_other_keys_a_named_choice_and_the_profiler_are_no_repetition(elsewhere: dict[str, str]) -> None:
    assert not repeated({"store.a": PLANTED, **elsewhere})
