"""The models of a leaderboard, each with the drafters that it ships with or that are known for it.

How much of a draft is accepted has no default in this project. Here it is, in this order: as the user says; the curve
measured with this very model; for a model with an MTP module of its own and no curve, the middle of the heads that were
measured, marked as borrowed; else nothing is drafted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from advisor.acceptance import AcceptanceCurve, acceptance_curves
from advisor.architecture import Architecture
from advisor.catalog import load_model
from advisor.hf import architecture_from_config
from advisor.prediction import AdvisorError
from advisor.ranking.carried import carried_text, on_task
from advisor.ranking.question import RankQuestion
from advisor.scenario import build_scenario
from advisor.setup import Setup, load_setup
from advisor.task_transfer import task_of, task_transfer

Accepted = Literal["measured", "borrowed", "carried", "given", "none"]
"""Where an accepted length is from: measured with this model, borrowed from other heads, either of them carried to
another kind of text, given by the user, or none."""
_UNKNOWN_TASK = "the text it was measured on is not known"


@dataclass(frozen=True)
class Entrant:
    """One model with one drafter."""

    name: str
    """Id of a shipped model, or the name of the user's config."""
    setup: Setup
    """On one GPU, before a placement is chosen."""
    accepted: Accepted
    acceptance_text: str
    """What the accepted length rests on."""


def entrants_of(name: str, config: str | None, question: RankQuestion) -> list[Entrant]:
    """A model with each drafter known for it, and last without any: what serves where no drafter fits beside it.

    Raises AdvisorError where the model cannot be loaded on this accelerator at all.
    """
    base = question.scenario.model_dump() | {"model_id": name, "model_config_json": config, "batch_size": 1}
    architecture = architecture_of(name, config)
    found = []
    for known in _drafters(name, config, architecture, question):
        try:
            scenario = build_scenario(**base | {"drafter_id": known.drafter_id, "acceptance": known.acceptance})
            setup = load_setup(scenario, known.accepted == "borrowed" or None)
        except AdvisorError:
            if known.drafter_id == "none":
                raise
            continue  # this drafter cannot serve this model: it then decodes plainly
        found.append(_on_the_asked_text(Entrant(name, setup, known.accepted, known.text), known.task, question.task))
    return found


def _on_the_asked_text(entrant: Entrant, task: str | None, asked: str | None) -> Entrant:
    """The entrant with its accepted length on the kind of text that is asked for, where that is another and known.

    task : of the prompts it was measured on, empty where that is not known; None: not to be carried.
    """
    if asked is None or task is None or asked == task:
        return entrant
    transfer = task_transfer(entrant.setup.drafter.kind, task, asked) if task else None
    if transfer is None:
        why = f"nothing is known of {task} to {asked}" if task else _UNKNOWN_TASK
        return replace(entrant, acceptance_text=f"{entrant.acceptance_text}; not carried to {asked}: {why}")
    setup = replace(entrant.setup, acceptance=on_task(entrant.setup.acceptance, transfer))
    text = f"{entrant.acceptance_text}; {carried_text(transfer)}"
    return Entrant(entrant.name, setup, "carried", text)


def architecture_of(name: str, config: str | None) -> Architecture:
    """The model as stored: a shipped one by its id, or of the user's config."""
    return load_model(name) if config is None else architecture_from_config(config, name=name)


@dataclass(frozen=True)
class _Known:
    """A drafter with its accepted length."""

    drafter_id: str
    acceptance: str
    accepted: Accepted
    text: str
    task: str | None = None
    """Of the prompts it was measured on, empty where that is not known; None: not to be carried to other text."""


def _drafters(name: str, config: str | None, architecture: Architecture, question: RankQuestion) -> Iterator[_Known]:
    """Each drafter that is known, and plain decoding last."""
    if question.drafter is not None:
        if question.drafter[0] != "none":
            yield _Known(*question.drafter, "given", "as given for every model")
    else:
        known = _own_curves(name) if config is None else {}
        for drafter_id, curve in known.items():
            text = f"{curve.dataset}: {curve.source}"
            yield _Known(drafter_id, curve.id, "measured", text, task_of(curve.dataset))
        if architecture.mtp_modules and not known:  # what was measured goes before what is borrowed
            acceptance, text = borrowed_mtp()
            yield _Known("mtp", acceptance, "borrowed", text, _BORROWED_TASK)
    plain = "no drafter is known for it" if question.drafter is None else "plain decoding"
    yield _Known("none", "0", "none", plain)


def _own_curves(model_id: str) -> dict[str, AcceptanceCurve]:
    """The first curve of each drafter that was measured with a model over several K."""
    found: dict[str, AcceptanceCurve] = {}
    for curve in acceptance_curves(model_id=model_id):
        if len(curve.n_draft) > 1:
            found.setdefault(curve.drafter_id, curve)
    return found


_BORROWED_TASK = "coding"
"""Of the heads' prompts: three of four, the fourth source says nothing of its own."""


@functools.lru_cache(maxsize=1)
def borrowed_mtp() -> tuple[str, str]:
    """(acceptance, what it rests on) of an MTP head nobody has measured: the middle of those that were.

    One curve a model, K as far as all go; the median accepted length at each K, as chances of each draft token given
    those before it.
    """
    heads: dict[str, AcceptanceCurve] = {}
    for curve in acceptance_curves(drafter_id="mtp"):
        if curve.n_draft == tuple(range(1, len(curve.n_draft) + 1)):
            heads.setdefault(curve.model_id, curve)
    longest = min(len(curve.n_draft) for curve in heads.values())
    lengths = np.median([curve.accepted_length[:longest] for curve in heads.values()], axis=0)
    gains = np.diff(np.concatenate([[1.0], lengths]))
    chances = np.clip(gains / np.concatenate([[1.0], gains[:-1]]), 0.0, 1.0)
    names = ", ".join(sorted(heads))
    text = f"borrowed: the median of {len(heads)} measured MTP heads ({names}), mostly coding prompts"
    return ",".join(f"{chance:.4f}" for chance in chances), text
