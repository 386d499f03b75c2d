"""docs/nomenclature.md is the list of names: no synonym stands in advisor/."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/nomenclature.md").read_text(encoding="utf-8")


def synonyms() -> dict[str, str]:
    """Each word that is not used, with the name that is."""
    table = PAGE.split("## One name for one thing")[1]
    rows = [row.split("|") for row in re.findall(r"^\|.*\|$", table, flags=re.M)[2:]]
    return {word.strip(): row[2].strip() for row in rows for word in row[3].split(",")}


def identifiers(source: str) -> set[str]:
    """Every name that a module defines, takes, reads or passes."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        found |= {getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname")}
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return {name for name in found if isinstance(name, str)}


def synonyms_in(sources: Mapping[str, str]) -> list[str]:
    words = synonyms()
    return [
        f"{place}: {word}; it is called {words[word]}"
        for place, source in sources.items()
        for word in sorted(identifiers(source) & set(words))
    ]


def classes_twice(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Public classes of one name in several modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for place, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def advisor_sources(*, profiling: bool = True) -> dict[str, str]:
    files = sorted((ROOT / "advisor").rglob("*.py"))
    named = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    return {place: text for place, text in named.items() if profiling or "/profiling/" not in place}


def test_no_module_has_a_second_name_for_a_thing() -> None:
    assert not synonyms_in(advisor_sources())


def test_one_class_name_means_one_thing() -> None:
    # The profiler is copied to bare nodes on its own: its words meet no other room's.
    assert not classes_twice(advisor_sources(profiling=False))


@pytest.mark.parametrize(
    "planted",
    [
        "def speedup(k_draft): ...",
        "curve.distinct_plain",
        "from advisor.routing import distinct_experts",
        "predict(rows, out_of_sample=True)",
        "mine = 1",
        "class Row:\n    tp_size: int",
    ],
)
def test_a_planted_synonym_is_found(planted: str) -> None:
    assert len(synonyms_in({"planted.py": planted})) == 1


def test_a_planted_second_class_of_a_name_is_found() -> None:
    twice = {
        "a.py": "class Sweep: ...",
        "b.py": "class Outer:\n    class Sweep: ...",
        "c.py": "class _Sweep: ...",
    }
    assert classes_twice(twice) == {"Sweep": ["a.py", "b.py"]}


def test_no_name_is_its_own_synonym() -> None:
    assert not set(synonyms()) & {word for name in synonyms().values() for word in name.split("`")}
    assert len(synonyms()) > 30, "the table is read"
