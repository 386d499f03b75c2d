"""Who may import whom (docs/architecture.md), read from the source with ast.

The house has rooms: every module in the root of advisor/ is one, every folder is one. Three rules, by room: imports go
to a lower floor, so that there is no circle; what a folder offers stands in its `__init__`, its face, and nobody
reaches past it; inside a room no modules import each other in a circle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "advisor"

FLOORS = [
    {"arrays", "components", "prediction", "text", "profiling"},
    {"laws"},
    {"architecture", "kernel_costs", "profiles", "quality"},
    {"acceptance", "attention", "bands", "drafter", "hardware", "hf", "routing", "store"},
    {"catalog", "speedup", "step_cost", "task_transfer"},
    {"calibration", "draft_cost", "expert_traffic", "memory", "scenario"},
    {"serving_formats"},
    {"ingest", "setup"},
    {"prefill", "ratios", "tiers"},
    {"curve"},
    {"design", "points", "runtime", "spend"},
    {"advice", "context_map", "diagnosis", "engines", "expert_ranks", "explain", "ranking", "sweep", "validation"},
    {"charts", "comparison", "next_steps", "summary"},
    {"report"},
    {"cli", "ui", "studies"},
    {"__main__"},
]
"""Rooms from the ground up; a room imports from the floors below its own."""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

FORMULAS = {
    *("laws", "routing", "kernel_costs", "attention", "step_cost", "draft_cost", "speedup", "acceptance", "tiers"),
    *("bands", "quality", "curve", "memory"),
}
"""Rooms that do no input or output of their own; presets and curves of acceptance are read by `advisor.profiles`."""

ONLY_IN = {
    "streamlit": {"ui"},
    "plotly": {"charts", "ui", "report"},
    "matplotlib": {"report"},
    "typst": {"report"},
    "torch": {"profiling"},
    "duckdb": {"store"},
}
NEVER_AT_IMPORT = ("torch", "scipy")


@dataclass(frozen=True)
class Import:
    """`name` of advisor's module `module`, taken by the module `by`; dotted names without the leading `advisor.`."""

    by: str
    module: str
    name: str

    @property
    def rooms(self) -> tuple[str, str]:
        return self.by.split(".")[0], self.module.split(".")[0]

    def __str__(self) -> str:
        return f"advisor.{self.by} takes {self.name} from advisor.{self.module}"


def sources() -> dict[str, str]:
    """Source of each module by its dotted name; a folder's face has the folder's name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


SOURCES = sources()
FOLDERS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def imports_of(by: str, source: str, known: Mapping[str, str]) -> Iterator[Import]:
    """The imports of advisor's modules in `source`; a module taken as a name counts as an import of that module.

    Where a face offers a function named like one of its modules, the name is the function's.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("advisor."):
                    yield Import(by, alias.name.removeprefix("advisor."), "*")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "advisor":
            module = node.module.removeprefix("advisor").removeprefix(".")
            for alias in node.names:
                inner = f"{module}.{alias.name}".removeprefix(".")
                if inner in known and alias.name not in offered(known.get(module, "")):
                    yield Import(by, inner, "*")
                elif module:
                    yield Import(by, module, alias.name)


@cache
def all_imports() -> list[Import]:
    return [found for by, source in SOURCES.items() if by for found in imports_of(by, source, SOURCES)]


def upward(imports: Iterable[Import]) -> list[str]:
    """Imports between rooms that do not go to a lower floor."""
    return [str(one) for one in imports if one.rooms[0] != one.rooms[1] and FLOOR[one.rooms[1]] >= FLOOR[one.rooms[0]]]


def past_a_face(imports: Iterable[Import], faces: Mapping[str, set[str]]) -> list[str]:
    """Imports into a folder that name one of its modules, or something its face does not offer."""
    return [
        str(one)
        for one in imports
        if one.rooms[0] != one.rooms[1]
        and one.rooms[1] in faces
        and ("." in one.module or (one.name != "*" and one.name not in faces[one.module]))
    ]


