"""Phrases and how one is said: the first of its slot whose flags hold, its braces filled.

A brace holds a fact and its form, `{speedup:x}`, or another slot, `{alternative}`. The browser has
the same filler (ui/serve/browser/phrases.js), held to this one by a table of facts and texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.answers.flags import Flags, holds
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.components import BY_KEY
from advisor.prediction import Prediction
from advisor.show.table import capital
from advisor.text import counted, listed, printable

if TYPE_CHECKING:
    from advisor.answers.design.candidates import LawQuality
    from advisor.answers.design.dials import Experts

_MARK = re.compile(r"(?<!\*)\*(?!\*)")
"""Around what the page colors (phrases.js); other media do without."""
_BRACE = re.compile(r"\{(\w+)(?::(\w+))?\}")


@dataclass(frozen=True)
class Phrase:
    """One sentence of a slot.

    On the page a piece between two `*` is colored, and `[label](action)` is a button.
    """

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


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def two_digits(value: float) -> str:
    """Two significant digits of a value in any unit [-], more of them above 100."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.2g}'):g}" if value < 0.1 else f"{value:#.3g}"


def figure_band(value: Prediction) -> str:
    """A figure with its band, `0.522 (0.420-0.728)`."""
    return f"{two_digits(value.value)} ({two_digits(value.low)}-{two_digits(value.high)})"


def ms_band(value: Prediction) -> str:
    """Milliseconds with their band, `5.3 (3.7-8.1)`."""
    return f"{value.value * 1e3:.1f} ({value.low * 1e3:.1f}-{value.high * 1e3:.1f})"


CONSTRAINTS_TEXT: Mapping[str, str] = {
    "quality": "equal quality",
    "activation": "the smallest activation ratio of the law",
    "granularity": "the granularity range of the law",
    "attention_share": "the attention share of active parameters (20-50%)",
    "shared_share": "the largest shared share (1/3)",
    "n_active": "at least two experts per token",
    "total_params": "the limit on total parameters",
    "memory": "memory per GPU at the target batch and context",
    "tpot": "the limit on time per output token",
    "training_cost": "the limit on training compute",
    "total_target": "the target total size",
    "active_target": "the target active size",
}
"""Limits of a design search in words."""
_MOST_TOLD = 2.0
"""Ratios above this are not printed: the laws are then far outside the designs they were fitted on.
[-]"""


def ratio_text(ratio: float, form: str = ".0%") -> str:
    """A size over the baseline's, `>200%` beyond what a law can be trusted to tell."""
    return f">{_MOST_TOLD:{form}}" if ratio > _MOST_TOLD else f"{ratio:{form}}"


def _law(law: LawQuality) -> str:
    # Only here: an answer that speaks of no design does not load the search.
    from advisor.answers.design.candidates import LAW_NAMES

    known = law.low is not None and law.high is not None
    ends = f"{law.low:.0%}-{law.high:.0%}" if known else "no band published"
    return f"{ratio_text(law.ratio)} ({ends}) by {LAW_NAMES[law.law]}"


def _layer(kind: str) -> str:
    words = {
        "linear": "Mamba or linear attention",
        "mla": "latent attention",
        "none": "without attention",
    }
    return words.get(kind, f"{kind} attention")


def counts_text(design: Experts) -> str:
    """Counts of a design as they are typed, `8 of 256 + 1`."""
    shared = f" + {design.n_shared:.3g}" if design.n_shared else ""
    return f"{design.n_active} of {design.n_experts}{shared}"


def mix_text(design: Experts) -> str:
    """Experts of a design, `8 of 256 + 1 shared`."""
    return f"{counts_text(design)}{' shared' if design.n_shared else ''}"


def _differences(cells: tuple[tuple[str, str | None, str | None], ...]) -> str:
    pieces = [
        f"{name} ({theirs or 'not stated'}, here {ours or 'not stated'})"
        for name, theirs, ours in cells
    ]
    return ", ".join(pieces)


def _contexts(cases: tuple[tuple[int, int, int, int, float | None], ...]) -> str:
    pieces = [
        f"with {context:,} tokens at batch {batch:,} K = {k}, where this schedule's {own_k} would "
        + ("miss the limit" if loss is None else f"cost {100 * loss:.1f}%")
        for context, batch, k, own_k, loss in cases
    ]
    return "; ".join(pieces)


def _k_of_words(pairs: Iterable[tuple[str, int | None]]) -> str:
    return ", ".join(f"{word} as {'drafts' if k is None else f'K = {k}'}" for word, k in pairs)


