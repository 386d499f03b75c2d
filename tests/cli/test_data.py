"""`diagnose` on the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Run, flat
from tests.golden.sentences import Golden, lines_with

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis"


def test_the_verdict_comes_first_and_each_finding_has_evidence_and_a_flag(
    run: Run, golden: Golden
) -> None:
    status, out, _ = run(
        "diagnose", FIXTURES / "misconfigured.txt", "--hardware", "h200-sxm", "--tp", "1"
    )
    assert status == 0
    golden(engine_misconfigured=out.splitlines()[0])
    for word in (
        "evidence: batch",
        "do: --max-running-requests",
        "source: sgl-project/sglang",
        ":\n  python -m sglang.launch_server \\\n",
        "    --max-running-requests 128\n",
        "advise qwen3-30b-a3b --gpus 1xh200-sxm",
    ):
        assert word in out


def test_json_and_all_hold_what_was_not_judged(run: Run, golden: Golden) -> None:
    document = json.loads(run("diagnose", FIXTURES / "honest.csv", "--json")[1])
    assert document["verdict"] == "foreseen"
    assert document["facts"]["decision"][0]["k"] == 0
    assert all(one["needs"] for one in document["not_judged"])
    every = run("diagnose", FIXTURES / "honest.csv", "--all")[1]
    golden(requests_wait=lines_with(every, "Requests wait"))
    assert max(map(len, every.splitlines())) <= 100


def test_a_length_given_at_its_k_is_that_of_the_runs_with_drafts(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(
        "batch_size,draft_tokens_k,tpot_ms,input_tokens,output_tokens\n32,0,18,1000,500\n32,3,21,1000,500\n"
    )
    run_of = ("--gpus", "8xH200", "--model", "deepseek-v3", "--drafter", "mtp")
    _, out, _ = run("diagnose", file, *run_of, "--accepted-length", "2.1@3")
    golden(batch_loses=lines_with(flat(out), "batch 32 loses"))
    assert "--accepted-length 2.1@3" in out.partition("Next:")[2]


def test_two_numbers_are_a_run_and_one_alone_or_in_another_unit_is_refused(run: Run) -> None:
    run_of = ("--k", "3", "--batch", "64", "--gpus", "8xH200", "--model", "deepseek-v3")
    run_of += ("--drafter", "mtp", "--engine", "vllm", "--json")
    pairs = (("52ms", "61ms"), ("0.052 s", "61ms/token"))
    ms, s = (run("diagnose", "--without", a, "--with", b, *run_of)[1] for a, b in pairs)
    assert json.loads(ms) == json.loads(s)
    assert json.loads(ms)["verdict"] == "baseline"
    for wrong in (("--without", "52ms"), ("--without", "52ms", "--with", "61tok/s"), ()):
        assert run("diagnose", *wrong, *run_of)[0] == 2
    for value in ("52", "ms", "5 2ms", "1,900tok/s", "52 minutes"):
        assert run("diagnose", "--without", value, "--with", "61ms")[0] == 2


@pytest.mark.parametrize(
    ("without", "with_drafts", "words"),
    [
        ("0ms", "61ms", "--without 0ms: expected a value above 0"),
        ("52ms", "-6ms", "--with -6ms: expected a value above 0"),
        ("52", "61ms", "--without '52' is no value with its unit"),
        ("52ms", "61tok/s", "count different things; give two times per token, or two rates"),
        ("1e15ms", "1e14ms", "line 2: baseline_value '1e+15': outside the range"),
        (
            "1e9ms",
            "1ms",
            "speedup / draft_tokens_k '1000000000 / 3': the speedup exceeds the tokens of a round, "
            "which drafting alone cannot; check the values",
        ),
    ],
)
def test_two_numbers_that_cannot_be_are_refused_with_what_is_wrong(
    run: Run, without: str, with_drafts: str, words: str
) -> None:
    run_of = ("--k", "3", "--batch", "64", "--gpus", "8xH200", "--model", "deepseek-v3")
    _, out, err = run("diagnose", "--without", without, "--with", with_drafts, *run_of)
    assert words in flat(out + err)
