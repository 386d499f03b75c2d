"""docs/cli.md from the commands themselves: `python -m tests.golden.cli_reference` writes it, a test compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from advisor.cli import root

FILE = Path(__file__).resolve().parents[2] / "docs/cli.md"
_HEAD = """# Command line

`python -m advisor COMMAND`. Every command ends with 0, or with 2 and one sentence on bad input; `COMMAND --help` prints
what stands here. This page is written from the commands (`python -m tests.golden.cli_reference`).
"""


def commands(group: click.Group = root, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """(name, command) of every command, commands of commands included."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def reference() -> str:
    """The page."""
    return _HEAD + "".join(_section(name, command) for name, command in commands())


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command)
    arguments = " ".join(
        parameter.make_metavar(context) for parameter in command.params if isinstance(parameter, click.Argument)
    )
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    rows = [record for option in options if (record := option.get_help_record(context)) is not None]
    lines = [f"\n## {name} {arguments}".rstrip(), "", " ".join((command.help or "").split()), ""]
    if rows:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{_cell(option)}` | {_cell(text)} |" for option, text in rows]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
