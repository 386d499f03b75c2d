"""No test asserts seconds of any clock: a bound is of work or of growth (tests/work.py), and times
are printed by tools/benchmarks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {
    "time",
    "monotonic",
    "perf_counter",
    "process_time",
    "thread_time",
    "getrusage",
    "clock_gettime",
    "times",
    "setitimer",
    "alarm",
}
"""Names of functions that read a clock of the machine, or end a call by one."""
STATES_NO_TIME = {
    "e2e/app_server.py": "waits for a server of its own to answer, as long as it takes to start",
    "e2e/ten_users.py": "prints what ten users wait",
    "pages/test_profile.py": "waits for a run of another process, whose end is the test",
    "profiling/test_runner.py": "a time of day between two others",
}
"""Files that read a clock, and why none of them judges how long something took."""


def clock_reads(source: str) -> Iterator[int]:
    """Lines that read a clock of the machine, or give Hypothesis a deadline."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = node.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr in CLOCKS
                and isinstance(function.value, ast.Name)
                and function.value.id in ("time", "os", "resource", "signal")
            ):
                yield node.lineno
            if isinstance(function, ast.Name) and function.id in CLOCKS - {"time", "times"}:
                yield node.lineno
            if getattr(function, "id", "") == "settings":
                yield from (
                    keyword.value.lineno
                    for keyword in node.keywords
                    if keyword.arg == "deadline" and not _is_none(keyword.value)
                )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@pytest.mark.parametrize(
    "planted",
    [
        "assert time.monotonic() - start < 30",
        "spent = time.process_time()",
        "signal.setitimer(signal.ITIMER_PROF, 20)",
        "begin = perf_counter()",
        "@settings(deadline=200)\ndef test(): ...",
    ],
)
def test_a_planted_clock_is_seen(planted: str) -> None:
    assert [*clock_reads(planted)] == [1]


def test_no_test_reads_a_clock_but_to_wait() -> None:
    reading = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and [*clock_reads(path.read_text(encoding="utf-8"))]
    }
    assert reading == set(STATES_NO_TIME)
