"""How much less, or more, of a draft is accepted on text of another kind or length than the one it
was measured on.

`studies.acceptance_transfer` learns it. Carried over are the odds of the one chance per position
that gives an accepted length: they reach neither end, whatever the factor.
"""

import dataclasses
import math
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from advisor.physics.acceptance import (
    Acceptance,
    acceptance_curve,
    accepted_length,
    every_curve,
    solve_alpha,
)
from advisor.prediction import BAND_SIGMAS, AdvisorError, Array, Frozen
from advisor.profiles import PROFILES, read_profile
from advisor.text import counted

FOLDER = PROFILES / "drafters" / "acceptance"
TRANSFERS = FOLDER / "transfer.json"
Task = Literal["coding", "chat", "math", "mixed", "long_document"]
TASKS: tuple[Task, ...] = get_args(Task)
"""Kinds of text that lengths are carried between; `mixed` is a blend of the others. What else a
prompt set may be (tasks.yaml: other, random) is no kind of text."""
ANY_KIND = "any"
"""Drafters of every kind together: what holds for a kind seen in fewer than LEAST_LABORATORIES."""
LEAST_LABORATORIES = 3
"""From which on a kind of drafter is carried by its own: with fewer, the bias of every kind
together erred less on laboratories left out (`studies.acceptance_transfer`). [-]"""


