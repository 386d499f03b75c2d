"""Who may import whom (docs/architecture.md), read from the source with ast.

The house has rooms: every module in the root of advisor/ is one, every folder is one; studies/
stands beside it. Rules: imports between rooms go to a lower floor; no two files import each other
in a circle, anywhere; what begins with an underscore stays in its room; a room's `__init__` is one
line, and its files are its face.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "advisor"
STUDIES = ROOT / "studies"
FLOORS = [
    {"prediction", "profiling"},
    {"profiles", "text"},
    {"physics"},
    {"catalog"},
    {"predict"},
    {"measured"},
    {"answers"},
    {"show"},
    {"cli", "ui"},
    {"studies", "__main__"},
]
"""Rooms from the ground up; a room imports from the floors below its own."""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MOST_ARROWS = 70
"""Pairs of rooms of which one imports from the other."""
FACES = {"physics.laws", "cli", "ui", "measured.readers", "profiling"}
"""Folders whose `__init__` holds more than a line: a noun of many files, or what starts there."""
IN_OUT = {
    "os",
    "io",
    "pathlib",
    "logging",
    "time",
    "random",
    "datetime",
    "yaml",
    "json",
    "duckdb",
    "requests",
}
"""What a formula does not import."""
ONLY_IN = {
    "streamlit": {"ui"},
    "plotly": {"show", "ui"},
    "matplotlib": {"show"},
    "typst": {"show"},
    "torch": {"profiling"},
    "duckdb": {"measured"},
}
NEVER_AT_IMPORT = ("torch", "scipy")


@dataclass(frozen=True)
class Import:
    """`name` of the module `module`, taken by the module `by`; dotted names without the leading
    `advisor.`."""

    by: str
    module: str
    name: str

    @property
    def rooms(self) -> tuple[str, str]:
        return self.by.split(".")[0], self.module.split(".")[0]

    def __str__(self) -> str:
        return f"{self.by} takes {self.name} from {self.module}"


def sources() -> dict[str, str]:
    """Source of each module by its dotted name, advisor's without `advisor.`; a folder's `__init__`
    has its name."""
    found = {}
    for folder, above in ((PACKAGE, PACKAGE), (STUDIES, ROOT)):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(above).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(
                encoding="utf-8"
            )
    return found


SOURCES = sources()
ADVISOR = {name: source for name, source in SOURCES.items() if name.split(".")[0] != "studies"}


def _local(module: str | None) -> str | None:
    """The dotted name of one of our modules, None where it is somebody else's."""
    if module is None or module.split(".")[0] not in ("advisor", "studies"):
        return None
    return module.removeprefix("advisor").removeprefix(".")


