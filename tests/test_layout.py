"""Who may import whom (docs/architecture.md), read from the source with ast."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "advisor"

# Lower layers first; a module imports from its own layer or a lower one. One topic, one line.
LAYERS = [
    {"prediction", "units", "words", "typography"},
    {"profiles", "csv_export", "json_values"},
    {"scenario", "hardware", "architecture", "hf_config", "model_profiles", "drafter", "examples"},
    {"routing_presets", "routing", "store", "ingest"},
    {"kernel_costs"},
    {"step_cost"},
    {"draft_cost", "memory", "bands", "speedup", "calibration"},
    {"adjustment"},
    {"quality", "recommend", "dynamic", "setup"},
    {"curve"},
    {"batch_schedule"},
    {"advice", "design"},
    {"citations", "next_steps", "derivation", "roofline"},
    {"comparison", "validation", "nearby", "overheads", "runtime", "refit", "moesd_fit"},
    {"charts", "report", "cli"},
    {"ui", "__main__"},
]
RANK = {topic: rank for rank, topics in enumerate(LAYERS) for topic in topics}

ONLY_IN = {
    "streamlit": {"ui"},
    "plotly": {"charts", "ui", "report"},
    "matplotlib": {"report"},
    "typst": {"report"},
    "torch": {"profiling"},
    "duckdb": {"store"},
}
NEVER_AT_IMPORT = ("torch", "scipy")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def topic_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def base_topic(topic: str) -> str:
    """hf_mixers belongs to hf_config, cli_tables to cli: a helper module carries its topic as prefix."""
    if topic in RANK:
        return topic
    for known in sorted(RANK, key=len, reverse=True):
        if topic.split("_")[0] == known.split("_")[0]:
            return known
    return topic


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            if node.module == "advisor":
                found |= {f"advisor.{alias.name}" for alias in node.names if not alias.name.startswith("__")}
    return found


def advisor_topics(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("advisor.")}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_own_layer_or_below(path: Path) -> None:
    topic = base_topic(topic_of(path))
    if topic in ("__init__", "profiling"):
        return
    assert topic in RANK, f"{topic} has no layer; add it to LAYERS in {Path(__file__).name}"
    above = {used for used in advisor_topics(path) if RANK.get(base_topic(used), 0) > RANK[topic]}
    assert not above, f"{path.name} imports upwards: {sorted(above)}"


def test_profiling_imports_nothing_else_of_the_advisor() -> None:
    for path in (PACKAGE / "profiling").rglob("*.py"):
        assert advisor_topics(path) <= {"profiling"}, f"{path.name} must run on a bare GPU node"


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_heavy_package_is_imported_in_one_place_only(package: str) -> None:
    users = {topic_of(path) for path in modules() if any(name.split(".")[0] == package for name in imports(path))}
    assert users <= ONLY_IN[package], f"{package} is imported by {sorted(users - ONLY_IN[package])}"


@pytest.mark.parametrize("package", NEVER_AT_IMPORT)
def test_slow_packages_are_imported_where_they_are_used(package: str) -> None:
    for path in modules():
        if topic_of(path) == "profiling":
            continue
        eager = {name.split(".")[0] for name in imports(path, top_level_only=True)}
        assert package not in eager, f"{path.name} imports {package} at module level"


def test_formulas_do_no_input_or_output() -> None:
    formulas = ["routing", "kernel_costs", "step_cost", "draft_cost", "speedup", "bands", "recommend", "quality"]
    forbidden = {"os", "io", "pathlib", "logging", "time", "random", "datetime", "yaml", "json", "duckdb", "requests"}
    for name in formulas:
        for path in [PACKAGE / f"{name}.py", *(PACKAGE / name).rglob("*.py")]:
            if path.exists():
                used = {module.split(".")[0] for module in imports(path)}
                assert not used & forbidden, f"{path.name} imports {sorted(used & forbidden)}"


def test_the_package_imports_without_its_heavy_dependencies_loaded() -> None:
    assert not imports(PACKAGE / "__init__.py", top_level_only=True) - {"importlib", "typing", "__future__"}
