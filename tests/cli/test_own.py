"""Models and accelerators of the user's own, named by path, in `ingest`, `fit`, `predict`,
`validate` and `curve`.

The measured times are SYNTHETIC: a host's 8 ms and time for each token.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.shell_completion import ShellComplete

from advisor.cli import root
from advisor.cli.asked import scenario_from
from advisor.cli.measured_files import read_measured
from advisor.measured.ingest.read import read_upload
from advisor.measured.observations import NAMES, log_predicted
from advisor.measured.own_points import plain_sweep_of
from advisor.measured.points import refit_points
from advisor.measured.refit import refit_chosen, refitted, select_points
from advisor.measured.row_questions import RowQuestion, question_of
from advisor.physics.components import OVERHEADS
from advisor.predict.plain_sweep import parse_sweep
from advisor.predict.setup import touched_in_pass
from advisor.prediction import AdvisorError
from studies.published import seen_by
from tests.golden.sentences import lines_with
from tests.own_model import CONFIG, CONFIG_JSON
from tests.studies.test_engine_designs import HOST

FINE = {**CONFIG, "num_local_experts": 64, "num_experts_per_tok": 4, "intermediate_size": 512}
ROW = {
    "hardware_id": "cpu.json",
    "gpu_count": "1",
    "engine": "vllm",
    "model_id": "mine/config.json",
}
ROW |= {"drafter": "ngram", "context_tokens": "48", "weight_dtype": "bf16", "routing": "uniform"}
ROW |= {"accepted_length_same_run": "1"}
BATCHES = (1, 2, 4, 8, 16, 32)
HOSTS = {one.factor for one in OVERHEADS if one.bound == "host"}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "store.duckdb"))
    (tmp_path / "cpu.json").write_text(json.dumps(HOST))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.json").write_text(json.dumps(FINE))
    return tmp_path


def write(path: Path, **changes: str) -> Path:
    """A file of steps and rounds, `changes` in every row."""
    rows = [
        {
            **ROW,
            "batch_size": batch,
            "draft_tokens_k": k,
            "accepted_length": 1.5 if k else "",
            "step_time_s": 0.008 + 0.001 * batch * (1 + k),
            **changes,
        }
        for batch in BATCHES
        for k in (0, 3)
    ]
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def written(path: Path) -> pd.DataFrame:
    """Rows that `ingest --output` wrote."""
    return read_upload(path.name, path.read_bytes()).result.frame


def own_question(**changes: object) -> RowQuestion:
    own = {"model_config_json": json.dumps(FINE), "hardware_json": json.dumps(HOST)}
    return question_of(
        {**ROW, **own, "draft_tokens_k": 3, "batch_size": 4, "accepted_length": 1.5, **changes}
    )


def touched(**changes: object) -> float:
    asked = own_question(**changes)
    setup = asked.setup()
    return float(touched_in_pass(setup, 4, asked.n_draft + 1))


def test_fit_reads_both_from_paths_in_cells_and_options_where_cells_have_names_or_nothing(
    run, folder
):
    code, out, err = run("fit", write(folder / "a.csv"), "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["hardware_id"], answer["n_points"]) == ("own-two-cores", 2 * len(BATCHES))
    assert answer["own_errors"]["after"]["mape"] < answer["own_errors"]["before"]["mape"]
    file = write(folder / "a.csv", hardware_id="", model_id="colleague's model")
    own = ("--model", folder / "mine/config.json", "--hardware", folder / "cpu.json")
    code, out, err = run("fit", file, *own, "--json")
    assert code == 0, err
    assert json.loads(out)["n_points"] == 2 * len(BATCHES)


@pytest.mark.parametrize("command", ["predict", "validate"])
def test_predict_and_validate_take_paths_in_cells_and_options_alike(run, folder, command):
    named = write(folder / "a.csv", speedup="0.7")
    bare = write(folder / "b.csv", speedup="0.7", hardware_id="", model_id="")
    own = ("--model", folder / "mine/config.json", "--hardware", folder / "cpu.json")
    code, by_cell, err = run(command, named, "--json")
    assert code == 0, err
    _, by_option, _ = run(command, bare, *own, "--json")
    rows = [json.loads(text) for text in (by_cell, by_option)]
    rows = [answer["rows"] if isinstance(answer, dict) else answer for answer in rows]
    speedups = [[row["predicted_speedup"] for row in each] for each in rows]
    assert speedups[0] == speedups[1]
    assert sum(value is not None for value in speedups[0]) >= len(BATCHES)


def test_written_rows_stay_what_was_measured_when_the_configuration_changes(run, folder):
    file = write(folder / "a.csv")
    first = folder / "first.csv"
    second = folder / "second.csv"
    assert run("ingest", file, "--output", first)[0] == 0
    before = refit_points(written(first))[0]
    (folder / "mine/config.json").write_text(CONFIG_JSON)
    after = refit_points(written(first))[0]
    assert len(after) == 2 * len(BATCHES)
    assert [point.scenario for point in after] == [point.scenario for point in before]
    assert {point.setup.architecture.moe.n_experts for point in after} == {64}
    assert run("ingest", file, "--output", second)[0] == 0
    assert {
        point.setup.architecture.moe.n_experts for point in refit_points(written(second))[0]
    } == {8}


def test_two_configurations_of_one_name_stay_two(run, folder):
    for name, config in (("left", FINE), ("right", CONFIG)):
        (folder / name / "mine").mkdir(parents=True)
        (folder / name / "mine/config.json").write_text(json.dumps(config))
        (folder / name / "cpu.json").write_text(json.dumps(HOST))
        write(folder / name / "a.csv")
    files = (folder / "left/a.csv", folder / "right/a.csv")
    assert files[0].read_bytes() == files[1].read_bytes()
    code, out, err = run("fit", *files, "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["n_points"] == 4 * len(BATCHES)
    assert len({row["model_id"] for row in answer["rows"]}) == 2


@pytest.mark.parametrize(
    ("changes", "content", "reason"),
    [
        ({"model_id": "gone/config.json"}, None, "names a file that is neither in"),
        ({"hardware_id": "gone.json"}, None, "names a file that is neither in"),
        ({"model_id": "broken.json"}, "{", "broken.json: line 1, column 2"),
        ({"hardware_id": "broken.json"}, "{", "is not JSON"),
        ({"model_id": "own-secret"}, None, "give its file as well, --model"),
        ({"hardware_id": "own-pod"}, None, "give its file as well, --hardware"),
    ],
)
def test_what_is_wrong_with_a_document_is_one_sentence(run, folder, changes, content, reason):
    if content is not None:
        (folder / "broken.json").write_text(content)
    code, out, err = run("fit", write(folder / "a.csv", **changes))
    assert code == 2
    assert reason in out + err
    assert "Traceback" not in err


def test_rows_with_uniform_routing_are_predicted_with_it():
    natural = touched(routing="natural")
    uniform = touched(routing="uniform")
    assert uniform == pytest.approx(
        64 * (1 - (1 - 4 / 64) ** 16)
    )  # of 4 sequences x 4 tokens, each 4 of 64
    assert natural < uniform


def lawful(path: Path, routing: str) -> Path:
    """SYNTHETIC rows of our own law under that routing, on a host six times as slow as the shipped
    ones."""
    points = refit_points(read_measured([write(path, routing=routing)]))[0]
    theta = np.where([name in HOSTS for name in NAMES], np.log(6.0), 0.0)
    times = {
        (point.batch_size, point.n_draft): np.exp(log_predicted(point.observations, theta)[0])
        for point in points
    }
    table = pd.read_csv(path)
    table["step_time_s"] = [times[row.batch_size, row.draft_tokens_k] for row in table.itertuples()]
    table.to_csv(path, index=False)
    return path


def test_rows_with_uniform_routing_teach_what_natural_rows_need(folder):
    """Called natural, the same rows are explained by slower experts, which no natural row
    has."""
    natural = refit_points(read_measured([lawful(folder / "natural.csv", "natural")]))[0]
    lawful(folder / "uniform.csv", "uniform")
    text = (folder / "uniform.csv").read_text()
    (folder / "mislabelled.csv").write_text(text.replace(",uniform,", ",natural,"))

    def error(name: str) -> float:
        result = refit_chosen(select_points(read_measured([folder / name]))[0])
        after = [
            log_predicted(
                seen_by(point, refitted(point.setup, result)).observations, np.zeros(len(NAMES))
            )[0]
            for point in natural
        ]
        return float(np.mean(np.abs(np.exp(after) / [point.measured for point in natural] - 1.0)))

    assert error("uniform.csv") < 0.02
    assert error("mislabelled.csv") > 5 * error("uniform.csv")


def test_counted_experts_stand_in_for_the_law_in_the_pass_that_was_counted_alone():
    asked = own_question(touched_experts=20)
    setup = asked.setup()
    assert touched(touched_experts=20) == 20.0
    assert float(touched_in_pass(setup, 4, 1)) == pytest.approx(64 * (1 - (1 - 4 / 64) ** 4))
    assert touched(routing="round_robin") == 64.0
    with pytest.raises(AdvisorError, match="give touched_experts"):
        own_question(routing="traced")


def as_profiled(path: Path, status: str) -> Path:
    """The rows as `advisor profile --engine` writes them, every second one of that status."""
    table = pd.read_csv(path).assign(
        touched_law=14.4, tokens_in_step=8, control_ratio=1.02, n_repeats=3, notes="x2.1"
    )
    table["status"] = ["ok", status] * (len(table) // 2)
    table.to_csv(path, index=False)
    return path


def test_rows_that_their_tool_did_not_call_ok_are_refused_and_its_figures_stay_in_the_notes(
    run, folder, golden
):
    file = as_profiled(write(folder / "a.csv"), "noisy")
    code, out, err = run("ingest", file, "--output", folder / "steps.csv")
    assert code == 0, err
    golden(rows_read=lines_with(out, "rows read"))
    golden(noisy_not=lines_with(out, "'noisy': not"))
    assert "ignored" not in out
    assert set(written(folder / "steps.csv")["draft_tokens_k"]) == {0}
    assert (
        written(folder / "steps.csv")["notes"]
        .str.contains("x2.1; touched_law=14.4; control_ratio=1.02")
        .all()
    )


def test_rows_that_were_changed_after_an_engine_wrote_them_are_refused(run, folder, golden):
    """The engine counted 8 tokens in each step and saw the fastest tenth of them, which only one
    file agrees with."""
    changed = as_profiled(write(folder / "a.csv"), "ok")
    _, _, err = run("fit", changed)
    golden(refused=err.strip())
    pd.read_csv(changed).assign(time_p10_s=1.1).to_csv(changed, index=False)
    golden(step_time=lines_with(run("ingest", changed)[2], "12 step_time_s"))
    pd.read_csv(changed).assign(time_p10_s=[1.1, *[None] * 11]).to_csv(changed, index=False)
    printed = run("ingest", changed, "--output", folder / "rest.csv")[1]
    golden(line_2=lines_with(printed, "line 2"))
    assert (written(folder / "rest.csv")["tokens_in_step"] == 8).all(), (
        "the other rows are as they were"
    )


def test_a_refit_is_refused_for_another_accelerator_of_that_name(run, folder, golden):
    refit = folder / "r.refit"
    own = (
        "--model",
        folder / "mine/config.json",
        "--accepted-length",
        "1.5@3",
        "--drafter",
        "ngram",
    )
    code, _, err = run("fit", write(folder / "a.csv"), "--output", refit, "--force")
    assert code == 0, err
    same = (
        *own,
        "--hardware",
        folder / "cpu.json",
        "--refit",
        refit,
        "--routing",
        "uniform",
        "--json",
    )
    code, _, err = run("curve", *same)
    assert code == 0, err
    (folder / "cpu.json").write_text(json.dumps({**HOST, "bandwidth_bytes_per_s": 80e9}))
    code, _, err = run("curve", *same)
    assert code == 2
    golden(other_figures=lines_with(err, "with other"))


def test_a_curve_shows_what_was_measured_of_this_very_model_and_accelerator(run, folder, golden):
    file = write(folder / "a.csv")
    asked = (
        "--model",
        folder / "mine/config.json",
        "--hardware",
        folder / "cpu.json",
        "--routing",
        "uniform",
    )
    asked = (
        "curve",
        *asked,
        "--drafter",
        "ngram",
        "--accepted-length",
        "1.5@3",
        "--batches",
        "2,3",
        "--json",
    )
    code, out, err = run(*asked, "--measured", file)
    assert code == 0, err
    cells = {(row["batch_size"], row["n_draft"]): row for row in json.loads(out)}
    assert cells[2, 3]["measured_step_ms"] == pytest.approx(16.0)
    assert cells[2, 3]["measured_speedup"] == pytest.approx(10 / 16 * 1.5, rel=1e-3)
    assert cells[2, 3]["measured_tier"] == "measured"
    assert cells[3, 3]["measured_tier"] is None
    (folder / "mine/config.json").write_text(CONFIG_JSON)
    other = write(folder / "mine.csv", model_id=str(folder / "elsewhere.json"))
    (folder / "elsewhere.json").write_text(json.dumps(FINE))
    _, out, err = run(*asked, "--measured", other)
    golden(no_row=lines_with(err, "no row"))
    assert not any(row["measured_tier"] for row in json.loads(out))


@pytest.mark.parametrize(
    "place", [{}, {"model_id": "", "hardware_id": ""}], ids=["by path", "not stated"]
)
def test_a_plain_sweep_of_an_own_model_is_found_by_its_document(folder, place):
    scenario = scenario_from(
        {
            "model_id": str(folder / "mine/config.json"),
            "hardware_id": str(folder / "cpu.json"),
            "drafter_id": "ngram",
            "accepted_length": "1.5@3",
            "context_tokens": 48,
        }
    )
    found = parse_sweep(plain_sweep_of(read_measured([write(folder / "a.csv", **place)]), scenario))
    assert found.batches.tolist() == list(BATCHES)
    assert found.step_s == pytest.approx([0.008 + 0.001 * batch for batch in BATCHES])
    (folder / "mine/config.json").write_text(
        CONFIG_JSON
    )  # rows that name it by path are now of another model
    with pytest.raises(AdvisorError, match="0 batches of plain decoding"):
        plain_sweep_of(read_measured([write(folder / "a.csv")]), scenario)


def test_a_shell_completes_commands_models_and_gpus() -> None:
    def offered(*typed: str) -> list[str]:
        shell = ShellComplete(root, {}, "advisor", "_ADVISOR_COMPLETE")
        return [item.value for item in shell.get_completions(list(typed[:-1]), typed[-1])]

    assert offered("adv") == ["advise"]
    assert offered("advise", "gpt-oss-1") == ["gpt-oss-120b"]
    assert offered("curve", "gpt-oss-20b", "--gpus", "8xh200") == ["8xh200-sxm"]
