"""Opening the store: read-only, cut off from the file system, one cursor per use. One writer per file."""

from __future__ import annotations

import errno
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

from advisor.prediction import AdvisorError
from advisor.profiles import PACKAGE, data_root, is_there

STORE_VARIABLE = "MOE_ADVISOR_STORE"
BUILD_COMMAND = "python -m advisor store build"
MEMORY_LIMIT = "1GB"
THREADS = 2


def default_store_path() -> Path:
    """Path that the store has unless one is named.

    Environment variable MOE_ADVISOR_STORE, else advisor.duckdb in `data_folder()`.
    """
    given = os.environ.get(STORE_VARIABLE)
    return Path(given).expanduser() if given else data_folder() / "advisor.duckdb"


def data_folder(package: Path = PACKAGE) -> Path:
    """Folder for all that the advisor writes.

    `.data` of a checkout; installed, the user's data folder for this program.
    """
    root = data_root(package)
    if root == package.parent:
        return root / ".data"
    from platformdirs import user_data_path

    return user_data_path("moe-sd-advisor", appauthor=False)


def quoted(path: Path) -> str:
    """A path as an SQL string. ATTACH and COPY take no parameters."""
    return "'" + str(path).replace("'", "''") + "'"


@contextmanager
def only_writer(path: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the write lock of a database, a file `<path>.lock` beside it.

    The system frees it when its holder dies.

    Works between processes and between threads of one process. Raises AdvisorError when another writer still has it
    after `wait_s` [s], or when its folder cannot be written.
    """
    lock = FileLock(path.with_name(path.name + ".lock"), timeout=wait_s, poll_interval=0.02)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:  # an OSError too, so it comes first
        raise AdvisorError(
            f"{path} is being written by another process or thread; wait until it has finished and try again"
        ) from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise AdvisorError(f"cannot write {path}: {why}; set MOE_ADVISOR_STORE to a folder you can write") from error
    try:
        yield
    finally:
        lock.release()


DAMAGE = (duckdb.SerializationException, duckdb.InternalException, duckdb.FatalException, duckdb.IOException)
"""What DuckDB raises where a file that it could open is cut or overwritten further in."""


def is_full_disk(error: Exception) -> bool:
    """Whether DuckDB or the system says that no space is left."""
    told = str(error).lower()
    return "no space" in told or "disk full" in told or getattr(error, "errno", None) == errno.ENOSPC


@contextmanager
def storage_faults(path: Path, damaged: str, kinds: Sequence[type[Exception]] = (duckdb.Error,)) -> Iterator[None]:
    """Turn what a disk, a lock or damage does to a database into AdvisorError.

    The message says what happened, why, and what to do.

    damaged : what to do about a damaged file.
    """
    caught: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except caught as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        told = reason.lower()
        if is_full_disk(error):
            remedy = "free some space and try again; nothing was changed"
        elif "permission" in told or "read-only" in told or "read only" in told:
            remedy = f"set {STORE_VARIABLE} to a folder you can write"
        elif re.search(r"\block", told):
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
        """Notes of the build about itself: schema_version, built_utc, kernel_package_version, ..."""
        return {str(key): str(value) for key, value in self.rows("SELECT key, value FROM store_info")}

    def close(self) -> None:
        """Give the file back. Cursors in use fail from here on."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(path: str | os.PathLike[str] | None = None) -> Store:
    """Open the store for reading.

    Parameters
    ----------
    path : the .duckdb file; None takes `default_store_path()`.

    Raises
    ------
    AdvisorError : no store there, not a store of this program, or one of another schema version. The message says
        which command builds it.

    Notes
    -----
    The file is attached read-only to a private in-memory database: a rebuilt file (swapped in by rename) is then seen
    by the next `open_store`, while DuckDB would hand out its cached instance of the old one for the same path.
    External access is off and the configuration locked, so no query reaches another file.
    """
    from advisor.store.schema import SCHEMA_VERSION

    file = Path(path) if path is not None else default_store_path()
    if not is_there(file) or not file.is_file():
        raise AdvisorError(f"there is no store at {file}; run `{BUILD_COMMAND}`")
    connection = duckdb.connect(":memory:", config={"memory_limit": MEMORY_LIMIT, "threads": THREADS})
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
        raise AdvisorError(f"{file} is not a usable store ({first}); rebuild it with `{BUILD_COMMAND}`") from error
    if version != SCHEMA_VERSION:
        connection.close()
        raise AdvisorError(
            f"{file} has schema version {version}, this program needs {SCHEMA_VERSION}; "
            f"rebuild it with `{BUILD_COMMAND}`"
        )
    return store
