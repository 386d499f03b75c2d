"""Keeping, listing and forgetting a user's tables."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from advisor.measured import kept_uploads
from advisor.measured.kept_uploads import forget_upload, list_uploads, read_upload, save_upload
from advisor.measured.store import apply
from advisor.measured.store_build import build
from advisor.prediction import AdvisorError

SHA = "ab" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "uploads.duckdb"


def sweep() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model_id": ["m", "m", None],
            "batch_size": [1, 8, 64],
            "speedup": [1.9, None, 0.8],
            "step_time_s": [0.01, 0.012, 0.031],
            "adaptive": [True, False, True],
        }
    )


def test_a_kept_table_comes_back_as_it_was(path: Path):
    name = save_upload(sweep(), name="Tuesday's sweep", sha256=SHA, path=path)
    pd.testing.assert_frame_equal(read_upload(name, path), sweep(), check_dtype=False)
    assert read_upload(name, path)["speedup"].isna().tolist() == [False, True, False]
    assert read_upload(name, path)["batch_size"].tolist() == [1, 8, 64]


def test_the_list_names_what_is_kept_oldest_first(path: Path):
    assert list_uploads(path).empty
    save_upload(sweep(), name="later", sha256=SHA, path=path, created_utc=dt.datetime(2026, 5, 2))
    save_upload(sweep(), name="earlier", sha256="cd" * 32, path=path, created_utc=dt.datetime(2026, 5, 1))
    listed = list_uploads(path)
    assert listed["name"].tolist() == ["earlier", "later"]
    assert listed["n_rows"].tolist() == [3, 3]
    assert listed["created_utc"].iloc[0] == pd.Timestamp("2026-05-01")


def test_forgetting_removes_one_table_and_only_that(path: Path):
    first = save_upload(sweep(), name="first", sha256=SHA, path=path)
    second = save_upload(sweep(), name="second", sha256="cd" * 32, path=path)
    forget_upload(first, path)
    assert list_uploads(path)["dataset_id"].tolist() == [second]
    with pytest.raises(AdvisorError, match="no kept upload"):
        read_upload(first, path)
    with pytest.raises(AdvisorError, match="no kept upload"):
        forget_upload(first, path)
    assert len(read_upload(second, path)) == 3


def test_the_same_file_is_kept_once(path: Path):
    save_upload(sweep(), name="first", sha256=SHA, path=path)
    with pytest.raises(AdvisorError, match="kept already as 'first'"):
        save_upload(sweep(), name="again", sha256=SHA, path=path)
    assert len(list_uploads(path)) == 1


def test_a_bad_cell_keeps_nothing_and_says_where(path: Path):
    table = sweep()
    table.loc[2, "speedup"] = float("inf")
    with pytest.raises(AdvisorError, match="row 3, column speedup"):
        save_upload(table, name="bad", sha256=SHA, path=path)
    assert list_uploads(path).empty


def test_a_save_that_breaks_halfway_leaves_no_trace(path: Path, monkeypatch: pytest.MonkeyPatch):
    kept = save_upload(sweep(), name="kept", sha256="cd" * 32, path=path)
    real = kept_uploads.pd.DataFrame

    def without_records(data: dict[str, object]) -> pd.DataFrame:
        return real({key: value for key, value in data.items() if key != "record"})

    with monkeypatch.context() as broken:
        broken.setattr(kept_uploads.pd, "DataFrame", without_records)
        with pytest.raises(Exception, match="record"):
            save_upload(sweep(), name="broken", sha256=SHA, path=path)
    assert list_uploads(path)["dataset_id"].tolist() == [kept]


def test_empty_tables_and_wrong_hashes_are_refused(path: Path):
    with pytest.raises(AdvisorError, match="0 rows"):
        save_upload(sweep().iloc[:0], name="empty", sha256=SHA, path=path)
    with pytest.raises(AdvisorError, match="64 lower-case hex digits"):
        save_upload(sweep(), name="x", sha256="abc", path=path)


def test_a_name_is_data_never_sql(path: Path):
    name = "x'); DROP TABLE uploads; --"
    save_upload(sweep(), name=name, sha256=SHA, path=path)
    assert list_uploads(path)["name"].tolist() == [name]


def test_rebuilding_the_store_leaves_kept_tables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "advisor.duckdb"))
    build(kernels=None)
    kept = save_upload(sweep(), name="kept", sha256=SHA)
    build(kernels=None)
    assert list_uploads()["dataset_id"].tolist() == [kept]


def test_several_threads_may_save_at_once(path: Path):
    def save(i: int) -> None:
        save_upload(sweep(), name=f"n{i}", sha256=f"{i:064x}"[::-1], path=path)

    threads = [threading.Thread(target=save, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(list_uploads(path)["name"]) == [f"n{i}" for i in range(6)]


def test_the_list_says_who_gave_it_and_how_it_was_read(path: Path):
    table = sweep().assign(file_name="run.json", reader="vllm_serve", reader_version="1", rows_refused=4)
    save_upload(table, name="run", sha256=SHA, given_by=" Ada ", path=path)
    save_upload(sweep(), name="no file", sha256="cd" * 32, path=path)
    listed = list_uploads(path).set_index("name")
    told = listed.loc["run", ["given_by", "file_name", "reader", "reader_version", "n_rows", "rows_refused", "sha256"]]
    assert told.tolist() == ["Ada", "run.json", "vllm_serve", "1", 3, 4, SHA]
    assert listed.loc["no file", ["given_by", "reader", "rows_refused"]].isna().all()


def test_a_file_of_the_first_schema_is_brought_to_the_newest_with_its_data(path: Path):
    with duckdb.connect(str(path)) as connection:
        apply(connection, kept_uploads.MIGRATIONS[:1])
        connection.execute("INSERT INTO schema_steps VALUES (0)")
        record = json.dumps({"speedup": 1.5, "file_name": "old.csv", "reader": "canonical_csv", "rows_refused": 2})
        connection.execute(
            "INSERT INTO uploads VALUES ('upload-1', 'old', ?, TIMESTAMP '2026-05-01', 1, ?)",
            [SHA, json.dumps({"speedup": "number", "file_name": "text", "reader": "text", "rows_refused": "integer"})],
        )
        connection.execute("INSERT INTO upload_rows VALUES ('upload-1', 1, ?)", [record])
    assert read_upload("upload-1", path)["speedup"].tolist() == [1.5]
    listed = list_uploads(path).iloc[0]
    assert [listed["file_name"], listed["reader"], listed["rows_refused"]] == ["old.csv", "canonical_csv", 2]
    assert pd.isna(listed["given_by"])
    assert save_upload(sweep(), name="new", sha256="cd" * 32, path=path) in set(list_uploads(path)["dataset_id"])


CHILD = """
import sys, time
import pandas as pd
from advisor.measured import kept_uploads
from advisor.measured.kept_uploads import save_upload

