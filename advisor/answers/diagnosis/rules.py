"""The rules of profiles/diagnosis as checked data: what is tested, against what, why, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, model_validator

from advisor.prediction import Frozen
from advisor.profiles import load_profile, profile_ids

TestName = Literal["above", "at_least", "below", "near", "is", "contains"]
"""above, at_least, below: the quantity against its limit; near: within 15 % of it; is: the same text or flag;
contains: the limit is among the words of the quantity."""
Kind = Literal["measurement", "configuration", "physics"]
NEAR = 0.15
"""Share within which values are alike: that of `ingest.contradictions`. [-]"""


def _near(value: float, limit: float) -> bool:
    return value > 0 and limit > 0 and abs(math.log(value / limit)) <= math.log1p(NEAR)


HOLDS: dict[TestName, Callable[[Any, Any], bool]] = {
    "above": lambda value, limit: value > limit,
    "at_least": lambda value, limit: value >= limit,
    "below": lambda value, limit: value < limit,
    "near": _near,
    "is": lambda value, limit: value == limit,
    "contains": lambda value, limit: str(limit) in str(value).split(),
}
IN_WORDS: dict[TestName, str] = {
    "above": "above",
    "at_least": "at least",
    "below": "below",
    "near": f"within {NEAR:.0%} of",
    "is": "is",
    "contains": "names",
}


class Limit(Frozen):
    """Limit of a quantity: a value with its source, or another quantity `times` a factor."""

    value: float | bool | str | None = None
    unit: str = "1"
    source: str = ""
    of: str | None = None
    times: float = 1.0

    @model_validator(mode="after")
    def _one(self) -> Limit:
        if (self.value is None) == (self.of is None):
            raise ValueError("give a value with its source, or the quantity that it is a multiple of")
        return self


class Condition(Frozen):
    """One test of a rule."""

    quantity: str
    test: TestName
    limit: Limit


class PublishedCase(Frozen):
    """A case in public, with the figures that the rule is tried on."""

    says: str = Field(min_length=10)
    given: dict[str, Any] = Field(min_length=1)
    """Facts and columns of the run."""
    plain: dict[str, Any] = Field(default_factory=dict)
    """Those of the plain run beside it."""
    assumed: tuple[str, ...] = ()
    """Those of the figures that the source does not state."""
    source: str = Field(min_length=3)


class Rule(Frozen):
    """One thing that can be wrong with a run."""

    id: str = Field(pattern=r"[a-z0-9_]+")
    title: str = Field(min_length=10)
    """What is wrong, in plain English."""
    tests: tuple[Condition, ...] = Field(min_length=1)
    """All of them hold where it is wrong."""
    because: str = Field(min_length=10)
    engines: tuple[str, ...] = ()
    """Engines that it speaks of; empty: of all."""
    arm: Literal["speculative", "plain", "any"] = "speculative"
    fix: dict[str, str] = Field(min_length=1)
    """What to do, by engine; `any` for all others. `{recommended_k}` stands for that quantity of the run."""
    fix_without: dict[str, str] = Field(default_factory=dict)
    """Likewise, where it is best to draft nothing."""
    expected: bool = False
    """What it finds is what the prediction says too: advice on an explained run, no gap."""
    yields_to: tuple[str, ...] = ()
    """Rules, or kinds of rules, that say more: where one of them is found, this one is not said."""
    published: PublishedCase

    @model_validator(mode="after")
    def _named_engines(self) -> Rule:
        if not self.engines and "any" not in self.fix:
            raise ValueError(f"rule {self.id} is for all engines; give a fix for `any`")
        return self

    def fix_for(self, engine: str, recommended_k: int | None = None) -> str:
        """Advice on what to do on an engine."""
        fixes = self.fix_without if recommended_k == 0 and self.fix_without else self.fix
        text = fixes.get(engine) or fixes.get("any") or next(iter(fixes.values()))
        return text.replace("{recommended_k}", str(recommended_k))


class RuleSet(Frozen):
    """The rules of one kind, a file of profiles/diagnosis."""

    id: Kind
    order: int
    question: str = Field(min_length=5)
    """What they answer together."""
    rules: tuple[Rule, ...] = Field(min_length=1)
    spread: Limit | None = None
    """Of physics: how far measured times lie from predicted ones, half-width of an 80 % band in logarithms. [-]"""
    sources: tuple[str, ...]


@lru_cache(maxsize=1)
def rule_sets() -> tuple[RuleSet, ...]:
    """All rules by kind, in the order in which they are asked. Raises AdvisorError for a damaged file."""
    names = profile_ids("diagnosis")
    sets = [load_profile("diagnosis", name, RuleSet, "sets of rules", "see profiles/diagnosis") for name in names]
    return tuple(sorted(sets, key=lambda one: one.order))


def time_spread() -> float:
    """Half-width of the 80 % band of a predicted time, in logarithms. 0 where no rule file states it. [-]"""
    stated = next((one.spread for one in rule_sets() if one.spread is not None), None)
    return float(stated.value or 0.0) if stated is not None else 0.0


def all_rules() -> list[tuple[Kind, Rule]]:
    """Every rule with its kind, in the order in which they are asked."""
    return [(one.id, rule) for one in rule_sets() for rule in one.rules]
