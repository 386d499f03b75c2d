"""Measurements a user chose to keep, in a file of their own, so that rebuilding the store never touches them."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from filelock import Timeout

from advisor.measured.store import Migration, apply, default_store_path, only_writer, storage_faults
from advisor.prediction import AdvisorError
from advisor.profiles import is_there

MAX_ROWS = 200_000
WAIT_S = 10.0
_PART = 5_000
_KINDS = {"number": "float64", "integer": "Int64", "truth": "boolean", "text": "str"}


def _first(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE schema_steps (step INTEGER PRIMARY KEY)")
    connection.execute(
        """CREATE TABLE uploads (dataset_id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, sha256 VARCHAR NOT NULL UNIQUE,
            created_utc TIMESTAMP NOT NULL, n_rows INTEGER NOT NULL, columns VARCHAR NOT NULL)"""
    )
    connection.execute(
        "CREATE TABLE upload_rows (dataset_id VARCHAR NOT NULL, row_number INTEGER NOT NULL, record VARCHAR NOT NULL)"
    )


def _origins(connection: duckdb.DuckDBPyConnection) -> None:
    """Who gave a data set and how it was read, one column each. Read from the rows of those kept before."""
    for column, kind in (("given_by", "VARCHAR"), *ORIGIN.items()):
        connection.execute(f"ALTER TABLE uploads ADD COLUMN {column} {kind}")
    first = connection.execute("SELECT dataset_id, record FROM upload_rows WHERE row_number = 1").fetchall()
    for dataset_id, record in first:
        row = json.loads(record)
        connection.execute(
            f"UPDATE uploads SET {', '.join(f'{column} = ?' for column in ORIGIN)} WHERE dataset_id = ?",
            [*(row.get(column) for column in ORIGIN), dataset_id],
        )


ORIGIN = {"file_name": "VARCHAR", "reader": "VARCHAR", "reader_version": "VARCHAR", "rows_refused": "INTEGER"}
"""Columns of a table that came from a file, the same in every row (`advisor.measured.ingest.result.kept_table`)."""
MIGRATIONS: tuple[Migration, ...] = (_first, _origins)


def _recorded(step: int) -> Migration:
    """Migration `step` with its entry in schema_steps, so that both are there or neither."""

    def migrate(connection: duckdb.DuckDBPyConnection) -> None:
        MIGRATIONS[step](connection)
        connection.execute("INSERT INTO schema_steps VALUES (?)", [step])

    return migrate


_REPAIR = (
    "it is damaged: rename it, and new data sets go into a new file; a file of the same name ending in .wal holds only "
    "what was saved last, so rename that one first"
)


@contextmanager
def _opened(path: Path, *, writing: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """The uploads file, one user at a time across threads and processes, brought to the newest schema.

    What is only read is read where nothing can be written: on a read-only or full disk. It is its owner's alone, as is
    the log of changes that DuckDB writes beside it.
    """
    with _alone(path, writing=writing), storage_faults(path, _REPAIR), _private(path):
        connection = _connected(path, writing=writing)
        try:
            connection.execute("SET lock_configuration = true")
            _prepare(connection, path)
            yield connection
        finally:
            connection.close()


@contextmanager
def _private(path: Path) -> Iterator[None]:
    """Files made here can be read by their owner alone; so can the file itself, which older versions left open."""
    with suppress(OSError):  # not there yet, or another's
        path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _alone(path: Path, *, writing: bool) -> Iterator[None]:
    """The write lock. Where its file cannot be made, a reader goes on without."""
    with ExitStack() as held:
        try:
            held.enter_context(only_writer(path, wait_s=WAIT_S))
        except AdvisorError as error:
            if writing or not isinstance(error.__cause__, OSError) or isinstance(error.__cause__, Timeout):
                raise
        yield


def _connected(path: Path, *, writing: bool) -> duckdb.DuckDBPyConnection:
    settings: dict[str, Any] = {"enable_external_access": "false", "memory_limit": "512MB", "threads": 1}
    try:
        return duckdb.connect(str(path), config=settings)
    except duckdb.IOException:
        if writing:
            raise
        return duckdb.connect(str(path), read_only=True, config=settings)


def _prepare(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Bring the file to the newest schema. Raises AdvisorError for a file of another program or a newer version."""
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    done = connection.execute("SELECT count(*) FROM schema_steps").fetchall()[0][0] if "schema_steps" in tables else 0
    if tables and not {"schema_steps", "uploads", "upload_rows"} <= tables:
        raise AdvisorError(
            f"{path} holds tables of another program, or lacks some of its own; move it away, and it is left as it is"
        )
    if done > len(MIGRATIONS):
        raise AdvisorError(f"{path} was written by a newer version of this program; update the program")
    apply(connection, [_recorded(step) for step in range(len(MIGRATIONS))], applied=done)


