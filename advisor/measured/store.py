"""The store of measured kernels: its tables, opening it read-only, one writer a file, and questions
to it.

Answers are pandas frames in a fixed row order, times in seconds (`latency_s`, the mean of `repeats`
whose largest over smallest is `repeat_spread`). A question that nothing answers gives an empty
frame with all columns.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pandas as pd
from filelock import FileLock, Timeout

from advisor.measured.store_tables import DTYPE_NAMES, KERNEL_TABLES
from advisor.prediction import AdvisorError
from advisor.profiles import PACKAGE, data_root, is_there

STORE_VARIABLE = "MOE_ADVISOR_STORE"
BUILD_COMMAND = "python -m advisor store build"
MEMORY_LIMIT = "1GB"
THREADS = 2


def default_store_path() -> Path:
    """Path of the store where none is named: MOE_ADVISOR_STORE, else advisor.duckdb in
    `data_folder()`."""
    path = os.environ.get(STORE_VARIABLE)
    return Path(path).expanduser() if path else data_folder() / "advisor.duckdb"


def data_folder(package: Path = PACKAGE) -> Path:
    """Folder for all that the advisor writes: a checkout's `.data`, else the user's data folder for
    it."""
    root = data_root(package)
    if root == package.parent:
        return root / ".data"
    from platformdirs import user_data_path

    return user_data_path("moe-sd-advisor", appauthor=False)


def quoted(path: Path) -> str:
    """A path as an SQL string. ATTACH and COPY take no parameters."""
    return "'" + str(path).replace("'", "''") + "'"


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Hold the write lock of a database, a file `<path>.lock` beside it.

    The system frees it when its holder dies.

    Works between processes and between threads of one process. Raises AdvisorError when another
    writer has it, or when its folder cannot be written.
    """
    # `is_being_written` holds the lock for a moment.
    lock = FileLock(path.with_name(path.name + ".lock"), timeout=0.2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:  # an OSError too, so it comes first
        raise AdvisorError(
            f"{path} is being written by another process or thread; wait until it has finished "
            "and try again"
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise AdvisorError(
            f"cannot write {path}: {reason}; set MOE_ADVISOR_STORE to a folder you can write"
        ) from error
    try:
        yield
    finally:
        lock.release()


def is_being_written(path: Path) -> bool:
    """Whether a process or thread holds the write lock of a database."""
    lock = path.with_name(path.name + ".lock")
    if not is_there(lock):
        return False
    try:
        with FileLock(lock, timeout=0.0):
            return False
    except Timeout:
        return True
    except OSError:  # nobody can write there
        return False


DAMAGE = (
    duckdb.SerializationException,
    duckdb.InternalException,
    duckdb.FatalException,
    duckdb.IOException,
)
"""What DuckDB raises where a file that it could open is cut or overwritten further in."""


def is_full_disk(error: Exception) -> bool:
    """Whether DuckDB or the system says that no space is left."""
    text = str(error).lower()
    return (
        "no space" in text or "disk full" in text or getattr(error, "errno", None) == errno.ENOSPC
    )


@contextmanager
def storage_faults(
    path: Path, damaged: str, kinds: Sequence[type[Exception]] = (duckdb.Error,)
) -> Iterator[None]:
    """Turn what a disk, a lock or damage does to a database into AdvisorError.

    The message says what happened, why, and what to do.

    damaged : what to do about a damaged file.
    """
    caught: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except caught as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        text = reason.lower()
        if is_full_disk(error):
            remedy = "free some space and try again; nothing was changed"
        elif "permission" in text or "read-only" in text or "read only" in text:
            remedy = f"set {STORE_VARIABLE} to a folder you can write"
        elif re.search(r"\block", text):
            remedy = "close the program that uses it and try again"
        else:
            remedy = damaged
        raise AdvisorError(f"{path} cannot be used ({reason}); {remedy}") from error


class Store:
    """An open store. Safe to share between threads: each question runs on its own cursor."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self._connection = connection

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor of this connection, for one thread and one question."""
        cursor = self._connection.cursor()
        cursor.execute("USE store")  # a cursor starts in the empty in-memory catalogue
        return cursor

    def frame(self, sql: str, parameters: list[Any] | None = None) -> pd.DataFrame:
        """The rows of one query as a pandas frame."""
        with self._faults(), self.cursor() as cursor:
            return cursor.execute(sql, parameters or []).df()

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of one query as tuples."""
        with self._faults(), self.cursor() as cursor:
            return cursor.execute(sql, parameters or []).fetchall()

    def _faults(self) -> AbstractContextManager[None]:
        return storage_faults(self.path, f"rebuild it with `{BUILD_COMMAND}`", DAMAGE)

    def info(self) -> dict[str, str]:
        """Notes of the build about itself: schema_version, built_utc, kernel_package_version,
        ..."""
        return {
            str(key): str(value) for key, value in self.rows("SELECT key, value FROM store_info")
        }

    def close(self) -> None:
        """Give the file back. Cursors in use fail from here on."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_store(path: str | os.PathLike[str] | None = None) -> Store:
    """Open the store for reading.

    Parameters
    ----------
    path : the .duckdb file; None takes `default_store_path()`.

    Raises
    ------
    AdvisorError : no store there, not a store of this program, or one of another schema version.
        The message says which command builds it.

    Notes
    -----
    The file is attached read-only to a private in-memory database: a rebuilt file (swapped in by
    rename) is then seen by the next `open_store`, while DuckDB would hand out its cached instance
    of the old one for the same path. External access is off and the configuration locked, so no
    query reaches another file.
    """

    file = Path(path) if path is not None else default_store_path()
    if not is_there(file) or not file.is_file():
        raise AdvisorError(f"there is no store at {file}; run `{BUILD_COMMAND}`")
    connection = duckdb.connect(
        ":memory:", config={"memory_limit": MEMORY_LIMIT, "threads": THREADS}
    )
    try:
        connection.execute(f"ATTACH {quoted(file)} AS store (READ_ONLY)")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        store = Store(file, connection)
        version = store.info().get("schema_version")
    except AdvisorError:
        connection.close()
        raise
    except (duckdb.Error, OSError) as error:
        connection.close()
        first = str(error).splitlines()[0]
        raise AdvisorError(
            f"{file} is not a usable store ({first}); rebuild it with `{BUILD_COMMAND}`"
        ) from error
    if version != SCHEMA_VERSION:
        connection.close()
        raise AdvisorError(
            f"{file} has schema version {version}, this program needs {SCHEMA_VERSION}; rebuild "
            f"it with `{BUILD_COMMAND}`"
        )
    return store


_TIMED = "latency_s DOUBLE NOT NULL CHECK (isfinite(latency_s) AND latency_s > 0)"
# NaN and infinity pass a bare `> 0` in DuckDB, hence isfinite.
_REPEATED = (
    "repeats INTEGER NOT NULL, repeat_spread DOUBLE NOT NULL CHECK (isfinite(repeat_spread))"
)
_LAYOUT = repr([(name, tuple(table.columns.items())) for name, table in KERNEL_TABLES.items()])
SCHEMA_VERSION = f"3-{hashlib.sha256(_LAYOUT.encode()).hexdigest()[:8]}"
"""Version of the tables beside the kernels', raised by hand, and eight digits over those and their
columns.

A store of another one is refused with the command that rebuilds it.
"""


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Make all tables of a store in an empty database."""
    connection.execute("CREATE TABLE store_info (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)")
    connection.execute(
        """CREATE TABLE kernel_files (
            file_id INTEGER PRIMARY KEY, path VARCHAR NOT NULL, source_table VARCHAR NOT NULL, target VARCHAR NOT NULL,
            hardware_id VARCHAR NOT NULL, engine VARCHAR NOT NULL, version VARCHAR NOT NULL,
            row_labels VARCHAR NOT NULL, collection_status VARCHAR NOT NULL, provenance VARCHAR NOT NULL,
            rows_read BIGINT NOT NULL, rows_kept BIGINT NOT NULL, content_hash VARCHAR NOT NULL, copy_of INTEGER)"""  # noqa: E501
    )
    connection.execute(
        "CREATE TABLE dropped_rows (path VARCHAR NOT NULL, reason VARCHAR NOT NULL, n_rows BIGINT "
        "NOT NULL)"
    )
    for name, table in KERNEL_TABLES.items():
        keys = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        connection.execute(
            f"CREATE TABLE {name} (file_id INTEGER NOT NULL, {keys}, {_TIMED}, {_REPEATED})"
        )
    connection.execute(
        """CREATE TABLE plain_decode (
            point_id VARCHAR PRIMARY KEY, hardware_id VARCHAR NOT NULL, engine VARCHAR NOT NULL,
            version VARCHAR, model VARCHAR NOT NULL, weight_dtype VARCHAR, serving_mode VARCHAR NOT NULL,
            input_tokens INTEGER, output_tokens INTEGER, batch_size INTEGER, tensor_parallel INTEGER,
            pipeline_parallel INTEGER, attention_data_parallel INTEGER, moe_tensor_parallel INTEGER,
            expert_parallel INTEGER, n_workers INTEGER, gemm_dtype VARCHAR, moe_dtype VARCHAR, ttft_s DOUBLE,
            tpot_s DOUBLE NOT NULL CHECK (isfinite(tpot_s) AND tpot_s > 0), source VARCHAR NOT NULL,
            use VARCHAR NOT NULL CHECK (use = 'validation only, never fitted'))"""  # noqa: E501
    )


BYTES_PER_ELEMENT = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "float32": 4, "fp32": 4}


def kernel_table(
    store: Store, table: str, hardware_id: str, engine: str | None = None, **which: str | int | None
) -> pd.DataFrame:
    """Measured times of one kernel on one accelerator. `table` is a name of KERNEL_TABLES, which
    says what a row is.

    `which`: exact values of its columns, None for all; `ep` means moe_ep_size, where 1 keeps the
    rows of whole layers. The all-reduce gets message_bytes [bytes] beside its elements, missing for
    a dtype of unknown size. Raises AdvisorError for a table or a column that does not exist.
    """
    if table not in KERNEL_TABLES:
        raise AdvisorError(
            f"there is no kernel table {table!r}; choose one of {', '.join(KERNEL_TABLES)}"
        )
    keys = tuple(KERNEL_TABLES[table].columns)
    filters = {"hardware_id": hardware_id, "engine": engine, **which}
    if "ep" in filters:
        filters["moe_ep_size"] = filters.pop("ep")
    unknown = set(filters) - {"hardware_id", "engine", "version", *keys}
    if unknown:
        raise AdvisorError(f"the table {table!r} has no column {', '.join(sorted(unknown))}")
    aliased = {
        name: DTYPE_NAMES.get(str(value), value) if name.endswith("dtype") else value
        for name, value in filters.items()
    }
    values = {name: value for name, value in aliased.items() if value is not None}
    condition = " AND ".join(f"{name} = ?" for name in values)
    order = ("hardware_id", "engine", "version", *keys)
    frame = store.frame(
        f"""SELECT hardware_id, engine, version, {", ".join(keys)}, latency_s, repeats, repeat_spread
            FROM {table} JOIN kernel_files USING (file_id) WHERE {condition}
            ORDER BY {", ".join(f"{name} NULLS LAST" for name in order)}""",  # noqa: E501
        list(values.values()),
    )
    if table == "all_reduce":
        size = frame["dtype"].map(BYTES_PER_ELEMENT).astype("float64")
        frame.insert(
            frame.columns.get_loc("message_elements") + 1,
            "message_bytes",
            frame["message_elements"] * size,
        )
    # The weights of one layer exceed 2^31 elements: products of 32-bit columns would wrap around
    # silently.
    return frame.astype({name: "int64" for name in frame.columns if frame[name].dtype == "int32"})


def plain_decode_points(store: Store) -> pd.DataFrame:
    """End-to-end points without speculation, with tpot_s and ttft_s [s]. They judge predictions;
    never fit on them."""
    return store.frame("SELECT * FROM plain_decode ORDER BY point_id")


def coverage(store: Store) -> pd.DataFrame:
    """Table of what is measured.

    hardware_id, engine, version, op, dtype, n_shapes, n_rows, smallest and largest n_tokens.
    """
    parts = [
        f"""SELECT hardware_id, engine, version, '{name}' AS op, {table.label} AS dtype,
            count(DISTINCT {table.shape}) AS n_shapes, count(*) AS n_rows, min({table.tokens}) AS min_tokens,
            max({table.tokens}) AS max_tokens
            FROM {name} JOIN kernel_files USING (file_id) GROUP BY ALL"""  # noqa: E501
        for name, table in KERNEL_TABLES.items()
    ]
    return store.frame(f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY ALL")


def kernel_sources(store: Store) -> pd.DataFrame:
    """Package files that were read. Path, labels of its rows, collection status, rows, and the file
    it copies."""
    return store.frame(
        """SELECT f.path, f.hardware_id, f.engine, f.version, f.source_table, f.row_labels, f.collection_status,
            f.provenance, f.rows_read, f.rows_kept, o.path AS copy_of
            FROM kernel_files f LEFT JOIN kernel_files o ON f.copy_of = o.file_id ORDER BY f.path"""  # noqa: E501
    )


def dropped_rows(store: Store) -> pd.DataFrame:
    """Rows left out, counted by file and reason."""
    return store.frame("SELECT * FROM dropped_rows ORDER BY ALL")
