"""How much less, or more, of a draft is accepted on text of another kind than the one it was measured on.

The numbers are learnt from drafters whose accepted length was measured on several kinds of text
(`advisor.studies.acceptance_transfer`, which writes profiles/drafters/acceptance/transfer.json). What is carried over
is AL - 1, the accepted draft tokens of a round: the bonus token comes whatever the text.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from pydantic import Field

from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES, read_yaml, validate

FOLDER = PROFILES / "drafters" / "acceptance"
TRANSFERS = FOLDER / "transfer.json"
TASKS = ("coding", "chat", "math", "mixed", "long_document")
"""Kinds of text that lengths are carried between; `mixed` is a blend of the others. What else a prompt set may be
(tasks.yaml: other, random) is no kind of text."""
ANY_KIND = "any"
"""Drafters of every kind together: what holds for a kind with fewer than LEAST_HEADS of its own."""
LEAST_HEADS = 3
"""Drafters from which on a kind is judged by its own. [1]"""


class Transfer(Frozen):
    """Log factor on AL - 1 from one task to another, over drafters ("heads") that were measured on both."""

    kind: str
    """Of drafter, as in profiles/drafters, or `any`."""
    task_from: str
    task_to: str
    log_bias: float
    """Mean over laboratories of the mean over their heads. [1]"""
    log_sd: float
    """Standard deviation for a head of a laboratory that is not among them. [1]"""
    n_heads: int = Field(ge=1)
    n_laboratories: int = Field(ge=1)
    titles: tuple[str, ...] = Field(min_length=1)
    """Sources of the measurements."""

    @property
    def factor(self) -> float:
        """On AL - 1. [1]"""
        return math.exp(self.log_bias)

    @property
    def reversed(self) -> Transfer:
        """The way back."""
        return self.model_copy(
            update={"task_from": self.task_to, "task_to": self.task_from, "log_bias": -self.log_bias}
        )


class ContextFactor(Frozen):
    """AL - 1 at a context over that of the same head and text at the shortest context measured."""

    kind: str
    title: str
    task: str
    shortest_tokens: int
    context_tokens: int
    factor: float = Field(ge=0)


class _File(Frozen):
    transfers: tuple[Transfer, ...]
    contexts: tuple[ContextFactor, ...]


class _Tasks(Frozen):
    tasks: dict[str, tuple[str, ...]]


def task_of(prompt_set: str) -> str:
    """The task of a prompt set as tasks.yaml names it; an empty text where its name does not tell."""
    return _task_by_set().get(prompt_set, "")


def task_transfer(kind: str, task_from: str, task_to: str) -> Transfer | None:
    """What is known of carrying an accepted length between tasks for a kind of drafter.

    Its own heads where there are LEAST_HEADS, else heads of every kind; None where no head was measured on both.
    A task to itself is no transfer: None. Raises AdvisorError for a task that is none.
    """
    for task in (task_from, task_to):
        if task not in TASKS:
            raise AdvisorError(f"task={task!r} is unknown; choose one of {', '.join(TASKS)}")
    for wanted in (kind, ANY_KIND):
        found = _by_pair().get((wanted, task_from, task_to))
        back = _by_pair().get((wanted, task_to, task_from))
        known = found or (back.reversed if back else None)
        if known is not None and (wanted == ANY_KIND or known.n_heads >= LEAST_HEADS):
            return known
    return None


def length_on_task(accepted_length: float, n_draft: int, transfer: Transfer) -> float:
    """An accepted length carried over: 1 + (AL - 1) x factor, at most K + 1. [tokens per round]"""
    return min(1.0 + (accepted_length - 1.0) * transfer.factor, n_draft + 1.0)


def context_factors(kind: str) -> tuple[ContextFactor, ...]:
    """What was measured of a kind's acceptance over context. Observations of single heads, no law."""
    return tuple(one for one in _file().contexts if one.kind == kind)


@lru_cache(maxsize=1)
def _file() -> _File:
    content: dict[str, Any] = read_yaml(TRANSFERS)
    content.pop("_source_texts")
    return validate(content, _File, TRANSFERS)


@lru_cache(maxsize=1)
def _by_pair() -> dict[tuple[str, str, str], Transfer]:
    return {(one.kind, one.task_from, one.task_to): one for one in _file().transfers}


@lru_cache(maxsize=1)
def _task_by_set() -> dict[str, str]:
    path = FOLDER / "tasks.yaml"
    content: dict[str, Any] = read_yaml(path)
    content.pop("_source_texts")
    return {name: task for task, names in validate(content, _Tasks, path).tasks.items() for name in names}
