"""What the run-time page asks of the core, cached; user's files stay in their own session's cache."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.advice import Advice, advice_on
from advisor.catalog import export_engines, load_engine
from advisor.engines import EngineExport, default_served_model, export_scenario, needs_draft_model
from advisor.prediction import AdvisorError
from advisor.runtime import (
    DEFAULT_PASSAGE_TOKENS,
    DEFAULT_SPREAD,
    AcceptanceProcess,
    BatchHistogram,
    ContextSchedule,
    KRange,
    SimulationPlan,
    SimulationReport,
    check_fits,
    contexts_from_text,
    costs_of,
    last_batch,
    per_position,
    recorded,
    schedules_by_context,
    simulate_policies,
    static_ranges,
    switching_around,
)
from advisor.scenario import Scenario
from advisor.ui.shared import answers, widgets
from advisor.ui.shared.remembered import remembered

T = TypeVar("T")

_KEPT_SIMULATIONS = 16
_GLANCE_S = 0.5
"""How long a simulation may take before it shows its progress. [s]"""

LIST, SWITCHING, TRACE = "Independent rounds", "Good and bad passages", "Your own trace"
RECOMMENDED, SCHEDULE = "As recommended", "K by batch"
PLACEHOLDER = "YOUR-DRAFT-MODEL"
OWN_MODEL = "YOUR-MODEL"
"""Stands in a launch line for a model of the user's own, whose path nobody else knows."""


def attempt(call: Callable[..., T], *arguments: Any, **named: Any) -> T | None:
    """The call's answer, or one message in its place and None where the input is wrong."""
    try:
        return call(*arguments, **named)
    except AdvisorError as error:
        st.error(widgets.plain(str(error)), icon=":material/error:")
        return None


@remembered(st.cache_resource, shared=64, own=16)
def by_context(scenario: Scenario, contexts: str) -> tuple[ContextSchedule, ...]:
    """Schedules for contexts such as `1024,8192`, none for an empty text."""
    if not contexts.strip():
        return ()
    advice = answers.advice_for(scenario)
    return schedules_by_context(scenario, contexts_from_text(contexts), advice.k_by_batch, advice.curve.batches)


