"""What a run of an engine changes, on SYNTHETIC rows (tests/studies/test_engine_designs.py):
nothing was measured."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from advisor.catalog.adjustment import parse_adjustment
from advisor.measured.profiler_runs import rows_of_run, use_of_run
from advisor.measured.refit import before_after, curve_groups, refit_chosen, select_points
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from advisor.profiling.engine.command import _next
from advisor.profiling.engine.plan import Plan
from advisor.profiling.engine.runner import Outcome
from advisor.show.words.refit import notes
from tests.golden.sentences import lines_with
from tests.studies.test_engine_designs import write


def test_a_runs_rows_say_what_they_change_and_are_used_by_one_text(tmp_path, run):
    (folder,) = write(tmp_path, ("k4",))
    use = use_of_run(folder)
    assert use.result.n_points == 15
    assert use.result.own_errors.after.mape < use.result.own_errors.before.mape
    curves = before_after(use.points, use.result, curve_groups(use.result)[0])
    assert abs(curves.after - curves.before).max() > 0
    assert use.refit is not None
    assert parse_adjustment(use.refit).n_points == 15
    asked = curve_of(folder)
    code, out, err = run(*asked, "--refit", use.refit, "--measured", folder / "data.csv", "--json")
    assert code == 0, err
    refitted = json.loads(out)
    (_, before, _) = run(*asked, "--json")
    for row, shipped in zip(refitted, json.loads(before), strict=True):
        assert row["measured_tier"] == "measured"
        emitted = 1 if row["n_draft"] == 0 else 2
        error = abs(emitted * row["tpot_ms"] / row["measured_step_ms"] - 1)
        unfitted = abs(emitted * shipped["tpot_ms"] / row["measured_step_ms"] - 1)
        assert error < unfitted


def commands_of(text):
    """Commands that a text prints to be copied, as words without the program."""
    said = r"(?:python -m |`|^)advisor ((?:curve|fit|advise|diagnose|ingest) .*?)(?:`|$)"
    return [
        shlex.split(words, comments=True)
        for words in re.findall(said, text.replace("\\\n", " "), re.M)
    ]


@pytest.mark.parametrize("made", [False, True])
def test_every_command_that_a_run_prints_runs_as_printed(made, tmp_path, run, monkeypatch):
    """Of rows that an engine left here (measurements/engine_cpu_2_k4), and of made ones, from where
    they lie."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(
        write(tmp_path, ("k4",))[0] if made else MEASUREMENTS / "engine_cpu_2_k4", "mine"
    )
    plan = Plan(
        json.loads(Path("mine/config.json").read_text()),
        "mine",
        drafts=(0, 1, 3),
        hardware="hardware.json",
    )
    outcome = Outcome("complete", (), {"ok": 18}, "mine", 1.0)
    left = commands_of("\n".join(_next(plan, outcome, "python -m advisor", ["--engine", "vllm"])))
    assert [words[0] for words in left] == ["curve", "fit"]
    left += [
        ["ingest", "mine/data.csv"],
        ["diagnose", "mine/data.csv"],
        ["advise", "--plain-sweep", "mine"],
    ]
    left[-1] += [*left[0][1:5], "--context", "39", "--drafter", "ngram", "--accepted-length", "2@3"]
    ran = []
    while left:
        ran.append(words := left.pop(0))
        code, out, err = run(*words)
        assert code == 0, (words, err)
        assert "not predicted" not in out
        assert words[0] != "ingest" or "--accepted-length" not in out, "its rounds accept nothing"
        left += [
            one for one in commands_of(out.partition("Next:")[2]) if one not in ran and len(ran) < 8
        ]
        left += (
            [[*ran[0], "--refit", words[words.index("--output") + 1]]] if words[0] == "fit" else []
        )
    assert {"curve", "fit", "advise", "diagnose", "ingest"} == {words[0] for words in ran}


def curve_of(folder):
    asked = (
        "--model",
        folder / "config.json",
        "--hardware",
        folder / "hardware.json",
        "--routing",
        "uniform",
    )
    return (
        "curve",
        *asked,
        "--drafter",
        "ngram",
        "--accepted-length",
        "2@3",
        "--batches",
        "4",
        "--k",
        "0,3",
    )


def test_a_run_without_rows_to_fit_says_so(tmp_path, run, golden):
    (folder,) = write(tmp_path, ("k4",))
    table = (folder / "data.csv").read_text()
    (folder / "data.csv").write_text(table.replace(",ok,", ",noisy,"))
    assert rows_of_run(folder).result.rows_refused == 18
    assert "advisor fit" not in run("ingest", folder / "data.csv")[1]
    asked = ("profile", "--engine", "vllm", "--model", folder, "--plan", "--hardware")
    assert run(*asked, "H200")[0] == 0
    golden(nosuchgpu_not=lines_with(run(*asked, "nosuchgpu")[2], "'nosuchgpu' is"))
    with pytest.raises(
        AdvisorError, match=r"0 rows can be used.*18 rows refused, not to be fitted"
    ):
        use_of_run(folder)


def test_rows_of_another_runner_are_refitted_by_themselves(tmp_path, golden):
    (folder,) = write(tmp_path, ("k4",))
    table = pd.read_csv(folder / "data.csv")
    table["runner"] = ["vllm.V1"] * 12 + ["vllm.V2"] * (len(table) - 12)
    table.to_csv(folder / "data.csv", index=False)
    others = [one.reason for one in use_of_run(folder).result.refused if "by itself" in one.reason]
    assert len(others) in range(1, 7)
    golden(runner_vllm=lines_with(others[0], "runner=vllm"))


def test_few_rows_that_others_do_not_tell_ask_for_batches_between(tmp_path, golden):
    (folder,) = write(tmp_path, ("k4",))
    frame = rows_of_run(folder).result.frame
    few = frame[frame["batch_size"].isin([1, 16]) & frame["draft_tokens_k"].isin([0, 3])]
    few = few.assign(step_time_s=few["step_time_s"] * [1.0, 3.0, 0.4, 1.5])
    result = refit_chosen(select_points(few)[0])
    golden(measure_these=lines_with(" ".join(result.reasons_against), "Measure these"))


def test_rows_carried_from_a_model_s_first_layers_say_so(tmp_path, run):
    (folder,) = write(tmp_path, ("k4",))
    table = (folder / "data.csv").read_text()
    assert not use_of_run(folder).result.few_layers
    (folder / "data.csv").write_text(
        re.sub(r",$", ",line through the first 8 and 16 of 48 layers", table, flags=re.M)
    )
    line = "line through the first 8 and 16 of 48 layers"
    assert f"Rows lie on the {line}: no whole" in " ".join(notes(use_of_run(folder).result))
    _, out, err = run(*curve_of(folder), "--measured", folder / "data.csv", "--json")
    assert line in err
    assert {row["measured_tier"] for row in json.loads(out)} == {"fitted"}
