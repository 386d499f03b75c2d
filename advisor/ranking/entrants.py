"""The models of a leaderboard, each with the drafters that it ships with or that are known for it.

How much of a draft is accepted has no default in this project. Here it is, in this order: as the user says; the curve
measured with this very model; for a model with an MTP module of its own and no curve, the middle of the heads that were
measured, marked as borrowed; else nothing is drafted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.acceptance import AcceptanceCurve, acceptance_curves
from advisor.architecture import Architecture
from advisor.catalog import load_model
from advisor.hf import architecture_from_config
from advisor.prediction import AdvisorError
from advisor.ranking.question import RankQuestion
from advisor.scenario import Scenario, build_scenario
from advisor.setup import Setup, load_setup

Accepted = Literal["measured", "borrowed", "given", "none"]
"""Where an accepted length is from: measured with this model, borrowed from other heads, given by the user, or none."""


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
    for drafter_id, acceptance, accepted, text in _drafters(name, config, architecture, question):
        try:
            scenario = _scenario(base, drafter_id, acceptance)
            found.append(Entrant(name, load_setup(scenario, accepted == "borrowed" or None), accepted, text))
        except AdvisorError:
            if drafter_id == "none":
                raise
            continue  # this drafter cannot serve this model: it then decodes plainly
    return found


def architecture_of(name: str, config: str | None) -> Architecture:
    """The model as stored: a shipped one by its id, or of the user's config."""
    return load_model(name) if config is None else architecture_from_config(config, name=name)


def _scenario(base: dict[str, object], drafter_id: str, acceptance: str) -> Scenario:
    return build_scenario(**base | {"drafter_id": drafter_id, "acceptance": acceptance})


def _drafters(
    name: str, config: str | None, architecture: Architecture, question: RankQuestion
) -> Iterator[tuple[str, str, Accepted, str]]:
    """(drafter, acceptance, its kind, what it rests on) of each that is known, and of plain decoding last."""
    if question.drafter is not None:
        if question.drafter[0] != "none":
            yield (*question.drafter, "given", "as given for every model")
    else:
        known = _own_curves(name) if config is None else {}
        for drafter_id, curve in known.items():
            yield drafter_id, curve.id, "measured", f"{curve.dataset}: {curve.source}"
        if architecture.mtp_modules and not known:  # what was measured goes before what is borrowed
            acceptance, text = borrowed_mtp()
            yield "mtp", acceptance, "borrowed", text
    yield "none", "0", "none", "no drafter is known for it" if question.drafter is None else "plain decoding"


def _own_curves(model_id: str) -> dict[str, AcceptanceCurve]:
    """The first curve of each drafter that was measured with a model over several K."""
    found: dict[str, AcceptanceCurve] = {}
    for curve in acceptance_curves(model_id=model_id):
        if len(curve.n_draft) > 1:
            found.setdefault(curve.drafter_id, curve)
    return found


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
