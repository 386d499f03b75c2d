"""Trust as a sheet: its figures are the gates', its dots are the judged runs, and every missed gate
says why."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.track_record import SHOWN_LABORATORIES, track_record
from advisor.measured.observations import laboratories
from advisor.measured.refit_result import Errors
from advisor.measured.validation import read_gates, read_judged, read_prospective
from advisor.show.phrases.pages import BOOK
from advisor.show.sheet import Plate, SheetTable
from advisor.show.track_record import NEAR, trust_sheet
from studies.validation.report import REPORT, data_hash
from studies.validation.tables import percent

RECORD = track_record()


def test_the_gates_are_those_of_the_document() -> None:
    behind, gates = read_gates()
    assert behind == data_hash(), "stale; run `make validation`"
    text = REPORT.read_text(encoding="utf-8")
    assert all(f"| {percent(gate.figure)} |" in text for gate in gates)
    missed = text.split("## Gates")[1].split("## ")[0].count("| missed")
    of_rounds = [gate for gate in gates if gate.key == "range"]
    assert sum(gate.status == "missed" for gate in gates if gate not in of_rounds) == missed


def test_every_gate_has_a_goal_and_a_missed_one_says_why() -> None:
    for gate in read_gates()[1]:
        facts = vars(gate) | gate.facts
        assert BOOK.say(f"goal_{gate.key}", facts)
        assert gate.status != "missed" or BOOK.say(f"why_{gate.key}", facts)


def test_one_share_of_slowdowns_and_one_prospective_figure_stand_on_the_page() -> None:
    figures = {gate.key: gate.figure for gate in read_gates()[1]}
    facts = RECORD.facts({})
    assert facts["slow_foreseen"] == pytest.approx(figures["slowdowns"], rel=1e-4)
    assert facts["range_held"] == pytest.approx(figures["range"], rel=1e-4)
    sheet = trust_sheet(RECORD, {})
    assert sheet.emphasis in sheet.headline
    assert f"{read_prospective().rows} runs" in sheet.headline
    assert "Nearest" not in sheet.reason
    near = {"this accelerator and model": Errors(21, median_ape=0.1, coverage=0.9, n_sources=1)}
    assert "21 runs of 1 laboratory, median error 10%" in trust_sheet(RECORD, near).reason


def test_each_judged_run_is_a_dot_and_each_laboratory_a_row_or_in_the_sentence() -> None:
    judged = read_judged()[1]
    rows = trust_sheet(RECORD, {}).rows
    plate, table = rows[0]
    assert isinstance(plate, Plate)
    assert isinstance(table, SheetTable)
    assert [(dot.x, dot.y) for dot in plate.dots] == list(
        zip(judged["measured"], judged["predicted_speedup"], strict=True)
    )
    within = (np.abs(judged["predicted_speedup"] / judged["measured"] - 1.0) <= NEAR).mean()
    assert f"{100 * within:.0f}% lie within 25%" in plate.label
    counts = [int(row.cells[1].text) for row in table.rows]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == SHOWN_LABORATORIES
    assert sum(counts) + RECORD.rest.n == len(judged)
    assert len(counts) + (RECORD.rest.n_sources or 0) == RECORD.left_out.n_sources


def test_the_laboratory_of_one_person_has_the_name_of_its_repository() -> None:
    names = {row.name for row in RECORD.largest}
    for laboratory in laboratories().values():
        if laboratory.repository:
            assert laboratory.name not in names
            assert "/" in laboratory.repository
    assert "seonjinn/RL" in names
