"""One step of a derivation, and the builder that computes each by its own law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from advisor.explain.constants import ConstantUse
from advisor.explain.expression import computed, formula_of, renamed, used_names
from advisor.laws import Law

Group = Literal["Answer", "Plain step", "Verification", "Drafting"]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True)
class Quantity:
    """A number with its SI unit. `1` has none."""

    value: float
    unit: str = "1"


Values = Mapping[str, Quantity | float]
"""A law's arguments by its parameters; a bare number has no unit."""


@dataclass(frozen=True)
class Step:
    """One formula with the numbers that went in and what came out, in SI units."""

    id: str
    """Dotted: `plain.routed`, `verify.attention`, `round`, `speedup`."""
    group: Group
    title: str
    symbol: str
    expression: str
    """As Python text, read from the law's source; empty for a number that is given, not computed."""
    values: Mapping[str, Quantity]
    result: Quantity
    constants: tuple[ConstantUse, ...] = ()
    note: str = ""


class Head(NamedTuple):
    """Title of a step, and the unit of its result."""

    id: str
    title: str
    symbol: str
    unit: str = "1"


@dataclass
class Builder:
    """Collects steps of one group after another. Each result is its law's, nobody else's."""

    steps: list[Step] = field(default_factory=list)
    group: Group = "Answer"
    prefix: str = ""

    def add(
        self,
        head: Head,
        law: Law,
        values: Values,
        constants: tuple[ConstantUse, ...] = (),
        note: str = "",
        names: Mapping[str, str] | None = None,
    ) -> Quantity:
        """Compute a step by its law and keep it.

        `values` are the law's arguments, without those in `constants`; optional terms that are absent are not shown.
        `names` are other names that the step gives the law's parameters.
        """
        known = {name: _quantity(value) for name, value in values.items()}
        known |= {use.symbol: Quantity(use.value, use.unit) for use in constants}
        numbers = {name: quantity.value for name, quantity in known.items()}
        text, names = formula_of(law, numbers), names or {}
        used = used_names(text)
        shown = {names.get(name, name): quantity for name, quantity in known.items() if name in used}
        return self._keep(head, renamed(text, names), shown, computed(law, numbers), constants, note)

    def add_sum(self, head: Head, parts: Mapping[str, Quantity]) -> Quantity:
        """Add up parts, each under its symbol, and keep the sum."""
        return self._keep(head, " + ".join(parts), parts, sum(part.value for part in parts.values()))

    def given(self, head: Head, value: float, constants: tuple[ConstantUse, ...] = (), note: str = "") -> Quantity:
        """Keep a number that is an input, or a measured curve read off at a point."""
        return self._keep(head, "", {}, value, constants, note)

    def _keep(
        self,
        head: Head,
        text: str,
        values: Mapping[str, Quantity],
        number: float,
        constants: tuple[ConstantUse, ...] = (),
        note: str = "",
    ) -> Quantity:
        id = f"{self.prefix}.{head.id}" if self.prefix else head.id
        result = Quantity(float(number), head.unit)
        self.steps.append(Step(id, self.group, head.title, head.symbol, text, values, result, constants, note))
        return result


def _quantity(value: Quantity | float) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(float(value))
