"""Simulation: one K, the schedule, Cascade and an oracle on the same requests; a trace stays in the
session."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.answers.advice import Advice
from advisor.answers.best_k import costs_of
from advisor.answers.simulation.compare import (
    MAX_TRACE_BYTES,
    SimulationPlan,
    SimulationReport,
    process_of,
    recorded,
    simulate_policies,
)
from advisor.answers.simulation.simulator import DEFAULT_PASSAGE_TOKENS, DEFAULT_SPREAD
from advisor.predict.scenario import Scenario
from advisor.show.charts.runtime import POLICIES, simulation_chart
from advisor.show.phrases.simulation import LOAD
from advisor.show.table import Table
from advisor.ui.answers import advice_for
from advisor.ui.widgets import show_chart, show_table, tried

_KEPT_SIMULATIONS = 16
_GLANCE_S = 0.5
"""How long a simulation may take before it shows its progress. [s]"""
PROCESSES = {
    "list": "Independent rounds",
    "switching": "Good and bad passages",
    "trace": "Your own trace",
}


@dataclass(frozen=True)
class ProcessChoice:
    """Process by which acceptance varies in a simulation. One of PROCESSES, with what that
    needs."""

    kind: str
    spread: float = DEFAULT_SPREAD
    good_tokens: float = DEFAULT_PASSAGE_TOKENS
    file_name: str = ""
    data: bytes = b""

    @property
    def key(self) -> str:
        """Name of the process, equal for equal choices."""
        return (
            f"{self.kind} {self.spread} {self.good_tokens} {hashlib.sha256(self.data).hexdigest()}"
        )


def simulation_for(
    scenario: Scenario, choice: ProcessChoice, plan: SimulationPlan, warm: bool
) -> SimulationReport | None:
    """All policies of a scenario on one process, remembered for the session.

    None once the user cancelled it.

    Any change on the page ends a running simulation, as every rerun does. Raises AdvisorError when
    the trace cannot be read.
    """
    reports: dict[object, SimulationReport] = st.session_state.setdefault("simulations", {})
    key = (scenario.model_dump_json(), choice.key, plan, warm)
    if key in reports:
        return reports[key]
    if st.session_state.get("cancelled_simulation") == key:
        st.info("The simulation was cancelled.", icon=":material/cancel:")
        st.button("Simulate", on_click=st.session_state.pop, args=("cancelled_simulation",))
        return None
    advice = advice_for(scenario)
    costs = costs_of(advice.curve, keep_drafter_warm=warm)
    place = st.empty()
    watch = _progress_in(place, key)
    steps = recorded(choice.data, choice.file_name) if choice.kind == "trace" else None
    passages = {"spread": choice.spread, "good_tokens": choice.good_tokens}
    process = process_of(choice.kind, costs, advice.k_by_batch, steps, **passages)
    report = simulate_policies(costs, advice.k_by_batch, process, plan, on_policy=watch)
    place.empty()
    while len(reports) >= _KEPT_SIMULATIONS:
        del reports[next(iter(reports))]
    reports[key] = report
    return report


def _progress_in(place: DeltaGenerator, key: object) -> Callable[[str, float], None]:
    """Shows how far a simulation is once it has taken longer than a glance, with a button to end
    it."""
    started_s = time.monotonic()
    bar: list[DeltaGenerator] = []

    def watch(policy: str, done: float) -> None:
        if not bar and time.monotonic() - started_s > _GLANCE_S:
            with place.container():
                bar.append(st.empty())
                st.button(
                    "Cancel",
                    on_click=st.session_state.__setitem__,
                    args=("cancelled_simulation", key),
                )
        for line in bar:
            line.progress(done, f"Simulating: {policy}")

    return watch


def process_choice() -> ProcessChoice | None:
    """Process by which acceptance varies, or None while a trace was chosen and not yet given."""
    kind = st.radio(
        "How acceptance varies",
        PROCESSES,
        format_func=PROCESSES.__getitem__,
        horizontal=True,
        key="process",
    )
    if kind == "switching":
        spread = st.slider(
            "Good and bad passages apart (logits; assumed)", 0.0, 4.0, DEFAULT_SPREAD, key="spread"
        )
        tokens = st.number_input(
            "Passage length (tokens; assumed)", 1.0, 1e5, DEFAULT_PASSAGE_TOKENS, key="passage"
        )
        return ProcessChoice(kind, spread, tokens)
    if kind == "trace":
        trace_file = st.file_uploader(
            (
                "Accepted drafts per step: JSON ([[3, 0, 2], [1, 1]]) or CSV (columns accepted, "
                "request)"
            ),
            type=["json", "csv"],
            key="trace",
            max_upload_size=MAX_TRACE_BYTES // 1_000_000,
        )
        return (
            None
            if trace_file is None
            else ProcessChoice(kind, file_name=trace_file.name, data=trace_file.getvalue())
        )
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
            help="Poisson arrivals at this share of what plain decoding could serve, so that the "
            "batch varies. Empty: "
            "all requests wait from the start, and a free slot takes the next at once.",
        )
    warm = st.toggle("Charge for keeping the drafter ready at K = 0", True, key="warm_drafter")
    return SimulationPlan(
        int(requests),
        request_tokens=int(length),
        batch_size=batch_size,
        load_share=share,
        seed=int(seed),
    ), warm


def draw_simulation(advice: Advice) -> None:
    """The whole tab."""
    scenario = advice.scenario
    drafts = advice.setup.drafter.kind != "none"
    choice = process_choice() if drafts else None
    if choice is None:
        lacks = "a trace; it stays in this session" if drafts else "a drafter in the bar"
        st.info(f"To simulate, give {lacks}.")
        return
    planned, warm = plan(scenario.batch_size)
    report = tried(simulation_for, scenario, choice, planned, warm)
    if report is None:
        return
    show_chart(simulation_chart(report), "simulation", scenario)
    show_table(Table(POLICIES, report.outcomes))
    st.caption(LOAD.say("load", report.facts))
    if not report.complete:
        st.caption(
            f"The limit of {planned.iterations:,} iterations ended before all requests were served."
        )
    st.caption(
        "Decode iterations only: prefill takes no time here. The oracle sees each step's outcome "
        "beforehand; as slots empty at the end of a run a single K may still pass it."
    )
