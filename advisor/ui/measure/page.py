"""Measure: whatever is dropped, read at once and held against the model."""

from __future__ import annotations

import functools
from collections.abc import Callable

import streamlit as st

from advisor.predict.scenario import Scenario
from advisor.ui import PAGES
from advisor.ui.measure import diagnosis, session, traces
from advisor.ui.measure.drop import draw_drop_zone, is_served
from advisor.ui.measure.profile import draw_engine_run, draw_profile_panel
from advisor.ui.measure.samples import draw_empty
from advisor.ui.measure.verdict import draw_benchmark, follow_bar
from advisor.ui.state import TO_SERVE
from advisor.ui.widgets import scenario_or_stop

scenario = scenario_or_stop()
if TO_SERVE.pop():
    st.switch_page(PAGES["serve"])
follow_bar(scenario)
panels: list[Callable[[Scenario, traces.Heading], None]] = []
if session.FILES.result:
    panels.append(functools.partial(draw_benchmark, session.upload()))
elif is_served():
    panels.append(diagnosis.draw_alone)
if traces.TRACE.result is not None:
    panels.append(traces.draw_trace)
if traces.RATES.result is not None:
    panels.append(traces.draw_acceptance)
if traces.POWER.result is not None:
    panels.append(traces.draw_power)
if not panels:
    draw_empty(scenario)
draw_drop_zone(scenario)
for number, draw in enumerate(panels):
    draw(scenario, functools.partial(st.subheader if number else st.title, anchor=False))
if not panels:
    if scenario.engine == "vllm":  # the one engine that it runs
        setup = st.expander(
            "No runs yet? Measure this setup", key="measure_setup", on_change="rerun"
        )
        if setup.open:
            with setup:
                draw_engine_run(scenario, scenario.model_id, scenario.model_config_json)
    machine = st.expander("Measure this machine", key="measure_machine", on_change="rerun")
    if machine.open:
        with machine:
            draw_profile_panel()
