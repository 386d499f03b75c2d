"""A measured run: its facts, its baseline and its prediction.

A refit, validation, the diagnosis and the verdict on a user's own runs all read runs of this kind;
each adds what it alone needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from advisor.measured.row_questions import RowQuestion, check_tokens_in_step, question_of
from advisor.predict.curve import Curve, curve_for, rounds_for
from advisor.predict.prefill import has_lengths
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.text import number_of

Facts = Mapping[str, Any]
"""Values by name: columns of a point (advisor.measured.ingest), and names of the diagnosis; what is
unknown is absent or None."""
# A baseline asks for a drafter without device time; K = 0 is what its curve is evaluated at.
_NO_DRAFT: Facts = {
    "drafter": "random",
    "draft_tokens_k": 1,
    "accepted_length": 1.5,
    "tokens_in_step": None,
    "draft_structure": None,
}


@dataclass(frozen=True)
class Run:
    """One measured row, or a server without one, and the baseline beside it."""

    facts: Facts
    file: str = ""
    line: int = 0
    plain: Facts = field(default_factory=dict)
    """The run without speculation that it is compared with; empty where there is none."""

    @property
    def place(self) -> str:
        """Place of the row, `file, line 4`."""
        return f"{self.file}, line {self.line}" if self.line else self.file

    def number(self, name: str) -> float | None:
        """A fact as a finite number. `plain:NAME` is that of the plain run. None where it is
        unknown."""
        return as_number(self.value(name))

    def text(self, name: str) -> str:
        """A fact as text. Empty where it is unknown."""
        value = self.value(name)
        return "" if value is None else str(value)

    def value(self, name: str) -> Any:
        """A fact as it is. None where it is unknown."""
        side, _, fact = name.rpartition(":")
        return (self.plain if side == "plain" else self.facts).get(fact)

    @property
    def drafts(self) -> bool:
        """Whether speculation was on, as far as is known."""
        k = self.number("draft_tokens_k")
        return bool(k) if k is not None else bool(self.value("speculation_on"))


@dataclass(frozen=True, kw_only=True)
class AskedRun(Run):
    """A run as a question to the model."""

    question: RowQuestion

    @property
    def scenario(self) -> Scenario:
        """Scenario of the run, but for its K."""
        return self.question.scenario

    @property
    def n_draft(self) -> int:
        """K. 0 without speculation. [-]"""
        return self.question.n_draft

    @property
    def batch_size(self) -> float:
        """Sequences of one instance that decode together. [-]"""
        return self.question.batch_size

    @property
    def engine_class(self) -> str:
        """Engine and vintage whose overheads the run shares."""
        return self.question.engine_class


@dataclass(frozen=True, kw_only=True)
class PredictedRun(AskedRun):
    """A run with the setup that predicts it."""

    setup: Setup

    def curve(self, setup: Setup | None = None, drafts: Sequence[int] = ()) -> Curve:
        """Prediction at the run's batch and K, for another setup or other K if given."""
        return curve_for(
            setup or self.setup,
            [self.batch_size],
            drafts or [self.n_draft],
            self.question.verify_tokens,
        )


_PRICED_APART = ("batch_size", "context_tokens", "k_max", "acceptance")
"""Settings in which runs may differ that are priced together."""


def curves_of(runs: Sequence[PredictedRun]) -> list[Curve | AdvisorError]:
    """Prediction of each run at its own batch and K, or why there is none.

    Runs that differ in batch, context and accepted length alone are priced together.
    """
    groups: dict[Any, list[list[int]]] = {}
    for place, run in enumerate(runs):
        scenario = run.setup.scenario
        alone = has_lengths(run.setup) or run.setup.sweep is not None
        same = tuple(value for name, value in scenario if name not in _PRICED_APART)
        context = scenario.context_tokens if alone else None
        question = run.question
        key = same, context, run.n_draft, question.verify_tokens, question.counted
        alike = groups.setdefault(key, [])
        for group in alike:
            first = runs[group[0]].setup
            if (first.costs, first.draft_costs) == (run.setup.costs, run.setup.draft_costs):
                group.append(place)
                break
        else:
            alike.append([place])
    curves: dict[int, Curve | AdvisorError] = {}
    for group in (group for alike in groups.values() for group in alike):
        together = [runs[place] for place in group]
        curves |= zip(group, _curves_together(together), strict=True)
    return [curves[place] for place in range(len(runs))]


def _curves_together(runs: Sequence[PredictedRun]) -> list[Curve] | list[AdvisorError]:
    """Curves of runs of one server and K, one batch each; of each the error where there is one."""
    first = runs[0]
    contexts = np.array([run.setup.scenario.context_tokens for run in runs], float)
    setup = replace(first.setup, contexts=contexts if len(runs) > 1 else None)
    batches = [run.batch_size for run in runs]
    try:
        rounds = rounds_for(setup, batches, [first.n_draft], first.question.verify_tokens)
    except AdvisorError as error:
        return [error] * len(runs)
    return [
        rounds.at(slice(row, row + 1), 1).curve(run.setup.acceptance)
        for row, run in enumerate(runs)
    ]


def run_question(facts: Facts, other_models: bool = False) -> RowQuestion:
    """Question that a run asks as it was measured, a baseline or a mean batch too.

    other_models : as in `question_of`.
    Raises AdvisorError with the reason where the run cannot be predicted.
    """
    n_draft = as_number(facts.get("draft_tokens_k"))
    batch = as_number(facts.get("batch_size"))
    cells = dict(facts)
    if batch is not None:
        batch = min(max(batch, 1.0), float(MAX_BATCH))
        cells["batch_size"] = round(batch)
    if n_draft == 0:
        cells |= _NO_DRAFT
        check_tokens_in_step(as_number(facts.get("tokens_in_step")), batch or 0.0)
    question = question_of(cells, other_models=other_models)
    at_batch = max((batch or 1.0) * question.batch_share, 1.0)
    counted = question.counted
    if counted is not None and n_draft == 0:
        counted = replace(counted, tokens=1)  # a baseline step, not the round asked for above
    return replace(question, n_draft=int(n_draft or 0), batch_size=at_batch, counted=counted)


def as_number(value: Any) -> float | None:
    """A cell as a finite number. None for anything else."""
    return float(value) if isinstance(value, bool) else number_of(value)
