"""What the sources that this project started from claim, and what the library answers.

Claims are data (profiles/validation/seeds.yaml). `make seeds` computes ours and, asked to, writes
what it found with the state of each claim (profiles/validation/seeds.json), from which
docs/sources.md and the page Trust are drawn.

A figure holds where ours lies within TOLERANCE of what is published; a direction (at least, at
most) has no tolerance. A claim is reproduced where all of its figures hold, in part where some do,
and disagrees where none does.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import model_validator

from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import MEASUREMENTS, PROFILES, read_made

CLAIMS = PROFILES / "validation" / "seeds.yaml"
FOUND = PROFILES / "validation" / "seeds.json"
CELLS = MEASUREMENTS / "moesd_cells" / "data.csv"
TOLERANCE = 0.10
"""How far ours may lie from a published value and hold: chosen before any claim was judged. [-]"""
SHOWN = 6
"""Figures of a claim that are written out; of more, how many there are and their range. [-]"""
State = Literal["reproduced", "in part", "disagrees", "not testable"]
STATES: tuple[State, ...] = ("reproduced", "in part", "disagrees", "not testable")
COLUMNS = ("source", "claim", "published", "ours", "band", "state", "where")


class Figure(Frozen):
    """One number of a claim: what is published of it, and the name of the quantity that answers."""

    what: str
    ours: str
    value: float | None = None
    between: tuple[float, float] | None = None
    at_least: float | None = None
    at_most: float | None = None
    unit: Literal["", "%"] = ""

    @model_validator(mode="after")
    def _one_of_four(self) -> Figure:
        stated = [
            name
            for name in ("value", "between", "at_least", "at_most")
            if getattr(self, name) is not None
        ]
        if len(stated) != 1:
            raise ValueError(
                f"{self.what}: give one of value, between, at_least, at_most; here are "
                f"{stated or 'none'}"
            )
        return self

    @property
    def accepted(self) -> tuple[float, float]:
        """Least and largest value of ours that hold."""
        if self.at_least is not None:
            return self.at_least, math.inf
        if self.at_most is not None:
            return -math.inf, self.at_most
        low, high = self.between or (self.value or 0.0, self.value or 0.0)
        return low / (1.0 + TOLERANCE), high * (1.0 + TOLERANCE)

    def holds(self, ours: float) -> bool:
        """Whether ours lies where `accepted` says."""
        low, high = self.accepted
        return low <= ours <= high

    @property
    def published(self) -> str:
        """The published figure in words."""
        if self.between is not None:
            return f"{self.shown(self.between[0])} to {self.shown(self.between[1])}"
        if self.value is not None:
            return self.shown(self.value)
        bound = self.at_least if self.at_most is None else self.at_most
        side = "least" if self.at_most is None else "most"
        return f"at {side} {self.shown(bound or 0.0)}"

    def shown(self, value: float) -> str:
        """A value in this figure's unit."""
        return f"{100 * value:.3g} %" if self.unit else f"{value:.4g}"


class Claim(Frozen):
    """A claim of one source. `where`: the screen that answers it. `remark`: what is assumed, what
    is second hand."""

    id: str
    source: str
    claim: str
    where: str
    figures: tuple[Figure, ...] = ()
    cells: Mapping[str, str] = {}
    not_testable: str = ""
    remark: str = ""

    @model_validator(mode="after")
    def _one_of_three(self) -> Claim:
        if sum(map(bool, (self.figures, self.cells, self.not_testable))) != 1:
            raise ValueError(
                f"{self.id}: give figures, cells, or the reason why it is not_testable"
            )
        return self

    def all_figures(self) -> tuple[Figure, ...]:
        """The figures, those of `cells` read from the published table. Raises AdvisorError where it
        lacks them."""
        if not self.cells:
            return self.figures
        with CELLS.open(encoding="utf-8", newline="") as file:
            rows = [
                row
                for row in csv.DictReader(file)
                if all(row[key] == v for key, v in self.cells.items())
            ]
        if not rows:
            raise AdvisorError(
                f"{self.id}: measurements/moesd_cells has no row with {dict(self.cells)}"
            )
        return tuple(
            Figure(
                what=(
                    f"{row['dataset']}, temperature {row['temperature']}, "
                    f"{row['draft_tokens_gamma']} drafts"
                ),
                ours=f"moesd/{row['cell_id']}",
                value=float(row["speedup_peak"]),
            )
            for row in rows
        )


