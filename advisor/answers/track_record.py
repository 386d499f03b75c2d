"""How right predictions were: of laboratories scored before use, of each laboratory left out of the
constants, and which gates that misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from advisor.answers.flags import Flags
from advisor.answers.summary import nearest_errors
from advisor.measured.observations import laboratories, laboratory_of_row
from advisor.measured.refit_result import Errors
from advisor.measured.validation import (
    Gate,
    Prospective,
    chances_kept,
    judged_errors,
    read_gates,
    read_judged,
    read_prospective,
)

SHOWN_LABORATORIES = 9
FLAGS: Flags = {
    "near": ("near_n", "known", None),
    "rest": ("rest_n", ">", 0),
    "at_most": ("at_most", "==", True),
}
"""What phrases ask of a track record and of its gates."""


@dataclass(frozen=True)
class LaboratoryErrors:
    """Errors of one laboratory, left out of the constants."""

    name: str
    """The repository of one person."""
    is_immature: bool
    """Whether its serving stack is called so."""
    errors: Errors


@dataclass(frozen=True, eq=False)
class TrackRecord:
    """Figures of what was predicted and measured."""

    prospective: Prospective
    left_out: Errors
    """Of all judged runs, every laboratory alike."""
    slowdowns: int
    """Judged runs below 1. [-]"""
    largest: tuple[LaboratoryErrors, ...]
    """The laboratories with most runs."""
    rest: Errors
    """Of the other laboratories."""
    missed: tuple[Gate, ...]
    chances: pd.DataFrame
    """`chances_kept`."""
    judged: pd.DataFrame
    """Published runs with measured and predicted speedups, as `read_judged` has them."""

    def facts(self, near: Mapping[str, Errors]) -> dict[str, Any]:
        """Facts by name, as phrases ask for them. `near`: errors of groups of runs, those nearest
        to a scenario first."""
        group, nearest = nearest_errors(near) or ("", Errors(0))
        return {
            **self.prospective._asdict(),
            "left_n": self.left_out.n,
            "left_error": self.left_out.mape,
            "left_held": self.left_out.coverage,
            "slow_n": self.slowdowns,
            "slow_foreseen": self.left_out.sign_accuracy_below_one,
            "near_group": group,
            "near_n": nearest.n or None,
            "near_laboratories": nearest.n_sources,
            "near_error": nearest.median_ape,
            "near_held": nearest.coverage,
            "rest_n": self.rest.n,
            "rest_laboratories": self.rest.n_sources,
            "rest_error": self.rest.median_ape,
        }


def track_record() -> TrackRecord:
    """Figures of all shipped judged runs. Raises AdvisorError where they cannot be read."""
    judged = read_judged()[1]
    names = judged.apply(laboratory_of_row, axis=1)
    sizes = names.value_counts()
    largest = tuple(
        _of_laboratory(str(name), judged[names == name])
        for name in sizes.index[:SHOWN_LABORATORIES]
    )
    rest = judged[~names.isin(sizes.index[:SHOWN_LABORATORIES])]
    return TrackRecord(
        prospective=read_prospective(),
        left_out=judged_errors(judged),
        slowdowns=int((judged["measured"] < 1.0).sum()),
        largest=largest,
        rest=judged_errors(rest),
        missed=tuple(gate for gate in read_gates()[1] if gate.status == "missed"),
        chances=chances_kept(judged),
        judged=judged,
    )


def _of_laboratory(name: str, rows: pd.DataFrame) -> LaboratoryErrors:
    listed = laboratories().get(name)
    if listed is None:
        return LaboratoryErrors(name, False, judged_errors(rows))
    return LaboratoryErrors(listed.repository or name, bool(listed.immature), judged_errors(rows))
