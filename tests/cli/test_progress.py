"""How far a long command is: on a terminal, on standard error, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from advisor.cli import output
from advisor.cli.output import progress


class Terminal(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "glance_s", "expected"),
    [
        (True, 0.0, "\r\x1b[Ksimulating Cascade: 50%\r\x1b[K"),
        (True, 60.0, ""),
        (False, 0.0, ""),
    ],
)
def test_progress_is_shown_on_a_terminal_once_it_takes_long_and_goes_at_the_end(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, glance_s: float, expected: str
) -> None:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "_GLANCE_S", glance_s)
    show = progress("simulating")
    show("Cascade", 0.5)
    show(1)
    assert terminal.getvalue() == expected