FORMS: dict[str, Callable[[Any], str]] = {
    "": str,
    "x": lambda value: f"{value:.2f}×",
    "x2": lambda value: f"{value:.2f}",
    "1": lambda value: f"{value:.1f}",
    "3": _digits,
    "g": lambda value: f"{value:g}",
    "int": lambda value: f"{value:,.0f}",
    "share": lambda value: "-" if value is None else f"{100 * value:.0f}%",
    "pct": lambda value: f"{round(100 * value) + 0.0:.0f}%",
    "pct1": lambda value: f"{round(100 * value, 1) + 0.0:.1f}%",
    "pct3": lambda value: f"{100 * value:.3g}%",
    "chance": lambda value: f"{100 * min(value, 0.99):.0f}%",
    "tokens": lambda value: counted(value, "token"),
    "drafts": lambda value: counted(value, "draft"),
    "runs": lambda value: counted(value, "published run"),
    "labs": lambda value: counted(value, "laboratory", "laboratories"),
    "gpus": lambda value: counted(value, "GPU"),
    "ranges": _ranges,
    "spans": _spans,
    "k": lambda value: f"K = {value}" if value else "no drafts",
    "2": lambda value: f"{value:.2g}",
    "g3": lambda value: f"{value:.3g}",
    "capital": str.capitalize,
    "inline": lambda value: value[:1].lower() + value[1:],
    "list": " and ".join,
    "jumps": _jumps,
    "mix": mix_text,
    "of": counts_text,
    "active": lambda design: f"{design.n_active}/{design.n_experts}",
    "ranks": lambda pair: f"TP {pair[0]} EP {pair[1]}" if pair[1] > 1 else f"TP {pair[0]}",
    "signed_pct": lambda value: f"{round(value, 2) + 0.0:+.0%}",
    "layers": lambda layers: ", ".join(f"{count} {_layer(kind)}" for kind, count in layers),
    "targets": lambda sizes: " and ".join(f"{size / 1e9:,.4g} B {name}" for name, size in sizes),
    "experts": lambda design: f"{mix_text(design)}, width {design.expert_width:,}",
    "width": lambda design: f"{design.expert_width:,}",
    "by_batch": lambda drafts: "/".join(map(str, dict.fromkeys(drafts))),
    "numbers": lambda values: ", ".join(f"{value:g}" for value in values),
    "billions1": lambda value: f"{value / 1e9:.1f} B",
    "billions2": lambda value: f"{value / 1e9:.2f} B",
    "laws": lambda laws: ", ".join(map(_law, laws)),
    "constraint": CONSTRAINTS_TEXT.__getitem__,
    "constraint_start": lambda name: capital(CONSTRAINTS_TEXT[name]),
    "constraints": lambda names: " and ".join(CONSTRAINTS_TEXT[name] for name in names),
    "model": lambda value: printable(model_name(value)),
    "drafter": drafter_name,
    "band": figure_band,
    "ms_band": ms_band,
    "cases": lambda value: f"{round(100 * value)} of 100 cases",
    "billions": lambda value: f"{value / 1e9:g} B",
    "ordinal": _ordinal,
    "counts": lambda pairs: "; ".join(f"{number} {kind}" for kind, number in pairs),
    "commas": lambda values: ", ".join(map(str, values)),
    "semicolons": lambda texts: "; ".join(texts).rstrip("."),
    "contexts": _contexts,
    "loads": lambda component: BY_KEY[component].loads,
    "ms": lambda value: f"{_digits(1e3 * value)} ms",
    "batch": lambda value: f"{value:,.4g}",
    "batches": lambda values: listed([f"{value:,.4g}" for value in values]),
    "or": lambda values: " or ".join(map(str, values)),
    "checks": lambda value: counted(value, "check"),
    "lines": lambda value: counted(value, "launch line"),
    "spaced": lambda value: value.replace("_", " "),
    "requests": lambda value: str(value or "(requests at a time)"),
    "rows": lambda value: counted(value, "row"),
    "count": lambda pair: counted(*pair),
    "quoted": repr,
    "starts": lambda files: ", ".join(f"{name} from line {line}" for name, line in files),
    "differences": _differences,
    "as": lambda pairs: ", ".join(map(" as ".join, pairs)),
    "k_as": _k_of_words,
}
"""A fact as text, by the form behind its name."""


@dataclass(frozen=True)
class Book:
    """Phrases of a family, and what its flags mean."""

    phrases: tuple[Phrase, ...]
    facts: frozenset[str]
    """Names of the record's fields."""
    flags: Flags

    @classmethod
    def of(cls, *phrases: Phrase, flags: Flags | None = None) -> Book:
        """A book of a few sentences whose facts are put together where they are said.

        Its facts are those that its phrases name; a flag without a rule is a fact that is true.
        """
        words = {flag for phrase in phrases for flag, _ in phrase.flags}
        rules: Flags = {flag: (flag, "==", True) for flag in words} | dict(flags or {})
        slots = {phrase.slot for phrase in phrases}
        facts = {name for phrase in phrases for name, _ in phrase.braces} - slots
        return cls(phrases, frozenset(facts | {name for name, _, _ in rules.values()}), rules)

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

        return _BRACE.sub(of_brace, _MARK.sub("", phrase.say))

    def says(self, slots: Iterable[str], facts: Mapping[str, Any]) -> list[str]:
        """The sentences of some slots, without those that are silent."""
        return [text for text in (self.say(slot, facts) for slot in slots) if text]
