"""Phrases and how one is said: the first of its slot whose flags hold, its braces filled.

A brace holds a fact and its form, `{speedup:x}`, or another slot, `{alternative}`. The browser has
the same filler (ui/serve/browser/phrases.js), held to this one by a table of facts and texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.answers.flags import Flags, holds
from advisor.text import counted, listed

_BRACE = re.compile(r"\{(\w+)(?::(\w+))?\}")


@dataclass(frozen=True)
class Phrase:
    """One sentence of a slot."""

    slot: str
    when: str
    """Flags that must all hold, `!` before one that must not."""
    say: str

    @property
    def flags(self) -> tuple[tuple[str, bool], ...]:
        """(flag, whether it must hold)."""
        return tuple((word.removeprefix("!"), word[0] != "!") for word in self.when.split())

    @property
    def braces(self) -> tuple[tuple[str, str], ...]:
        """(fact or slot, form) of each brace."""
        return tuple((name, form) for name, form in _BRACE.findall(self.say))


def phrases_of(table: Mapping[str, Mapping[str, str]]) -> tuple[Phrase, ...]:
    """Phrases by slot, and in it by the flags under which each is said."""
    return tuple(
        Phrase(slot, when, say) for slot, says in table.items() for when, say in says.items()
    )


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".") if 0 < abs(value) < 1000 else f"{value:,.0f}"


def _ranges(served: tuple[tuple[int, int, int], ...]) -> str:
    pieces = [
        f"{k} at {first:,}" if first == last else f"{k} at {first:,}–{last:,}"
        for first, last, k in served
    ]
    return ", ".join(pieces)


def _spans(ranges: tuple[tuple[int, int], ...]) -> str:
    return " and ".join(f"{first:,} to {last:,}" for first, last in ranges)


def _jumps(jumps: tuple[tuple[int, int, float], ...]) -> str:
    pieces = [
        f"it jumps {rise:.2g} times from {low:,} to {high:,} sequences" for low, high, rise in jumps
    ]
    return "; ".join(pieces)


FORMS: dict[str, Callable[[Any], str]] = {
    "": str,
    "x": lambda value: f"{value:.2f}×",
    "x2": lambda value: f"{value:.2f}",
    "1": lambda value: f"{value:.1f}",
    "3": _digits,
    "g": lambda value: f"{value:g}",
    "int": lambda value: f"{value:,.0f}",
    "pct": lambda value: f"{100 * value:.0f}%",
    "pct1": lambda value: f"{100 * value:.1f}%",
    "chance": lambda value: f"{100 * min(value, 0.99):.0f}%",
    "tokens": lambda value: counted(value, "token"),
    "runs": lambda value: counted(value, "published run"),
    "gpus": lambda value: counted(value, "GPU"),
    "ranges": _ranges,
    "spans": _spans,
    "k": lambda value: f"K = {value}" if value else "no drafts",
    "2": lambda value: f"{value:.2g}",
    "capital": str.capitalize,
    "list": " and ".join,
    "jumps": _jumps,
    "ms": lambda value: f"{_digits(1e3 * value)} ms",
    "batch": lambda value: f"{value:,.4g}",
    "batches": lambda values: listed([f"{value:,.4g}" for value in values]),
    "or": lambda values: " or ".join(map(str, values)),
    "checks": lambda value: counted(value, "check"),
    "lines": lambda value: counted(value, "launch line"),
    "requests": lambda value: str(value or "(requests at a time)"),
}
"""A fact as text, by the form behind its name."""


@dataclass(frozen=True)
class Book:
    """Phrases of a family, and what its flags mean."""

    phrases: tuple[Phrase, ...]
    facts: frozenset[str]
    """Names of the record's fields."""
    flags: Flags

    def __post_init__(self) -> None:
        slots = {phrase.slot for phrase in self.phrases}
        names = {fact for fact, _, _ in self.flags.values()}
        unknown = names - self.facts
        for phrase in self.phrases:
            unknown |= {flag for flag, _ in phrase.flags} - self.flags.keys()
            unknown |= {name for name, _ in phrase.braces} - self.facts - slots
            unknown |= {form for _, form in phrase.braces} - FORMS.keys()
        if unknown:
            raise ValueError(f"phrases name what no record has: {sorted(unknown)}")

    @property
    def slots(self) -> tuple[str, ...]:
        """Slots in reading order."""
        return tuple(dict.fromkeys(phrase.slot for phrase in self.phrases))

    def phrase(self, slot: str, facts: Mapping[str, Any]) -> Phrase | None:
        """The phrase of a slot that is said. None where the slot is silent."""
        of_slot = (phrase for phrase in self.phrases if phrase.slot == slot)
        return next(
            (
                phrase
                for phrase in of_slot
                if all(holds(self.flags, flag, facts) == wanted for flag, wanted in phrase.flags)
            ),
            None,
        )

    def say(self, slot: str, facts: Mapping[str, Any]) -> str:
        """The sentence of a slot. Empty where it is silent."""
        return " ".join(self._filled(slot, facts).split())

    def _filled(self, slot: str, facts: Mapping[str, Any]) -> str:
        phrase = self.phrase(slot, facts)
        if phrase is None:
            return ""

        def of_brace(brace: re.Match[str]) -> str:
            name = brace[1]
            form = brace[2] or ""
            return FORMS[form](facts[name]) if name in facts else self._filled(name, facts)

        return _BRACE.sub(of_brace, phrase.say)

    def says(self, slots: Iterable[str], facts: Mapping[str, Any]) -> list[str]:
        """The sentences of some slots, without those that are silent."""
        return [text for text in (self.say(slot, facts) for slot in slots) if text]
