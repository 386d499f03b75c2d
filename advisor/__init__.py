"""MoE speculative-decoding design advisor: a scenario in, a costed curve with bands out.

The public names load lazily, so that `python -m advisor.profiling` starts where only torch and
numpy are installed.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.3.0"
_PUBLIC = {
    "Scenario": "predict.scenario",
    "Answer": "show.python",
    "advise": "show.python",
    "design_answer": "answers.design.answer",
    "design_space": "answers.design.search",
    "explore": "show.python",
    "export": "show.python",
    "fit": "show.python",
    "ingest": "show.python",
    "load_hardware": "physics.hardware",
    "load_model": "catalog.models",
    "load_setup": "predict.load",
    "refit_sentence": "show.python",
    "refit_text": "show.python",
    "scenario": "show.python",
    "schedule": "show.python",
    "speedup_curve": "predict.curve",
}
__all__ = ["AdvisorError", "__version__", *_PUBLIC]


class AdvisorError(ValueError):
    """Bad input or a question that the data cannot answer. Its message is fit to be shown as it
    is."""


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"advisor.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'advisor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
