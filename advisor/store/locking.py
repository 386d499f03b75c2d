"""One writer per file: an advisory lock that the operating system drops when its holder dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from advisor.prediction import AdvisorError


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Hold the write lock of `path` (a file `<path>.lock` beside it); raises AdvisorError when another writer has it.

    Works between processes and between threads of one process, since each call opens the lock file anew.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "a+b") as handle:
        if not _try_lock(handle):
            raise AdvisorError(
                f"{path} is being written by another process or thread; wait until it has finished and try again"
            )
        yield  # closing the handle gives the lock back


def _try_lock(handle: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            handle.seek(0)
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
