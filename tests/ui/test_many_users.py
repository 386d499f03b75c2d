"""Turns of users who share one process, and the garbage collector's view of it."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from advisor.ui import server
from advisor.ui.serve import answer
from advisor.ui.serve import answer as remarks
from tests.app_page import opened
from tests.e2e.ten_users import LIMIT_BYTES
from tests.e2e.views import SCENARIO
from tools.benchmarks.wire_users import wire_users


def test_what_a_page_has_loaded_is_collected_over_once_and_not_after_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit collects after each run; the time of that is the number of objects it looks at."""
    monkeypatch.setattr(server, "_settled", set())
    gc.unfreeze()
    loaded = len(gc.get_objects())
    try:
        server.settle("serve")
        assert len(gc.get_objects()) < loaded / 20
        frozen = gc.get_freeze_count()
        later = [[] for _ in range(100)]
        server.settle("serve")
        assert gc.get_freeze_count() <= frozen, "a page is settled once: what users make stays collectable"
        server.settle("design")
        assert gc.get_freeze_count() > frozen + len(later) / 2
    finally:
        gc.unfreeze()


def test_users_draw_one_after_the_other() -> None:
    inside, most = [], []

    def draw() -> None:
        with server.in_turn():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.005)
            inside.pop()

    users = [threading.Thread(target=draw) for _ in range(8)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert most == [1] * 8


def test_a_page_that_ends_early_gives_its_turn_back() -> None:
    with pytest.raises(RuntimeError), server.in_turn():
        raise RuntimeError("st.stop and st.rerun leave by an exception too")
    assert server._turn.acquire(blocking=False)
    server._turn.release()


def test_a_part_within_a_part_goes_on_with_the_turn_and_gives_it_back_at_its_own_end() -> None:
    with server.in_turn():
        start = time.perf_counter()
        with server.in_turn():
            assert time.perf_counter() - start < server.LONGEST_WAIT_S / 2
            assert not server._turn.acquire(blocking=False)
        assert server._turn.acquire(blocking=False), "what follows in the page holds up nobody"
        server._turn.release()
    assert server._turn.acquire(blocking=False)
    assert not server._turn.acquire(blocking=False), "it is given back once"
    server._turn.release()


def test_nobody_waits_long_for_a_run_that_keeps_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever went ahead without the turn gives none back, so that two never hold it later."""
    monkeypatch.setattr(server, "LONGEST_WAIT_S", 0.05)
    waited = []

    def other_user() -> None:
        start = time.perf_counter()
        with server.in_turn():
            waited.append(time.perf_counter() - start)

    with server.in_turn():
        other = threading.Thread(target=other_user)
        other.start()
        other.join()
        assert 0.04 < waited[0] < 1.0
        assert not server._turn.acquire(blocking=False)
    assert server._turn.acquire(blocking=False)
    assert not server._turn.acquire(blocking=False)
    server._turn.release()


def test_the_first_screen_is_drawn_in_turn_and_what_may_take_long_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    free: dict[str, bool] = {}

    def looks(name: str) -> Callable[..., None]:
        def draw(*_: Any) -> None:
            free[name] = server._turn.acquire(blocking=False)
            if free[name]:
                server._turn.release()

        return draw

    monkeypatch.setattr(answer, "table", looks("first screen"))
    monkeypatch.setattr(remarks, "draw_remarks", looks("tab"))
    opened()
    assert free == {"first screen": False, "tab": True}


@pytest.mark.parametrize("page", ["serve", "trust"])
def test_a_page_is_drawn_in_one_turn(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar and the first screen leave together: a browser draws the page anew for each piece that comes."""
    taken: list[float] = []

    class Counted(threading.Semaphore):
        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
            taken.append(time.perf_counter())
            return super().acquire(blocking, timeout)

    monkeypatch.setattr(server, "_turn", Counted(1))
    opened(page)
    assert len(taken) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads the server's memory from /proc")
def test_thirty_users_each_get_their_own_answer_and_the_server_stays_below_a_gibibyte() -> None:
    load = wire_users(users=30, rounds=1, query=SCENARIO)
    assert load.faults == ()
    assert load.peak_rss_bytes < LIMIT_BYTES
