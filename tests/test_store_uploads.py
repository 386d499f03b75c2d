"""Keeping, listing and forgetting a user's tables."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pandas as pd
import pytest

from advisor.prediction import AdvisorError
from advisor.store import build, forget_upload, list_uploads, read_upload, save_upload, uploads

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
    real = uploads.pd.DataFrame

    def without_records(data: dict[str, object]) -> pd.DataFrame:
        return real({key: value for key, value in data.items() if key != "record"})

    with monkeypatch.context() as broken:
        broken.setattr(uploads.pd, "DataFrame", without_records)
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
