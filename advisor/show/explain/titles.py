"""What steps of a derivation are called, by the part of the model and the law that runs in it.

A law without a row is called by its own docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from advisor.physics.laws.kernels import Law
from advisor.profiles import PROFILES, read_made


class Title(NamedTuple):
    """Title of a step. `{layers}`, `{dtype}` and `{because}` are filled in."""

    id: str
    title: str
    symbol: str
    unit: str = "s"
    note: str = ""


Rows = Mapping[str, Mapping[str, Title]]
FILE = PROFILES / "derivation.yaml"


@cache
def titles() -> Rows:
    """Titles by component of a pass, or of a round, and law, in the order in which components are
    shown. Raises AdvisorError when profiles/derivation.yaml is damaged."""

    def parsed(components: Mapping[str, Mapping[str, Any]]) -> Rows:
        return {
            component: {law: Title(**row) for law, row in rows.items()}
            for component, rows in components.items()
        }

    return read_made(FILE, parsed, "restore it from the repository")


SUMS = {
    "attention_projection": Title("attention_projection", "Attention weights", "T_projections"),
    "attention": Title("attention", "Attention core", "T_attention"),
    "dense": Title("dense", "Dense FFN", "T_dense"),
    "communication": Title("communication", "GPU to GPU", "T_links"),
}
"""Components of several times, and what a single one is called."""
_UNITS = {"Time": "s", "Bytes": "B", "Operations": "FLOP"}
"""Of a result, by the first word of a law's docstring."""


def component_of(law: Law, part: tuple[str, ...]) -> str:
    """Component that a law is part of: where it ran, else that of its row, else its own."""
    if len(part) > 1:
        return part[-1]
    name = law.__name__
    return next((component for component, rows in titles().items() if name in rows), name)


def title_of(component: str, law: Law) -> Title:
    """Title of a law's step in a component."""
    row = titles().get(component, {}).get(law.__name__)
    if row is not None:
        return row
    first, equation, _ = (inspect.getdoc(law) or "").split("\n\n", 2)
    title = " ".join(first.split()).rstrip(".")
    symbol = equation.partition(" = ")[0]
    return Title(law.__name__, title, symbol, _UNITS.get(title.split()[0], "1"))


@cache
def units_of(law: Law) -> Mapping[str, str]:
    """Unit of each symbol of a law, from its docstring: `W, b: weights [-], and the storage of one.
    [B]`."""
    text = " ".join((inspect.getdoc(law) or "").split()).partition(" Limits: ")[0]
    known = set(inspect.signature(law).parameters)
    names_at = [
        (match, match[1].split(", "))
        for match in re.finditer(r"(?:^|(?<= ))(\w+(?:, \w+)*): ", text)
        if known >= set(match[1].split(", "))
    ]
    ends = [*(match.start() for match, _ in names_at), len(text)][1:]
    units: dict[str, str] = {}
    for (match, names), end in zip(names_at, ends, strict=True):
        listed = re.findall(r"\[([^\]]+)\]", text[match.end() : end]) or ["-"]
        # Of fewer units than symbols the last symbol has the last.
        each = listed[:1] * (len(names) - len(listed)) + listed
        units |= {name: "1" if unit == "-" else unit for name, unit in zip(names, each)}  # noqa: B905
    return units
