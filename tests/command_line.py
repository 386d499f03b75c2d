"""The command line as tests call it, and the scenario most of them use."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from advisor.cli import main

QWEN = (
    "--hardware",
    "h200-sxm",
    "--model",
    "qwen3-30b-a3b",
    "--drafter",
    "eagle3",
    "--accepted-length",
    "2.4@3",
)


Run = Callable[..., tuple[int, str, str]]
"""`run` as the fixture of that name gives it: bound to the test's own streams."""


def flat(text: str) -> str:
    """Printed text without its line breaks."""
    return " ".join(text.split())


def next_of(printed: str) -> list[str]:
    """Words of the first command below `Next`, without the program."""
    following = printed.replace("\\\n", " ").partition("Next")[2].splitlines()
    words = shlex.split(next(line for line in following if "advisor" in line), comments=True)
    return words[words.index("advisor") + 1 :]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of one call."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), printed.out, printed.err
