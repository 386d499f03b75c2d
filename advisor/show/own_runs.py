"""Measured runs as a sheet: the verdict's reason, the runs beside the model, and the command of the
K that they decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.answers.advice import Advice
from advisor.answers.diagnosis.verdict import RunsOfK
from advisor.answers.outcome import outcome_of
from advisor.answers.own_gap import SAME_LENGTH, as_measured, own_drafts, own_schedule
from advisor.predict.curve import Curve
from advisor.prediction import Array
from advisor.show.live_answer import launch
from advisor.show.phrases.book import FORMS
from advisor.show.phrases.pages import BOOK
from advisor.show.sheet import (
    Axis,
    Copy,
    Corridor,
    Dot,
    GreyLine,
    Line,
    Plate,
    Sheet,
    Stretch,
    linear_axis,
)
from advisor.show.words.diagnosis import DiagnosisView

Facts = Mapping[str, Any]
Schedule = Sequence[tuple[int, int, int]]
"""An `own_schedule`: (first batch, last, K)."""
_BEYOND = 2.0
"""Last batch drawn over the largest that was measured. [-]"""


def runs_sheet(
    view: DiagnosisView, plate: Plate | None = None, command: Mapping[str, str] | None = None
) -> Sheet:
    """Reason, picture and command of a verdict, without the headline.

    command : of the K that measured runs decide, where the view has none.
    """
    texts = view.texts
    paste = view.command or command
    copy = None if paste is None else Copy(paste["title"], paste["text"], paste["note"])
    blocks = tuple(block for block in (plate, copy) if block is not None)
    below = (GreyLine(texts["below"]),) if texts["below"] and view.verdict.facts["faulty"] else ()
    return Sheet(
        reason=" ".join(filter(None, (texts["short"] or texts["verdict"], texts["cause"]))),
        rows=tuple(row for row in (blocks, below) if row),
    )


def empty_sheet() -> Sheet:
    """Head of the page before anything was given."""
    headline, emphasis, reason = BOOK.says(("empty", "empty_part", "empty_reason"), {})
    return Sheet(headline, emphasis, reason)


def measured_command(advice: Advice, schedule: Schedule) -> Mapping[str, str] | None:
    """The launch command of the K that measured speedups decide. None where they decide nothing."""
    if not schedule:
        return None
    served = as_measured(advice, schedule)
    command = launch(served, outcome_of(served, follows_own=True))
    return command if command["text"] else None


def runs_plate(
    advice: Advice, runs: Sequence[RunsOfK], points: pd.DataFrame | None
) -> Plate | None:
    """Measured runs beside the model, and the K by batch that they decide.

    The model is drawn at that K with its range, and again at the runs' own accepted length.

    runs : those of most runs first; where no speedup was measured, those alone are drawn.
    points : all measured speedups, as `own_points` has them.
    None where the model has no such K.
    """
    gains = runs[0].quantity == "speedup"
    if runs[0].n_draft not in advice.curve.drafts or (gains and points is None):
        return None
    if gains and points is not None:
        points = points[points["n_draft"].isin(advice.curve.drafts)]
        return _gains_plate(advice, runs, points) if len(points) else None
    curve = advice.curve
    here = _drawn(curve, runs[0].points["batch_size"])
    column = curve.column(runs[0].n_draft)
    model = (curve.round_s if runs[0].quantity == "round" else curve.tpot_s)[here, column] * 1e3
    measured = runs[0].points.assign(measured=runs[0].points["measured"] * 1e3, k=runs[0].n_draft)
    facts = _facts(runs)
    y = linear_axis("", np.concatenate([model, measured["measured"]]), FORMS["3"])
    lines = (_model_line(curve.batches[here], model, facts),)
    return _plate(facts, measured.assign(is_kept=True), lines, y)


def _plate(facts: Facts, measured: pd.DataFrame, lines: Sequence[Line], y: Axis) -> Plate:
    """Lines and measured runs; the first line says which batches are drawn."""
    return Plate(
        title=BOOK.say("plate", facts),
        label=BOOK.say("plate_label", facts),
        x=_batch_axis(lines[0], measured["batch_size"]),
        y=y,
        lines=tuple(lines),
        dots=_dots(measured, facts),
        height=320,
    )


def _gains_plate(advice: Advice, runs: Sequence[RunsOfK], points: pd.DataFrame) -> Plate:
    """The plate of speedups."""
    curve = advice.curve
    schedule = own_schedule(points)
    here = _drawn(curve, points["batch_size"])
    batches = curve.batches[here]
    drafts = np.full(int(batches[-1]), runs[0].n_draft)
    if schedule:
        decided = own_drafts(advice, schedule)[: drafts.size]
        drafts[: decided.size] = np.where(decided > 0, decided, drafts[: decided.size])
    columns = np.searchsorted(curve.drafts, drafts[batches.astype(int) - 1])
    rows = np.arange(batches.size)
    model = curve.speedup[here][rows, columns]
    low = curve.low[here][rows, columns]
    high = curve.high[here][rows, columns]
    at_own = model * _own_length(curve, points)[columns]
    facts = _facts(runs, decides=any(k for *_, k in schedule))
    lines = [_model_line(batches, model, facts)]
    if (np.abs(at_own / model - 1.0) > SAME_LENGTH).any():
        lines.append(Line(_pairs(batches, at_own), "own", BOOK.say("plate_own", {}), 1.8, "7 4"))
    at = np.minimum(points["batch_size"].astype(int), drafts.size) - 1
    measured = pd.DataFrame(
        {
            "batch_size": points["batch_size"],
            "k": points["n_draft"],
            "measured": points["speedup"],
            "is_kept": points["n_draft"] == drafts[at],
        }
    )
    values = np.concatenate([low, high, at_own, measured["measured"], [1.0]])
    kept_gains = measured["measured"][measured["is_kept"]]
    facts |= {"kept_low": kept_gains.min(), "kept_high": kept_gains.max()}
    return replace(
        _plate(facts, measured, lines, linear_axis("", values, lambda value: f"{value:g}×")),
        bands=(Corridor(tuple(zip(batches, low, high, strict=True)), "schedule"),),
        level=1.0,
        stretches=_strip(schedule, batches),
        stretches_name=BOOK.say("plate_strip", {}) if schedule else "",
    )


def _drawn(curve: Curve, measured: pd.Series) -> NDArray[np.bool_]:
    """Batches of a curve that are drawn beside measured ones, [nB]."""
    return curve.batches <= max(_BEYOND * float(measured.max()), float(curve.batches[1]))


def _facts(runs: Sequence[RunsOfK], decides: bool = False) -> dict[str, Any]:
    points = pd.concat([each.points for each in runs])
    gap = float(np.exp(np.log(points["measured"] / points["predicted"]).mean())) - 1.0
    counts = {"n_draft": runs[0].n_draft, "n_runs": len(points), "gap": gap}
    return counts | {"quantity": runs[0].quantity, "decides": decides}


def _batch_axis(line: Line, measured: pd.Series) -> Axis:
    ticks = tuple((float(batch), FORMS["batch"](batch)) for batch in sorted(measured.unique()))
    title = BOOK.say("plate_batch", {})
    return Axis(title, line.points[0][0], line.points[-1][0], ticks, log=True)


def _model_line(batches: Array, values: Array, facts: Facts) -> Line:
    return Line(_pairs(batches, values), "schedule", BOOK.say("plate_model", facts), bold=True)


def _pairs(x: Array, y: Array) -> tuple[tuple[float, float], ...]:
    return tuple(zip(map(float, x), map(float, y), strict=True))


def _own_length(curve: Curve, points: pd.DataFrame) -> Array:
    """The runs' accepted length over the curve's at each K, [nK]. 1 where no run states one."""
    lengths = points.groupby("n_draft")["accepted_length"].median()
    ratio = lengths.reindex(curve.drafts).to_numpy(float) / curve.accepted_length
    return np.where(np.isfinite(ratio), ratio, 1.0)


def _dots(measured: pd.DataFrame, facts: Facts) -> tuple[Dot, ...]:
    """A dot for each run, a ring for one of another K than is kept. One is named, a kept one where
    there is any."""
    named_place = measured.sort_values(["is_kept", "batch_size", "measured"]).index[-1]
    return tuple(
        Dot(
            float(row["batch_size"]),
            float(row["measured"]),
            "own",
            BOOK.say("plate_run", {**facts, **row, "batch": row["batch_size"]}),
            "dot" if row["is_kept"] else "ring",
            BOOK.say("plate_yours", {}) if place == named_place else "",
        )
        for place, row in measured.iterrows()
    )


def _strip(schedule: Schedule, batches: Array) -> tuple[Stretch, ...]:
    """K by batch within the axis, each up to where the next begins."""
    starts = [float(first) for first, *_ in schedule]
    ends = [*starts[1:], min(float(schedule[-1][1]), float(batches[-1]))] if schedule else []
    return tuple(
        Stretch(max(start, float(batches[0])), min(end, float(batches[-1])), "own", FORMS["k"](k))
        for start, end, (_, _, k) in zip(starts, ends, schedule, strict=True)
        if start < batches[-1]
    )
