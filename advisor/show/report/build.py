"""All that a report says: an advice and a date in, the report out. No clock, no file, no
network."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.by_context import KByContext
from advisor.answers.engines.config import EngineExport, one_option_a_line, one_slot_a_line
from advisor.answers.engines.export import (
    CheckCommand,
    check_commands,
)
from advisor.answers.expert_ranks import RanksAnswer
from advisor.answers.explore.cells import ContextMap
from advisor.answers.explore.changes import DesignStanding, NextSteps
from advisor.answers.explore.leaderboard import Leaderboard
from advisor.answers.explore.questions import SweepView
from advisor.answers.outcome import Outcome, outcome_of
from advisor.catalog.engines import export_engines, load_engine
from advisor.measured.refit_result import Errors
from advisor.measured.validation import judged_errors, read_judged
from advisor.predict.curve import Curve, digits
from advisor.predict.scenario import Scenario
from advisor.predict.spend import Spend
from advisor.prediction import AdvisorError, Constant, Tier
from advisor.show.phrases.answer import BOOK
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.report import BOOK as REPORT
from advisor.show.report.basis import (
    APP_ADDRESS,
    assumption_texts,
    constants_of,
    share_query,
    versions,
)
from advisor.show.report.blocks import Block, Code, Listing, Paragraph
from advisor.show.words.answer import draft_to_name, engine_setup, name_to_serve
from advisor.show.words.compare import model_name, setting_lines
from advisor.show.words.diagnosis import DiagnosisView
from advisor.show.words.load import spend_of
from advisor.text import printable


def engine_setups(
    advice: Advice,
    served_model: str | None = None,
    draft_model: str | None = None,
    contexts: KByContext | None = None,
) -> tuple[EngineExport, ...]:
    """One EngineExport for each engine that has an export.

    served_model, draft_model : names or paths for the launch lines. Default: the model's Hugging
        Face repository (the
    scenario's own name for a model that the user gave), and a placeholder that the warnings name,
    where the method needs a draft checkpoint that no profile knows.
    """
    if advice.setup.memory.largest_batch < advice.scenario.batch_size:
        why = BOOK.say("launch", outcome_of(advice).facts)
        return tuple(
            EngineExport(engine=engine.id, problem=why.rstrip(".")) for engine in export_engines()
        )
    return tuple(
        engine_setup(advice, engine.id, served_model, draft_model, contexts)
        for engine in export_engines()
    )


def check_steps(
    advice: Advice, served_model: str | None = None, draft_model: str | None = None
) -> tuple[CheckCommand, ...]:
    """The vLLM benchmarks that measure the recommended K. Empty for K = 0 and where vLLM cannot run
    the drafter."""
    setup = advice.setup
    n_draft = advice.recommendation.n_draft
    if n_draft < 1:
        return ()
    served = printable(served_model or name_to_serve(advice))
    try:
        draft = draft_to_name(advice, "vllm", draft_model)
        return check_commands(setup, n_draft, served_model=served, draft_model=draft)
    except AdvisorError:
        return ()  # the engine section says why vLLM cannot


def engine_blocks(engine: EngineExport) -> tuple[Block, ...]:
    """One engine's launch line, its file and what to know before use, or why it cannot run the
    schedule."""
    name = load_engine(engine.engine).name
    if engine.problem:
        return (Paragraph(f"{name}: {engine.problem}."),)
    blocks: list[Block] = [Code(one_option_a_line(engine.launch_line), f"{name}, launch line")]
    if engine.file_name:
        blocks.append(Code(one_slot_a_line(engine.config_json), f"{name}, {engine.file_name}"))
    if engine.notes:
        warnings = note_texts(engine.notes, "bare")
        blocks.append(Listing(tuple(f"{name}: {warning}." for warning in warnings)))
    return tuple(blocks)


def check_blocks(checks: tuple[CheckCommand, ...]) -> tuple[Block, ...]:
    """The commands that measure what is predicted, or why there are none."""
    intro = Paragraph(REPORT.say("checks", {"has_checks": bool(checks)}))
    return intro, *(Code(one_option_a_line(step.command), step.purpose) for step in checks)


_SIX_DIGITS = np.vectorize(digits, otypes=[float])


@dataclass(frozen=True)
class Report:
    """An advice with all that a report says beside it, fit to print. Same scenario, data, versions,
    date: the same."""

    advice: Advice
    date: dt.date
    engines: tuple[EngineExport, ...]
    checks: tuple[CheckCommand, ...]
    """Empty where K = 0 is recommended or vLLM cannot run the drafter."""
    question: str
    settings: Mapping[str, str]
    """The scenario for readers, by label."""
    outcome: Outcome
    """Of the advice, as the model has it."""
    verdict: str
    assumptions: tuple[str, ...]
    constants: Mapping[str, Constant]
    """Peaks of the accelerator that are in use, by name."""
    sources: tuple[str, ...]
    versions: Mapping[str, str]
    # Answers of other questions; None: not looked up, not asked for, or none was given.
    steps: NextSteps | None = None
    validation: Mapping[str, Errors] | None = None
    """Errors by group of published points. Empty: nothing published could be compared."""
    spend: Spend | None = None
    """At the recommended K; None where the batch does not fit in memory."""
    over_context: ContextMap | None = None
    board: Leaderboard | None = None
    diagnosis: DiagnosisView | None = None
    k_by_context: KByContext | None = None
    ranks: RanksAnswer | None = None
    swept: SweepView | None = None
    remarks: tuple[str, ...] = ()
    """Sentences that stand before the notes of the answer."""
    address: str = APP_ADDRESS
    """Where the app that opens the answer is served."""
    decided: str = ""
    """What the user's own measured speedups say of K, which `advice.to_serve` follows; empty: the
    model says it."""

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Facts of the main answer (`answers.outcome`)."""
        if self.decided:
            return outcome_of(self.advice, follows_own=True).facts
        return self.outcome.facts

    def say(self, *slots: str) -> str:
        """Sentences of some slots of the main answer, one after the other."""
        return printable(" ".join(BOOK.says(slots, self.facts)), 3000)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences to heed before use, the heaviest first."""
        return tuple(map(printable, (*self.remarks, *note_texts(self.advice.notes))))

    @property
    def scenario(self) -> Scenario:
        """The scenario that was asked about."""
        return self.advice.scenario

    @property
    def standing(self) -> DesignStanding | None:
        """Standing of the design among all. None for a dense model, without a drafter, or not
        looked up."""
        return None if self.steps is None else self.steps.standing

    @property
    def share_query(self) -> str:
        """URL query that restores the scenario. Empty when its configuration is too large for an
        address."""
        return share_query(self.scenario)

    @cached_property
    def drawn_curve(self) -> Curve:
        """The curve in the six digits of JSON and CSV, so that a drawing's bytes are the same on
        every machine."""
        curve = self.advice.curve
        return replace(
            curve,
            **{name: _SIX_DIGITS(getattr(curve, name)) for name in ("speedup", "low", "high")},
        )


def build_report(
    advice: Advice,
    date: dt.date,
    *,
    served_model: str | None = None,
    draft_model: str | None = None,
    outcome: Outcome | None = None,
    **looked_up: Any,
) -> Report:
    """The report on an advice, with the answers that were looked up beside it.

    Parameters
    ----------
    date : printed on the report; the only date in it.
    served_model, draft_model : names for the engines' launch lines; see `engine_setups`.
    outcome : the record of the answer, where it is at hand.
    looked_up : answers of other questions, by the optional fields of `Report`.
    """
    setup = advice.setup
    # Without a price of the user's own, the profile's.
    looked_up["spend"] = looked_up.get("spend") or spend_of(advice)
    engines = engine_setups(advice, served_model, draft_model, looked_up.get("k_by_context"))
    question = (
        f"Should {model_name(setup)} draft with {printable(setup.drafter.name)} on "
        f"{printable(setup.place)} at batch {advice.scenario.batch_size:,}, and how many tokens K?"
    )
    sources = tuple(printable(text) for text in setup.sources)
    outcome = outcome_of(advice) if outcome is None else outcome
    return Report(
        advice=advice,
        date=date,
        engines=engines,
        checks=check_steps(advice, served_model, draft_model),
        question=question,
        settings=setting_lines(advice.setup),
        outcome=outcome,
        verdict=printable(BOOK.say("headline", outcome.facts)),
        assumptions=assumption_texts(setup),
        constants=constants_of(setup),
        sources=sources,
        versions=versions(),
        **looked_up,
    )


def applicable_errors(
    hardware_id: str | None, model_id: str | None, tier: Tier
) -> dict[str, Errors]:
    """Errors on published points by group, nearest first. Groups without a point are left out.

    The ids are from `published_ids`, None where no published point can be of it; `tier` is the
    answer's. Where it rests on a data sheet alone, the rows of all accelerators that do are a group
    of their own: others say little of it. Raises AdvisorError when the judged rows cannot be read.
    """
    _, judged = read_judged()
    same_hardware = judged["hardware_id"] == hardware_id
    same_model = judged["model_id"] == model_id
    groups = {
        "this accelerator and model": same_hardware & same_model,
        "this accelerator, other models": same_hardware & ~same_model,
        "this model, other accelerators": same_model & ~same_hardware,
        "accelerators known by their data sheets alone": judged["predicted_tier"] == Tier.ROOFLINE,
        "all published points": same_hardware | ~same_hardware,
    }
    if tier != Tier.ROOFLINE:
        del groups["accelerators known by their data sheets alone"]
    return {name: judged_errors(judged[mask]) for name, mask in groups.items() if mask.any()}
