"""A plain sweep in a benchmark file: found, refused with what was found, given to `advise` and on
the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.cli.measured_files import read_measured
from advisor.measured.ingest.read import read_upload
from advisor.measured.own_points import plain_sweep_of, rows_of, with_rounds
from advisor.predict.plain_sweep import parse_sweep
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.command_line import Run
from tests.golden.sentences import Golden, lines_with
from tests.predict.test_plain_sweep import ASKED, BATCHES, with_sweep

OPTIONS = (
    "--hardware",
    "h200-sxm",
    "--model",
    "qwen3-30b-a3b",
    "--drafter",
    "eagle3",
    "--accepted-length",
    "3.2@5",
)


def rows(
    model: str = "qwen3-30b-a3b", batches: tuple[float, ...] = tuple(BATCHES), slower: float = 1.0
) -> str:
    """A CSV of the model's own plain steps, made slower, with a run that drafts among them."""
    steps = parse_sweep(with_sweep(np.ones_like).plain_sweep or "")
    lines = [
        "hardware_id,model_id,engine,gpu_count,batch_size,draft_tokens_k,accepted_length,tpot_ms"
    ]
    for batch, step_s in zip(steps.batches, steps.step_s, strict=True):
        if batch in batches:
            lines.append(f"h200-sxm,{model},vllm,1,{batch:.0f},0,,{1e3 * slower * step_s:.5g}")
    return "\n".join([*lines, f"h200-sxm,{model},vllm,1,8,3,2.4,4.0"]) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plain.csv"
    path.write_text(rows(slower=1.25))
    return path


def test_the_rows_without_drafts_are_the_sweep_and_equal_batches_count_once(file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[1].replace(",,", ",,9")]) + "\n")
    found = parse_sweep(plain_sweep_of(read_measured([file]), ASKED))
    np.testing.assert_array_equal(found.batches, BATCHES)
    assert {"h200-sxm", "qwen3-30b-a3b", "vllm"} < set(found.of)


def points(lines: str, head: str) -> pd.DataFrame:
    """Points frame of a CSV file of Qwen3-30B on H200."""
    content = f"{head}\n{lines}\n".encode()
    result = read_upload("runs.csv", content).result
    assert result.rejects.empty
    return result.frame


def test_rows_of_several_copies_are_those_of_one_at_its_part_of_the_batch() -> None:
    """Four GPUs at data_parallel 4 run a quarter of the batch each; two of tensor parallelism are
    another place."""
    head = (
        "hardware_id,model_id,engine,gpu_count,tensor_parallel,data_parallel,batch_size,"
        "draft_tokens_k,tpot_ms"
    )
    place = "h200-sxm,qwen3-30b-a3b,sglang"
    rows = [f"{place},4,1,4,64,0,8", f"{place},1,1,1,16,0,8", f"{place},2,2,1,16,0,8"]
    beside = rows_of(points("\n".join(rows), head), ASKED)
    assert beside["batch_size"].tolist() == [16.0, 16.0]
    assert beside["gpu_count"].tolist() == [4, 1]


def test_a_file_of_two_copies_says_so_and_one_of_one_does_not() -> None:
    head = "hardware_id,model_id,engine,gpu_count,data_parallel,batch_size,draft_tokens_k,tpot_ms"
    for copies in (1, 2, 3):
        text = f"{head}\nh200-sxm,qwen3-30b-a3b,sglang,{copies},{copies},64,0,8\n"
        notes = reading_texts(read_upload("runs.csv", text.encode()).result.derived)
        counts = [int(number) for note in notes for number in re.findall(r"(\d+) copies", note)]
        assert counts == ([copies] if copies > 1 else [])


def test_a_round_timed_beside_a_plain_step_has_the_speedup_of_its_accepted_tokens() -> None:
    """20 ms for 2.5 tokens beside 10 ms for one: 1.25 times as fast; a stated speedup stays."""
    head = (
        "hardware_id,model_id,engine,gpu_count,batch_size,draft_tokens_k,drafter,"
        "step_time_s,speedup"
    )
    place = "h200-sxm,qwen3-30b-a3b,vllm,1"
    lines = [
        f"{place},16,0,none,0.010,",
        f"{place},16,3,eagle3,0.020,",
        f"{place},16,2,eagle3,0.020,1.1",
        f"{place},32,3,eagle3,0.020,",
    ]
    timed = with_rounds(points("\n".join(lines), head), np.array([1.0, 1.8, 2.2, 2.5]))
    drafting = timed[timed["draft_tokens_k"] > 0]
    assert drafting["speedup"].tolist() == pytest.approx([1.25, 1.1, np.nan], nan_ok=True)
    assert drafting["accepted_length"].iloc[0] == 2.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rows(batches=(1.0, 8.0)), "2 batches of plain decoding"),
        (rows(model="gpt-oss-20b"), "0 batches of plain decoding"),
        ("hello\n", "not recognized"),
    ],
)
def test_a_file_without_a_sweep_of_the_scenario_is_refused_with_what_was_found(
    tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "plain.csv"
    path.write_text(text)
    with pytest.raises(AdvisorError, match=expected):
        plain_sweep_of(read_measured([path]), ASKED)


def test_advise_and_curve_take_the_file_and_say_what_it_was_used_for(
    file: Path, run: Run, golden: Golden
) -> None:
    code, out, _ = run("advise", *OPTIONS, "--batch", "128", "--plain-sweep", str(file))
    assert code == 0
    golden(plain_sweep=lines_with(" ".join(out.split()), "Your plain"))
    asked = ("curve", *OPTIONS, "--batches", "128", "--k", "0")
    plain = run(*asked, *())[1]
    own = run(*asked, *("--plain-sweep", str(file)))[1]
    tpot = [
        float(text.splitlines()[1].split(",")[text.splitlines()[0].split(",").index("tpot_ms")])
        for text in (plain, own)
    ]
    assert tpot[1] / tpot[0] == pytest.approx(1.25, rel=0.01)
    code, _, err = run("advise", *OPTIONS, "--tp", "2", "--plain-sweep", str(file))
    assert code == 2
    golden(batches_plain=lines_with(err, "0 batches"))
    assert "2 GPUs" in err
