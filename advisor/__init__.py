"""MoE speculative-decoding design advisor: a scenario in, a costed curve with bands out.

The public names load lazily, so that `python -m advisor.profiling` starts where only torch and numpy are installed.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "AdvisorError": "prediction",
    "Scenario": "scenario.scenario",
    "advise": "advice",
    "design_answer": "design",
    "design_space": "design",
    "load_hardware": "hardware",
    "load_model": "catalog.models",
    "load_setup": "setup",
    "speedup_curve": "curve",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"advisor.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'advisor' has no attribute {name!r}")
