"""Measured runs as a sheet: what is drawn was measured, and one K stands in points, strip and
command."""

from __future__ import annotations

import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.answers.diagnosis.verdict import RunsOfK
from advisor.answers.own_gap import own_schedule
from advisor.predict.scenario import Scenario
from advisor.show.own_runs import measured_command, runs_plate

ADVICE = advise(Scenario(acceptance="2.4@3"))
POINTS = pd.DataFrame(
    {
        "batch_size": [1.0, 1.0, 8.0, 8.0, 64.0, 64.0],
        "n_draft": [1, 3, 1, 3, 1, 3],
        "speedup": [1.2, 1.7, 1.3, 1.6, 1.4, 1.1],
        "accepted_length": [1.6, 2.0, 1.6, 2.0, 1.6, 2.0],
        "decides": True,
    }
)
"""MADE-UP runs: K = 3 gains most up to batch 8, K = 1 at 64."""


def of_k(n_draft: int, quantity: str = "speedup") -> RunsOfK:
    rows = POINTS[POINTS["n_draft"] == n_draft]
    points = rows.assign(measured=rows["speedup"], predicted=rows["speedup"] / 1.1)
    return RunsOfK(n_draft, quantity, points[["batch_size", "measured", "predicted"]])


def test_kept_runs_are_dots_and_the_strip_and_the_command_have_their_k() -> None:
    plate = runs_plate(ADVICE, [of_k(3), of_k(1)], POINTS)
    assert plate is not None
    assert [(dot.x, dot.y) for dot in plate.dots] == list(
        zip(POINTS["batch_size"], POINTS["speedup"], strict=True)
    )
    assert [dot.shape for dot in plate.dots] == ["ring", "dot", "ring", "dot", "dot", "ring"]
    assert sum(bool(dot.name) for dot in plate.dots) == 1
    schedule = own_schedule(POINTS)
    assert [stretch.name for stretch in plate.stretches] == [f"K = {k}" for *_, k in schedule]
    assert all(
        before.end == after.start
        for before, after in zip(plate.stretches, plate.stretches[1:], strict=False)
    )
    assert "+10% from" in plate.label
    command = measured_command(ADVICE, schedule)
    assert command is not None
    first, last, k = schedule[0]
    assert f"[[{first},{last},{k}],[{last + 1}," in command["text"].replace("\n", "")
    assert measured_command(ADVICE, ()) is None


def test_the_model_at_the_runs_own_length_is_the_model_times_their_lengths() -> None:
    plate = runs_plate(ADVICE, [of_k(3)], POINTS[POINTS["n_draft"] == 3])
    assert plate is not None
    model, at_own = plate.lines
    curve = ADVICE.curve
    column = curve.column(3)
    share = 2.0 / curve.accepted_length[column]
    first = [line.points[0][1] for line in (model, at_own)]
    assert first[0] == pytest.approx(curve.speedup[0, column])
    assert first[1] == pytest.approx(share * first[0])
    same = POINTS.assign(accepted_length=curve.accepted_length[POINTS["n_draft"]])
    drawn = runs_plate(ADVICE, [of_k(3)], same)
    assert drawn is not None
    assert len(drawn.lines) == 1


def test_times_are_drawn_in_milliseconds_without_a_strip_and_an_unknown_k_not_at_all() -> None:
    plate = runs_plate(ADVICE, [of_k(3, "round")], None)
    assert plate is not None
    assert [dot.y for dot in plate.dots] == pytest.approx([1700.0, 1600.0, 1100.0])
    assert plate.lines[0].points[0][1] == pytest.approx(
        1e3 * ADVICE.curve.round_s[0, ADVICE.curve.column(3)]
    )
    assert not plate.stretches
    unknown = RunsOfK(99, "speedup", of_k(3).points)
    assert runs_plate(ADVICE, [unknown], POINTS) is None
