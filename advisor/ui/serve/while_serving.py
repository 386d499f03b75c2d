"""K while serving: K by batch and context, what that gains, the engines' files, and where drafting breaks even.

What the run-time page asks of the core, cached; user's files stay in their own session's cache.

The widgets of the simulation on the page Run-time K: how acceptance varies, and what load is served.

Simulation: one K, the schedule, Cascade and an oracle on the same requests.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.answers.advice import Advice, advice_on
from advisor.answers.best_k import last_batch
from advisor.answers.by_batch import (
    BatchHistogram,
    check_fits,
    contexts_from_text,
    gain_of,
    schedules_by_context,
    static_ranges,
)
from advisor.answers.engines.config import EngineExport, one_option_a_line
from advisor.answers.engines.export import default_served_model, export_scenario, needs_draft_model
from advisor.answers.round_costs import ContextSchedule, KRange, costs_of, k_at
from advisor.answers.schedule import schedule_rule
from advisor.answers.simulation.compare import (
    MAX_TRACE_BYTES,
    SimulationPlan,
    SimulationReport,
    recorded,
    simulate_policies,
)
from advisor.answers.simulation.simulator import (
    DEFAULT_PASSAGE_TOKENS,
    DEFAULT_SPREAD,
    AcceptanceProcess,
    per_position,
    switching_around,
)
from advisor.catalog.engines import export_engines, load_engine
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.runtime import (
    POLICY_COLUMNS,
    POLICY_FORMATS,
    SHARES,
    break_even_chart,
    gain_chart,
    paying_batches,
    schedule_chart,
    shape_of,
    simulation_chart,
    simulation_table,
)
from advisor.show.words.schedule import k_by_batch_table
from advisor.ui.answers import OFFERED, advice_for, remembered
from advisor.ui.widgets import ANSWER, acceptance_note, asked_by_table, button, plain, show_chart


def draw_while_serving(advice: Advice) -> None:
    """The whole tab."""
    if advice.setup.drafter.kind == "none":
        st.info("Nothing is drafted in this scenario; choose a drafter in the bar above.")
        return
    here = int(k_at(advice.k_by_batch, advice.scenario.batch_size))
    st.subheader(f"K {shape_of(advice.k_by_batch)}", anchor=False)
    st.caption(f"At batch {advice.scenario.batch_size:,}: K = {here}. {acceptance_note(advice)}")
    chart, table = st.columns([3, 2])
    with chart:
        schedule(advice)
    with table:
        by_batch(advice)
    gains(advice)
    configuration(advice)
    break_even(advice)


def schedule(advice: Advice) -> None:
    """Chart of K by batch, at several contexts."""
    scenario = advice.scenario
    contexts = st.text_input("Context buckets (tokens)", "1024, 8192, 32768", key="context_buckets")
    buckets = attempt(by_context, scenario, contexts) or ()
    chart = schedule_chart(advice.k_by_batch, scenario.batch_size, buckets, scenario.context_tokens, advice.curve)
    show_chart(chart, "schedule", scenario)
    button(scenario.batch_size, int(k_at(advice.k_by_batch, scenario.batch_size)), ANSWER, "schedule")
    st.caption(" ".join((*advice.schedule_texts, "Circles mark the highest speedup.")))


def by_batch(advice: Advice) -> None:
    """K by batch as a table, in which a row opens how its K was made."""
    limit_ms = advice.scenario.max_tpot_ms
    table = k_by_batch_table(advice.k_by_batch, limit_ms is not None).frame
    table["K"] = [item.n_draft for item in advice.k_by_batch]
    table["Mean speedup"] = [item.speedup for item in advice.k_by_batch]
    table["Largest expected loss"] = [item.regret * 100 for item in advice.k_by_batch]
    st.caption(schedule_rule(limit_ms))
    st.dataframe(
        table,
        hide_index=True,
        column_config={
            "Mean speedup": st.column_config.NumberColumn(format="%.2f×"),
            "Largest expected loss": st.column_config.NumberColumn(format="%.1f%%"),
        },
        key="k_by_batch",
        selection_mode="single-row",
        on_select=functools.partial(asked_by_table, "k_by_batch", advice.k_by_batch),
    )
    st.caption("Select a row to see how its K was made.")


def gains(advice: Advice) -> None:
    """Gain of the schedule over one K on the user's own batch sizes."""
    scenario = advice.scenario
    st.markdown(
        "**What it gains on your batch sizes.** Edit the table: the time your server spends at each batch size."
    )
    table, bars = st.columns([1, 2])
    with table:
        number = st.column_config.NumberColumn
        edited = st.data_editor(
            example_histogram(advice),
            num_rows="dynamic",
            hide_index=True,
            key="batch_histogram",
            column_config={
                "batch_size": number("Batch", min_value=1, step=1, required=True),
                "weight": number("Share of time", min_value=0.0, required=True),
            },
        )
        st.caption("The first rows are an example, not a measurement.")
    with bars:
        histogram = attempt(histogram_from, edited, advice)
        if histogram is not None:
            if not edited.equals(example_histogram(advice)):
                OFFERED.put(users_text(histogram, advice))
            gain = gain_of(advice.curve, advice.k_by_batch, histogram)
            show_chart(gain_chart(gain), "schedule_gain", scenario)


