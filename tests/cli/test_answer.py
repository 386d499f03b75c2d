"""One line in, thirty lines out: the short forms of a scenario, and the short answer's lines, width
and command."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import MAY_LOSE
from advisor.answers.explore.changes import GOALS
from advisor.answers.outcome import outcome_of
from advisor.catalog.adjustment import JOINT_PAIRS
from advisor.catalog.hardware import hardware_named
from advisor.cli.advise import GOALS as OFFERED
from advisor.cli.asked import scenario_from
from advisor.cli.output import print_table
from advisor.measured.published import runs_beside
from advisor.predict.scenario import (
    Scenario,
    nearest_acceptance,
    usual_drafter,
    usual_tensor_parallel,
)
from advisor.prediction import AdvisorError
from advisor.show.report.build import build_report
from advisor.show.table import Table
from advisor.show.words.answer import DRAFTS, LINES, WIDTH, shell_lines, short_answer
from tests.command_line import Run
from tests.golden.terminal import BOTH_WIDTHS, COLUMNS, COMMANDS, file, page

SHORT = ("deepseek-ai/DeepSeek-V3", "--gpus", "8xH200", "--batch", "32")


def test_a_model_s_name_and_its_gpus_are_a_scenario(run: Run) -> None:
    code, out, err = run("advise", *SHORT, "--engine", "sglang", "--json")
    scenario = json.loads(out)["scenario"]
    assert code == 0
    assert {
        name: scenario[name]
        for name in ("model_id", "hardware_id", "n_gpus", "tensor_parallel", "drafter_id")
    } == {
        "model_id": "deepseek-v3",
        "hardware_id": "h200-sxm",
        "n_gpus": 8,
        "tensor_parallel": 8,
        "drafter_id": "mtp",
    }
    assert scenario["acceptance"] == nearest_acceptance("deepseek-v3", "mtp")
    assert err.startswith("assumed: TP 8; ")
    assert "DeepSeek-R1" in err


def test_what_is_typed_is_not_assumed(run: Run) -> None:
    typed = ("--tp", "4", "--drafter", "eagle3", "--accepted-length", "2.4@3")
    code, out, err = run("advise", *SHORT, *typed, "--json")
    scenario = json.loads(out)["scenario"]
    assert (code, err) == (0, "")
    assert (scenario["tensor_parallel"], scenario["drafter_id"], scenario["acceptance"]) == (
        4,
        "eagle3",
        "2.4@3",
    )


@pytest.mark.parametrize("command", ["curve", "schedule", "explain", "export"])
def test_the_other_commands_take_the_same_forms(run: Run, command: str, tmp_path: str) -> None:
    more = ("--engine", "sglang", "--output", tmp_path) if command == "export" else ("--json",)
    code, out, err = run(command, *SHORT, *more)
    assert code == 0, err
    assert out
    assert err.startswith("assumed: ")


def test_a_format_in_the_name_is_the_scenario_s() -> None:
    assert (
        scenario_from({"model_id": "Qwen/Qwen3-30B-A3B-FP8", "hardware_id": "h200"}).weight_dtype
        == "fp8_block"
    )
    assert (
        scenario_from({"model_id": "Qwen/Qwen3-30B-A3B", "hardware_id": "h200"}).weight_dtype
        is None
    )
    typed = {"model_id": "Qwen/Qwen3-30B-A3B-FP8", "hardware_id": "h200", "weight_dtype": "bf16"}
    assert scenario_from(typed).weight_dtype == "bf16"


def test_accelerators_go_by_the_names_people_use() -> None:
    assert [
        hardware_named(name)
        for name in ("H200", "NVIDIA B200", "h200-sxm", "RTX 4090", "mi300x", "l40")
    ] == [*("h200-sxm", "b200-sxm", "h200-sxm", "rtx-4090", "mi300x", "l40")]
    assert hardware_named("no-such") == "no-such"
    assert [hardware_named(name) for name in ("H100", "A100", "A100 80GB")] == [
        "h100-sxm",
        *["a100-80gb-sxm"] * 2,
    ]
    with pytest.raises(AdvisorError, match=r"rtx-3090, rtx-4090.*; say which"):
        hardware_named("RTX")


def test_what_a_short_name_or_number_leaves_open_is_taken_and_said(run: Run) -> None:
    short = "curve gpt-oss-20b --gpus 1xH100 --accepted-length 2.6 --batches 1k --drafter eagle3"
    exact = (
        "curve gpt-oss-20b --gpus 1xh100-sxm --accepted-length 2.6@3 --batches 1000 --drafter "
        "eagle3"
    )
    (_, out, err), (_, told, silent) = run(*short.split()), run(*exact.split())
    assert out == told
    assert "assumed: H100 is H100 SXM5 · 80 GiB (others: h100-nvl, h100-pcie)" in err
    assert "assumed: --accepted-length 2.6 counts the tokens a round yields" in err
    assert "assumed" not in silent


@pytest.mark.parametrize(
    "command",
    [
        "advise qwen3-30b-a3b --gpus 1xH200 --batch 32 --accepted-length 2.4@3",
        (
            "explore gpt-oss-20b --vary gpus=1xH200,1xB200 --vary batch=1,16 --engine sglang "
            "--accepted-length 2.4@3"
        ),
        "explore gpt-oss-20b --gpus 1xH200 --vary context=2k,8k",
        "explore gpt-oss-20b qwen3-30b-a3b --gpus 1xH200",
        "explore --models gpt-oss-20b --gpus 2xH200 --users 8",
        "schedule qwen3-30b-a3b --gpus 1xH200 --engine sglang",
    ],
)
def test_the_commands_that_an_answer_names_work_as_they_stand(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run(*command.split())[1].split("\nNext")[1].replace("\\\n", " ")
    following = [
        line.partition("#")[0].split()
        for line in shown.splitlines()
        if line.startswith("  advisor ")
    ]
    assert following
    for words in following:
        code, _, err = run(*words[1:])
        assert code == 0, err


def test_no_launch_command_stands_beside_a_batch_that_does_not_fit(run: Run) -> None:
    asked = (
        "advise qwen3-30b-a3b --gpus 1xh100-sxm --engine sglang --drafter eagle3 "
        "--accepted-length 2.6@3 --batch"
    )
    _, out, _ = run(*asked.split(), "128")
    at_most = re.search(
        r"No launch command: batch 128 does not fit. For at most (\d+) at once: --batch \1\.", out
    )
    assert "launch_server" not in out
    assert "launch_server" in run(*asked.split(), at_most[1])[1]
    wider = re.search(r"\n  advisor (advise .*)# it fits", out.replace("\\\n", " "))
    assert "launch_server" in run(*wider[1].split())[1]
    values = {
        "model_id": "qwen3-30b-a3b",
        "hardware_id": "h100-sxm",
        "engine": "sglang",
        "batch_size": 128,
    }
    report = build_report(advise(scenario_from(values)), dt.date(2026, 1, 1))
    assert [(one.launch_line, "does not fit" in one.problem) for one in report.engines] == [
        ("", True)
    ] * 2


def test_a_forced_refit_is_marked_wherever_its_numbers_stand(run: Run) -> None:
    pairs = "/".join(["0.000"] * len(JOINT_PAIRS))
    refit = f"on=h200-sxm/vllm/vllm;n=4;data=0123456789ab;host=1.1/0.1;corr={pairs}"
    where = ("gpt-oss-20b", "--gpus", "1xh200-sxm", "--engine", "vllm", "--refit")
    for forced, text in ((True, f"{refit};forced=1"), (False, refit)):
        said = "Your refit was rejected by its checks and is forced"
        assert (said in run("advise", *where, text)[1]) is forced
        assert (", refit forced" in run("advise", *where, text)[1].splitlines()[0]) is forced
        assert (
            any(
                said in one
                for one in json.loads(run("advise", *where, text, "--json")[1])["warnings"]
            )
            is forced
        )
        assert (said in run("curve", *where, text)[2]) is forced


def test_the_example_of_the_refusal_works(run: Run) -> None:
    _, _, err = run("curve")
    example = shlex.split(err.split("`")[1])
    assert run(*example[1:])[0] == 0


def test_one_instance_spans_the_gpus_of_a_node() -> None:
    assert [usual_tensor_parallel(gpus, 8) for gpus in (1, 4, 8, 16, 12)] == [1, 4, 8, 8, 4]


@pytest.mark.parametrize(
    ("model_id", "drafter_id"),
    [
        ("deepseek-v3", "mtp"),
        ("qwen3.5-35b-a3b", "mtp"),
        ("gemma-4-26b-a4b", "mtp"),
        ("kimi-k3", "dspark"),
        ("deepseek-v4.1-flash", "dspark"),
        ("gpt-oss-20b", "eagle3"),
        ("qwen3-30b-a3b", "eagle3"),
    ],
)
def test_the_usual_drafter_ships_with_the_model_or_stands_in_its_recipe(
    model_id: str, drafter_id: str
) -> None:
    assert usual_drafter(model_id) == drafter_id


ANSWERED = [
    (model, gpus, engine)
    for model, gpus in (
        ("deepseek-v3", "8xh200-sxm"),
        ("gpt-oss-20b", "1xh200-sxm"),
        ("mixtral-8x7b", "2xmi300x"),
    )
    for engine in ("vllm", "sglang", "trtllm")
    if (engine, gpus) != ("trtllm", "2xmi300x")
]


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(("model", "gpus", "engine"), ANSWERED, ids=str)
def test_an_answer_is_short_and_narrow(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    model: str,
    gpus: str,
    engine: str,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(tmp_path)
    code, out, err = run("advise", model, "--gpus", gpus, "--engine", engine, "--batch", "32")
    lines = out.splitlines()
    assert code == 0, err
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= min(width, WIDTH)
    assert any("recommended" in line for line in lines)


def test_an_answer_s_command_is_pasted_as_it_stands(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine is started with the arguments, and finds the file, that `export` writes."""
    asked = ["glm-4.5", "--gpus", "8xh200-sxm", "--engine", "sglang", "--batch", "64"]
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    text = run("advise", *asked)[1].partition("\nLaunch:\n")[2].partition("\n\n")[0]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["sh", "-c", text], check=True, env=environment)
    assert run("export", *asked, "--output", "out")[0] == 0
    name = "sglang_speculative_adaptive.json"
    assert json.loads(Path(name).read_text()) == json.loads(Path("out", name).read_text())
    written = Path("out", "sglang_launch.sh").read_text().replace("out/", "")
    arguments = shlex.split(written.partition("exec python ")[2])
    assert Path("arguments").read_text().splitlines() == arguments


