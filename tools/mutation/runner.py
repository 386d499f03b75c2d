"""Runs tests against mutants: one process has imported everything, and forks for each mutant.

In the fork, the code of the one changed function is exchanged in the live function, so that all who
imported it run the mutant, and `explain`, which reads source files, sees no change: what is killed
is killed by what is computed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import os
import resource
import select
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tools.mutation.generate import Mutant

LEAST_LIMIT_S = 5.0
"""CPU time that a mutant has at least, beside ten times what its tests take unchanged; then it is
noticed. [s]"""
MOST_WAIT = 10.0
"""Clock over that CPU time after which it counts as waiting for ever: other work on the machine is
no test. [1]"""
MOST_BYTES = 2**33
"""Address space of a mutant: some would fill the memory. [B]"""
UNIMPORTABLE = "the module cannot be imported"
TIME = "ran out of time or memory"


@dataclass(frozen=True)
class Baseline:
    """What one test does to the unchanged source."""

    passed: bool
    seconds: float
    """CPU time, its line tracing included. [s]"""
    lines: Mapping[str, frozenset[int]]
    """Lines that it runs, by file."""


@dataclass
class Failures:
    """Tests that failed in this process."""

    names: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names.append(report.nodeid)


def in_a_fork(work: Callable[[], Any], limit_s: float) -> Any:
    """What `work` returns in a process of its own, as JSON; None where it took longer than that or
    died."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            answer = json.dumps(work()).encode()
            with os.fdopen(start, "wb") as out:
                out.write(answer)
        finally:  # whatever happens: the child must not go on as a second parent
            os._exit(0)
    os.close(start)
    found = b""
    until = time.monotonic() + limit_s
    while select.select([end], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(end, 65536)
        if not piece:
            break
        found += piece
    os.close(end)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(found) if found else None


def run_one(item: pytest.Item, following: pytest.Item | None, failures: Failures) -> bool:
    """Whether a test passes here and now."""
    before = len(failures.names)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return len(failures.names) == before


def baseline(item: pytest.Item, files: Iterable[str], failures: Failures) -> Baseline:
    """One test alone on the unchanged source, and which lines of `files` it runs."""
    watched = frozenset(files)

    def work() -> dict[str, Any]:
        lines: dict[str, set[int]] = {name: set() for name in watched}

        def local(frame: types.FrameType, event: str, _: object) -> Any:
            if event == "line":
                lines[frame.f_code.co_filename].add(frame.f_lineno)
            return local

        def trace(frame: types.FrameType, _: str, __: object) -> Any:
            return local if frame.f_code.co_filename in watched else None

        sys.settrace(trace)
        passed = run_one(item, None, failures)
        sys.settrace(None)
        seconds = time.process_time()  # a fork begins at 0
        return {
            "passed": passed,
            "seconds": seconds,
            "lines": {name: sorted(found) for name, found in lines.items()},
        }

    found = in_a_fork(work, 300.0)
    if found is None:
        return Baseline(False, 300.0, {})
    return Baseline(
        found["passed"], found["seconds"], {k: frozenset(v) for k, v in found["lines"].items()}
    )


def failing(
    mutant: Mutant, items: list[pytest.Item], limit_s: float, failures: Failures
) -> str | None:
    """The first test that notices the mutant, TIME where none ends within `limit_s` of CPU time,
    UNIMPORTABLE, or None where it survives."""

    def work() -> str:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), math.ceil(limit_s)))
        try:
            apply(mutant)
        except Exception:
            return UNIMPORTABLE
        for item, following in zip(items, [*items[1:], None], strict=True):
            if not run_one(item, following, failures):
                return failures.names[-1]
        return ""

    found = in_a_fork(work, MOST_WAIT * limit_s)
    return TIME if found is None else found or None


def apply(mutant: Mutant) -> None:
    """Puts a mutant into the live module: code and defaults of its function, or the values of the
    module's names."""
    module = importlib.import_module(mutant.module)
    file = str(module.__file__)
    changed: dict[str, Any] = {"__name__": mutant.module, "__file__": file}
    planted = types.ModuleType(mutant.module)
    planted.__dict__.update(changed)
    before = sys.modules[mutant.module]
    sys.modules[mutant.module] = planted
    exec(compile(mutant.source, file, "exec"), planted.__dict__)
    sys.modules[mutant.module] = before
    own = reached(module, mutant.function)
    other = reached(planted, mutant.function)
    if isinstance(own, types.FunctionType) and isinstance(other, types.FunctionType):
        own.__code__ = other.__code__
        own.__defaults__ = other.__defaults__
        own.__kwdefaults__ = other.__kwdefaults__
    elif isinstance(own, type):
        exchange_class(own, other)
    else:
        exchange_values(module, planted)


def reached(module: types.ModuleType, dotted: str) -> Any:
    """The outermost function that `dotted` lies in, or its class, without wrappers; None for the
    module itself."""
    found: Any = module
    for piece in dotted.split(".") if dotted else ():
        if not isinstance(found, types.ModuleType | type):
            break
        found = unwrapped(inspect.getattr_static(found, piece))
    return None if found is module else found


def unwrapped(found: Any) -> Any:
    """The function behind a property, a class method, a cache or a validator."""
    while True:
        match found:
            case property():
                found = found.fget
            case classmethod() | staticmethod():
                found = found.__func__
            case functools.cached_property():
                found = found.func
            case _ if hasattr(found, "__wrapped__"):
                found = found.__wrapped__
            case _ if type(found).__name__ == "PydanticDescriptorProxy":
                found = found.wrapped
            case _:
                return found


def exchange_class(own: type, other: type) -> None:
    """Values that stand in a class, and the defaults of its fields; a pydantic model has them
    compiled in."""
    if hasattr(own, "model_fields"):
        raise NotImplementedError("fields of pydantic models are not mutated")
    for name, value in vars(other).items():
        if simple(value) and not name.startswith("__"):
            setattr(own, name, value)
    own.__init__.__defaults__ = other.__init__.__defaults__  # type: ignore[misc]


def exchange_values(module: types.ModuleType, planted: types.ModuleType) -> None:
    """Constants of a module, wherever they were imported to, and defaults of its functions that
    were made of them."""
    for name, value in vars(planted).items():
        own = vars(module).get(name)
        if isinstance(own, types.FunctionType) and isinstance(value, types.FunctionType):
            if own.__module__ == module.__name__:
                own.__defaults__ = value.__defaults__
                own.__kwdefaults__ = value.__kwdefaults__
        elif simple(value) and not name.startswith("__"):
            for holder in list(sys.modules.values()):
                if getattr(holder, "__dict__", {}).get(name, module) is own:
                    setattr(holder, name, value)


def simple(value: Any) -> bool:
    """Whether a value is plain data."""
    return not callable(value) and not isinstance(
        value, types.ModuleType | property | classmethod | staticmethod
    )
