"""Faults stay faults: damage, full and read-only disks, foreign files, missing packages, files that
never end."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

from advisor.cli.output import write_file
from advisor.measured.store import SCHEMA_VERSION, STORE_VARIABLE, open_store
from advisor.measured.store_build import build, status
from advisor.prediction import AdvisorError
from advisor.profiles import read_file, read_up_to, write_whole
from tests.cli.test_advise import without
from tests.command_line import QWEN, Run

ROOT = Path(__file__).resolve().parents[2]
SEED = 1717


def counted(path: Path) -> None:
    with open_store(path) as store:
        store.rows("SELECT count(*) FROM moe")


def what_is_said(ask: Callable[[], object]) -> str:
    """The AdvisorError that a question ends in, as text; empty when it is answered."""
    try:
        ask()
    except AdvisorError as error:
        return str(error)
    return ""


def damage(data: bytes, kind: int, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(0, len(data)))
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + rng.bytes(64) + data[place + 64 :]
    if kind == 2:
        return data[:place] + b"\x00" * 4096 + data[place + 4096 :]
    return rng.bytes(64) + data[64:]


def test_damaged_stores_have_a_status_that_says_how_to_mend_them(tmp_path: Path) -> None:
    path = tmp_path / "advisor.duckdb"
    build(path, kernels=None)
    whole = path.read_bytes()
    rng = np.random.default_rng(SEED)
    problems = 0
    for number in range(24):
        path.write_bytes(damage(whole, number % 4, rng))
        now = status(path)
        problems += bool(now.problem)
        assert not now.problem or "python -m advisor store build" in now.problem
        said = what_is_said(lambda: counted(path))
        assert not said or "store build" in said
    assert problems > 6


def test_a_foreign_database_is_left_as_it_is_and_a_store_that_lacks_tables_has_a_problem(
    tmp_path: Path,
) -> None:
    path = tmp_path / "advisor.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE accounts (id INTEGER)")
    assert what_is_said(lambda: counted(path))
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [
            ("accounts",)
        ]
    assert "store build" in status(path).problem
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE store_info (key VARCHAR, value VARCHAR)")
        connection.execute(
            "INSERT INTO store_info VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)]
        )
    assert "store build" in status(path).problem
    for odd in (tmp_path, Path("/dev/null"), Path("x" * 5000), tmp_path / "nothing"):
        assert status(odd).problem


FILE_COMMANDS = (
    ("ingest",),
    ("fit",),
    ("predict",),
    ("validate",),
    ("acceptance",),
    ("trace", "--experts", "8"),
    ("advise", *QWEN[:2], *QWEN[4:], "--model"),
    ("advise", *QWEN[2:], "--hardware"),
    ("advise", "--scenario"),
    ("advise", *QWEN, "--refit"),
    ("explore", "mixtral"),
    ("explore", "--output", "never", "--plan"),
    ("simulate", *QWEN, "--trace"),
)


@pytest.mark.parametrize(
    "command", FILE_COMMANDS, ids=lambda command: f"{command[0]}{len(command)}"
)
def test_what_is_no_file_is_refused_in_a_sentence(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for odd in (
        "/dev/zero",
        pipe,
        "x" * 5000,
        f"{tmp_path}/{'y' * 300}.json",
        tmp_path / "absent.json",
    ):
        code, out, err = run(*command, odd)
        assert (code, out) == (2, ""), (odd, err)
        assert err.startswith("error: ")
        assert "is no path" not in err
        assert len(err) < 1500


@pytest.mark.parametrize(
    ("blocked", "suffix", "words"),
    [("typst", "pdf", "typst"), ("matplotlib", "pdf", "matplotlib"), ("typst", "md", "")],
)
def test_a_report_without_its_package_says_which_is_missing(
    tmp_path: Path, blocked: str, suffix: str, words: str
) -> None:
    out = tmp_path / f"report.{suffix}"
    done = without((blocked,), "report", *QWEN, "--no-checks", "--output", str(out))
    assert "Traceback" not in done.stderr
    assert (done.returncode == 2) == bool(words)
    assert out.exists() != bool(words)
    if words:
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("schedule", *QWEN, "--histogram", ""), "histogram"),
        (("schedule", *QWEN, "--histogram", "1:1e308,2:1e308"), "histogram"),
        (("curve", *QWEN, "--batches", ",".join(map(str, range(1, 20_001)))), "--batches"),
        (("curve", *QWEN, "--batches", ""), "--batches"),
        (("curve", *QWEN, "--k", ""), "--k"),
    ],
)
def test_absurd_and_empty_option_values_are_errors(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err) < 1500


def test_a_pipe_that_nobody_reads_is_refused_and_one_that_is_read_is_written(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nobody reads"):
        write_whole(pipe, b"never")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"read")
    assert os.read(reader, 100) == b"read"
    os.close(reader)
    write_whole(Path("/dev/null"), b"gone")


def test_a_file_is_replaced_as_a_whole_or_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "report.md"
    link = tmp_path / "link.md"
    old.write_text("old")
    old.chmod(0o640)
    link.symlink_to(old.name)
    write_whole(link, b"new")
    assert (old.read_text(), link.is_symlink(), old.stat().st_mode & 0o777) == ("new", True, 0o640)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AdvisorError, match=r"cannot write .*: No space left on device"):
        write_file(old, "half of it")
    assert old.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "report.md"]


def test_reading_takes_the_memory_of_what_is_there(tmp_path: Path) -> None:
    """A read of at most 256 MB set them all aside, so that a refit of seven rows failed where 1 GB
    is free."""
    asked: list[int] = []

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    assert read_up_to(Stream(b"x" * 3_000_000), 2_500_000) == b"x" * 2_500_000
    assert max(asked) <= 2**20
    (tmp_path / "a").write_bytes(b"abc")
    assert read_file(tmp_path / "a", 3) == b"abc"
    with pytest.raises(AdvisorError, match="more than 2 bytes"):
        read_file(tmp_path / "a", 2)


def test_a_command_that_is_terminated_takes_away_what_it_had_begun(tmp_path: Path) -> None:
    store = tmp_path / "advisor.duckdb"
    code = "import sys; from advisor.cli import main; main(['store', 'build'])"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, STORE_VARIABLE: str(store)},
        stderr=subprocess.PIPE,
    )
    while not store.with_name("advisor.duckdb.new").exists():
        assert child.poll() is None, "it ended before it was terminated"
        time.sleep(0.01)
    child.terminate()
    child.communicate()
    assert child.returncode == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["advisor.duckdb.lock"]


def test_memory_that_is_short_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("advisor.cli.root.main", short)
    code, _, err = run("models")
    assert (code, err.count("\n"), err.startswith("error: not enough memory")) == (2, 1, True)
