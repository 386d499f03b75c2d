"""Accepted length by kind of text: measured with the model and drafter, carried to it, or read back
from published speedups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.best_k import interpolate_batches
from advisor.answers.by_length import SHORTEST, length_now
from advisor.answers.by_length import carried as carried_to
from advisor.answers.summary import stated_k
from advisor.catalog.task_transfer import TASKS, Task, carried, curve_on_task, task_of
from advisor.measured.published import PublishedRun, published_ids, runs_beside
from advisor.physics.acceptance import acceptance_curve, load_acceptance_curve, parse_acceptance
from advisor.predict.scenario import nearest_acceptance

Origin = Literal["measured", "carried", "published"]
LEAST_RUNS = 3
"""Published runs on random tokens from which on a length is read back. Own choice. [-]"""
_LENGTH_ERROR = 0.001
"""A length of published runs is located to this. [tokens]"""
_SAME_LENGTH = 1e-6
"""Accepted lengths nearer to each other are the same. [tokens]"""


@dataclass(frozen=True)
class OnText:
    """Accepted length on one kind of text."""

    task: Task | None
    """None: the curve's own prompts, of no one kind, and random tokens."""
    acceptance: str
    """What a scenario says for it: the curve that it is read or carried from, or a length."""
    accepted_length: float
    """At `stated_k`. [tokens]"""
    origin: Origin
    """Measured on this kind of text, carried from another, or read back from published speedups on
    random tokens."""
    is_chosen: bool
    """Whether the scenario says so now."""


def on_texts(advice: Advice) -> tuple[OnText, ...]:
    """Accepted length on each kind of text that is measured or can be carried to.

    And on random tokens where published runs of the setup tell it. Of the curve that the scenario
    names, else of the nearest to its model and drafter. None without a drafter, or for a model of
    the user's own with numbers of the user's own.
    """
    scenario = advice.scenario
    k = stated_k(advice)
    _, model_id = published_ids(scenario)
    curve_id = scenario.acceptance
    if acceptance_curve(curve_id) is None and model_id is not None:
        curve_id = nearest_acceptance(model_id, scenario.drafter_id)
    if k == 0 or acceptance_curve(curve_id) is None:
        return ()
    own_task = task_of(load_acceptance_curve(curve_id).dataset)
    kinds: list[Task | None] = [task for task in TASKS if task != "mixed"]
    if own_task not in kinds:
        kinds.insert(0, None)
    lengths = [_on_text(advice, curve_id, task, k) for task in kinds]
    lengths.append(_on_random_tokens(advice, k))
    return tuple(each for each in lengths if each is not None)


def _is_chosen(advice: Advice, acceptance: str, task: Task | None, length: float) -> bool:
    scenario = advice.scenario
    is_same_text = scenario.acceptance == acceptance and scenario.task in (None, task)
    return is_same_text and abs(length - length_now(advice)) < _SAME_LENGTH


def _on_text(advice: Advice, curve_id: str, task: Task | None, k: int) -> OnText | None:
    """None where the length cannot be carried to that kind."""
    scenario = advice.scenario
    on_task = curve_on_task(curve_id, task)
    measured_task = task_of(load_acceptance_curve(on_task).dataset)
    is_measured = task is None or measured_task == task
    ids = {"model_id": advice.setup.architecture.id, "drafter_id": advice.setup.drafter.id}
    measured = parse_acceptance(on_task, scenario.k_max, **ids)
    kind = advice.setup.drafter.kind
    acceptance = carried(on_task, measured, kind, task, scenario.context_tokens)
    if not is_measured and not acceptance.carried_from:
        return None
    origin: Origin = "measured" if is_measured else "carried"
    length = float(acceptance.accepted_length[k])
    return OnText(task, curve_id, length, origin, _is_chosen(advice, curve_id, task, length))


def length_of_runs(advice: Advice, runs: Sequence[PublishedRun]) -> float | None:
    """Accepted length at `stated_k` with which half of some runs gain more than predicted. None
    below LEAST_RUNS. [tokens]

    A speedup is proportional to the length at its K; lengths are carried between K as a number of
    the user's own is, so that the result, once chosen, tells itself.
    """
    curve = advice.curve
    k = stated_k(advice)
    longest = int(curve.drafts[-1])
    at = np.clip([run.batch_size for run in runs], curve.batches[0], curve.batches[-1])
    per_token = interpolate_batches(curve.batches, curve.speedup, at) / curve.accepted_length
    run_drafts = np.array([run.n_draft for run in runs], float)[:, None]
    comparable = np.isnan(run_drafts) | (run_drafts == curve.drafts)
    if np.count_nonzero(comparable.any(axis=1)) < LEAST_RUNS:
        return None
    per_token = np.where(comparable, per_token, np.nan)[comparable.any(axis=1)]
    speedup = np.array([run.speedup for run in runs])[comparable.any(axis=1)]
    low = SHORTEST
    high = k + 1.0
    while high - low > _LENGTH_ERROR:
        length = (low + high) / 2.0
        predicted = np.nanmax(per_token * carried_to(length, k, longest)[curve.drafts], axis=1)
        low, high = (length, high) if np.median(speedup / predicted) > 1.0 else (low, length)
    return round(high, 2)


def _on_random_tokens(advice: Advice, k: int) -> OnText | None:
    """None where too few published runs are on random tokens."""
    runs = runs_beside(advice.scenario, advice.setup.placement.gpus)
    length = length_of_runs(advice, [run for run in runs if run.random_tokens])
    if length is None:
        return None
    acceptance = f"{length:g}@{k}"
    is_chosen = _is_chosen(advice, acceptance, None, length)
    return OnText(None, acceptance, length, "published", is_chosen)
