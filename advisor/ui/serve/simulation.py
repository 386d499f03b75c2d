"""Simulation: one K, the schedule, Cascade and an oracle on the same requests."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.charts import simulation_chart
from advisor.ui.serve import runtime_answers as runtime
from advisor.ui.serve import runtime_widgets
from advisor.ui.shared import widgets


def draw(advice: Advice) -> None:
    """The whole tab."""
    if advice.setup.drafter.kind == "none":
        st.info("Nothing is drafted in this scenario; choose a drafter in the bar above.")
        return
    choice = runtime_widgets.process_choice()
    if choice is None:
        st.info("Give a trace to simulate on it. It stays in this session.")
        return
    plan, warm = runtime_widgets.plan(advice.scenario.batch_size)
    report = runtime.attempt(runtime.simulation_for, advice.scenario, choice, plan, warm)
    if report is None:
        return
    widgets.show_chart(simulation_chart(report), "simulation", advice.scenario)
    runtime_widgets.show_outcomes(report)
    st.caption(report.load_note)
    if not report.complete:
        st.caption(f"The limit of {plan.iterations:,} iterations ended before all requests were served.")
    st.caption("Decode iterations only: prefill takes no time here. The oracle sees each step's outcome beforehand.")