path, stop_at = sys.argv[1:]

class Stopping:
    "Waits for the kill before the first statement that begins with `stop_at`."

    def __init__(self, connection):
        self.connection = connection

    def execute(self, statement, *values):
        if statement.lstrip().startswith(stop_at):
            print("stopped", flush=True)
            time.sleep(60)
        return self.connection.execute(statement, *values)

    def __getattr__(self, name):
        if name == stop_at:
            print("stopped", flush=True)
            time.sleep(60)
        return getattr(self.connection, name)

real = kept_uploads.duckdb.connect
if stop_at:
    kept_uploads.duckdb.connect = lambda *given, **options: Stopping(real(*given, **options))
for i in range(1000):
    save_upload(pd.DataFrame({"speedup": [1.5] * 2000}), name=f"n{i}", sha256=f"{i:064x}"[::-1], path=path)
    print("saved", flush=True)
"""


def kill_while_saving(path: Path, stop_at: str = "", after_saves: int = 0, wait_s: float = 0.0) -> None:
    """Start a process that saves, and kill -9 it at a statement, or some time after a number of saves."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), stop_at],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    ) as child:
        try:
            expected = ["stopped"] if stop_at else ["saved"] * after_saves
            assert child.stdout is not None
            assert [child.stdout.readline().strip() for _ in expected] == expected
            time.sleep(wait_s)
        finally:
            child.send_signal(signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.parametrize(
    ("stop_at", "kept_too"),
    [("INSERT INTO uploads", 0), ("INSERT INTO upload_rows", 0), ("COMMIT", 0), ("close", 1)],
)
def test_a_process_killed_while_saving_leaves_what_was_there(path: Path, stop_at: str, kept_too: int):
    kept = save_upload(sweep(), name="kept", sha256=SHA, path=path)
    kill_while_saving(path, stop_at)
    pd.testing.assert_frame_equal(read_upload(kept, path), sweep(), check_dtype=False)
    assert len(list_uploads(path)) == 1 + kept_too  # killed after the commit: it is kept
    new = save_upload(sweep(), name="next", sha256="cd" * 32, path=path)
    assert len(read_upload(new, path)) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_a_process_killed_while_it_creates_the_file_leaves_a_file_that_works(path: Path):
    kill_while_saving(path, "INSERT INTO schema_steps")
    assert list_uploads(path).empty
    kept = save_upload(sweep(), name="kept", sha256=SHA, path=path)
    assert list_uploads(path)["dataset_id"].tolist() == [kept]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.parametrize("wait_s", [0.0, 0.013, 0.04])
def test_a_process_killed_at_any_moment_leaves_whole_tables_only(path: Path, wait_s: float):
    kept = save_upload(sweep(), name="kept", sha256=SHA, path=path)
    kill_while_saving(path, after_saves=2, wait_s=wait_s)
    listed = list_uploads(path)
    assert len(listed) >= 3
    for row in listed.itertuples():
        assert len(read_upload(row.dataset_id, path)) == row.n_rows
    pd.testing.assert_frame_equal(read_upload(kept, path), sweep(), check_dtype=False)


def test_what_is_kept_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    path, seen = tmp_path / "uploads.duckdb", set[str]()

    save_upload(sweep(), name="kept", sha256=SHA, path=path)
    path.chmod(0o644)  # as older versions left it
    before = os.umask(0o022)
    os.umask(before)
    with kept_uploads._opened(path, writing=True) as connection:
        connection.execute("INSERT INTO schema_steps VALUES (99)")
        seen |= {f"{file.name} {file.stat().st_mode & 0o777:o}" for file in tmp_path.iterdir()}
    assert {"uploads.duckdb 600", "uploads.duckdb.wal 600"} <= seen
    assert os.umask(before) == before, "what others make is as open as ever"