def configuration(advice: Advice) -> None:
    """Configuration of each engine that runs the schedule or one K of it."""
    st.subheader("Engine configuration", anchor=False)
    choice = st.selectbox("Export", export_choices(advice), key="export_choice")
    served = st.text_input("Model the engine serves", served_model(advice), key="served_model")
    draft = ""
    if needs_draft_name(advice):
        draft = st.text_input("Draft model or head (Hugging Face name or path)", key="draft_model")
        if not draft:
            st.info(f"Give the draft model's name: until then the configuration says {PLACEHOLDER}.")
            draft = PLACEHOLDER
    engines = export_engines()
    for column, engine in zip(st.columns(len(engines)), engines, strict=True):
        with column:
            st.markdown(f"**{engine.name}**")
            made = export_for(advice, engine.id, choice, served, draft)
            if isinstance(made, str):
                st.info(plain(made))
                continue
            st.code(one_option_a_line(made.launch_line), language=None, wrap_lines=True)
            if made.config is not None:
                st.code(made.config_json, language=None, wrap_lines=True)
            for warning in made.warnings:
                st.caption(plain(warning))


def break_even(advice: Advice) -> None:
    """Chart of the accepted length that pays at each batch, and the batches where the user's does."""
    st.subheader("Break-even", anchor=False)
    last = last_batch(advice.setup, advice.curve)
    chart = break_even_chart(advice.curve, advice.scenario.batch_size, advice.curve_k, last)
    show_chart(chart, "break_even", advice.scenario)
    st.markdown(paying_batches(advice.curve, advice.curve_k, last))
    st.caption("x: no acceptance can pay (more than K + 1 tokens needed). o: your accepted length is not enough.")


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
        st.error(plain(str(error)), icon=":material/error:")
        return None


@remembered(st.cache_resource, shared=64, own=16)
def by_context(scenario: Scenario, contexts: str) -> tuple[ContextSchedule, ...]:
    """Schedules for contexts such as `1024,8192`, none for an empty text."""
    if not contexts.strip():
        return ()
    advice = advice_for(scenario)
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
    return advice_on(advice_for(scenario), engine)


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
    advice = advice_for(scenario)
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


MAX_ITERATIONS = 4000
"""Limit on each server, so that a page answers in seconds."""


def process_choice() -> ProcessChoice | None:
    """Process by which acceptance varies, or None while a trace was chosen and not yet given."""
    kind = st.radio("How acceptance varies", (LIST, SWITCHING, TRACE), horizontal=True, key="process")
    if kind == SWITCHING:
        spread = st.slider("Good and bad passages apart (logits; assumed)", 0.0, 4.0, DEFAULT_SPREAD, key="spread")
        tokens = st.number_input("Passage length (tokens; assumed)", 1.0, 1e5, DEFAULT_PASSAGE_TOKENS, key="passage")
        return ProcessChoice(kind, spread, tokens)
    if kind == TRACE:
        given = st.file_uploader(
            "Accepted drafts per step: JSON ([[3, 0, 2], [1, 1]]) or CSV (columns accepted, request)",
            type=["json", "csv"],
            key="trace",
            max_upload_size=MAX_TRACE_BYTES // 1_000_000,
        )
        return None if given is None else ProcessChoice(kind, file_name=given.name, data=given.getvalue())
    return ProcessChoice(kind)


def plan(batch_size: int) -> tuple[SimulationPlan, bool]:
    """Load that is served, and whether the drafter is kept ready at K = 0."""
    with st.grid(4, min_column_width=150):
        requests = st.number_input("Requests", 1, 5000, 200, key="simulated_requests")
        length = st.number_input("Tokens each", 1, 4096, 250, key="simulated_tokens")
        seed = st.number_input("Seed", 0, 2**31, 0, key="simulated_seed")
        share = st.number_input(
            "Load (empty: all at once)",
            0.05,
            2.0,
            value=None,
            key="simulated_load",
            help="Poisson arrivals at this share of what plain decoding could serve, so that the batch varies. Empty: "
            "all requests wait from the start, and a free slot takes the next at once.",
        )
    warm = st.toggle("Charge for keeping the drafter ready at K = 0", True, key="warm_drafter")
    return SimulationPlan(int(requests), MAX_ITERATIONS, int(length), batch_size, share, int(seed)), warm


def show_outcomes(report: SimulationReport) -> None:
    """The table under the simulation's chart: one row per way to choose K."""
    table = simulation_table(report)
    table[list(SHARES)] *= 100
    columns = {
        name: st.column_config.Column(label)
        if name not in POLICY_FORMATS
        else st.column_config.NumberColumn(label, format=POLICY_FORMATS[name])
        for name, label in POLICY_COLUMNS.items()
    }
    st.dataframe(table, hide_index=True, placeholder="", column_config=columns)


def draw_simulation(advice: Advice) -> None:
    """The whole tab."""
    if advice.setup.drafter.kind == "none":
        st.info("Nothing is drafted in this scenario; choose a drafter in the bar above.")
        return
    choice = process_choice()
    if choice is None:
        st.info("Give a trace to simulate on it. It stays in this session.")
        return
    planned, warm = plan(advice.scenario.batch_size)
    report = attempt(simulation_for, advice.scenario, choice, planned, warm)
    if report is None:
        return
    show_chart(simulation_chart(report), "simulation", advice.scenario)
    show_outcomes(report)
    st.caption(report.load_note)
    if not report.complete:
        st.caption(f"The limit of {planned.iterations:,} iterations ended before all requests were served.")
    st.caption("Decode iterations only: prefill takes no time here. The oracle sees each step's outcome beforehand.")
