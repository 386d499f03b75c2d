"""Accepted length by kind of text, measured with the model and drafter or carried to it."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.answers.advice import Advice
from advisor.answers.summary import stated_k
from advisor.catalog.task_transfer import TASKS, Task, carried, curve_on_task, task_of
from advisor.measured.published import published_ids
from advisor.physics.acceptance import acceptance_curve, load_acceptance_curve, parse_acceptance
from advisor.predict.scenario import nearest_acceptance


@dataclass(frozen=True)
class OnText:
    """Accepted length on one kind of text."""

    task: Task | None
    """None: the curve's own prompts, of no one kind."""
    curve_id: str
    """Curve that it is read from or carried from."""
    accepted_length: float
    """At `stated_k`. [tokens]"""
    is_measured: bool
    """Whether the curve was measured on this kind of text."""


def on_texts(advice: Advice) -> tuple[OnText, ...]:
    """Accepted length on each kind of text that is measured or can be carried to.

    Of the curve that the scenario names, else of the nearest to its model and drafter. None without
    a drafter, or for a model of the user's own with numbers of the user's own.
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
    return tuple(each for each in lengths if each is not None)


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
    return OnText(task, curve_id, float(acceptance.accepted_length[k]), is_measured)
