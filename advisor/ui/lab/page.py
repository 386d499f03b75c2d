"""Lab: what takes its time: simulation, sweeps of scenarios, experts on ranks, this machine
measured."""

from __future__ import annotations

import streamlit as st

from advisor.ui.lab.profile import draw_profile_panel
from advisor.ui.lab.ranks import draw_ranks_panel
from advisor.ui.lab.simulation import draw_simulation
from advisor.ui.lab.sweep import draw_sweep_panel
from advisor.ui.session import LAB_TABS
from advisor.ui.widgets import advice_or_stop, scenario_or_stop

scenario = scenario_or_stop()
st.title("Lab", anchor=False)
simulation, sweep, ranks, machine = st.tabs(LAB_TABS, key="lab_tab", on_change="rerun")
if sweep.open:
    with sweep:
        draw_sweep_panel(scenario)
if machine.open:
    with machine:
        draw_profile_panel()
if simulation.open:
    with simulation:
        draw_simulation()
if ranks.open:
    with ranks:  # last: a scenario without an answer ends the page here
        draw_ranks_panel(advice_or_stop(scenario))
