"""The app as a process and a Chromium to drive it, for journeys, screenshots and the benchmark."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",
]
BUSY_MS = 120_000
"""How long anything may take: each wait is for a condition and ends with it, this is when it counts
as broken. [ms]"""
DONE = "[data-testid=stApp][data-test-script-state=notRunning]"


def chromium_path() -> str | None:
    """The browser to drive: environment variable CHROMIUM, else the one on the path; None without
    one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(
        (found for name in names if (found := shutil.which(name))), None
    )


def start_app(port: int) -> subprocess.Popen[bytes]:
    """Start `streamlit run serve.py` on 127.0.0.1:port."""
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(port)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def free_port() -> int:
    """A TCP port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(url: str, limit_s: float = BUSY_MS / 1e3) -> None:
    """Return once the server answers; raises TimeoutError after limit_s."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=1) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise TimeoutError(f"no app at {url} after {limit_s:.0f} s")


@contextlib.contextmanager
def started_app() -> Iterator[tuple[str, int]]:
    """The app's address and process id; the process ends with the block."""
    port = free_port()
    process = start_app(port)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(url)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(timeout=10)


@contextlib.contextmanager
def running_app() -> Iterator[str]:
    """The app's address; the process ends with the block."""
    with started_app() as (url, _):
        yield url


@contextlib.contextmanager
def running_browser() -> Iterator[Any]:
    """A headless Chromium under Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


def new_context(browser: Any, **how: Any) -> Any:
    """A browser's context whose waits last long enough for a machine that does other things too."""
    made = browser.new_context(**how)
    made.set_default_timeout(BUSY_MS)
    made.set_default_navigation_timeout(BUSY_MS)
    return made


def wait_until(page: Any, condition: str, arg: object = None, timeout_ms: int = BUSY_MS) -> None:
    """Return once a condition written in JavaScript holds. Looked at ten times a second: to look at
    every frame, which is Playwright's default, makes the page draw and lay out every frame."""
    page.wait_for_function(condition, arg=arg, timeout=timeout_ms, polling=100)


def wait_until_drawn(page: Any, selector: str = "", timeout_ms: int = BUSY_MS) -> None:
    """Return once the script has ended and, when given, `selector` is there."""
    if selector:
        page.wait_for_selector(selector, timeout=timeout_ms)
    page.wait_for_selector(DONE, state="attached", timeout=timeout_ms)
