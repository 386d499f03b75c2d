"""Data: your own benchmark, acceptance and routing trace, why a run is slow, sweeps, this machine, what ships."""

from __future__ import annotations

import streamlit as st

from advisor.ui.data.diagnosis import draw_diagnosis_panel, draw_store_panel
from advisor.ui.data.profile import draw_profile_panel
from advisor.ui.data.sweep import draw_sweep_panel
from advisor.ui.data.trace_panel import draw_acceptance_panel, draw_trace_panel
from advisor.ui.data.upload_panel import draw_upload_panel
from advisor.ui.session import DATA_TABS
from advisor.ui.widgets import advice_or_stop, scenario_or_stop

scenario = scenario_or_stop()
st.title("Your data and what is known", anchor=False)
benchmark, diagnosis, acceptance, routing, sweep, machine, shipped = st.tabs(
    DATA_TABS, key="data_tab", on_change="rerun"
)
if benchmark.open:
    with benchmark:
        draw_upload_panel(scenario)
if diagnosis.open:
    with diagnosis:
        draw_diagnosis_panel(scenario)
if acceptance.open:
    with acceptance:
        draw_acceptance_panel(scenario)
if sweep.open:
    with sweep:
        draw_sweep_panel(scenario)
if machine.open:
    with machine:
        draw_profile_panel()
if shipped.open:
    with shipped:
        draw_store_panel(scenario)
if routing.open:
    with routing:  # last: a scenario without an answer ends the page here
        draw_trace_panel(advice_or_stop(scenario))
