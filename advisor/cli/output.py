"""Tables and JSON on a terminal."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from advisor.prediction import AdvisorError
from advisor.runtime import KRange, k_by_batch_table
from advisor.text import json_text

_GLANCE_S = 0.5
"""How long something may take before its progress is shown. [s]"""
_Command = TypeVar("_Command", bound=Callable[..., Any])
_NUMBER = re.compile(r"|-|[+-]?[\d,]*\.?\d+(e[+-]?\d+)?( ?([x%s]|ms|\N{MICRO SIGN}s))?|nan")
"""A cell that is a number, with its unit or without, empty or a dash for none."""


def json_option(help_text: str = "Machine-readable output.") -> Callable[[_Command], _Command]:
    """The option --json of every command that prints an answer."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(value))


def k_by_batch_on_terminal(
    ranges: Sequence[KRange], limited: bool = False
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows of K by batch for `print_table`: whole numbers of a batch are typed as they stand."""
    columns, rows = k_by_batch_table(ranges, limited)
    plain = [(row[0].replace(" to ", "-").replace(",", ""), row[1], row[2].removesuffix("x"), *row[3:]) for row in rows]
    return tuple(name if name.startswith("K") else name.lower() for name in columns), plain


@contextmanager
def file_errors(doing: str, instead: str = "") -> Iterator[None]:
    """Turn a failure of the file system into AdvisorError: what failed, why, and what to do instead.

    doing : what is being done, as in `read FILE`.
    """
    try:
        yield
    except OSError as error:
        raise AdvisorError(f"cannot {doing}: {error.strerror or error}{instead and f'; {instead}'}") from error


def progress(doing: str) -> Callable[..., None]:
    """Shows on a terminal's standard error how far something is, once it has taken longer than a glance.

    The call it returns takes names to show, if any, and the share done. At 1 the line goes.
    """
    started_s, terminal = time.monotonic(), sys.stderr

    def show(*state: str | float) -> None:
        if not terminal.isatty() or time.monotonic() - started_s < _GLANCE_S:
            return
        names, share = state[:-1], float(state[-1])
        text = "" if share >= 1.0 else f"{' '.join([doing, *map(str, names)])}: {share:.0%}"
        terminal.write(f"\r\x1b[K{text}")
        terminal.flush()

    return show


def print_labelled(label: str, texts: Iterable[str], err: bool = False) -> None:
    """Each text on a line of its own, as `warning: text`. `err` where standard output holds a table for a machine."""
    for text in texts:
        click.echo(f"{label}: {text}", err=err)


def write_file(path: Path, content: str | bytes, instead: str = "") -> None:
    """Write text as UTF-8, or bytes as they are. Raises AdvisorError, which names `instead`, when that cannot be."""
    with file_errors(f"write {path}", instead):
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns aligned, text to the left and numbers to the right.

    A number may be given as such or written with fixed decimals.
    """
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    numeric = [all(_NUMBER.fullmatch(line[i]) for line in cells) for i in range(len(header))]
    for line in [list(header), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())
