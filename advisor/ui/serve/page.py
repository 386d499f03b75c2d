"""Serve: which K, how much faster, how sure, what to paste; the reasons and what else to try behind tabs."""

from __future__ import annotations

import streamlit as st

from advisor.answers.summary import fit_of
from advisor.ui.serve.answer import (
    draw_check_it,
    draw_commands,
    draw_curve_panel,
    draw_remarks,
    flips,
    picked_k,
    say,
    table,
)
from advisor.ui.serve.board import draw_board_panel
from advisor.ui.serve.what_if import draw_what_if
from advisor.ui.serve.while_serving import draw_simulation, draw_while_serving
from advisor.ui.serve.why import draw_load_panel, draw_throughput, draw_why
from advisor.ui.server import in_turn
from advisor.ui.session import SERVE_TABS
from advisor.ui.widgets import advice_or_stop, open_if_asked, scenario_or_stop

with in_turn():
    scenario = scenario_or_stop()
    advice = advice_or_stop(scenario)
    fit = fit_of(advice)
    k = picked_k(advice)
    left, right = st.columns([6, 7], gap="medium")
    with left:
        say(advice, k, fit)
    with right:
        table(advice)
    chart, actions = st.columns([17, 11], gap="medium")
    with chart:
        draw_curve_panel(advice, k)
    with actions:
        draw_commands(advice, k, fit)
        flips(advice)
DRAWN = (
    draw_remarks,
    draw_why,
    draw_throughput,
    draw_while_serving,
    draw_what_if,
    draw_board_panel,
    draw_load_panel,
    draw_simulation,
    draw_check_it,
)
for tab, draw in zip(st.tabs(SERVE_TABS, key="serve_tab", on_change="rerun"), DRAWN, strict=True):
    if tab.open:
        with tab:
            draw(advice)
open_if_asked(advice)