def imports_of(by: str, source: str, known: Mapping[str, str]) -> Iterator[Import]:
    """The imports of our modules in `source`; a module taken as a name counts as an import of that
    module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (module := _local(alias.name)) not in (None, ""):
                    yield Import(by, str(module), "*")
        elif isinstance(node, ast.ImportFrom) and (module := _local(node.module)) is not None:
            for alias in node.names:
                inner = f"{module}.{alias.name}".removeprefix(".")
                if inner in known:
                    yield Import(by, inner, "*")
                elif module:
                    yield Import(by, module, alias.name)


@cache
def all_imports() -> list[Import]:
    return [
        found for by, source in SOURCES.items() if by for found in imports_of(by, source, SOURCES)
    ]


def upward(imports: Iterable[Import]) -> list[str]:
    """Imports between rooms that do not go to a lower floor."""
    return [
        str(one)
        for one in imports
        if one.rooms[0] != one.rooms[1] and FLOOR[one.rooms[1]] >= FLOOR[one.rooms[0]]
    ]


def private_of_another_room(imports: Iterable[Import]) -> list[str]:
    """Imports between rooms of what begins with an underscore."""
    return [
        str(one) for one in imports if one.rooms[0] != one.rooms[1] and one.name.startswith("_")
    ]


def circle(imports: Iterable[Import]) -> list[str] | None:
    """Files that import each other in a circle. A face imports its files and is not part of one."""
    graph: dict[str, set[str]] = {}
    for one in imports:
        if one.by not in FACES:
            graph.setdefault(one.by, set()).add(one.module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


@cache
def third_party(source: str, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(source)
    nodes: Iterable[ast.AST] = tree.body if top_level_only else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_every_room_has_its_floor() -> None:
    rooms = {name.split(".")[0] for name in SOURCES if name}
    assert rooms == set(FLOOR), (
        "FLOORS lists the modules in the root of advisor/, its folders and studies, each once"
    )
    assert sum(map(len, FLOORS)) == len(FLOOR), "a room stands on one floor"


def test_the_root_is_read_at_a_glance() -> None:
    shown = [path for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len(shown) <= 15, sorted(path.name for path in shown)


def test_imports_go_down() -> None:
    assert not upward(all_imports())


def test_there_are_few_arrows_between_rooms() -> None:
    arrows = {one.rooms for one in all_imports() if one.rooms[0] != one.rooms[1]}
    assert len(arrows) <= MOST_ARROWS, sorted(arrows)


def test_nobody_takes_a_private_name_of_another_room() -> None:
    assert not private_of_another_room(all_imports())


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle(all_imports()) is None


@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        ("physics.touched_experts", "from advisor.predict.curve import Curve", upward),
        ("show.charts.maps", "from advisor.ui.widgets import show_chart", upward),
        ("predict.curve", "from advisor.answers import advice", upward),
        ("predict.curve", "import advisor.answers.advice", upward),
        ("predict.curve", "from studies.score import frozen", upward),
        ("answers.advice", "from advisor.predict.curve import _samples", private_of_another_room),
        ("studies.score", "from advisor.predict.curve import _samples", private_of_another_room),
    ],
)
def test_a_planted_breach_is_seen(module: str, line: str, rule: object) -> None:
    planted = [*imports_of(module, line, SOURCES)]
    assert (upward(planted) if rule is upward else private_of_another_room(planted)) != []


@pytest.mark.parametrize(
    "lines",
    [
        {
            "measured.store": "from advisor.measured.store_build import status",
            "measured.store_build": "from advisor.measured.store import x",
        },
        {
            "answers.advice": "from advisor.answers.explore import cells",
            "answers.explore.cells": "from advisor.answers.advice import advise",
        },
    ],
    ids=["in one folder", "across folders"],
)
def test_a_planted_circle_is_seen(lines: dict[str, str]) -> None:
    planted = [one for module, line in lines.items() for one in imports_of(module, line, SOURCES)]
    assert circle(planted) is not None


def test_an_init_is_one_line_but_for_the_faces() -> None:
    folders = {
        str(path.parent.relative_to(PACKAGE)).replace("/", "."): path.read_text(
            encoding="utf-8"
        ).splitlines()
        for path in PACKAGE.glob("*/**/__init__.py")
    }
    long = {name for name, lines in folders.items() if len(lines) > 1 and name not in FACES}
    assert not long, f"{long}: an import names the file, so an __init__ gathers nothing"


def test_profiling_imports_nothing_else_of_the_advisor() -> None:
    """It must run on a bare GPU node."""
    assert {one.rooms[1] for one in all_imports() if one.rooms[0] == "profiling"} == {"profiling"}


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_heavy_package_is_imported_in_one_place_only(package: str) -> None:
    users = {
        name.split(".")[0] for name, source in ADVISOR.items() if package in third_party(source)
    }
    assert users <= ONLY_IN[package], f"{package} is imported by {sorted(users - ONLY_IN[package])}"


@pytest.mark.parametrize("package", NEVER_AT_IMPORT)
def test_slow_packages_are_imported_where_they_are_used(package: str) -> None:
    eager = [
        name
        for name, source in ADVISOR.items()
        if not name.startswith("profiling") and package in third_party(source, top_level_only=True)
    ]
    assert not eager, f"{package} is imported at module level by {eager}"


def test_formulas_do_no_input_or_output() -> None:
    used = {
        name: third_party(source) & IN_OUT
        for name, source in ADVISOR.items()
        if name.startswith("physics")
    }
    used["physics.hardware"].discard("datetime")  # the type of its dates
    assert not {name: found for name, found in used.items() if found}


def test_the_package_imports_without_its_heavy_dependencies_loaded() -> None:
    assert not third_party(SOURCES[""], top_level_only=True) - {"importlib", "typing", "__future__"}