class Ours(Frozen):
    """The library's answer to one figure, with its 80 % band where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


class JudgedClaim(Frozen):
    """A claim beside its answers: the state, and ours by what it is of."""

    state: State
    figures: Mapping[str, Ours] = {}


@lru_cache(maxsize=1)
def read_claims(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """Every claim. Raises AdvisorError for a damaged file and for an id that stands twice."""
    claims = read_made(path, lambda listed: tuple(map(Claim.model_validate, listed)), "correct it")
    twice = {claim.id for claim in claims if sum(other.id == claim.id for other in claims) > 1}
    if twice:
        raise AdvisorError(
            f"profiles/validation/{path.name}: {', '.join(sorted(twice))} stands twice"
        )
    return claims


def read_findings(path: Path = FOUND) -> dict[str, JudgedClaim]:
    """Read what each claim was judged when last written. Raises AdvisorError when that cannot be
    read."""
    return read_made(
        path,
        lambda stored: {name: JudgedClaim.model_validate(entry) for name, entry in stored.items()},
        "run `make seeds WRITE=1`",
    )


def seeds_table(claims: Sequence[Claim], findings: Mapping[str, JudgedClaim]) -> pd.DataFrame:
    """A row a claim, COLUMNS: published, ours, state, where on screen. Raises AdvisorError for one
    never answered."""
    for claim in claims:
        answered = findings[claim.id].figures.keys() if claim.id in findings else None
        if answered != {figure.what for figure in claim.all_figures()}:
            raise AdvisorError(
                f"profiles/validation/seeds.json lacks {claim.id} as it is now; run `make seeds "
                "WRITE=1`"
            )
    rows = [
        (claim.source, claim.claim, *_texts(claim, findings[claim.id]), claim.where)
        for claim in claims
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _texts(claim: Claim, judged: JudgedClaim) -> tuple[str, str, str, str]:
    """Published, ours, band, state."""
    figures = claim.all_figures()
    if not figures:
        return "no figure", claim.not_testable, "", judged.state
    answers = [judged.figures[figure.what] for figure in figures]
    n_held = sum(
        figure.holds(answer.value) for figure, answer in zip(figures, answers, strict=True)
    )
    if len(figures) > SHOWN:
        values = [figure.value or 0.0 for figure in figures]
        peaks = [answer.value for answer in answers]
        inside = sum(
            (answer.low or answer.value) <= value <= (answer.high or answer.value)
            for value, answer in zip(values, answers, strict=True)
        )
        return (
            f"{len(figures)} peaks, {min(values):.2f} to {max(values):.2f}",
            f"{min(peaks):.2f} to {max(peaks):.2f}; {n_held} within {TOLERANCE:.0%}",
            f"{inside} of {len(figures)} published inside",
            judged.state,
        )
    values_text = []
    bands = []
    for figure, answer in zip(figures, answers, strict=True):
        differs = "" if figure.holds(answer.value) else " (differs)"
        values_text.append(f"{figure.shown(answer.value)}{differs}")
        band = (
            "-"
            if answer.low is None or answer.high is None
            else f"{figure.shown(answer.low)} to {figure.shown(answer.high)}"
        )
        bands.append(band)
    published = "; ".join(f"{figure.what}: {figure.published}" for figure in figures)
    return (
        published,
        "; ".join(values_text),
        "; ".join(bands) if {*bands} != {"-"} else "",
        judged.state,
    )
