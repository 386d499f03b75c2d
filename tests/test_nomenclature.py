"""docs/nomenclature.md is the one list of names: every public parameter of a model module is in it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODEL_MODULES = [
    "routing.law",
    "kernel_costs",
    "step_cost",
    "draft_cost",
    "speedup",
    "bands",
    "quality",
    "curve",
]


def listed_names() -> set[str]:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/nomenclature.md").read_text(encoding="utf-8"), flags=re.M)
    return {name.strip() for row in rows for name in row.split(",")}


@pytest.mark.parametrize("module_name", MODEL_MODULES)
def test_every_public_parameter_is_in_the_list(module_name: str) -> None:
    module = importlib.import_module(f"advisor.{module_name}")
    missing = {
        f"{name}({parameter})"
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == module.__name__
        for parameter in inspect.signature(function).parameters
        if parameter not in listed_names()
    }
    assert not missing, f"add to docs/nomenclature.md: {sorted(missing)}"


@pytest.mark.parametrize("module_name", MODEL_MODULES)
def test_every_public_function_says_what_it_returns(module_name: str) -> None:
    module = importlib.import_module(f"advisor.{module_name}")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("_") and function.__module__ == module.__name__:
            assert function.__doc__, f"{name} has no docstring"
