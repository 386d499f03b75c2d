"""Measurements: your own benchmark, acceptance and routing trace, and what the store holds."""

import streamlit as st

from advisor.ui import acceptance_panel, store_panel, trace_panel, upload_panel, widgets

scenario = widgets.scenario_or_stop()
st.title("Measurements", anchor=False)
benchmark, acceptance, routing, store = st.tabs(
    ["Your benchmark", "Your acceptance", "Your routing trace", "In the store"]
)
with benchmark:
    upload_panel.draw(scenario)
with acceptance:
    acceptance_panel.draw(scenario)
with store:
    store_panel.draw(scenario)
with routing:  # last: a scenario without an answer ends the page here
    trace_panel.draw(widgets.advice_or_stop(scenario))
