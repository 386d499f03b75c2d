"""Serve: which K, how much faster, how sure, what to paste; why, what else, on what evidence, a
line checked, policies simulated, sweeps opened."""

from __future__ import annotations

import streamlit as st

from advisor.answers.own_gap import as_measured, own_schedule
from advisor.ui.own_data import own_points
from advisor.ui.serve.panels import (
    draw_check,
    draw_drafters,
    draw_evidence,
    draw_explore,
    draw_live,
    draw_why,
)
from advisor.ui.serve.simulation import draw_simulation
from advisor.ui.serve.sweep import draw_sweep_panel
from advisor.ui.server import in_turn
from advisor.ui.session import SERVE_TABS
from advisor.ui.widgets import advice_or_stop, open_if_asked, scenario_or_stop

with in_turn():
    answer = advice_or_stop(scenario_or_stop())
    advice = as_measured(answer, own_schedule(own_points(answer.scenario)))
    draw_live(advice)
DRAWN = (
    *(draw_why, draw_drafters, draw_explore, draw_evidence, draw_check),
    *(draw_simulation, draw_sweep_panel),
)
for tab, draw in zip(st.tabs(SERVE_TABS, key="serve_tab", on_change="rerun"), DRAWN, strict=True):
    if tab.open:
        with tab:
            draw(advice)
open_if_asked(advice)
