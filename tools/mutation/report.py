"""The score of a mutation pass: by module, with what was left out and why."""

from __future__ import annotations

import datetime as dt
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.mutation.generate import Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
START = "<!-- mutation scores: python -m tools.mutation --report -->"
END = "<!-- end of mutation scores -->"


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    name: str
    kind: str
    of: int
    """How many mutants of its kind the module has, of which this may be one of a sample."""
    killer: str | None
    """The test of the behaviour that notices it."""
    apart: str | None
    """What else notices a survivor: a golden, or the derivation that `explain` shows."""
    equivalent: bool


@dataclass(frozen=True)
class Equivalent:
    """A change that nothing could see, and why."""

    module: str
    old: str
    """The line, in which `...` stands for anything."""
    new: str
    why: str
    survives: bool
    """Something could see it, and no test does; it counts against the score."""

    def covers(self, module: str, old: str, new: str) -> bool:
        """Whether this is the change that a mutant makes."""
        return module == self.module and literal(self.old, old) and literal(self.new, new)


@functools.cache
def equivalents() -> tuple[Equivalent, ...]:
    """The rows of the table."""
    groups: dict[str, list[dict[str, Any]]] = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8"))
    return tuple(
        Equivalent(module, old, new, group["why"], group.get("survives", False))
        for module, of_module in groups.items()
        for group in of_module
        for old, new in group["changes"]
    )


def is_equivalent(mutant: Mutant) -> bool:
    """Whether the table says that no test could tell this mutant from the source."""
    rows = (row for row in equivalents() if not row.survives)
    return any(row.covers(mutant.module, mutant.old, mutant.new) for row in rows)


def literal(pattern: str, text: str) -> bool:
    """Whether `text` is `pattern`, in which `...` stands for anything and all else for itself."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), text) is not None


@dataclass(frozen=True)
class Score:
    """Of the mutants of one kind in one module, or of several."""

    n: int
    of: int
    equivalent: int
    killed: int
    apart: int

    @classmethod
    def made(cls, outcomes: Sequence[Outcome], kind: str) -> Score:
        """Counts of one module; a mutant that no test could tell counts neither way."""
        rows = [one for one in outcomes if one.kind == kind]
        apart = sum(
            one.killer is None and not one.equivalent and one.apart is not None for one in rows
        )
        equivalent = sum(one.equivalent for one in rows)
        killed = sum(one.killer is not None for one in rows)
        return cls(len(rows), rows[0].of if rows else 0, equivalent, killed, apart)

    @property
    def share(self) -> float:
        """Killed of those that could be. [1]"""
        return self.killed / max(self.n - self.equivalent, 1)

    @property
    def variance(self) -> float:
        """Of the share, for a sample drawn without replacement; 0 where all were run. [1]"""
        kept = self.n - self.equivalent
        if self.n >= self.of or kept < 2:
            return 0.0
        share = (self.killed + 1) / (kept + 2)  # also where every one of the sample was killed
        return share * (1.0 - share) / kept * (self.of - self.n) / (self.of - 1)


def shown(scores: Sequence[Score]) -> list[str]:
    """Mutants run, equivalent, seen by goldens alone, surviving, and the score with its 95 %
    interval where sampled."""
    scores = [one for one in scores if one.n]
    if not scores:
        return ["0", "", "", "", ""]
    n = sum(one.n for one in scores)
    of = sum(one.of for one in scores)
    share = sum(one.share * one.of for one in scores) / of
    half = 1.96 * math.sqrt(sum(one.variance * one.of**2 for one in scores)) / of
    left = sum(one.n - one.equivalent - one.killed - one.apart for one in scores)
    counts = [sum(one.equivalent for one in scores), sum(one.apart for one in scores), left]
    spread = f" (± {half:.0%})" if half else ""
    return [f"{n} of {of}" if n < of else str(n), *map(str, counts), f"{share:.1%}{spread}"]


def score_lines(found: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """The tables of scores, Markdown: one for each kind, the last row over all modules."""
    lines = []
    for kind in ("value", "plumbing"):
        lines += [
            "",
            f"| {kind} | run | equivalent | goldens alone | survive | score |",
            "|---|---|---|---|---|---|",
        ]
        scores = {name: Score.made(outcomes, kind) for name, outcomes in found.items()}
        for name, score in scores.items():
            path = name.removeprefix("advisor.").replace(".", "/")
            lines.append(f"| {path}.py | {' | '.join(shown([score]))} |")
        if len(scores) > 1:
            lines.append(f"| all | {' | '.join(shown(list(scores.values())))} |")
    return lines[1:]


def survivor_lines(found: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """What nothing of the behaviour notices, with the reason where the table has one, Markdown."""
    lines = []
    for module, outcomes in found.items():
        for one in outcomes:
            if one.killer is None and not one.equivalent:
                place, _, change = one.name.partition(": ")
                old, _, new = change.partition("  =>  ")
                why = next(
                    (row.why for row in equivalents() if row.covers(module, old, new)),
                    "not explained",
                )
                apart = f"; seen by {one.apart.rpartition('::')[2]}" if one.apart else ""
                lines += [
                    f"- {place.partition(':')[0]} `{old}` as `{new}`: "
                    f"{why.strip().rstrip('.')}{apart}."
                ]
    return ["Survivors:", "", *lines] if lines else ["No mutant survives."]


def write_scores(file: Path, found: Mapping[str, Sequence[Outcome]]) -> None:
    """Puts the table with today's date between the marks of a document."""
    text = file.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    table = "\n".join([*score_lines(found), "", *survivor_lines(found)])
    said = f"Run on {dt.date.today():%Y-%m-%d}."
    file.write_text(f"{before}{START}\n\n{said}\n\n{table}\n\n{END}{after}", encoding="utf-8")
