"""How far a long command is: on a terminal, on standard error, and nowhere else.

Each command, option, environment variable and configured setting is documented, and no other.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from advisor.cli import output
from advisor.cli.output import progress
from tests.command_line import QWEN, run
from tests.golden.cli_reference import FILE, commands, reference


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


ROOT = Path(__file__).resolve().parents[2]


SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")


MAKE = {"PYTHON", "PORT"}


def documented() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", SETTINGS, flags=re.M))


def test_the_command_line_s_page_is_what_the_commands_say() -> None:
    assert FILE.read_text(encoding="utf-8") == reference(), "run: python -m tests.golden.cli_reference"


def test_every_command_and_option_says_what_it_is_for() -> None:
    silent = [
        f"{name} {'/'.join(option.opts)}"
        for name, command in commands()
        for option in command.params
        if option.param_type_name == "option" and not getattr(option, "help", None)
    ]
    assert not silent
    assert all(command.help for _, command in commands())


def test_every_environment_variable_is_documented_and_no_other() -> None:
    files = [*(ROOT / "advisor").rglob("*.py"), ROOT / "app.py", ROOT / "tests/e2e/app_server.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    read = set(re.findall(r"\bMOE_ADVISOR_[A-Z]+\b", code))
    read |= set(re.findall(r'environ\.get\("(?!PYTHONPATH)(\w+)"', code))
    assert len(read) >= 4
    assert read == {name for name in documented() if name.isupper()} - MAKE


def test_every_variable_of_the_makefile_is_documented() -> None:
    given = re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    assert set(given) - {"VENV", "BIN"} == MAKE <= documented()


def test_every_setting_of_the_app_is_documented_with_its_value() -> None:
    found = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))
    wanted = {
        f"{section}.{name}": value if isinstance(value, str) else json.dumps(value)
        for section in ("server", "browser", "client")
        for name, value in found[section].items()
    }
    for name, value in wanted.items():
        assert f"| `{name}` | {value} |" in SETTINGS, name
    assert {name for name in documented() if "." in name} == set(wanted)


@pytest.mark.parametrize(
    "typed",
    [
        ("advise", *QWEN, "--batch", "1\N{FULLWIDTH DIGIT SIX}"),
        ("advise", *QWEN, "--batch", "1_6"),
        ("simulate", *QWEN, "--switch-ms", "nan"),
        ("design", *QWEN, "--top", "\N{ARABIC-INDIC DIGIT FOUR}"),
        ("rank", "--users", "1\N{FULLWIDTH DIGIT SIX}"),
    ],
)
def test_an_option_takes_a_number_in_ascii_digits_alone(capsys: pytest.CaptureFixture[str], typed: tuple[str, ...]):
    status, printed, said = run(capsys, *typed)
    assert (status, printed) == (2, "")
    assert f"'{typed[-1]}' is not a number" in said
