"""One step of a derivation, and the builder that computes each from its own formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from advisor.explain.constants import ConstantUse
from advisor.explain.expression import evaluate

Group = Literal["Answer", "Plain step", "Verification", "Drafting"]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True)
class Quantity:
    """A number with its SI unit; `1` has none."""

    value: float
    unit: str = "1"


Values = Mapping[str, Quantity | float]
"""Numbers by the name that an expression gives them; a bare number has no unit."""


@dataclass(frozen=True)
class Step:
    """One formula with the numbers that went in and what came out, in SI units."""

    id: str
    """Dotted: `plain.routed`, `verify.attention`, `round`, `speedup`."""
    group: Group
    title: str
    symbol: str
    expression: str
    """In the language of `derivation.expression`; empty for a number that is given, not computed."""
    values: Mapping[str, Quantity]
    result: Quantity
    constants: tuple[ConstantUse, ...] = ()
    note: str = ""


@dataclass
class Builder:
    """Collects steps of one group after another; each result is its expression's, nobody else's."""

    steps: list[Step] = field(default_factory=list)
    group: Group = "Answer"
    prefix: str = ""

    def add(
        self,
        id: str,
        title: str,
        symbol: str,
        unit: str,
        expression: str,
        values: Values,
        constants: tuple[ConstantUse, ...] = (),
        note: str = "",
    ) -> Quantity:
        """Compute a step from its expression and keep it."""
        known = {
            name: value if isinstance(value, Quantity) else Quantity(float(value)) for name, value in values.items()
        }
        known |= {use.symbol: Quantity(use.value, use.unit) for use in constants}
        number = evaluate(expression, {name: quantity.value for name, quantity in known.items()})
        return self._keep(
            Step(self._id(id), self.group, title, symbol, expression, known, Quantity(number, unit), constants, note)
        )

    def given(
        self, id: str, title: str, symbol: str, value: Quantity, constants: tuple[ConstantUse, ...] = (), note: str = ""
    ) -> Quantity:
        """Keep a number that is an input, or a measured curve read off at a point."""
        return self._keep(Step(self._id(id), self.group, title, symbol, "", {}, value, constants, note))

    def _keep(self, step: Step) -> Quantity:
        self.steps.append(step)
        return step.result

    def _id(self, id: str) -> str:
        return f"{self.prefix}.{id}" if self.prefix else id
