"""The score of a mutation pass: by module, with what was left out and why."""

from __future__ import annotations

import datetime as dt
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.mutation.generate import Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
START, END = "<!-- mutation scores: python -m tests.mutation --report -->", "<!-- end of mutation scores -->"


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


@functools.cache
def equivalents() -> list[dict[str, Any]]:
    """Rows of (module, function, old, new, why); `old` and `new` are the line, in which `...` stands for anything."""
    return list(yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8"))) if EQUIVALENT.exists() else []


def is_equivalent(mutant: Mutant) -> bool:
    """Whether the table says that no test could tell this mutant from the source."""
    return any(
        fnmatchcase(mutant.module, row["module"])
        and fnmatchcase(mutant.function, row["function"])
        and literal(row["old"], mutant.old)
        and literal(row["new"], mutant.new)
        for row in equivalents()
    )


def literal(pattern: str, text: str) -> bool:
    """Whether `text` is `pattern`, in which `...` stands for anything and all else for itself."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), text) is not None


def interval(share: float, n: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of a sample of `n` out of `of`; the share itself where all were run."""
    if n >= of or not n:
        return share, share
    z = 1.96 * math.sqrt((of - n) / (of - 1))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def cells(outcomes: Sequence[Outcome], kind: str) -> list[str]:
    """Of one kind: how many were run of how many, equivalent, seen by goldens alone, surviving, and the score."""
    rows = [one for one in outcomes if one.kind == kind]
    if not rows:
        return ["0", "", "", "", ""]
    n, of = len(rows), rows[0].of
    equal = sum(one.equivalent for one in rows)
    killed = sum(one.killer is not None for one in rows)
    apart = sum(one.killer is None and not one.equivalent and one.apart is not None for one in rows)
    left = n - equal - killed - apart
    score = killed / max(n - equal, 1)
    low, high = interval(score, n - equal, of - equal)
    shown = f"{score:.0%}" if low == high else f"{score:.0%} ({low:.0%}-{high:.0%})"
    return [f"{n} of {of}" if n < of else str(n), str(equal), str(apart), str(left), shown]


def score_lines(found: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """The table of scores, Markdown."""
    heads = ["run", "equivalent", "goldens alone", "survive", "score"]
    lines = [f"| module | values: {' | '.join(heads)} | plumbing: {' | '.join(heads)} |", "|---" * 11 + "|"]
    for name, outcomes in found.items():
        path = name.removeprefix("advisor.").replace(".", "/")
        lines.append(f"| {' | '.join([path, *cells(outcomes, 'value'), *cells(outcomes, 'plumbing')])} |")
    return lines


def write_scores(file: Path, found: Mapping[str, Sequence[Outcome]]) -> None:
    """Puts the table with today's date between the marks of a document."""
    text = file.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    table = "\n".join(score_lines(found))
    said = f"Run on {dt.date.today():%Y-%m-%d}."
    file.write_text(f"{before}{START}\n\n{said}\n\n{table}\n\n{END}{after}", encoding="utf-8")