def test_a_launch_command_keeps_its_values_when_it_is_broken() -> None:
    sizes = {"cudagraph_capture_sizes": list(range(0, 1000, 7))}
    words = [
        "vllm",
        "serve",
        "a/b",
        "--compilation-config",
        json.dumps(sizes, separators=(",", ":")),
        "--seed",
        "1",
    ]
    lines = shell_lines(shlex.join(words), 80)
    assert max(map(len, lines)) <= 80
    read = shlex.split("\n".join(lines).replace("\\\n", " "))
    assert [*read[:4], json.loads(read[4]), *read[5:]] == [*words[:4], sizes, *words[5:]]


def test_the_goals_are_those_of_the_next_steps() -> None:
    assert OFFERED == GOALS


def test_the_recommended_k_and_plain_decoding_stay_in_a_table_that_is_cut() -> None:
    advice = advise(
        scenario_from({"model_id": "qwen3-30b-a3b", "hardware_id": "h200", "batch_size": 16})
    )
    rows = short_answer(advice, 60).table.rows
    assert len(rows) < len(advice.drafts)
    assert {0, advice.recommendation.n_draft} <= {row.n_draft for row in rows}


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_terminal_shows_what_it_showed_and_no_line_is_wider_than_it(columns: int) -> None:
    assert page(columns) == file(columns).read_text(encoding="utf-8"), (
        "run: python -m tests.golden.terminal"
    )
    always_wrapped = (
        file(columns)
        .read_text(encoding="utf-8")
        .partition(f"$ advisor {COMMANDS[len(BOTH_WIDTHS)]}")[0]
    )
    lines = always_wrapped.splitlines()
    widest = max((line for line in lines if not line.startswith("$ ")), key=len)
    assert len(widest) <= columns, widest


