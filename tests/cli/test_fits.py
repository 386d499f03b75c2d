"""What commands say of a model or batch that does not fit in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from tests.command_line import QWEN, run

DEEPSEEK = ("--hardware", "h200-sxm", "--model", "deepseek-v3", "--drafter", "mtp", "--accepted-length", "2.4@3")
SENTENCE = load_setup(Scenario(model_id="deepseek-v3", drafter_id="mtp", acceptance="2.4@3")).warnings[0]
COMMANDS = ("advise", "schedule", "curve", "simulate", "explain", "export")


def arguments(command: str, folder: Path) -> tuple[str, ...]:
    more = {"curve": ("--batches", "4,16"), "export": ("--output", str(folder)), "simulate": ("--requests", "4")}
    return (command, *DEEPSEEK, *more.get(command, ()))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_in_one_sentence_that_a_model_does_not_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    status, out, err = run(capsys, *arguments(command, tmp_path))
    assert status == 0
    assert SENTENCE.startswith("Does not fit: weights take")
    assert f"warning: {SENTENCE}" in (err if command == "curve" else out)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "curve"])
def test_so_do_their_documents(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    _, out, _ = run(capsys, *arguments(command, tmp_path), "--json")
    assert SENTENCE in json.loads(out)["warnings"]


def test_a_curve_on_standard_output_stays_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = run(capsys, *arguments("curve", tmp_path))
    header, *rows = out.splitlines()
    assert all(line.count(",") >= header.count(",") for line in rows)
    assert "warning" not in out


def test_a_curve_says_which_of_its_batches_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    fits = load_setup(Scenario(acceptance="2.4@3")).memory.largest_batch
    said = f"warning: Batches above {fits:,} do not fit in memory at 2,048 tokens of context."
    assert said in run(capsys, "curve", *QWEN, "--batches", f"16,{fits + 1}")[2]
    assert said not in run(capsys, "curve", *QWEN, "--batches", f"16,{fits}")[2]