def example_histogram(advice: Advice) -> pd.DataFrame:
    """Batch sizes around the scenario's, with made-up weights: something to edit."""
    last = last_batch(advice.setup, advice.curve)
    batch = min(advice.scenario.batch_size, last)
    rows = {1: 10, max(1, batch // 4): 20, batch: 50, min(4 * batch, last): 20}
    return pd.DataFrame({"batch_size": sorted(rows), "weight": [float(rows[b]) for b in sorted(rows)]})


def histogram_from(frame: pd.DataFrame, advice: Advice) -> BatchHistogram:
    """The edited table as a histogram. Raises AdvisorError for a batch beyond the curve or no weight at all."""
    rows = frame.dropna()
    if rows.empty:
        raise AdvisorError("The batch histogram is empty; give at least one batch size and its weight.")
    last = int(advice.curve.batches[-1])
    if rows["batch_size"].max() > last:
        raise AdvisorError(f"Batch {int(rows['batch_size'].max()):,} lies beyond the curve, which ends at {last:,}.")
    histogram = BatchHistogram(tuple(int(b) for b in rows["batch_size"]), tuple(float(w) for w in rows["weight"]))
    check_fits(histogram, advice.setup)
    return histogram


def users_text(histogram: BatchHistogram, advice: Advice) -> str:
    """Users of all copies of the model, with their share of the time, as the leaderboard takes them."""
    scenario = advice.scenario
    copies = scenario.n_gpus // advice.setup.placement.gpus
    rows = zip(histogram.batches, histogram.weights, strict=True)
    return ",".join(f"{copies * batch}:{weight:g}" for batch, weight in rows)


def export_choices(advice: Advice) -> list[str]:
    """Choices of an export: the recommended K, K by batch, or one K throughout."""
    return [RECOMMENDED, SCHEDULE, *(f"K = {k} throughout" for k in advice.curve.drafts)]


def pasted_text(advice: Advice, n_draft: int, made: EngineExport) -> str:
    """Sentence on what the line to paste runs, where `n_draft` is the K picked on the page."""
    if not n_draft:
        return "Runs without a drafter."
    if n_draft != advice.recommendation.n_draft:
        return f"Runs K = {n_draft}, which you picked, at every batch."
    if made.varies_k:
        engine = load_engine(made.engine)
        least = engine.least_release({"table"})
        needs = f" (needs {engine.name} {least} or newer)" if least else ""
        return f"Runs K by batch{needs}, K = {n_draft} at yours.{_still_drafts(advice)}"
    if len(advice.to_serve) > 1:
        return f"Runs K = {n_draft} at every batch: here this engine cannot vary it."
    alone = len({item.n_draft for item in advice.k_by_batch}) == 1
    return f"Runs K = {n_draft} at every batch{'' if alone else ': K by batch would gain under 1%'}."


def _still_drafts(advice: Advice) -> str:
    """Where no drafting is recommended and one server drafts all the same; a sentence with a space before it."""
    found = [item for item in advice.to_serve if not item.n_draft and item.k_running]
    if not found:
        return ""
    first = found[0]
    return (
        f" From batch {first.batch_start:,} K = 0 would be better, but only as a server without a drafter: this one "
        f"runs K = {first.k_running} there."
    )


def chosen_ranges(advice: Advice, choice: str) -> tuple[KRange, ...]:
    """Ranges behind one of `export_choices`."""
    if choice in (RECOMMENDED, SCHEDULE):
        return advice.to_serve if choice == RECOMMENDED else advice.k_by_batch
    return static_ranges(advice.curve, int(choice.split()[2]), advice.k_by_batch[-1].batch_end)


@remembered(st.cache_resource, shared=64, own=16)
def _answered(scenario: Scenario, engine: str) -> Advice:
    return advice_on(answers.advice_for(scenario), engine)


def on_engine(advice: Advice, engine: str) -> Advice:
    """Advice on one engine (`advice.advice_on`), remembered."""
    return advice if engine == advice.scenario.engine else _answered(advice.scenario, engine)


def served_model(advice: Advice) -> str:
    """Name of the model to prefill, empty for the user's own configuration."""
    try:
        return default_served_model(advice.setup)
    except AdvisorError:
        return ""


def own_model_text(served: str) -> str:
    """Sentence on what goes into a launch line for the user's own model.

    Empty where the line names a shipped one.
    """
    return f"Put the path or Hugging Face repository of your model for {OWN_MODEL}." if served == OWN_MODEL else ""


def needs_draft_name(advice: Advice) -> bool:
    """True where at least one engine needs a draft model's name that only the user knows."""
    return any(needs_draft_model(advice.setup, engine.id) for engine in export_engines())


def export_for(advice: Advice, engine: str, choice: str, served: str, draft: str) -> EngineExport | str:
    """The export by the engine's own kernels, or the sentence that says why this engine has none."""
    advice = on_engine(advice, engine)
    named = (draft or None) if needs_draft_name(advice) else None  # a model's own MTP module has no checkpoint
    try:
        return export_scenario(
            advice.setup, chosen_ranges(advice, choice), engine, served_model=served or None, draft_model=named
        )
    except AdvisorError as error:
        return str(error)


@dataclass(frozen=True)
class ProcessChoice:
    """Process by which acceptance varies in a simulation.

    One of LIST, SWITCHING, TRACE, with what that needs.
    """

    kind: str
    spread: float = DEFAULT_SPREAD
    good_tokens: float = DEFAULT_PASSAGE_TOKENS
    file_name: str = ""
    data: bytes = b""

    @property
    def key(self) -> str:
        """Name of the process, equal for equal choices."""
        return f"{self.kind} {self.spread} {self.good_tokens} {hashlib.sha256(self.data).hexdigest()}"


def simulation_for(
    scenario: Scenario, choice: ProcessChoice, plan: SimulationPlan, warm: bool
) -> SimulationReport | None:
    """All policies of a scenario on one process, remembered for the session.

    None once the user cancelled it.

    Any change on the page ends a running simulation, as every rerun does. Raises AdvisorError when the trace cannot be
    read.
    """
    kept: dict[object, SimulationReport] = st.session_state.setdefault("simulations", {})
    key = (scenario.model_dump_json(), choice.key, plan, warm)
    if key in kept:
        return kept[key]
    if st.session_state.get("cancelled_simulation") == key:
        st.info("The simulation was cancelled.", icon=":material/cancel:")
        st.button("Simulate", on_click=st.session_state.pop, args=("cancelled_simulation",))
        return None
    advice = answers.advice_for(scenario)
    costs = costs_of(advice.curve, keep_drafter_warm=warm)
    place = st.empty()
    watch = _progress_in(place, key)
    report = simulate_policies(costs, advice.k_by_batch, _process(advice, choice), plan, on_policy=watch)
    place.empty()
    while len(kept) >= _KEPT_SIMULATIONS:
        del kept[next(iter(kept))]
    kept[key] = report
    return report


def _progress_in(place: DeltaGenerator, key: object) -> Callable[[str, float], None]:
    """Shows how far a simulation is once it has taken longer than a glance, with a button to end it."""
    started_s = time.monotonic()
    bar: list[DeltaGenerator] = []

    def watch(policy: str, done: float) -> None:
        if not bar and time.monotonic() - started_s > _GLANCE_S:
            with place.container():
                bar.append(st.empty())
                st.button("Cancel", on_click=st.session_state.__setitem__, args=("cancelled_simulation", key))
        for line in bar:
            line.progress(done, f"Simulating: {policy}")

    return watch


def _process(advice: Advice, choice: ProcessChoice) -> AcceptanceProcess:
    length = advice.setup.acceptance.accepted_length
    if choice.kind == TRACE:
        return recorded(choice.data, choice.file_name)
    if choice.kind == SWITCHING:
        return switching_around(length, advice.curve_k, spread=choice.spread, good_tokens=choice.good_tokens)
    return per_position(length)
