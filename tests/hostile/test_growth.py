"""Twice as large a file costs at most about twice the work, and what is refused for its size costs
none.

Work is counted in calls (tests/work.py): no clock, so that a busy machine fails nothing.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.cli import main
from tests.hostile.corpus import METRICS, _template
from tests.hostile.test_corpus import COMMANDS
from tests.work import calls_of

HEAD = _template().splitlines()[0]
KINDS: dict[str, Callable[[int], bytes]] = {
    "line.csv": lambda n: (HEAD + "\n" + "a" * n * 20).encode(),
    "blank.csv": lambda n: ("\n" * n + HEAD + "\n" * n).encode(),
    "commas.csv": lambda n: (b"," * 10 + b"\n") * (n // 20),
    "deep.json": lambda n: b"[" * n,
    "objects.jsonl": lambda n: b"{}\n" * (n // 20),
    "strings.json": lambda n: json.dumps(["a"] * (n // 10)).encode(),
    "prose.txt": lambda n: b"just some words\nand more of them\n" * (n // 100),
    "metrics.txt": lambda n: (METRICS * (n // 100)).encode(),
}
"""A file of a size by its name."""
SIZE = 4000
LEAST = 2000
"""Calls that a command does whatever it is given. [-]"""
READERS = ("ingest", "predict", "acceptance", "trace by model", "scenario", "sweep")


def work(command: str, path: Path, data: bytes) -> int:
    """Calls of a command on a file that holds `data`."""
    path.write_bytes(data)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return calls_of(lambda: main([*COMMANDS[command], str(path)]))


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_twice_as_much_text_costs_at_most_about_twice_the_work(
    tmp_path: Path, command: str, kind: str
) -> None:
    path = tmp_path / kind
    work(command, path, KINDS[kind](SIZE // 4))  # what is loaded once is loaded
    small = work(command, path, KINDS[kind](SIZE))
    large = work(command, path, KINDS[kind](2 * SIZE))
    assert large < 2.2 * small + LEAST


@pytest.mark.parametrize("command", ["ingest", "fit", "predict", "validate"])
def test_a_table_with_too_many_columns_is_refused_before_a_cell_is_read(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "columns.csv"

    def wide(columns: int) -> bytes:
        return (",".join(f"c{column}" for column in range(columns)) + "\n1,2\n").encode()

    work(command, path, wide(2000))
    assert work(command, path, wide(40_000)) < 2 * work(command, path, wide(2000)) + LEAST
