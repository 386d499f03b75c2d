"""The page Trust as a sheet: predicted against measured, errors by laboratory, what is missed, and
stated chances against kept ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor.answers.track_record import LaboratoryErrors, TrackRecord
from advisor.catalog.hardware import hardware_called
from advisor.measured.refit_result import Errors
from advisor.measured.validation import Gate
from advisor.prediction import Tier
from advisor.show.phrases.book import FORMS
from advisor.show.phrases.pages import BOOK
from advisor.show.sheet import (
    Axis,
    Cell,
    Corridor,
    Dot,
    GreyLine,
    Head,
    Line,
    Mark,
    Plate,
    Row,
    Scale,
    Sheet,
    SheetTable,
)

NEAR = 0.25
"""Error of a prediction that counts as near: shaded. [-]"""
_TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_APART = 0.1
"""Stated chances nearer than this have one name. [-]"""
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def trust_sheet(record: TrackRecord, near: Mapping[str, Errors]) -> Sheet:
    """The first screen of Trust and what stands below it. `near` as in `TrackRecord.facts`."""
    facts = record.facts(near)
    return Sheet(
        headline=BOOK.say("headline", facts),
        emphasis=BOOK.say("emphasis", facts),
        reason=BOOK.say("reason", facts),
        amber=BOOK.say("amber", facts),
        rows=(
            (_predicted(record.judged), _by_laboratory(record.largest)),
            (GreyLine(BOOK.say("others", facts)),),
            (_missed(record.missed), chances_plate(record.chances)),
        ),
    )


def _speedup_axis(title: str, values: pd.Series) -> Axis:
    low = 0.95 * float(values.min())
    high = 1.05 * float(values.max())
    ticks = tuple((tick, f"{tick:g}×") for tick in _TICKS if low <= tick <= high)
    return Axis(title, low, high, ticks, log=True)


def _predicted(judged: pd.DataFrame) -> Plate:
    """Predicted against measured speedup, a dot for each run."""
    x = _speedup_axis("measured", judged["measured"])
    y = _speedup_axis("predicted", judged["predicted_speedup"])
    ends = np.array([max(x.low, y.low / (1.0 - NEAR)), min(x.high, y.high / (1.0 + NEAR))])
    corridor = tuple(zip(ends, (1.0 - NEAR) * ends, (1.0 + NEAR) * ends, strict=True))
    names = _named_runs(judged)
    dots = (
        _run_dot(row, names.get(place, "")) for place, row in enumerate(judged.to_dict("records"))
    )
    within = float((judged["absolute_percentage_error"] <= NEAR).mean())
    facts = {"n": len(judged), "near": NEAR, "within": within}
    return Plate(
        title=BOOK.say("predicted", facts),
        label=BOOK.say("predicted_label", facts),
        x=x,
        y=y,
        lines=(
            Line(tuple(zip(ends, ends, strict=True)), "dense", BOOK.say("corridor", facts), 1.0),
        ),
        bands=(Corridor(corridor, "dense"),),
        dots=tuple(dots),
        marks=(Mark(1.0, "1×"),),
        level=1.0,
        height=320,
    )


def _named_runs(judged: pd.DataFrame) -> dict[int, str]:
    """Places of the runs at which groups are named: those furthest off of each."""
    error = np.log(judged["predicted_speedup"] / judged["measured"]).to_numpy()
    of_sheet = (judged["predicted_tier"] == Tier.ROOFLINE).to_numpy()
    missed = (judged["measured"] < 1.0).to_numpy() & (error > 0.0) & ~of_sheet
    groups = {"of_kernels": (~of_sheet, -error), "of_sheet": (of_sheet, error)}
    groups |= {"not_foreseen": (missed, error)}
    return {
        int(np.argmax(np.where(mask, off, -np.inf))): BOOK.say(slot, {})
        for slot, (mask, off) in groups.items()
        if mask.any()
    }


def _run_dot(row: Mapping[str, Any], name: str) -> Dot:
    facts = {
        "predicted": row["predicted_speedup"],
        "measured": row["measured"],
        "model_id": row["model_id"],
        "accelerator": hardware_called(row["hardware_id"]),
        "batch": row["batch_size"],
        "k": row["draft_tokens_k"],
    }
    color = "published" if row["predicted_tier"] == Tier.ROOFLINE else "schedule"
    title = BOOK.say("run", facts)
    return Dot(row["measured"], row["predicted_speedup"], color, title, "speck", name)


def _by_laboratory(largest: Sequence[LaboratoryErrors]) -> SheetTable:
    """Errors of the laboratories with most runs, a bar each."""
    most = max(laboratory.errors.median_ape or 0.0 for laboratory in largest)
    heads = (
        Head("Laboratory", words=True),
        Head("Runs"),
        Head("Median error", scale=Scale(0.0, most, NEAR), hint=BOOK.say("dashed", {"near": NEAR})),
        Head("Bias"),
        Head("In range"),
    )
    return SheetTable(BOOK.say("by_laboratory", {}), heads, tuple(map(_laboratory_row, largest)))


def _laboratory_row(laboratory: LaboratoryErrors) -> Row:
    errors = laboratory.errors
    error = errors.median_ape or 0.0
    grey = BOOK.say("immature", {}) if laboratory.is_immature else ""
    return Row(
        (
            Cell(laboratory.name, grey),
            Cell(f"{errors.n:,}"),
            Cell(FORMS["pct"](error), range=(0.0, error, error)),
            Cell(FORMS["signed_pct"](errors.bias)),
            Cell(FORMS["share"](errors.coverage)),
        )
    )


def _missed(gates: Sequence[Gate]) -> SheetTable:
    """Every gate that is missed: goal, now, wanted, why and what would close it."""
    heads = (
        Head("Goal", words=True),
        Head("Now"),
        Head("Wanted"),
        Head("Why, and what would close it", words=True),
    )
    return SheetTable(BOOK.say("missed", {}), heads, tuple(map(_gate_row, gates)))


def _gate_row(gate: Gate) -> Row:
    facts = {**vars(gate), **gate.facts}
    now = "" if gate.figure is None else FORMS["pct3"](gate.figure)
    return Row(
        (
            Cell(BOOK.say(f"goal_{gate.key}", facts), bold=True),
            Cell(now),
            Cell(BOOK.say("wanted", facts)),
            Cell(BOOK.say(f"why_{gate.key}", facts)),
        )
    )


def chances_plate(kept: pd.DataFrame) -> Plate:
    """Stated chances of a gain (`chances_kept`) against the share of runs that gained."""
    ticks = tuple((value, FORMS["pct"](value)) for value in _QUARTERS)
    apart = np.diff(kept["stated"], append=np.inf) >= _APART
    dots = tuple(
        Dot(
            row["stated"],
            row["happened"],
            "schedule",
            BOOK.say("kept", row),
            name=BOOK.say("runs_named", row) if is_apart else "",
        )
        for row, is_apart in zip(kept.to_dict("records"), apart, strict=True)
    )
    furthest = kept.loc[(kept["stated"] - kept["happened"]).abs().idxmax()]
    return Plate(
        title=BOOK.say("chances", {}),
        label=BOOK.say("chances_label", furthest.to_dict()),
        x=Axis(BOOK.say("stated_axis", {}), 0.0, 1.0, ticks),
        y=Axis(BOOK.say("gained_axis", {}), 0.0, 1.0, ticks),
        lines=(Line(((0.0, 0.0), (1.0, 1.0)), "dense", BOOK.say("calibrated", {}), 1.0),),
        dots=dots,
    )
