"""The README's worked example is what the command prints, and its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from advisor.cli import main
from tests.golden.readme_example import validation_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Arguments of each `advisor ...` line of the README, continuation lines joined, comments
    dropped."""
    joined = re.sub(r"\s*#[^\n]*", "", README.replace("\\\n", " "))
    found = re.findall(r"^ {4,}(?:\$ )?advisor ([^\n`]+)", joined, re.MULTILINE)
    return [shlex.split(line) for line in found]


def test_the_worked_example_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    example = next(
        arguments
        for arguments in commands()
        if arguments[:2] == ["advise", "deepseek-ai/DeepSeek-V3"]
    )
    with pytest.raises(SystemExit):
        main(example)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    shown = [line.strip() for line in README.splitlines()]
    missing = [line for line in printed if line.strip() not in shown]
    assert not missing, "the README's example is stale"


def test_the_validation_table_is_the_one_of_the_validation() -> None:
    assert validation_table() in README, "run: python -m tests.golden.readme_example"


@pytest.mark.parametrize(
    "arguments",
    [a for a in commands() if a[0] in ("advise", "curve") and "--refit" not in a],
    ids=str,
)
def test_every_full_command_of_the_readme_runs(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0, capsys.readouterr().err
