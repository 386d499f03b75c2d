"""Many users of one process: whose turn it is to be drawn, and what the garbage collector need not look at.

All users' runs share one interpreter, which works on one of them at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import threading
from collections.abc import Iterator

LONGEST_WAIT_S = 2.0
"""Choice of this project: a user waits for the turn no longer than this, then runs beside whoever has it. [s]"""

_turn = threading.Semaphore(1)
_mine = threading.local()
_settled: set[str] = set()


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Draw a part of a page that takes a moment while nobody else draws one.

    Runs that take turns within such a part all end when the last of them would; one after the other, half of them end
    in half that time, and none pays for the changes between them. For parts of a few hundredths of a second: whoever
    searches or simulates has given the turn back.

    A part within a part goes on with the turn that is held, and gives it back at its own end, not at the outer one's:
    so bar and first screen leave in one piece, which the browser draws once, and what follows in the page holds up
    nobody.

    A run that its user has superseded still waits for its turn: Streamlit ends a run at its next call of Streamlit, and
    waiting is none. So a user who changes a setting while others draw stands in the line twice, each time for no
    longer than LONGEST_WAIT_S.
    """
    if not _holds():
        _mine.turn = _turn.acquire(timeout=LONGEST_WAIT_S)
    try:
        yield
    finally:
        if _holds():
            _mine.turn = False
            _turn.release()


def _holds() -> bool:
    """Whether this thread has the turn."""
    return bool(getattr(_mine, "turn", False))


def settle(page: str) -> None:
    """Take all that is loaded by now out of the garbage collector's sight, once for each page.

    Streamlit collects after every run of the script, and holds up all users while it does: 0.11 s over the modules and
    tables that a process keeps to its end, 1 ms over what the runs since have made. A page that is opened for the first
    time loads more of them.

    What other users' runs hold at that moment is taken along. It is still freed when its last reference goes; what
    refers to itself in a circle is not, until the process ends. That leak is bounded: each page is settled once, so it
    is at most what all runs held at as many moments as there are pages.
    """
    if page not in _settled:
        _settled.add(page)
        gc.collect()
        gc.freeze()
        atexit.register(gc.unfreeze)  # else libraries complain at the end of what is still there
