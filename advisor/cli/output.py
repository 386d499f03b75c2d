"""Tables, sentences and JSON on a terminal, and the options that several commands share."""

from __future__ import annotations

import operator
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli import as_called, program
from advisor.prediction import AdvisorError
from advisor.profiles import write_whole
from advisor.text import json_text, typed_number, wrapped

if TYPE_CHECKING:
    from advisor.show.table import Table

WIDTH = 100
"""Longest line of prose; also where there is no terminal. [characters]"""
_GLANCE_S = 0.5
"""How long something may take before its progress is shown. [s]"""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(help_text: str = "Machine-readable output.") -> Callable[[_Command], _Command]:
    """The option --json of every command that prints an answer."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def path_option(*names: str, **more: Any) -> Callable[[_Command], _Command]:
    """An option that takes a path."""
    return click.option(*names, type=click.Path(path_type=Path), **more)


def spend_options(power: bool = True) -> Callable[[_Command], _Command]:
    """The options that say what a GPU costs and, with `power`, what it draws."""
    price = click.option(
        "--usd-per-hour",
        type=float,
        help="Price of one GPU for an hour [default: the accelerator's].",
    )
    if not power:
        return price
    log = path_option(
        "--power-log",
        help="Power during the run: CSV of nvidia-smi --query-gpu, or dcgmi dmon's output.",
    )
    k = click.option(
        "--power-k",
        type=int,
        help="K that ran while power was logged [default: the recommended one].",
    )
    return lambda command: price(log(k(command)))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(value))


def progress(doing: str) -> Callable[..., None]:
    """Shows on a terminal's standard error how far something is, once it has taken longer than a
    glance.

    The call it returns takes names to show, if any, and the share done. At 1 the line goes.
    """
    started_s = time.monotonic()
    terminal = sys.stderr

    def show(*state: str | float) -> None:
        if not terminal.isatty() or time.monotonic() - started_s < _GLANCE_S:
            return
        names = state[:-1]
        share = float(state[-1])
        text = "" if share >= 1.0 else f"{' '.join([doing, *map(str, names)])}: {share:.0%}"
        terminal.write(f"\r\x1b[K{text}")
        terminal.flush()

    return show


def text_width() -> int:
    """Characters of a line of prose: the terminal's, at most WIDTH."""
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def say(text: str) -> None:
    """Print sentences in lines that fit the terminal. Line breaks of their own stay. Nothing for an
    empty text."""
    for part in as_called(text).split("\n") if text else ():
        for line in wrapped(part, text_width(), "") or [""]:
            click.echo(line)


def print_labelled(label: str, texts: Iterable[str], err: bool = False) -> None:
    """Each text on a line of its own, as `warning: text`. `err` where standard output holds a table
    for a machine."""
    for text in texts:
        for line in wrapped(as_called(f"{label}: {text}"), text_width()):
            click.echo(line, err=err)


def next_lines(commands: Mapping[str, Sequence[str]]) -> list[str]:
    """Commands to go on with, each to be copied as it stands. commands : words of a shell line, by
    what it is for, which is said where it has room."""
    from advisor.show.words.answer import shell_lines  # not all that print tables need it

    lines = ["Next:"] if commands else []
    for what, words in commands.items():
        *rest, last = shell_lines(f"{program()} {shlex.join(words)}", text_width())
        beside = len(last) + len(what) + 4 <= text_width()
        lines += [*rest, f"{last}  # {what}" if beside else last]
    return lines


def print_next(commands: Mapping[str, Sequence[str]]) -> None:
    """Commands to go on with, below an empty line."""
    click.echo("\n".join(["", *next_lines(commands)]))


def write_file(path: Path, content: str | bytes, instead: str = "") -> None:
    """Write text as UTF-8, or bytes, whole or not at all. Raises AdvisorError, naming `instead`,
    where it cannot."""
    try:
        write_whole(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise AdvisorError(
            f"cannot write {path}: {error.strerror or error}{instead and f'; {instead}'}"
        ) from error


def print_table(table: Table[Any]) -> None:
    """Columns aligned, words to the left and numbers to the right.

    A terminal, or what COLUMNS says, gets those that it has room for and a line on the others; all
    else gets all.
    """
    is_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    if not is_terminal or find_spec("rich") is None:
        click.echo("\n".join(table.lines()))
        return
    from rich.console import Console
    from rich.table import Table as Grid

    from advisor.show.table import GAP

    width = shutil.get_terminal_size((WIDTH, 24)).columns
    visible, left_out = table.within(width)
    console = Console(width=width, highlight=False, markup=False)
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="cyan")
    for label, letter, characters in zip(
        visible.header, visible.align, visible.widths(width), strict=True
    ):
        grid.add_column(
            label, justify="left" if letter == "l" else "right", width=characters, overflow="fold"
        )
    for cells in visible.cells:
        grid.add_row(
            *cells, style="bold" if "recommended" in cells and not console.no_color else None
        )
    with console.capture() as drawn:
        console.print(grid)
    click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()))
    if left_out:
        say(f"No room for {', '.join(left_out)} ({_elsewhere()}).")


def _elsewhere() -> str:
    """Where columns stand that a terminal has no room for: options of the running command."""
    context = click.get_current_context(silent=True)
    known = (
        set()
        if context is None
        else {name for param in context.command.params for name in param.opts}
    )
    return " or ".join(
        [*(name for name in ("--csv", "--json") if name in known), "a wider terminal"]
    )


MAX_NUMBERS = 4096
"""Batch sizes, or draft lengths, of one curve. [-]"""


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers from `1,2,4`. Raises AdvisorError, which names the option, for anything else or
    too many."""
    if text.count(",") >= MAX_NUMBERS:
        raise AdvisorError(
            f"{option} has {text.count(',') + 1:,} values; at most {MAX_NUMBERS:,} are predicted "
            "at once"
        )
    try:
        return [operator.index(typed_number(piece)) for piece in text.split(",")]  # type: ignore[arg-type]
    except TypeError as error:
        raise AdvisorError(
            f"{option} {text[:60]!r} is not a comma-separated list of whole numbers, e.g. 1,2,4"
        ) from error
