"""Ten users of one server at once: each in a browser context of its own, all changing widgets
together."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.app_server import DONE, new_context, running_browser, started_app
from tests.e2e.views import ANSWER, SCENARIO

USERS = 10
ROUNDS = 4
LIMIT_BYTES = 1 << 30
_HEADLINE = "batch => window.moeLive?.taken === batch"
_WATCH = """batch => {
  const shown = HEADLINE, start = performance.now();
  window.answered_ms = null;
  const look = () => shown(batch) ? window.answered_ms = performance.now() - start : setTimeout(look, 50);
  look();
}""".replace("HEADLINE", _HEADLINE)  # noqa: E501
"""Notes in the page itself when its user's answer stands, so that no user's time holds the wait for
another's."""
_FAULTS = "[data-testid=stException], [data-testid=stMain] [data-testid=stAlertContentError]"


@dataclass(frozen=True)
class Load:
    """What ten users met: faults on their screens, the server's largest resident memory, how long
    each round took."""

    faults: tuple[str, ...]
    peak_rss_bytes: int
    round_s: tuple[float, ...]
    """From the first change to the last answer, the driver's typing for one user after another
    included. [s]"""
    user_s: tuple[float, ...]
    """From each user's change to that user's answer, over all rounds. [s]"""
    server_cpu_s: float
    """Processor time of the server for one change of one user. [s]"""
    browser_cpu_s: float
    """Processor time of the browser's processes for the same, the driver's among them. [s]"""


def peak_rss_bytes(pid: int) -> int:
    """The most memory a process has had resident so far (Linux). [bytes]"""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def tree_cpu_s(pid: int) -> float:
    """The same for a process and all that it has started, and these have, ended or not (Linux).
    [s]"""
    with contextlib.suppress(
        FileNotFoundError, ProcessLookupError
    ):  # it ended just now; its parent counts it
        return cpu_s(pid, ended=True) + sum(tree_cpu_s(child) for child in _children(pid))
    return 0.0


def _children(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    listed = (
        file.read_text(encoding="ascii") for file in Path(f"/proc/{pid}/task").glob("*/children")
    )
    return [int(child) for line in listed for child in line.split()]


def cpu_s(pid: int, ended: bool = False) -> float:
    """Processor time that a process has taken so far, its own and the system's for it (Linux). [s]

    ended : with that of its children that have ended.
    """
    values = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, values[11 : 15 if ended else 13])) / os.sysconf("SC_CLK_TCK")


def ten_users() -> Load:
    """Ten sessions open the app, then change batch size, model and page at once, none waiting for
    another."""
    faults: list[str] = []
    times: list[float] = []
    each: list[float] = []
    with started_app() as (url, pid), running_browser() as browser:
        contexts = [
            new_context(browser, viewport={"width": 1280, "height": 1000}) for _ in range(USERS)
        ]
        pages = [context.new_page() for context in contexts]
        for page in pages:
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.goto(f"{url}/?{SCENARIO}", wait_until="commit")
        for page in pages:
            page.wait_for_selector(ANSWER, timeout=120_000)
        cpu = cpu_s(pid)
        browsers_cpu = _browsers_cpu_s(pid)
        for number in range(ROUNDS):
            start = time.perf_counter()
            for user, page in enumerate(pages):
                page.evaluate(_WATCH, _batch(user, number))
                _enter_batch(page, _batch(user, number))
            for page in pages:
                # Looked at now and then: to look at every frame makes the page draw every frame.
                page.wait_for_function("window.answered_ms !== null", timeout=120_000, polling=50)
            times.append(time.perf_counter() - start)
            each += [float(page.evaluate("window.answered_ms")) / 1e3 for page in pages]
            for page in pages:
                page.wait_for_selector(DONE, state="attached", timeout=120_000)
        cpu = (cpu_s(pid) - cpu) / (USERS * ROUNDS)
        browsers_cpu = (_browsers_cpu_s(pid) - browsers_cpu) / (USERS * ROUNDS)
        for page, name in zip(
            pages, itertools.cycle(("Design", "Measure", "Trust", "Serve")), strict=False
        ):
            page.get_by_role("link", name=name, exact=True).first.click()
        for page in pages:
            page.wait_for_timeout(300)
            page.wait_for_selector(DONE, state="attached", timeout=120_000)
            faults += page.locator(_FAULTS).all_inner_texts()
        return Load(
            tuple(faults), peak_rss_bytes(pid), tuple(times), tuple(each), cpu, browsers_cpu
        )


def _browsers_cpu_s(server: int) -> float:
    """Processor time of all that this process has started but the server. [s]"""
    return sum(tree_cpu_s(child) for child in _children(os.getpid()) if child != server)


def _batch(user: int, number: int) -> int:
    """A batch size that nobody else asks for, so that no answer is remembered."""
    return 17 + 2 * (USERS * number + user)


def _enter_batch(page: Any, batch: int) -> None:
    box = page.get_by_label("Batch, exact value")
    box.fill(str(batch))
    box.press("Enter")
