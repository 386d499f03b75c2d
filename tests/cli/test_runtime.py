"""`schedule`, `export`, `simulate` on the command line: tables, JSON, files, refusals."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from tests.command_line import Run, flat
from tests.golden.sentences import Golden, lines_with

NGRAM = [
    *("--hardware", "h200-sxm", "--model", "qwen3-30b-a3b", "--drafter", "ngram"),
    *("--accepted-length", "1.5@3", "--batch", "16"),
]
EAGLE = [
    *NGRAM[:5],
    "eagle3",
    "--acceptance",
    "0.75,0.75,0.75,0.6,0.56,0.57,0.6",
    "--k-max",
    "7",
    "--batch",
    "16",
]
FEW = ["--requests", "20", "--request-tokens", "60"]


def test_schedule_json_is_one_document_that_covers_every_batch(run: Run) -> None:
    code, out, _ = run(
        "schedule", *NGRAM, "--contexts", "512,65536", "--histogram", "1:1,64:2", "--json"
    )
    document = json.loads(out)
    assert code == 0
    assert document["k_by_batch"][0]["batch_start"] == 1
    fits = load_setup(Scenario.model_validate(document["scenario"])).memory.largest_batch
    assert document["k_by_batch"][-1]["batch_end"] == fits
    assert [row["context_tokens"] for row in document["k_by_context"]["contexts"]] == [
        512,
        2048,
        65536,
    ]
    assert {"gain", "schedule_speedup", "best_static_k", "static_speedup"} <= set(document["gain"])
    assert document["scenario"]["batch_size"] == 16


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_export_writes_what_it_prints(run: Run, tmp_path: Path, engine: str) -> None:
    arguments = [
        "export",
        *EAGLE,
        "--engine",
        engine,
        "--output",
        str(tmp_path),
        "--draft-model",
        "a/b",
        "--by-batch",
        "--json",
    ]
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    document = json.loads(out)
    config, *_, launch = (Path(file) for file in document["files"])
    assert json.loads(config.read_text()) == document["config"]
    assert document["launch_line"] in launch.read_text()


def test_schedule_and_export_say_the_same_of_one_k_and_of_contexts(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    at = [
        "--hardware",
        "h200-sxm",
        "--gpus",
        "4",
        "--tp",
        "4",
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle3",
    ]
    at += ["--accepted-length", "2.4@3"]
    shown = run("schedule", *at)[1]
    golden(recommended_batch=lines_with(shown, "Recommended K"))
    one_k = next(line for line in shown.splitlines() if "the best single K" in line).partition(
        " (mean"
    )[0]
    contexts = next(
        line for line in shown.splitlines() if line.startswith("K changes with context")
    ).partition(" Its speedup")[0]
    exported = run("export", *at, "--output", str(tmp_path), "--draft-model", "a/b")[1]
    assert flat(one_k) in flat(exported)
    assert flat(contexts) in flat(exported)
    report = tmp_path / "r.md"
    assert run("report", *at, "--output", str(report), "--no-checks")[0] == 0
    assert one_k.strip() in report.read_text(encoding="utf-8")
    assert contexts in report.read_text(encoding="utf-8")


def test_a_static_k_is_exported_without_a_table(run: Run, tmp_path: Path) -> None:
    arguments = ["export", *NGRAM, "--output", str(tmp_path), "--static-k", "2", "--json"]
    config = json.loads(run(*arguments)[1])["config"]
    assert config["num_speculative_tokens"] == 2
    assert "num_speculative_tokens_per_batch_size" not in config


@pytest.mark.parametrize("process", [[], ["--process", "switching"], ["--load", "0.7"]])
def test_simulate_prints_every_policy(run: Run, process: list[str]) -> None:
    code, out, err = run("simulate", *NGRAM, *FEW, *process)
    assert (code, err) == (0, "")
    for name in (
        "static K=0",
        "static K=8",
        "batch schedule",
        "Cascade",
        "acceptance only (EMA)",
        "oracle",
    ):
        assert name in out
    assert "Best single K" in out


def test_the_same_seed_prints_the_same_json(run: Run) -> None:
    arguments = ["simulate", *NGRAM, *FEW, "--process", "switching", "--json"]
    one = run(*arguments, "--seed", "3")[1]
    two = run(*arguments, "--seed", "3")[1]
    other = run(*arguments, "--seed", "4")[1]
    assert one == two
    assert one != other
    policies = json.loads(one)["policies"]
    assert policies[0]["speedup"] == 1
    assert {
        "policy",
        "tpot_s",
        "gain_over_best_static",
        "mean_draft",
        "iterations_by_draft",
    } <= set(policies[0])


def test_a_recorded_trace_of_perfect_drafts_makes_the_longest_draft_best(
    run: Run, tmp_path: Path
) -> None:
    trace = tmp_path / "steps.csv"
    trace.write_text("accepted\n" + "8\n" * 50)
    _, out, _ = run("simulate", *NGRAM[:-1], "1", *FEW, "--trace", str(trace), "--json")
    document = json.loads(out)
    assert document["process"] == "trace"
    assert document["best_static_k"] >= 6  # 8 are right at a step's start, fewer from inside it


def test_advise_prints_the_launch_command_that_export_writes(run: Run, tmp_path: Path) -> None:
    at = [*EAGLE[:6], "--accepted-length", "2.4@3", "--batch", "16", "--kv-dtype", "fp8"]
    printed = (
        run("advise", *at)[1]
        .partition("Launch (put yours for DRAFT-MODEL):\n")[2]
        .partition("\n\n")[0]
    )
    assert run("export", *at, "--output", tmp_path, "--draft-model", "DRAFT-MODEL")[0] == 0
    written = (tmp_path / "vllm_launch.sh").read_text().partition("exec ")[2]
    read = [re.sub(r"\s", "", word) for word in shlex.split(printed.replace("\\\n", " "))]
    assert read == [re.sub(r"\s", "", word) for word in shlex.split(written)]
    assert "--kv-cache-dtype" in read


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            ["--drafter", "eagle3", "--accepted-length", "1.02@3"],
            "Launch the engine without speculation.",
        ),
        (
            ["--engine", "trtllm", "--drafter", "ngram", "--accepted-length", "2.4@3"],
            "No launch command: commands are written for vllm and sglang only, not for",
        ),
        (["--drafter", "none"], "Launch the engine without speculation."),
    ],
)
def test_advise_says_why_there_is_no_launch_command(
    run: Run, changed: list[str], expected: str
) -> None:
    code, out, err = run("advise", *EAGLE[:4], "--batch", "16", *changed)
    assert code == 0, err
    assert expected in flat(out)


AT_2000 = [
    *("--hardware", "h200-sxm", "--model", "qwen3-30b-a3b", "--context", "256", "--batch", "2000"),
    *("--drafter", "eagle3", "--accepted-length", "2.1@3", "--k-max", "3"),
]
"""Drafting pays at smaller batches, not at the target batch."""


def test_where_the_target_batch_should_not_draft_export_advise_and_report_say_so_alike(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    why = (
        "At batch 2,000 no drafting is recommended: the engine starts without speculation; export "
        "--by-batch writes K by batch."
    )
    assert any(
        row["n_draft"] for row in json.loads(run("schedule", *AT_2000, "--json")[1])["k_by_batch"]
    )
    plain = tmp_path / "plain"
    code, out, err = run("export", *AT_2000, "--output", plain)
    assert (code, err) == (0, "")
    assert why in flat(out)
    assert "batch gains" not in flat(out)
    assert [file.name for file in plain.iterdir()] == ["vllm_launch.sh"]
    assert "speculative" not in (plain / "vllm_launch.sh").read_text()
    assert why in flat(run("advise", *AT_2000)[1])
    assert run("report", *AT_2000, "--output", tmp_path / "report.md")[0] == 0
    report = (tmp_path / "report.md").read_text()
    assert report.count(why.replace("_", "\\_")) == 1
    code, out, _ = run(
        "export", *AT_2000, "--output", tmp_path / "by", "--by-batch", "--draft-model", "a/b"
    )
    assert code == 0
    assert why not in flat(out)
    golden(batch_gains=lines_with(out, "batch gains"))
    assert (
        "num_speculative_tokens_per_batch_size" in (tmp_path / "by" / "vllm_launch.sh").read_text()
    )


def test_commands_remark_on_accepted_lengths_that_nobody_measured(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    at = [*EAGLE[:6], "--accepted-length", "2.4@3", "--batch", "16"]
    more = {"simulate": FEW, "export": ["--output", str(tmp_path), "--draft-model", "a/b"]}
    for command in ("advise", "schedule", "simulate", "export"):
        out = run(command, *at, *more.get(command, ["-v"] if command == "advise" else []))[1]
        golden(by_k=lines_with(flat(out), "At K"))
    golden(k_5=lines_with(run("curve", *at, "--k", "0,3,5")[2], "At K"))
