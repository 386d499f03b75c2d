"""Drafters of one model side by side, each with the accepted length that is nearest to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from advisor.answers.advice import advise
from advisor.answers.best_k import DraftRow
from advisor.answers.engines.export import method_for
from advisor.catalog.engines import engine_of
from advisor.measured.published import (
    PublishedRun,
    published_ids,
    published_lengths,
    runs_beside,
)
from advisor.physics.acceptance import acceptance_curve, every_curve
from advisor.physics.memory import MemoryFit
from advisor.predict.load import load_setup
from advisor.predict.scenario import Distance, Scenario, distance_of, nearest_acceptance
from advisor.prediction import AdvisorError

DRAFTERS = ("mtp", "eagle3", "p-eagle", "dflash", "dspark", "ngram", "suffix", "draft_model")
"""What stands side by side where none are named: one of each design that engines run."""
LengthFrom = Distance | Literal["given", "runs"]
"""Distance to the curve, a number of the user's own, or published runs of this model."""
_MEASURED: tuple[LengthFrom, ...] = ("own", "runs", "given")
"""Origins of an accepted length that was measured with the very model and drafter."""
_SAME_BATCH = math.sqrt(2.0)
"""Published batches within this factor round to the same doubling. [-]"""


class KnownLength(NamedTuple):
    """Accepted length that a drafter of a model is priced with, as a scenario holds it."""

    acceptance: str
    known_from: LengthFrom


@dataclass(frozen=True)
class DrafterRow:
    """A drafter at a scenario's batch, at the K that its own configuration runs there."""

    drafter: str
    length: KnownLength | None
    """None where no drafter of its kind was measured: then nothing is predicted."""
    published: tuple[PublishedRun, ...]
    """Published runs of this setup."""
    refused: str = ""
    """Reason why it cannot run. Empty where it can."""
    memory: MemoryFit | None = None
    figures: DraftRow | None = None
    """At the recommended K, or at the best above 0 where that is 0."""
    accepted_length: float | None = None
    """At that K. [tokens per round]"""
    here: tuple[PublishedRun, ...] = ()
    """Those of `published` at the scenario's batch, to the nearest doubling."""

    @property
    def is_measured(self) -> bool:
        """Whether its accepted length was measured with this model."""
        return self.length is not None and self.length.known_from in _MEASURED

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Key that sorts measured before borrowed rows, each by gain.

        Rows without figures come last.
        """
        speedup = 0.0 if self.figures is None else self.figures.speedup
        return self.figures is None, not self.is_measured, -speedup


def known_length(scenario: Scenario, drafter_id: str) -> KnownLength | None:
    """The accepted length of a drafter with a scenario's model. None where no drafter of its kind
    was measured.

    The scenario's own where it is of this drafter and its kind, else the nearest curve; lengths of
    published runs of the very pair go before a curve of another.
    """
    model_id = load_setup(scenario).architecture.id
    is_own = drafter_id == scenario.drafter_id
    acceptance = scenario.acceptance
    if not is_own:
        acceptance = _on_same_text(scenario, nearest_acceptance(model_id, drafter_id))
    curve = acceptance_curve(acceptance)
    if curve is None:
        return KnownLength(acceptance, "given")
    distance = distance_of(curve, model_id, drafter_id)
    if not is_own and distance != "own" and (of_runs := _of_runs(scenario, drafter_id)):
        return KnownLength(of_runs, "runs")
    return None if distance == "other" else KnownLength(acceptance, distance)


def _on_same_text(scenario: Scenario, acceptance: str) -> str:
    """A curve of the same model and drafter on the prompts of the scenario's own curve, where there
    is one at as many K. Else `acceptance`."""
    curve = acceptance_curve(acceptance)
    text = acceptance_curve(scenario.acceptance)
    if curve is None or text is None:
        return acceptance
    same_text = (
        other.id
        for other in every_curve(curve.model_id, curve.drafter_id)
        if other.dataset == text.dataset and len(other.n_draft) >= len(curve.n_draft)
    )
    return next(same_text, acceptance)


def _of_runs(scenario: Scenario, drafter_id: str) -> str:
    """Median accepted length at each K of the source that has most K, as a scenario holds it. Empty
    where no run states one."""
    by_source: dict[str, dict[int, list[float]]] = {}
    for each in published_lengths(published_ids(scenario)[1], drafter_id):
        if 1.0 < each.accepted_length <= each.n_draft + 1.0:
            lengths = by_source.setdefault(each.source, {})
            lengths.setdefault(int(each.n_draft), []).append(each.accepted_length)
    most = max(by_source.values(), key=len, default={})
    return ",".join(f"{np.median(lengths):.3g}@{k}" for k, lengths in sorted(most.items()))


def drafters_beside(scenario: Scenario, drafters: Iterable[str] = DRAFTERS) -> list[DrafterRow]:
    """Each drafter with a scenario's model, by `DrafterRow.rank`."""
    names = dict.fromkeys((scenario.drafter_id, *drafters))
    rows = [_row(scenario, drafter_id) for drafter_id in names if drafter_id != "none"]
    return sorted(rows, key=lambda row: row.rank)


def gaining_most(rows: Sequence[DrafterRow]) -> DrafterRow | None:
    """The first of `drafters_beside`, where its length is measured. None where there is none."""
    first = rows[0] if rows else None
    return first if first and first.figures is not None and first.is_measured else None


def _row(scenario: Scenario, drafter_id: str) -> DrafterRow:
    length = known_length(scenario, drafter_id)
    acceptance = "0" if length is None else length.acceptance
    drafting = scenario.model_copy(update={"drafter_id": drafter_id, "acceptance": acceptance})
    published = runs_beside(drafting, max(scenario.tensor_parallel, scenario.expert_parallel))
    here = tuple(
        run
        for run in published
        if 1 / _SAME_BATCH < run.batch_size / scenario.batch_size <= _SAME_BATCH
    )
    try:
        advice = advise(drafting)
        engine = engine_of(scenario.engine)
        if engine is not None and engine.export is not None:
            method_for(advice.setup, engine.id)
    except AdvisorError as error:
        return DrafterRow(drafter_id, length, published, str(error))
    memory = advice.setup.memory
    if length is None:
        return DrafterRow(drafter_id, length, published, memory=memory)
    k = advice.recommendation.n_draft or advice.curve_k
    row = next(each for each in advice.drafts if each.n_draft == k)
    accepted_length = float(advice.curve.accepted_length[k])
    return DrafterRow(drafter_id, length, published, "", memory, row, accepted_length, here)
