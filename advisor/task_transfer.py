"""How much less, or more, of a draft is accepted on text of another kind or length than the one it was measured on.

The numbers are learnt from drafters whose accepted length was measured on several kinds of text
(`advisor.studies.acceptance_transfer`, which writes profiles/drafters/acceptance/transfer.json). What is carried over
is AL - 1, the accepted draft tokens of a round: the bonus token comes whatever the text.
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from advisor.acceptance import Acceptance, acceptance_curves
from advisor.arrays import Array
from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES, read_yaml, validate

FOLDER = PROFILES / "drafters" / "acceptance"
TRANSFERS = FOLDER / "transfer.json"
Task = Literal["coding", "chat", "math", "mixed", "long_document"]
TASKS: tuple[Task, ...] = get_args(Task)
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


def lengths_on_task(accepted_length: Array, transfer: Transfer) -> Array:
    """Accepted lengths for K = 0, 1, ... carried over: 1 + (AL - 1) x factor, at most K + 1. [tokens per round]"""
    return np.minimum(1.0 + (accepted_length - 1.0) * transfer.factor, np.arange(len(accepted_length)) + 1.0)


def carried(given: str, measured: Acceptance, kind: str, task: Task | None, context_tokens: int) -> Acceptance:
    """An acceptance as it is used: on a kind of text and at a context that it may not have been measured on.

    Parameters
    ----------
    given : the user's string (`acceptance.parse_acceptance`); only a measured curve is carried, other numbers are
        the user's own.
    measured : what was read from it.
    kind : of drafter, as in profiles/drafters.
    task : of TASKS; None: what the curve was measured on.
    context_tokens : cached tokens of each sequence. [1]

    Returns
    -------
    `measured` with lengths, band, source and remarks as carried. Between tasks the mean moves and the band widens by
    the scatter between laboratories (docs/decisions/0012-published-rows.md). Over context the mean stays, as there is
    no law: the lower edge reaches what single heads of this kind lost from their shortest context to this one.
    """
    curve = next((one for one in acceptance_curves() if one.id == given.strip()), None)
    if curve is None:
        if task is None:
            return measured
        remark = f"Accepted lengths are your own numbers: they are not carried to {_words(task)}."
        return dataclasses.replace(measured, remarks=(remark,))
    return _at_context(_on_task(measured, curve.dataset, kind, task), kind, context_tokens)


def _on_task(measured: Acceptance, dataset: str, kind: str, task: Task | None) -> Acceptance:
    known = task_of(dataset)
    if task is None or task == known:
        return measured
    transfer = task_transfer(kind, known, task) if known in TASKS else None
    if transfer is None:
        remark = (
            f"Accepted lengths were measured on {dataset} and stand as they are: no drafter was measured on that and "
            f"on {_words(task)}."
        )
        return dataclasses.replace(measured, remarks=(*measured.remarks, remark))
    value = lengths_on_task(measured.accepted_length, transfer)
    spread = _Z80 * transfer.log_sd
    drafted = np.maximum(value - 1.0, 0.0)
    down, up = (
        np.hypot(np.log(measured.accepted_length / measured.low), np.log(value / (1.0 + drafted * math.exp(-spread)))),
        np.hypot(np.log(measured.high / measured.accepted_length), np.log((1.0 + drafted * math.exp(spread)) / value)),
    )
    whose = "drafters of all kinds" if transfer.kind == ANY_KIND else "drafters of its kind"
    remark = (
        f"Accepted drafts x {transfer.factor:.2f}, carried from {_words(known)} to {_words(task)} as "
        f"{transfer.n_heads} {whose} show it ({transfer.n_laboratories} laboratories)."
    )
    return dataclasses.replace(
        measured,
        accepted_length=value,
        low=np.clip(value * np.exp(-down), 1.0, value),
        high=np.clip(value * np.exp(up), value, np.arange(len(value)) + 1.0),
        borrowed=True,
        remarks=(*measured.remarks, remark),
    )


def _at_context(measured: Acceptance, kind: str, context_tokens: int) -> Acceptance:
    seen = [one for one in context_factors(kind) if one.context_tokens <= context_tokens]
    if not seen:
        return measured
    least = min(seen, key=lambda one: one.factor)
    low = np.minimum(measured.low, 1.0 + (measured.accepted_length - 1.0) * least.factor)
    if np.array_equal(low, measured.low):
        return measured
    remark = (
        f"At {context_tokens:,} tokens of context fewer drafts may be accepted: of one drafter of this kind "
        f"{least.factor:.0%} of those at {least.shortest_tokens:,} were, at {least.context_tokens:,} ({least.title}). "
        "The band reaches down to that."
    )
    return dataclasses.replace(measured, low=low, remarks=(*measured.remarks, remark))


_Z80 = 1.2815515655446004  # normal quantile of an 80 % band


def _words(task: str) -> str:
    return task.replace("_", " ")


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