def save_upload(
    frame: pd.DataFrame,
    *,
    name: str,
    sha256: str,
    given_by: str = "",
    path: str | os.PathLike[str] | None = None,
    created_utc: dt.datetime | None = None,
) -> str:
    """Keep a canonical table. All of it or nothing.

    Parameters
    ----------
    frame : one measurement per row; cells are text, finite numbers, truth values, or missing. Columns file_name,
        reader, reader_version and rows_refused, where there are any, are listed as its origin.
    name : what the user calls it.
    sha256 : of the file it was read from, 64 hex digits; one file is kept once.
    given_by : who gave it, in the user's own words; empty: not said.
    created_utc : naive time in UTC; None takes the clock.

    Returns
    -------
    The dataset id, `upload-` and twelve hex digits.

    Raises
    ------
    AdvisorError : empty or too large table, a cell that is no plain value, or the file is kept already.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise AdvisorError(f"sha256={sha256!r} is not a hash; give 64 lower-case hex digits of the uploaded file")
    if not 1 <= len(frame) <= MAX_ROWS:
        raise AdvisorError(f"{name}: {len(frame)} rows; a kept table has 1 to {MAX_ROWS}")
    if not all(isinstance(column, str) for column in frame.columns) or frame.columns.has_duplicates:
        raise AdvisorError(f"{name}: column names must be distinct texts")
    kinds = {str(column): _kind(frame[column]) for column in frame.columns}
    records = [_record(name, line, row) for line, row in enumerate(_rows(frame), start=1)]
    first = json.loads(records[0])
    origin = [first.get(column) for column in ORIGIN]
    dataset_id = f"upload-{sha256[:12]}"
    created = created_utc or dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
    incoming = pd.DataFrame({"dataset_id": dataset_id, "row_number": range(1, len(records) + 1), "record": records})
    with _opened(_file(path), writing=True) as connection:
        existing = connection.execute(
            "SELECT name FROM uploads WHERE sha256 = ? OR dataset_id = ?", [sha256, dataset_id]
        ).fetchone()
        if existing:
            raise AdvisorError(
                f"{name}: this file is kept already as {existing[0]!r} ({dataset_id}); forget that one first"
            )
        connection.execute("BEGIN")
        try:
            connection.execute(
                "INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [dataset_id, name, sha256, created, len(records), json.dumps(kinds), given_by.strip() or None, *origin],
            )
            connection.register("incoming", incoming)
            connection.execute("INSERT INTO upload_rows SELECT dataset_id, row_number, record FROM incoming")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    return dataset_id


def kept_as(sha256: str, path: str | os.PathLike[str] | None = None) -> tuple[str, str] | None:
    """(dataset id, name) of the kept table read from a file of this hash. None when it is not kept."""
    file = _file(path)
    if not is_there(file):
        return None
    with _opened(file) as connection:
        match = connection.execute("SELECT dataset_id, name FROM uploads WHERE sha256 = ?", [sha256]).fetchone()
    return (str(match[0]), str(match[1])) if match else None


def list_uploads(path: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """The kept tables, oldest first, with their origin.

    Columns: dataset_id, name, given_by, file_name, reader, reader_version, created_utc (naive, UTC), n_rows (kept),
    rows_refused, sha256 (of the file). Empty where it is not known.
    """
    columns = ["dataset_id", "name", "given_by", "file_name", "reader", "reader_version", "created_utc", "n_rows"]
    columns += ["rows_refused", "sha256"]
    file = _file(path)
    if not is_there(file):
        return pd.DataFrame(columns=columns)
    with _opened(file) as connection:
        return connection.execute(f"SELECT {', '.join(columns)} FROM uploads ORDER BY created_utc, dataset_id").df()


def read_upload(dataset_id: str, path: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """A kept table as it was saved. Raises AdvisorError when there is none of that id."""
    file = _file(path)
    if is_there(file):
        with _opened(file) as connection:
            head = connection.execute("SELECT columns FROM uploads WHERE dataset_id = ?", [dataset_id]).fetchone()
            rows = connection.execute(
                "SELECT record FROM upload_rows WHERE dataset_id = ? ORDER BY row_number", [dataset_id]
            ).fetchall()
        if head:
            return _table(dataset_id, file, head[0], [record for (record,) in rows])
    raise AdvisorError(f"no kept upload {dataset_id!r}; list_uploads() shows those there are")


def _table(dataset_id: str, file: Path, columns: str, records: list[str]) -> pd.DataFrame:
    try:
        kinds: dict[str, str] = json.loads(columns)
        frame = pd.DataFrame([json.loads(record) for record in records], columns=list(kinds), dtype="object")
        return frame.astype({column: _KINDS[kind] for column, kind in kinds.items()})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AdvisorError(
            f"the rows of {dataset_id} in {file} are damaged; the others can be read: export those, and forget this one"
        ) from error


def forget_upload(dataset_id: str, path: str | os.PathLike[str] | None = None) -> None:
    """Delete a kept table. Raises AdvisorError when there is none of that id."""
    file = _file(path)
    if not is_there(file):
        raise AdvisorError(f"no kept upload {dataset_id!r}; nothing has been kept yet")
    with _opened(file, writing=True) as connection:
        connection.execute("BEGIN")
        connection.execute("DELETE FROM upload_rows WHERE dataset_id = ?", [dataset_id])
        gone = connection.execute(
            "DELETE FROM uploads WHERE dataset_id = ? RETURNING dataset_id", [dataset_id]
        ).fetchall()
        connection.execute("COMMIT")
    if not gone:
        raise AdvisorError(f"no kept upload {dataset_id!r}; list_uploads() shows those there are")


def _file(path: str | os.PathLike[str] | None) -> Path:
    return Path(path) if path is not None else default_store_path().with_name("uploads.duckdb")


def _kind(column: pd.Series) -> str:
    if pd.api.types.is_bool_dtype(column):
        return "truth"
    if pd.api.types.is_integer_dtype(column):
        return "integer"
    return "number" if pd.api.types.is_numeric_dtype(column) else "text"


def _rows(frame: pd.DataFrame) -> Iterator[dict[Any, Any]]:
    """The rows as objects, a part of the table at a time, so that only their text is held for all."""
    for start in range(0, len(frame), _PART):
        yield from frame.iloc[start : start + _PART].to_dict("records")


def _record(name: str, line: int, row: dict[Any, Any]) -> str:
    plain = {}
    for column, cell in row.items():
        value = cell.item() if hasattr(cell, "item") else cell
        if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
            continue  # an empty cell is a column that the record does not name
        if not isinstance(value, str | int | float) or (isinstance(value, float) and math.isinf(value)):
            raise AdvisorError(f"{name}, row {line}, column {column}: {value!r} is not a text or a finite number")
        plain[str(column)] = value
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