def circle_inside(imports: Iterable[Import]) -> list[str] | None:
    """Modules of one room that import each other in a circle. A face that gathers its modules is not part of one."""
    graph: dict[str, set[str]] = {}
    for one in imports:
        if one.rooms[0] == one.rooms[1] and one.by not in FOLDERS and one.module not in FOLDERS:
            graph.setdefault(one.by, set()).add(one.module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


@cache
def offered(source: str) -> set[str]:
    """The names in `__all__` of a module's source."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
    return set()


FACES = {folder: offered(SOURCES[folder]) for folder in FOLDERS}


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
    assert rooms == set(FLOOR), "FLOORS lists the modules in the root of advisor/ and its folders, each once"
    assert sum(map(len, FLOORS)) == len(FLOOR), "a room stands on one floor"


def test_the_root_holds_physics_and_no_more_than_26_modules() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 26


def test_imports_go_down() -> None:
    assert not upward(all_imports())


def test_nobody_reaches_past_a_face() -> None:
    assert not past_a_face(all_imports(), FACES)


def test_no_circle_inside_a_room() -> None:
    assert circle_inside(all_imports()) is None


@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        ("routing.law", "from advisor.curve import Curve", upward),
        ("charts.why", "from advisor.report import build_report", upward),
        ("curve", "from advisor import advice", upward),
        ("curve", "import advisor.advice", upward),
        ("advice", "from advisor.runtime.schedule import k_at", past_a_face),
        ("advice", "from advisor.runtime import schedule", past_a_face),
        ("advice", "from advisor.runtime import _hidden", past_a_face),
    ],
)
def test_a_planted_breach_is_seen(module: str, line: str, rule: object) -> None:
    planted = [*imports_of(module, line, SOURCES)]
    assert (upward(planted) if rule is upward else past_a_face(planted, FACES)) != []


def test_a_planted_circle_is_seen() -> None:
    lines = {"store.load": "from advisor.store.state import status", "store.state": "from advisor.store.load import x"}
    planted = [one for module, line in lines.items() for one in imports_of(module, line, SOURCES)]
    assert circle_inside(planted) is not None


def test_a_face_offers_what_it_has() -> None:
    for folder, names in FACES.items():
        defined = set()
        for node in ast.walk(ast.parse(SOURCES[folder])):
            if isinstance(node, ast.ImportFrom):
                defined |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Assign):
                defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        assert names <= defined, f"advisor/{folder}/__init__.py offers {sorted(names - defined)} and has no such name"


def test_a_face_offers_only_what_somebody_takes() -> None:
    """The rest stays inside its folder; tests and the public names of `advisor` count as takers."""
    outside = [*PACKAGE.glob("*.py"), ROOT / "app.py", *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    elsewhere = "\n".join(path.read_text(encoding="utf-8") for path in outside)
    for folder, names in FACES.items():
        inside = {one.name for one in all_imports() if one.rooms[1] == folder and one.rooms[0] != folder}
        unused = {name for name in names - inside if name not in elsewhere}
        assert not unused, f"advisor/{folder} offers {sorted(unused)}, which nobody takes"


def test_profiling_imports_nothing_else_of_the_advisor() -> None:
    """It must run on a bare GPU node."""
    assert {one.rooms[1] for one in all_imports() if one.rooms[0] == "profiling"} == {"profiling"}


def test_nobody_imports_the_studies() -> None:
    assert not [str(one) for one in all_imports() if one.rooms[1] == "studies" and one.rooms[0] != "studies"]


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_heavy_package_is_imported_in_one_place_only(package: str) -> None:
    users = {name.split(".")[0] for name, source in SOURCES.items() if package in third_party(source)}
    assert users <= ONLY_IN[package], f"{package} is imported by {sorted(users - ONLY_IN[package])}"


@pytest.mark.parametrize("package", NEVER_AT_IMPORT)
def test_slow_packages_are_imported_where_they_are_used(package: str) -> None:
    eager = [
        name
        for name, source in SOURCES.items()
        if not name.startswith("profiling") and package in third_party(source, top_level_only=True)
    ]
    assert not eager, f"{package} is imported at module level by {eager}"


def test_formulas_do_no_input_or_output() -> None:
    forbidden = {"os", "io", "pathlib", "logging", "time", "random", "datetime", "yaml", "json", "duckdb", "requests"}
    for name, source in SOURCES.items():
        if name.split(".")[0] in FORMULAS:
            used = third_party(source) - ({"datetime"} if name == "routing.presets" else set())  # the type of its dates
            assert not used & forbidden, f"{name} imports {sorted(used & forbidden)}"


def test_the_package_imports_without_its_heavy_dependencies_loaded() -> None:
    assert not third_party(SOURCES[""], top_level_only=True) - {"importlib", "typing", "__future__"}
