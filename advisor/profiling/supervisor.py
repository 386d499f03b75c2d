"""Runs a sweep in a child process: a crash costs a kernel, and a kernel that takes too long to compile is given up.

A kernel is compiled inside its first call, in code that no signal interrupts, so the limit is kept from outside: the
child writes into progress.json which kernel it tries and since when; past the limit it is ended, and the next child
resumes without that kernel.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from advisor.profiling.errors import ProfilingError
from advisor.profiling.results import write_atomically

DEVICE_LOST = 75
"""Exit status of a worker whose device stopped answering: a new process may resume. (sysexits: EX_TEMPFAIL)"""
RESTARTS = 6
"""New processes the supervisor starts after crashes. [-]"""
KERNEL_LIMIT_S = 90.0
"""Longest time a kernel may take at a new shape: to compile, to be checked, to be timed a few times. Triton takes
seconds; minutes mean that its compiler or the kernel hangs. [s]"""
POLL_S = 0.2


def supervise(arguments: list[str], out: Path, budget_s: float, kernel_limit_s: float = KERNEL_LIMIT_S) -> int:
    """Exit status of the sweep with these command line arguments. `budget_s` holds for all its processes together. [s]

    Raises ProfilingError when the child dies at its start, too often, or by someone's hand.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    extra: list[str] = []
    began = time.monotonic()
    for _ in range(RESTARTS + 1):
        command = [sys.executable, "-m", "advisor.profiling", *arguments, "--worker", *extra]
        child = subprocess.Popen(command, env=environment)
        status, given_up = wait(child, out / "progress.json", kernel_limit_s)
        if status >= 0 and status != DEVICE_LOST:
            return status
        if not given_up:
            _refuse_to_go_on(status, out)
            print(f"the measuring process died (status {status}); resuming in a new one", file=sys.stderr, flush=True)
        else:
            print(f"{given_up}; resuming without that kernel in a new process", file=sys.stderr, flush=True)
        left_s = max(budget_s - (time.monotonic() - began), 1.0)
        extra = ["--resume", "--after-crash", "--time-budget-s", f"{left_s:.1f}"]
    raise ProfilingError(f"the measuring process died {RESTARTS + 1} times; what was measured is in --output")


def _refuse_to_go_on(status: int, out: Path) -> None:
    """Raise ProfilingError when somebody ended the child, or it died before it could begin."""
    if status in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL):
        name = signal.Signals(-status).name
        hint = " (out of host memory, perhaps)" if status == -signal.SIGKILL else ""
        raise ProfilingError(f"the measuring process was ended by {name}{hint}; --resume goes on from there")
    if not (out / "progress.json").exists():
        raise ProfilingError(f"the measuring process died at its start (status {status})")


def wait(child: subprocess.Popen[bytes], progress: Path, kernel_limit_s: float) -> tuple[int, str]:
    """(exit status of the child, why it was ended here or ""). SIGTERM is handed on; Ctrl-C reaches it by itself."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    handlers = []
    try:
        handlers.append((signal.SIGTERM, signal.signal(signal.SIGTERM, hand_on)))
        handlers.append((signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN)))
    except ValueError:  # not in the main thread: signals do not come here
        pass
    try:
        while True:
            try:
                return child.wait(timeout=POLL_S), ""
            except subprocess.TimeoutExpired:
                why = overdue(progress, kernel_limit_s)
            if why:
                child.kill()
                status = child.wait()
                _leave_reason(progress, why)
                return status, why
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def overdue(progress: Path, kernel_limit_s: float) -> str:
    """Reason why the child should be ended: its kernel is past the limit. "" while it is not."""
    running = _content(progress).get("running", {})
    kernel, since = running.get("kernel", ""), float(running.get("since", 0.0) or 0.0)
    if not kernel or not since or time.time() - since <= kernel_limit_s:
        return ""
    return f"{kernel} took longer than {kernel_limit_s:.0f} s at a new shape, compiling included"


def _leave_reason(progress: Path, why: str) -> None:
    """Tell the next child why the kernel is not to be tried again."""
    content = _content(progress)
    if content:
        content["running"] = content.get("running", {}) | {"why": why}
        write_atomically(progress, json.dumps(content, indent=1))


def _content(progress: Path) -> dict[str, dict[str, str]]:
    try:
        content = json.loads(progress.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there yet, or just being replaced
        return {}
    return content if isinstance(content, dict) else {}
