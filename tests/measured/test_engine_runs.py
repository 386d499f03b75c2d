"""What a run of an engine changes, on SYNTHETIC rows (tests/studies/test_engine_designs.py): nothing was measured."""

from __future__ import annotations

import json
import re

import pytest

from advisor.catalog.adjustment import parse_adjustment
from advisor.measured.engine_runs import rows_of_run, use_of_run
from advisor.measured.refit import before_after, curve_groups
from advisor.measured.refit_result import notes
from advisor.prediction import AdvisorError
from tests.command_line import run
from tests.studies.test_engine_designs import write


def test_a_runs_rows_say_what_they_change_and_are_used_by_one_text(tmp_path, capsys):
    (folder,) = write(tmp_path, ("k4",))
    use = use_of_run(folder)
    assert use.result.n_points == 15
    assert use.result.own_errors.after.mape < use.result.own_errors.before.mape
    curves = before_after(use.points, use.result, curve_groups(use.result)[0])
    assert abs(curves.after - curves.before).max() > 0
    assert use.refit is not None
    assert parse_adjustment(use.refit).n_points == 15
    asked = ("--model", folder / "config.json", "--hardware", folder / "hardware.json", "--routing", "uniform")
    asked = ("curve", *asked, "--drafter", "ngram", "--accepted-length", "2@3", "--batches", "4", "--k", "0,3")
    code, out, err = run(capsys, *asked, "--refit", use.refit, "--measured", folder / "data.csv", "--json")
    assert code == 0, err
    refitted, (_, before, _) = json.loads(out), run(capsys, *asked, "--json")
    for row, shipped in zip(refitted, json.loads(before), strict=True):
        assert row["measured_tier"] == "measured"
        emitted = 1 if row["n_draft"] == 0 else 2
        error, unfitted = (abs(emitted * one["tpot_ms"] / row["measured_step_ms"] - 1) for one in (row, shipped))
        assert error < unfitted


def test_a_run_without_rows_to_fit_says_so(tmp_path):
    (folder,) = write(tmp_path, ("k4",))
    table = (folder / "data.csv").read_text()
    (folder / "data.csv").write_text(table.replace(",ok,", ",noisy,"))
    assert rows_of_run(folder).result.rows_refused == 18
    with pytest.raises(AdvisorError, match=r"0 rows can be used.*18 rows refused, not to be fitted"):
        use_of_run(folder)


def test_rows_of_a_model_s_first_layers_stand_for_that_depth_alone(tmp_path):
    (folder,) = write(tmp_path, ("k4",))
    table = (folder / "data.csv").read_text()
    assert not use_of_run(folder).result.few_layers
    (folder / "data.csv").write_text(re.sub(r",$", ",first 8 of 48 layers", table, flags=re.M))
    assert "Rows hold the first 8 of 48 layers: they stand for that depth alone" in " ".join(
        notes(use_of_run(folder).result)
    )


def test_rounds_that_accept_nothing_suggest_no_accepted_length(tmp_path, capsys):
    (folder,) = write(tmp_path, ("k4",))
    code, out, err = run(capsys, "ingest", folder / "data.csv")
    assert code == 0, err
    assert "`fit` can use 15 rows" in out
    assert "--accepted-length" not in out
