"""docs/cli.md and advisor/cli/help.json from the commands themselves: `python -m
tests.golden.cli_reference` writes them, a test compares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from advisor.cli import HELP, root
from advisor.cli.asked import SCENARIO_OPTIONS

FILE = Path(__file__).resolve().parents[2] / "docs/cli.md"
_HEAD = """# Command line

`python -m advisor COMMAND`, or `advisor COMMAND` where it is installed. Every command ends with 0, or with 2 and one
sentence on bad input; `COMMAND --help` prints what stands here. Lines fit the terminal, 100 characters at most; tables
are colored on a terminal alone, and not at all where `NO_COLOR` is set. This page is written from the commands
(`python -m tests.golden.cli_reference`).

Completion of commands and options by the shell, for bash (zsh and fish likewise):

    eval "$(_ADVISOR_COMPLETE=bash_source advisor)"

## A scenario

`MODEL` is an id of `models`, a Hugging Face name or the path of a config.json. `--gpus 8xH200` names GPUs and their
accelerator: one instance over them, tensor parallel within a node, unless `--tp` or `--ep` is given. What is left open
is taken as the app takes it and named in a line `assumed:` on standard error: the model's own MTP module as drafter,
else EAGLE-3, with the accepted length of the nearest measured curve.

"""  # noqa: E501


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
    shared = _options(SCENARIO_OPTIONS, click.Context(root))
    return (
        _HEAD
        + "\n".join(shared)
        + "\n"
        + "".join(_section(name, command) for name, command in commands())
    )


class _Recorder(click.HelpFormatter):
    """Calls of a formatter that lay text out, in their order."""

    calls: list[list[Any]]

    def __init__(self) -> None:
        super().__init__()
        self.calls = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("write") and name not in ("indent", "dedent"):
            return super().__getattribute__(name)
        return lambda *arguments: self.calls.append([name, *arguments])


def pages() -> str:
    """What each command gives the formatter of its help, as JSON: calls, and their numbers by
    command."""
    numbers: dict[str, int] = {}
    places: dict[str, list[int]] = {}
    for name, command in commands():
        if name.split()[0] == name:
            recorder = _Recorder()
            command.format_help(click.Context(command, **root.context_settings), recorder)
            recorder.calls[0].remove("")  # the name that is typed
            texts = map(json.dumps, recorder.calls)
            places[name] = [numbers.setdefault(text, len(numbers)) for text in texts]
    calls = ",\n".join(numbers)
    listed = ",\n".join(f"{json.dumps(name)}: {place}" for name, place in places.items())
    return f'{{"calls": [\n{calls}\n],\n"commands": {{\n{listed}\n}}}}\n'


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command)
    arguments = " ".join(
        parameter.make_metavar(context)
        for parameter in command.params
        if isinstance(parameter, click.Argument)
    )
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    own = [option for option in options if option not in SCENARIO_OPTIONS]
    lines = [
        f"\n## {name} {arguments}".rstrip(),
        "",
        " ".join((command.help or "").replace("\b", "").split()),
        "",
    ]
    if own:
        lines += _options(own, context)
    if len(own) < len(options):
        lines += ["", "And the options of [a scenario](#a-scenario)."]
    return "\n".join(lines).rstrip() + "\n"


def _options(options: Sequence[click.Option], context: click.Context) -> list[str]:
    rows = [record for option in options if (record := option.get_help_record(context)) is not None]
    return [
        "| option | meaning |",
        "|---|---|",
        *(f"| `{_cell(option)}` | {_cell(text)} |" for option, text in rows),
    ]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
    HELP.write_text(pages(), encoding="utf-8")
