"""The models of a leaderboard, each with the drafters that it ships with or that are known for it.

How much of a draft is accepted has no default in this project. Here it is, in this order: as the user says; the curve
measured with this very model; for a model with an MTP module of its own and no curve, the middle of the heads that were
measured, marked as borrowed; else nothing is drafted. On an asked kind of text a curve measured on that kind goes
first, and all that were measured on another are carried to it, borrowed ones before their middle is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from advisor.acceptance import AcceptanceCurve, acceptance_curves
from advisor.architecture import Architecture
from advisor.catalog import load_model
from advisor.drafter import load_drafter
from advisor.hf import architecture_from_config
from advisor.prediction import AdvisorError
from advisor.ranking.borrowed import BorrowedHeads, borrowed_heads, is_carried
from advisor.ranking.question import RankQuestion
from advisor.scenario import build_scenario
from advisor.setup import Setup, load_setup
from advisor.task_transfer import task_of

Accepted = Literal["measured", "borrowed", "carried", "uncarried", "given", "none"]
"""Where an accepted length is from: measured with this model, borrowed from other heads, either of them carried to
another kind of text, measured on text that nothing is known to carry to the asked kind, given by the user, or none."""


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
    """A model with each drafter known for it, and last without any.

    The last is what serves where no drafter fits beside the model.

    Raises AdvisorError where the model cannot be loaded on this accelerator at all.
    """
    base = question.scenario.model_dump() | {"model_id": name, "model_config_json": config, "batch_size": 1}
    architecture = architecture_of(name, config)
    found = []
    for known in _drafters(name, config, architecture, question):
        # What is borrowed comes carried already, and plain decoding has nothing to carry.
        task = question.scenario.task if known.heads is None and known.accepted != "none" else None
        drafter = {"drafter_id": known.drafter_id, "acceptance": known.acceptance, "task": task}
        try:
            setup = load_setup(build_scenario(**base | drafter), True if known.heads is not None else None)
        except AdvisorError:
            if known.drafter_id == "none":
                raise
            continue  # this drafter cannot serve this model: it then decodes plainly
        if known.heads is not None:
            setup = replace(setup, acceptance=known.heads.spread_over(setup.acceptance))
        remarks = "" if known.accepted == "given" else "".join(f"; {text}" for text in setup.acceptance.remarks)
        found.append(Entrant(name, setup, known.accepted, f"{known.text}{remarks}".rstrip(".")))
    return found


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
    heads: BorrowedHeads | None = None
    """Where it is borrowed from; None: it is not."""


def _drafters(name: str, config: str | None, architecture: Architecture, question: RankQuestion) -> Iterator[_Known]:
    """Each drafter that is known, and plain decoding last."""
    scenario = question.scenario
    if question.drafter is not None:
        if question.drafter[0] != "none":
            yield _Known(*question.drafter, "given", "as given for every model")
    else:
        known = _own_curves(name, scenario.task) if config is None else {}
        for drafter_id, curve in known.items():
            accepted = _accepted(curve, load_drafter(drafter_id).kind, scenario.task)
            yield _Known(drafter_id, curve.id, accepted, f"{curve.dataset}: {curve.source}")
        if architecture.mtp_modules and not known:  # what was measured goes before what is borrowed
            heads = borrowed_heads(scenario.task, scenario.context_tokens, scenario.k_max)
            if heads is not None:
                yield _Known("mtp", heads.chances, "carried" if heads.n_carried else "borrowed", heads.text, heads)
    plain = "no drafter is known for it" if question.drafter is None else "plain decoding"
    yield _Known("none", "0", "none", plain)


def _accepted(curve: AcceptanceCurve, kind: str, task: str | None) -> Accepted:
    """What an own curve is on the asked text."""
    if task is None or task == task_of(curve.dataset):
        return "measured"
    return "carried" if is_carried(curve, kind, task) else "uncarried"


def _own_curves(model_id: str, task: str | None) -> dict[str, AcceptanceCurve]:
    """Of each drafter that was measured with a model over several K the first curve, of the asked task where it has
    one."""
    found: dict[str, AcceptanceCurve] = {}
    for curve in acceptance_curves(model_id=model_id):
        if len(curve.n_draft) > 1:
            first = found.setdefault(curve.drafter_id, curve)
            if task is not None and task_of(first.dataset) != task == task_of(curve.dataset):
                found[curve.drafter_id] = curve
    return found