def test_a_terminal_gets_colour_and_a_pipe_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(
        DRAFTS, advise(scenario_from({"model_id": "qwen3-30b-a3b", "hardware_id": "h200"})).drafts
    )
    print_table(table)
    plain = capsys.readouterr().out
    shown = {}
    for setting in ("", "1"):
        for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "120"), ("NO_COLOR", setting)):
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdout", _Terminal())
        print_table(table)
        shown[setting] = sys.stdout.getvalue()  # type: ignore[union-attr]
        monkeypatch.undo()
    assert "\x1b[" not in plain
    assert "\x1b[36m" in shown[""]
    assert "\x1b[36m" not in shown["1"]
    assert plain.split() == re.sub(r"\x1b\[[0-9;]*m", "", shown["1"]).split()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_checkpoint_named_in_place_of_the_profile_s_own_is_the_one_that_is_served(
    run: Run, tmp_path: Path
) -> None:
    asked = ("--gpus", "8xH200", "--engine", "sglang", "--batch", "32")
    code, out, _ = run("advise", "DeepSeek-R1", *asked)
    head = out.splitlines()
    assert (code, head[0].startswith("DeepSeek-R1 (as DeepSeek-V3: the same architecture) + ")) == (
        0,
        True,
    )
    assert "--model-path deepseek-ai/DeepSeek-R1 " in out
    assert "deepseek-ai/DeepSeek-V3" not in out
    assert len(head) <= LINES
    _, out, _ = run("export", "someone/DeepSeek-R1-0528", *asked, "--output", tmp_path)
    assert "--model-path someone/DeepSeek-R1-0528 " in out
    _, out, _ = run("export", "deepseek-r1-0528", *asked, "--output", tmp_path)
    assert "repository of your model for deepseek-r1-0528" in " ".join(out.split())
    _, out, _ = run("advise", "deepseek-ai/DeepSeek-V3", *asked)
    assert "(as " not in out


