"""`advisor design`: an answer and its files; what is refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from advisor.catalog.hf.config import architecture_from_config
from tests.command_line import QWEN, Run, flat

SMALL = (
    "design",
    *QWEN,
    "--experts",
    "64,128",
    "--active",
    "4,8",
    "--shared",
    "0,1",
    "--width-step",
    "64",
)


def test_an_answer_and_its_files_say_the_same(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "designs.csv"
    config = tmp_path / "config.json"
    asked = (*SMALL, "--objective", "tpot", "--batches", "1:0.25,64:0.75", "--tokens", "1e12")
    code, out, _ = run(*asked, "--csv", table, "--config", config)
    document = json.loads(run(*asked, "--json")[1])
    assert code == 0
    assert flat(out).startswith(document["headline"])
    assert "limit: The log bases" in out
    assert document["batch_weights"] == [0.25, 0.75]
    with table.open(encoding="utf-8") as lines:
        first = next(csv.DictReader(lines))
    laws = {law["law"]: law["ratio"] for law in document["top"][0]["quality"]}
    assert min(laws.values()) >= 0.99 - 1e-5
    assert [float(first[f"quality_{law}"]) for law in laws] == pytest.approx(
        list(laws.values()), rel=1e-4
    )
    moe = architecture_from_config(config.read_text()).moe
    assert [moe.n_experts, moe.n_active] == [int(first[name]) for name in ("n_experts", "n_active")]


def test_the_config_is_of_the_headline_s_design(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    asked = (
        "design",
        "--gpus",
        "1xB200",
        "--batch",
        "64",
        "--target-total",
        "40B",
        "--config",
        file,
    )
    kept = re.search(r"Build (\d+) of (\d+)", flat(run(*asked)[1]))
    moe = architecture_from_config(file.read_text()).moe
    assert [moe.n_active, moe.n_experts] == [int(kept[1]), int(kept[2])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--batches", "1,x"), "1:0.2,64:0.8"),
        (("--depths", "many"), "comma-separated"),
        (("--width-step", "0"), "--width-step"),
        (("--quality-eps", "2"), "quality_eps"),
        (("--heads", "0.3"), "KV heads"),
        (("--depths", "-1"), "above 0"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(
    options: tuple[str, ...], expected: str, run: Run
) -> None:
    code, out, err = run(*SMALL, *options)
    assert (code, out) == (2, "")
    assert expected in flat(err)


def test_a_model_beside_a_target_size_is_the_baseline(run: Run) -> None:
    asked = (
        "design",
        "qwen3-30b-a3b",
        "--gpus",
        "1xH200",
        "--batch",
        "16",
        "--experts",
        "128",
        "--active",
        "8",
    )
    code, out, err = run(*asked, "--target-total", "40B", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert "start" not in answer
    assert answer["scenario"]["model_id"] == "qwen3-30b-a3b"
    assert "a model or --shape" in run(*asked, "--shape", "x")[2]
