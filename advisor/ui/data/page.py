"""Data: your own benchmark, acceptance and routing trace, why a run is slow, sweeps, this machine, what ships."""

import streamlit as st

from advisor.ui.data import (
    acceptance_panel,
    diagnosis_panel,
    profile_panel,
    store_panel,
    sweep_panel,
    trace_panel,
    upload_panel,
)
from advisor.ui.shared import widgets
from advisor.ui.shared.settings import DATA_TABS

scenario = widgets.scenario_or_stop()
st.title("Your data and what is known", anchor=False)
benchmark, diagnosis, acceptance, routing, sweep, machine, shipped = st.tabs(
    DATA_TABS, key="data_tab", on_change="rerun"
)
if benchmark.open:
    with benchmark:
        upload_panel.draw(scenario)
if diagnosis.open:
    with diagnosis:
        diagnosis_panel.draw(scenario)
if acceptance.open:
    with acceptance:
        acceptance_panel.draw(scenario)
if sweep.open:
    with sweep:
        sweep_panel.draw(scenario)
if machine.open:
    with machine:
        profile_panel.draw()
if shipped.open:
    with shipped:
        store_panel.draw(scenario)
if routing.open:
    with routing:  # last: a scenario without an answer ends the page here
        trace_panel.draw(widgets.advice_or_stop(scenario))
