"""One writer per file: an advisory lock that the operating system drops when its holder dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from advisor.prediction import AdvisorError


@contextmanager
def only_writer(path: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the write lock of `path` (a file `<path>.lock` beside it).

    Raises AdvisorError when another writer still has it after `wait_s` [s].

    Works between processes and between threads of one process, since each call opens the lock file anew.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "a+b") as handle:
        deadline = time.monotonic() + wait_s
        while not (held := _try_lock(handle)) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not held:
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
