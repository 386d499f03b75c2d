"""Rules tried on a run: found, clean, or not judged with what is lacking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.diagnosis.facts import Run, fact_words
from advisor.diagnosis.quantities import Value, quantity
from advisor.diagnosis.rules import HOLDS, IN_WORDS, Condition, Kind, Rule, all_rules
from advisor.text import typeset, with_prefix

State = Literal["found", "clean", "not_judged", "not_concerned"]


@dataclass(frozen=True)
class Evidence:
    """One test of a rule: what was measured, and what it was held against."""

    words: str
    value: Value
    unit: str
    test: str
    limit: Value
    source: str

    @property
    def text(self) -> str:
        """Evidence as a sentence fragment, `completed requests per concurrent request 1, below 3`."""
        if isinstance(self.limit, bool):
            return f"{self.words}: {'yes' if self.value else 'no'}"
        shown = f"{self.words} {_shown(self.value, self.unit)}, {self.test} {_shown(self.limit, self.unit)}"
        return typeset(shown)


@dataclass(frozen=True)
class RuleOutcome:
    """Result of one rule on one run."""

    rule: Rule
    kind: Kind
    run: Run
    state: State
    evidence: tuple[Evidence, ...] = ()
    lacks: tuple[str, ...] = ()
    """What it would need, and where that stands."""


def judged(run: Run, rules: Sequence[tuple[Kind, Rule]] | None = None) -> list[RuleOutcome]:
    """Every rule tried on a run. Of the found ones those that another says better are clean."""
    outcomes = [try_rule(rule, kind, run) for kind, rule in (all_rules() if rules is None else rules)]
    named = [one for one in outcomes if one.state == "found"]
    ids = {one.rule.id for one in named}
    # A kind of rules says more only where one of it stays: arms that differ in what a rule of settings names do not.
    found = ids | {one.kind for one in named if not ids & set(one.rule.yields_to)}
    return [
        RuleOutcome(one.rule, one.kind, run, "clean", one.evidence)
        if one.state == "found" and found & set(one.rule.yields_to)
        else one
        for one in outcomes
    ]


def try_rule(rule: Rule, kind: Kind, run: Run) -> RuleOutcome:
    """One rule on one run. A test that fails clears it, whatever is unknown of the others."""
    lacking = _not_concerned(rule, run)
    if lacking is None:
        return RuleOutcome(rule, kind, run, "not_concerned")
    evidence, missing, cleared = [], list(lacking), False
    for test in rule.tests:
        value, limit, needs = _measured(test, run)
        if isinstance(value, str) and not isinstance(limit, str):  # a number that is none
            value = None
        if value is None or limit is None:
            missing += [need for need in needs if not run.has(need)]
            missing += [] if any(not run.has(need) for need in needs) else [f"a run in which {test.quantity} is told"]
            continue
        evidence.append(_evidence(test, value, limit))
        cleared |= not HOLDS[test.test](value, limit)
    if cleared and not lacking:
        return RuleOutcome(rule, kind, run, "clean", tuple(evidence))
    if missing:
        return RuleOutcome(rule, kind, run, "not_judged", tuple(evidence), tuple(dict.fromkeys(map(_words, missing))))
    return RuleOutcome(rule, kind, run, "found", tuple(evidence))


def _words(need: str) -> str:
    return need if " " in need else fact_words(need)


def _not_concerned(rule: Rule, run: Run) -> list[str] | None:
    """None where a rule speaks of other engines or of the other run. Else what is unknown of that."""
    lacking = []
    if rule.engines and run.text("engine") not in rule.engines:
        if run.text("engine"):
            return None
        lacking.append("engine")
    if rule.arm != "any":
        if run.value("draft_tokens_k") is None and run.value("speculation_on") is None:
            lacking.append("draft_tokens_k")
        elif run.drafts != (rule.arm == "speculative"):
            return None
    return lacking


def _measured(test: Condition, run: Run) -> tuple[Value, Value, tuple[str, ...]]:
    """(value, limit, what both need)."""
    tested = quantity(test.quantity)
    if test.limit.of is None:
        return tested.of(run), test.limit.value, tested.needs
    against = quantity(test.limit.of)
    limit = against.of(run)
    if isinstance(limit, int | float) and not isinstance(limit, bool):
        limit = limit * test.limit.times
    return tested.of(run), limit, (*tested.needs, *against.needs)


def _evidence(test: Condition, value: Value, limit: Value) -> Evidence:
    tested = quantity(test.quantity)
    return Evidence(tested.words, value, tested.unit, IN_WORDS[test.test], limit, test.limit.source)


def _shown(value: Value, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or value is None:
        return str(value)
    return with_prefix(float(value), unit) if unit == "s" else f"{value:,.4g}{'' if unit == '1' else f' {unit}'}"