def test_a_checkpoint_travels_in_the_link_and_counts_for_its_model_alone() -> None:
    served = scenario_from(
        {"model_id": "DeepSeek-R1", "hardware_id": "h200-sxm", "n_gpus": 8, "tensor_parallel": 8}
    )
    assert Scenario.from_query(served.to_query()).served_checkpoint == "deepseek-ai/DeepSeek-R1"
    assert served.model_copy(update={"model_id": "qwen3-30b-a3b"}).served_checkpoint is None


ON_NODE = {
    "model_id": "deepseek-v3",
    "hardware_id": "h200-sxm",
    "n_gpus": 8,
    "tensor_parallel": 8,
    "batch_size": 32,
}


def test_published_runs_outside_the_range_of_their_batch_and_k_are_counted() -> None:
    advice = advise(scenario_from(ON_NODE | {"engine": "sglang"}))
    below = 0
    above = 0
    runs = runs_beside(advice.scenario, 8)
    for run in runs:
        (row,) = np.flatnonzero(advice.curve.batches == run.batch_size)
        column = (
            advice.curve.speedup[row].argmax()
            if np.isnan(run.n_draft)
            else advice.curve.column(int(run.n_draft))
        )
        below += run.speedup < advice.curve.low[row, column]
        above += run.speedup > advice.curve.high[row, column]
    outcome = outcome_of(advice)
    assert below
    assert (outcome.published_below, outcome.published_above) == (below, above)
    assert outcome.published_n == outcome.published_silent == outcome.published_random == len(runs)


def test_the_gain_ends_at_the_last_batch_that_fits_or_where_it_may_lose() -> None:
    advice = advise(scenario_from(dict(ON_NODE)))
    last = advice.setup.memory.largest_batch
    column = advice.curve.column(advice.to_serve[-1].k_running)
    fits = np.flatnonzero(advice.curve.batches <= last)
    certain = replace(advice.curve, p_gain=np.full_like(advice.curve.p_gain, 0.9))
    sure = replace(advice, curve=certain)
    outcome = outcome_of(sure)
    assert (outcome.end_batch, outcome.end_is_memory) == (last, True)
    assert (outcome.pays_to, outcome.loses_from) == (None, None)
    last_range = sure.to_serve[-1]
    none = replace(last_range, batch_start=300, n_draft=0, table_k=None)
    served = (*sure.to_serve[:-1], replace(last_range, batch_end=299), none)
    assert outcome_of(replace(sure, to_serve=served)).pays_to == 299
    p_gain = certain.p_gain.copy()
    p_gain[fits[-3] :, column] = 0.5
    losing = replace(advice, curve=replace(advice.curve, p_gain=p_gain))
    before = advice.curve.batches[fits[-4]]
    after = advice.curve.batches[fits[-3]]
    share = (0.9 - MAY_LOSE) / (0.9 - 0.5)  # of the way, in the log of the batch
    assert outcome_of(losing).loses_from == int(before * (after / before) ** share) + 1


def test_an_export_by_batch_that_finds_one_k_says_so(run: Run, tmp_path: Path) -> None:
    asked = ("export", *SHORT, "--engine", "sglang", "--output", tmp_path)
    said = "--by-batch finds one K for all batches, so no table of K is written."
    assert said in " ".join(run(*asked, "--by-batch")[1].split())
    assert said not in " ".join(run(*asked)[1].split())


TWO = Path(__file__).resolve().parents[1] / "fixtures" / "terminal"


def test_a_loss_is_diagnosed_with_the_usual_drafter_and_not_recommended(run: Run) -> None:
    code, out, err = run("diagnose", TWO / "two.csv", "--gpus", "8xH200", "--model", "deepseek-v3")
    assert code == 0
    assert "measured 0.81×" in out
    assert err == "assumed: Own MTP module (--drafter)\n"
    assert "advise" not in out.partition("Next:")[2]


def test_validate_shows_each_row_of_a_small_file_and_what_follows(run: Run) -> None:
    asked = ("--gpus", "8xH200", "--model", "deepseek-v3", "--drafter", "mtp", "--engine", "vllm")
    code, out, _ = run("validate", TWO / "runs.csv", *asked)
    assert (code, out.splitlines()[0].split()) == (
        0,
        ["batch", "K", "measured", "predicted", "80%", "range", "inside"],
    )
    assert "1  3     1.53x" in out
    assert " fit " in out.partition("Next:")[2]


@pytest.mark.parametrize(
    ("typed", "expected"), [("H200x8", "e.g. 8xH200"), ("8", "which GPU (--gpus 8xH200")]
)
def test_gpus_typed_the_other_way_round_or_without_a_name(
    run: Run, typed: str, expected: str
) -> None:
    code, _, err = run("advise", "deepseek-v3", "--gpus", typed)
    assert code == 2
    assert expected in err
    assert "8xH200x8" not in err
