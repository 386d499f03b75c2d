"""`ingest`, `fit`, `trace`: what they print, the JSON contract, and refusals in one sentence.

What commands say of a model or batch that does not fit in memory.

`validate` on a terminal: reasons that say the same stand on one line.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.cli.measure import alike
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.phrases.notes import note_text
from tests.command_line import QWEN, Run, next_of
from tests.golden.sentences import Golden, lines_with
from tests.measured.refit_synthetic import synthetic_points
from tests.measured.test_ingest_traces import npy, synthetic

pytestmark = pytest.mark.usefixtures("no_store")
FIXTURES = Path(__file__).parents[1] / "fixtures/ingest"


@pytest.fixture
def points(tmp_path: Path) -> Path:
    frame = synthetic_points((1, 2, 4, 8, 16, 32), (1, 3), truth={"round_host": 4.0}, noise=0.02)
    file = tmp_path / "mine.csv"
    frame.dropna(axis=1, how="all").to_csv(file, index=False)
    return file


def test_ingest_reads_a_directory_and_says_what_it_could_not_read(run, golden):
    code, out, _ = run("ingest", FIXTURES, "--json")
    answer = json.loads(out)
    assert code == 0
    formats = {item["format"] for item in answer["files"]}
    assert {
        "vllm_serve",
        "sglang_serving",
        "guidellm_csv",
        "aiperf_json",
        "kernel_table",
    } <= formats
    reasons = {item["file"]: item["reason"] for item in answer["not_read"]}
    golden(tuned_kernel=lines_with(reasons["tuned_config_constructed.json"], "tuned kernel"))


def test_a_console_block_is_piped_in_and_a_name_that_it_states_is_replaced(run, monkeypatch):
    block = (FIXTURES / "serving_console_constructed.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(block)))
    code, out, _ = run("ingest", "-", "--set", "model_id=gpt-oss-120b", "--json")
    answer = json.loads(out)
    assert code == 0
    assert [item["format"] for item in answer["files"]] == ["serving_console"]


def test_ingest_fills_in_and_writes_rows_and_rejects(run, points, tmp_path, golden):
    lines = points.read_text().splitlines()
    column = lines[0].split(",").index("batch_size")
    cells = lines[2].split(",")
    cells[column] = "=1+1"
    points.write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:]]))
    rows = tmp_path / "rows.csv"
    rejects = tmp_path / "rejects.csv"
    more = ("--output", rows, "--rejects", rejects)
    code, out, _ = run("ingest", points, "--set", "weight_dtype=bf16", *more)
    assert code == 0
    golden(rows=lines_with(out, "rows read"))
    assert len(pd.read_csv(rows)) == 11
    assert set(pd.read_csv(rows)["weight_dtype"]) == {"bf16"}
    code, out, _ = run("ingest", rows)
    golden(written=lines_with(out, "rows read"))
    assert rejects.read_text().splitlines()[1].startswith("3,batch_size,'=1+1,")


def test_ingest_names_what_is_missing(run, points, golden):
    lines = [",".join(line.split(",")[1:]) for line in points.read_text().splitlines()]
    points.write_text("\n".join(lines))
    code, out, _ = run("ingest", points)
    assert code == 0
    golden(needed_set=lines_with(out, "needed"))


def test_fit_says_what_moved_and_what_the_data_do_not_tell(run, points, golden):
    code, out, _ = run("fit", points)
    assert code == 0
    golden(data_moved=out.splitlines()[0])
    golden(cannot_be=lines_with(out, "Cannot be"))
    assert re.search(
        r"Host time per speculative round +[\d.,]+ µs +[\d.,]+ µs +\+\d+% +±\d+% +±\d+% +yes", out
    )
    golden(moesd_ten=lines_with(out, "MoESD's ten"))
    code, out, _ = run("fit", points, "--json")
    answer = json.loads(out)
    assert code == 0
    named = {item["name"]: item for item in answer["parameters"]}
    assert named["round_host"]["after"] > named["round_host"]["before"]
    assert answer["own_errors"]["after"]["mape"] < answer["own_errors"]["before"]["mape"]
    assert len(answer["rows"]) == 12


def test_fit_as_json_carries_the_rows_refused_in_reading(run, points, golden):
    header, first, *rest = points.read_text().splitlines()
    batch = header.split(",").index("batch_size")
    broken = first.split(",")
    broken[batch] = "many"
    points.write_text("\n".join([header, first, *rest, ",".join(broken)]))
    code, out, _ = run("fit", points, "--json")
    assert code == 0
    (refused,) = json.loads(out)["rejects"]
    assert (refused["line"], refused["value"]) == (len(rest) + 3, "many")
    assert "not a number" in refused["reason"]
    points.write_text("\n".join([header, first, ",".join(broken)]))
    code, _, err = run("fit", points, "--json")
    assert code == 2
    golden(row_rejected=lines_with(err, "1 row"))


def test_times_that_name_their_units_in_the_cells_are_fitted(run, tmp_path):
    file = tmp_path / "own.csv"
    setup = "h200-sxm,qwen3-30b-a3b,vllm"
    file.write_text(
        "hardware_id,model_id,engine,draft_tokens_k,batch_size,TPOT,accepted_length,drafter\n"
        f"{setup},0,1,5.097 ms,,\n{setup},3,1,0.003959 s,2.1,eagle3\n{setup},0,8,3581 us,,\n"
        f"{setup},0,16,7.1 ms,,\n{setup},3,16,6.1 ms,2.1,eagle3\n"
    )
    code, out, err = run("fit", file, "--gpus", "1", "--json")
    assert code == 0, err
    assert len(json.loads(out)["rows"]) >= 5


def test_trace_counts_what_it_predicts_and_gives_the_routing_to_use(run, tmp_path):
    file = tmp_path / "trace.npy"
    file.write_bytes(npy(synthetic(12, 32, 2, n=128, k=8).astype(np.uint8)))
    code, out, _ = run("trace", file, "--model", "qwen3-30b-a3b")
    assert code == 0
    assert "12 sequences, 384 tokens" in out
    routing = out.rsplit("--routing ", 1)[1].strip()
    asked = (
        "--hardware h200-sxm --model qwen3-30b-a3b --drafter eagle3 --accepted-length 2.4@3 --json"
    )
    code, _, _ = run("advise", *asked.split(), "--routing", routing)
    assert code == 0


def test_fit_takes_the_acceptance_options_of_every_other_command_and_writes_its_refit(
    run, points, tmp_path
):
    file = tmp_path / "my.refit"
    code, out, _ = run("fit", points, "--accepted-length", "2.4@3", "--output", file)
    assert code == 0
    following = out.split("Next:")[1].partition("#")[0].replace("\\\n", " ").split()
    assert following[-2:] == ["--refit", str(file)]
    assert run(*following[1:])[0] == 0
    at = following.index("--accepted-length")
    shorter = [*following[1:at], *following[at + 2 :], "--json"]
    assert (
        json.loads(run(*shorter)[1])["scenario"]["acceptance"] == "1.7@1,2.4@3"
    )  # the refit's file carries it
    assert file.read_text().startswith("on=")


def test_ingest_says_what_fit_will_use_in_fit_s_own_words(run, points):
    lines = points.read_text().splitlines()
    column = lines[0].split(",").index("draft_tokens_k")
    cells = lines[1].split(",")
    cells[column] = ""
    points.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]))
    _, said, _ = run("ingest", points)
    _, fitted, _ = run("fit", points)
    total = len(lines) - 1
    assert f"{total} rows read, 0 rejected" in said
    assert f"`fit` can use {total - 1} rows" in said
    (not_used,) = [line for line in fitted.splitlines() if line.startswith("not used in the fit")]
    assert not_used in said.splitlines()
    _, out, _ = run("ingest", points, "--json")
    (use,) = json.loads(out)["refit"]
    assert use["rows_used"] == total - 1
    assert [item["line"] for item in use["not_used"]] == [2]


def test_ingest_promises_no_refit_of_kernel_times(run, golden):
    _, printed, _ = run("ingest", FIXTURES / "kernel_table_constructed.csv")
    golden(row_read=lines_with(printed, "1 row"))
    assert lines_with(printed, "`fit") == []


DEEPSEEK = (
    "--hardware",
    "h200-sxm",
    "--model",
    "deepseek-v3",
    "--drafter",
    "mtp",
    "--accepted-length",
    "2.4@3",
)


SENTENCE = note_text(
    load_setup(Scenario(model_id="deepseek-v3", drafter_id="mtp", acceptance="2.4@3")).notes[0]
)


COMMANDS = ("advise", "schedule", "curve", "simulate", "explain", "export")


def arguments(command: str, folder: Path) -> tuple[str, ...]:
    more = {
        "curve": ("--batches", "4,16"),
        "export": ("--output", str(folder)),
        "simulate": ("--requests", "4"),
    }
    return (command, *DEEPSEEK, *more.get(command, ()))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_in_one_sentence_that_a_model_does_not_fit(
    run: Run, tmp_path: Path, command: str
) -> None:
    status, out, err = run(*arguments(command, tmp_path))
    assert status == 0
    assert SENTENCE.startswith("Does not fit")
    printed = " ".join((err if command == "curve" else out).split())  # prose wraps
    assert SENTENCE.removesuffix(".") in printed


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "curve"])
def test_so_do_their_documents(run: Run, tmp_path: Path, command: str) -> None:
    _, out, _ = run(*arguments(command, tmp_path), "--json")
    assert SENTENCE in json.loads(out)["warnings"]


def test_a_curve_on_standard_output_stays_a_table(run: Run, tmp_path: Path) -> None:
    _, out, _ = run(*arguments("curve", tmp_path))
    header, *rows = out.splitlines()
    assert all(line.count(",") >= header.count(",") for line in rows)
    assert "warning" not in out


def test_a_curve_says_which_of_its_batches_do_not_fit(run: Run) -> None:
    fits = load_setup(Scenario(acceptance="2.4@3")).memory.largest_batch
    said = f"warning: Batches above {fits:,} do not fit in memory at 2,048 tokens of context."
    assert said in run("curve", *QWEN, "--batches", f"16,{fits + 1}")[2]
    assert said not in run("curve", *QWEN, "--batches", f"16,{fits}")[2]


def test_reasons_that_differ_in_numbers_or_names_are_one_line_with_their_count() -> None:
    reasons = [
        "the round of 15.82 ms is shorter than reading the weights (19.38 ms on 2 x h200-sxm)",
        "the round of 16 ms is shorter than reading the weights (20.4 ms on 4 x h200-sxm)",
        "the round of 16 ms is shorter than reading the weights (20.4 ms on 4 x h200-sxm)",
        "'GPU A' is not one of the 39 accelerators",
        "'GPU B' is not one of the 39 accelerators",
        "none measured for llama-3.1-8b with eagle",
        "none measured for llama4-scout with ngram",
        "K is not stated",
    ]
    assert alike((reason, line, 1) for line, reason in enumerate(reasons)) == [
        (f"{reasons[0]} (and 1 more that differ in numbers or names)", [0, 1, 2]),
        (f"{reasons[3]} (and 1 more that differ in numbers or names)", [3, 4]),
        (f"{reasons[5]} (and 1 more that differ in numbers or names)", [5, 6]),
        (reasons[7], [7]),
    ]
    assert len(alike((f"h{number}00-sxm is old", 0, 2) for number in (1, 2))) == 2, (
        "a name with a number is no number"
    )


def test_predict_names_unreadable_cells_together_with_missing_columns(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    file = tmp_path / "points.csv"
    file.write_text("hardware_id,model_id,batch_size,tpot_s\nh200-sxm,qwen3-30b-a3b,abc,0.01\n")
    code, _, err = run("predict", str(file))
    assert code != 0
    golden(refused=err.strip())
    file.write_text("hardware_id,model_id,batch_size\n" + "h200-sxm,qwen3-30b-a3b,abc\n" * 5)
    golden(more_rows=lines_with(run("predict", str(file))[2], "(and 2"))


def test_predict_and_validate_read_a_table_of_other_headers_by_map(
    run: Run, tmp_path: Path
) -> None:
    named = (
        "hardware_id,gpu_count,tensor_parallel,model_id,engine,drafter,draft_tokens_k,batch_size,accepted_length,"
        "speedup\n"
    )
    row = 'h200-sxm,1,1,qwen3-30b-a3b,vllm,eagle3,3,16,"2,400",1.5\n'
    plain = tmp_path / "plain.csv"
    theirs = tmp_path / "theirs.csv"
    plain.write_text(named + row.replace('"2,400"', "2.4"))
    theirs.write_text(named.replace("batch_size", "people").replace("speedup", "gain") + row)
    option = ("--map", "people=batch_size", "--map", "gain=speedup", "--map", ",=decimal")
    _, wanted, _ = run("predict", plain)
    code, found, said = run("predict", theirs, *option)
    assert code == 0, said
    first = next(csv.DictReader(io.StringIO(wanted)))
    second = next(csv.DictReader(io.StringIO(found)))
    assert second["predicted_speedup"] == first["predicted_speedup"] != ""
    assert second["people"] == "16"
    assert float(second["measured_over_predicted"]) == pytest.approx(
        1.5 / float(second["predicted_speedup"]), rel=1e-5
    )
    plain.write_text(named + row.replace('"2,400"', ""))
    borrowed = json.loads(run("predict", plain, "--json")[1])[0]
    assert borrowed["accepted_length_source"] == "other_model"
    judged = json.loads(run("validate", plain, "--json")[1])["rows"][0]
    assert judged["predicted_speedup"] == borrowed["predicted_speedup"]
    document = json.loads(run("validate", theirs, *option, "--json")[1])
    assert document["overall"]["n"] == 1
    assert "need FILE" in run("validate", "--map", "a=batch_size")[2]


WIDE = "concurrency,user_tps_K0,user_tps_K3\n1,210,330\n4,180,270\n8,150,220\n16,120,170\n32,90,120\n64,60,75\n"  # noqa: E501
RUN = ("--model", "gpt-oss-120b", "--gpus", "1xB200", "--engine", "vllm", "--drafter", "eagle3")


def test_rates_by_k_lead_to_a_fit_by_what_is_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text(WIDE)
    typed = ["ingest", "mine.csv", *RUN]
    seen = []
    while typed[0] == "ingest" and len(seen) < 4:
        status, out, _ = run(*typed)
        assert status == 0
        seen.append(typed := next_of(out))
    assert "draft_tokens_k=3" in seen[0]
    assert typed[0] == "fit"
    assert set(RUN) <= set(typed)
    _, out, err = run(*typed)
    golden(time_routed=lines_with(out, "routed experts"))
    golden(borrowed_rows=lines_with(out, "borrowed: rows"))
    status, _, err = run(*next_of(out))
    assert status == 0, err
    golden(
        give_accepted=lines_with(
            run("ingest", "mine.csv", "--set", "accepted_length=2.6")[2], "give"
        )
    )


def test_predict_and_validate_take_what_ingest_takes_and_judge_the_speedups_it_computes(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    (file := tmp_path / "mine.csv").write_text(WIDE)
    given = (*RUN, "--set", "draft_tokens_k=3", "--accepted-length", "2.4@3")
    predicted = json.loads(run("predict", file, *given, "--json")[1])
    status, out, err = run("validate", file, *given, "--json")
    judged = json.loads(out)
    assert (status, judged["overall"]["n"]) == (0, 6), err
    assert {row["accepted_length_source"] for row in predicted + judged["rows"]} == {"borrowed"}
    assert [float(row["speedup"]) for row in judged["rows"]][:2] == pytest.approx(
        [330 / 210, 270 / 180]
    )
    named = [word for word in given if word not in ("--gpus", "1xB200")]
    for command in ("predict", "validate"):
        status, _, err = run(command, file, *named, "--hardware", "b200-sxm")
        assert status == 2
        assert f"`advisor {command} {file}" in err
        golden(are_not=lines_with(err, "are not"))
        assert "--gpus NxGPU`" in err


def test_columns_that_nothing_is_known_of_get_the_command_that_maps_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.csv").write_text(
        "reqs in flight,spec,gen latency per token (ms)\n1,0,5\n1,3,3.2\n8,0,8\n8,3,6\n"
    )
    status, _, err = run("ingest", "odd.csv", "--engine", "vllm")
    assert status == 2
    golden(none_its=lines_with(err, "none of"))
    typed = shlex.split(err.split("`")[1])[1:]
    assert typed[:4] == ["ingest", "odd.csv", "--engine", "vllm"]
    status, out, _ = run(*typed, "--json")
    assert (status, json.loads(out)["files"][0]["rows_kept"]) == (0, 4)