class Transfer(Frozen):
    """Log factor on the odds of acceptance from one task to another. Over drafters ("heads")
    measured on both."""

    kind: str
    """Of drafter, as in profiles/drafters, or `any`."""
    task_from: str
    task_to: str
    log_bias: float
    """Mean over laboratories of the mean over their heads. [-]"""
    log_sd: float
    """Standard deviation for a head of a laboratory that is not among them. [-]"""
    n_heads: int = Field(ge=1)
    n_laboratories: int = Field(ge=1)
    titles: tuple[str, ...] = Field(min_length=1)
    """Sources of the measurements."""

    @property
    def factor(self) -> float:
        """Factor on the odds of acceptance. [-]"""
        return math.exp(self.log_bias)

    @property
    def reversed(self) -> "Transfer":
        """The way back."""
        return self.model_copy(
            update={
                "task_from": self.task_to,
                "task_to": self.task_from,
                "log_bias": -self.log_bias,
            }
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
    """The task of a prompt set as tasks.yaml names it. An empty text where its name does not
    tell."""
    return _task_by_set().get(prompt_set, "")


def task_transfer(kind: str, task_from: str, task_to: str) -> Transfer | None:
    """Factor for carrying an accepted length between tasks, for a kind of drafter, as far as it is
    known.

    Its own heads where they are of LEAST_LABORATORIES, else heads of every kind; None where none
    was measured on both. A task to itself is no transfer: None. Raises AdvisorError for a task that
    is none.
    """
    for task in (task_from, task_to):
        if task not in TASKS:
            raise AdvisorError(f"task={task!r} is unknown; choose one of {', '.join(TASKS)}")
    for kind_tried in (kind, ANY_KIND):
        forward = _by_pair().get((kind_tried, task_from, task_to))
        back = _by_pair().get((kind_tried, task_to, task_from))
        transfer = forward or (back.reversed if back else None)
        if transfer is not None and (
            kind_tried == ANY_KIND or transfer.n_laboratories >= LEAST_LABORATORIES
        ):
            return transfer
    return None


def log_odds(accepted_length: ArrayLike, n_draft: ArrayLike) -> Array:
    """Log odds of the one chance per position that gives an accepted length, 1 to K + 1, at K
    drafts. [-]"""
    alpha = np.clip(solve_alpha(accepted_length, n_draft), _LEAST_ALPHA, 1.0 - _LEAST_ALPHA)
    return np.asarray(np.log(alpha / (1.0 - alpha)))


_LEAST_ALPHA = 1e-3
"""Nearest to 0 and 1 that a chance of acceptance is taken to be, so that its odds are finite
(assumed). [-]"""


def lengths_on_task(measured: Array, transfer: Transfer, z: float = 0.0) -> Array:
    """Accepted lengths for K = 0, 1, ... with odds carried over. z : deviations added. [-]

    From one K to the next they fall no further than the measured ones do: some block drafters lose
    at their largest K.
    """
    k = np.arange(1, len(measured))
    odds = np.exp(log_odds(measured[1:], k) + transfer.log_bias + z * transfer.log_sd)
    carried_over = accepted_length(odds / (1.0 + odds), k)
    falls = np.cumprod(np.minimum(measured[1:] / measured[:-1], 1.0))
    return np.concatenate([[1.0], np.maximum.accumulate(carried_over / falls) * falls])


def curve_on_task(given: str, task: Task | None) -> str:
    """Id of a curve of the same model and drafter measured on `task`, where one is shipped. Else
    `given` itself."""
    curve = acceptance_curve(given.strip())
    if curve is None or task is None or task_of(curve.dataset) == task:
        return given
    alike = [
        other.id
        for other in every_curve(curve.model_id, curve.drafter_id)
        if task_of(other.dataset) == task
        and (other.checkpoint, other.reasoning) == (curve.checkpoint, curve.reasoning)
    ]
    return alike[0] if alike else given


def carried(
    given: str, measured: Acceptance, kind: str, task: Task | None, context_tokens: int
) -> Acceptance:
    """Acceptance as it is used, on a text and at a context it may not have been measured on.

    Parameters
    ----------
    given : the user's string (`acceptance.parse_acceptance`); only a measured curve is carried,
        other numbers are the user's own.
    measured : what was read from it.
    kind : of drafter, as in profiles/drafters.
    task : of TASKS; None: what the curve was measured on.
    context_tokens : cached tokens of each sequence. [-]

    Returns
    -------
    `measured` with lengths, band and remarks as carried. Between tasks the mean moves and the band
    widens by the scatter between laboratories (docs/decisions/history.md (0012)). Over context
    the mean stays, as there is no law: the lower edge reaches what single heads of this kind lost,
    on text of a kind, from their shortest context.
    """
    curve = acceptance_curve(given.strip())
    if curve is None:
        if task is None:
            return measured
        remark = f"Accepted lengths are your own numbers: they are not carried to {_words(task)}."
        return dataclasses.replace(measured, remarks=(remark,))
    return _at_context(_on_task(measured, curve.dataset, kind, task), kind, context_tokens)


def _on_task(measured: Acceptance, dataset: str, kind: str, task: Task | None) -> Acceptance:
    measured_task = task_of(dataset)
    if task is None or task == measured_task:
        return measured
    if measured_task not in TASKS:
        reason = (
            f"it is {_words(measured_task)}, none of the kinds that lengths are carried from"
            if measured_task
            else "its kind is not known"
        )
        return _remarked(measured, f"Accepted lengths stand as measured on {dataset}: {reason}.")
    transfer = task_transfer(kind, measured_task, task)
    if transfer is None:
        reason = f"no drafter was measured both on {_words(measured_task)} and on {_words(task)}"
        return _remarked(measured, f"Accepted lengths stand as measured on {dataset}: {reason}.")
    return on_task(measured, transfer)


def on_task(measured: Acceptance, transfer: Transfer) -> Acceptance:
    """Acceptance on text of the transfer's other kind. Lengths moved, the band wider by the
    transfer's spread."""
    value = lengths_on_task(measured.accepted_length, transfer)
    low_edge = lengths_on_task(measured.accepted_length, transfer, -BAND_SIGMAS)
    high_edge = lengths_on_task(measured.accepted_length, transfer, BAND_SIGMAS)
    spread_down = np.abs(np.log(low_edge / value))
    spread_up = np.abs(np.log(high_edge / value))
    down = np.hypot(np.log(measured.accepted_length / measured.low), spread_down)
    up = np.hypot(np.log(measured.high / measured.accepted_length), spread_up)
    moved = dataclasses.replace(
        measured,
        accepted_length=value,
        low=np.clip(value * np.exp(-down), 1.0, value),
        high=np.clip(value * np.exp(up), value, np.arange(len(value)) + 1.0),
        carried_from=_words(transfer.task_from),
    )
    drafters = "drafters of all kinds" if transfer.kind == ANY_KIND else "drafters of its kind"
    return _remarked(
        moved,
        f"Accepted lengths are carried from {_words(transfer.task_from)} to "
        f"{_words(transfer.task_to)}, odds of acceptance x {transfer.factor:.2f}, as "
        f"{transfer.n_heads} {drafters} show it "
        f"({counted(transfer.n_laboratories, 'laboratory', 'laboratories')}).",
    )


def _remarked(measured: Acceptance, remark: str) -> Acceptance:
    return dataclasses.replace(measured, remarks=(*measured.remarks, remark))


def _at_context(measured: Acceptance, kind: str, context_tokens: int) -> Acceptance:
    observed = [
        factor
        for factor in context_factors(kind)
        if factor.context_tokens <= context_tokens and factor.task in TASKS
    ]
    if not observed:
        return measured
    lowest = min(observed, key=lambda factor: factor.factor)
    low = np.minimum(measured.low, 1.0 + (measured.accepted_length - 1.0) * lowest.factor)
    if np.array_equal(low, measured.low):
        return measured
    remark = (
        f"At {context_tokens:,} tokens of context fewer drafts may be accepted: of one drafter of "
        f"this kind {lowest.factor:.0%} of those at {lowest.shortest_tokens:,} were, at "
        f"{lowest.context_tokens:,} ({lowest.title}). The band reaches down to that."
    )
    return _remarked(dataclasses.replace(measured, low=low), remark)


def _words(task: str) -> str:
    return task.replace("_", " ")


def context_factors(kind: str) -> tuple[ContextFactor, ...]:
    """Measured factors of a kind's acceptance over context. Observations of single heads, no
    law."""
    return tuple(factor for factor in _file().contexts if factor.kind == kind)


@lru_cache(maxsize=1)
def _file() -> _File:
    return read_profile(TRANSFERS, _File)


@lru_cache(maxsize=1)
def _by_pair() -> dict[tuple[str, str, str], Transfer]:
    return {
        (transfer.kind, transfer.task_from, transfer.task_to): transfer
        for transfer in _file().transfers
    }


@lru_cache(maxsize=1)
def _task_by_set() -> dict[str, str]:
    by_task = read_profile(FOLDER / "tasks.yaml", _Tasks).tasks
    return {name: task for task, names in by_task.items() for name in names}
