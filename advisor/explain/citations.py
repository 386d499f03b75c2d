"""The works that an answer rests on: those behind the formulas it used, and those that its constants name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import yaml
from pydantic import Field, ValidationError

from advisor.prediction import AdvisorError, Frozen, explain
from advisor.profiles import PROFILES
from advisor.setup import Setup

FILE = PROFILES / "citations.yaml"
FORMULAS = {
    "speedup": "speedup from accepted length and step times",
    "distinct experts": "distinct experts of a step, target efficiency",
    "roofline": "roofline chart",
    "equal quality": "designs of equal quality",
}
"""Formulas that works are cited for, in words."""


class Citation(Frozen):
    """One work. `match` is text by which a source line names it; `formulas` are keys of FORMULAS."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str = Field(min_length=3)
    authors: str = Field(min_length=3)
    venue: str = Field(min_length=3)
    year: int = Field(ge=1900, le=2100)
    url: str = Field(pattern=r"^https://")
    match: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Authors, title, venue and year on one line."""
        return f"{self.authors}: {self.title}. {self.venue}, {self.year}."


@dataclass(frozen=True)
class Cited:
    """A work and what this answer took from it."""

    citation: Citation
    used_for: tuple[str, ...]


@lru_cache(maxsize=1)
def citations() -> tuple[Citation, ...]:
    """All known works. Raises AdvisorError when profiles/citations.yaml is damaged."""
    try:
        entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        return tuple(Citation.model_validate(entry) for entry in entries)
    except ValidationError as error:
        raise AdvisorError(f"profiles/citations.yaml: {explain(error)}") from error
    except (OSError, TypeError, yaml.YAMLError) as error:
        raise AdvisorError(
            f"profiles/citations.yaml cannot be read: {error}; restore it from the repository"
        ) from error


def cited(setup: Setup, designs: bool = False) -> tuple[Cited, ...]:
    """The works behind one scenario's answer, in the order of the list. `designs`: a design search is part of it."""
    formulas = ["speedup"] if setup.drafter.kind != "none" else []
    formulas += ["distinct experts"] if setup.architecture.moe is not None else []
    formulas += ["roofline"] + (["equal quality"] if designs else [])
    found = []
    texts = _source_texts(setup)
    for work in citations():
        used = [FORMULAS[name] for name in formulas if name in work.formulas]
        used += [what for what, lines in texts.items() if any(mark in line for mark in work.match for line in lines)]
        if used:
            found.append(Cited(work, tuple(used)))
    return tuple(found)


def _source_texts(setup: Setup) -> Mapping[str, tuple[str, ...]]:
    """Source lines by the part of the scenario they stand for."""
    preset, hardware = setup.routing, setup.hardware
    routing = () if preset is None else (*(item.source for item in preset.parameters), setup.routing_because)
    constants = [hardware.memory_bytes, hardware.bandwidth_bytes_per_s, *hardware.peak_flops_per_s.values()]
    return {
        "kernel times": tuple(chain.from_iterable(setup.costs.sources.values())),
        "model": setup.architecture.sources,
        "accepted length": (setup.acceptance.source,),
        "drafter": setup.drafter.sources,
        "routing": routing,
        "accelerator": tuple(constant.source for constant in constants),
    }
