"""A recording of the laws as they run: each with its arguments, its result and the part of the
model that it ran in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from advisor.physics.laws.kernels import Law
from advisor.prediction import Floats


@dataclass(frozen=True)
class Call:
    """One run of a law."""

    law: Law
    part: tuple[str, ...]
    """Where in the model it ran, the outer part first: `within`."""
    values: Mapping[str, Any]
    """Its arguments by symbol. [as the law has them]"""
    result: Floats


_CALLS: ContextVar[list[Call] | None] = ContextVar("calls", default=None)
_PART: ContextVar[tuple[str, ...]] = ContextVar("part", default=())


_Recorded = TypeVar("_Recorded", bound=Law)


def recorded(law: _Recorded) -> _Recorded:
    """The law, which a `recording` keeps. A law that another one calls is part of that one."""

    @functools.wraps(law)
    def run(*arguments: Any, **named: Any) -> Any:
        result = law(*arguments, **named)
        calls = _CALLS.get()
        if calls is not None:
            values = inspect.signature(law).bind(*arguments, **named).arguments
            calls.append(Call(run, _PART.get(), values, result))
        return result

    return cast(_Recorded, run)


@contextmanager
def recording() -> Iterator[list[Call]]:
    """Record every law that runs inside, in this thread."""
    calls: list[Call] = []
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Leave out what only chooses between ways to compute, or looks at other steps."""
    token = _CALLS.set(None)
    try:
        yield
    finally:
        _CALLS.reset(token)


@contextmanager
def within(part: str) -> Iterator[None]:
    """Name the part of the model that runs inside."""
    token = _PART.set((*_PART.get(), part))
    try:
        yield
    finally:
        _PART.reset(token)
