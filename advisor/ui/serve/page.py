"""Serve: which K, how much faster, how sure, what to paste; the reasons and what else to try behind tabs."""

import streamlit as st

from advisor.summary import fit_of, outcomes_of
from advisor.ui.serve import (
    answer,
    board_panel,
    check_it,
    commands,
    curve_panel,
    load_panel,
    remarks,
    simulation,
    throughput,
    what_if,
    while_serving,
    why,
)
from advisor.ui.shared import how_made, widgets
from advisor.ui.shared.many_users import in_turn
from advisor.ui.shared.settings import SERVE_TABS

with in_turn():
    scenario = widgets.scenario_or_stop()
    advice = widgets.advice_or_stop(scenario)
    outcomes, fit = outcomes_of(advice), fit_of(advice)
    k = answer.picked_k(advice)
    left, right = st.columns([6, 7], gap="medium")
    with left:
        answer.say(advice, outcomes, k, fit)
    with right:
        answer.table(advice, outcomes)
    chart, actions = st.columns([17, 11], gap="medium")
    with chart:
        curve_panel.draw(advice, k)
    with actions:
        commands.draw(advice, k, fit)
        commands.flips(advice)
DRAWN = (
    remarks.draw,
    why.draw,
    throughput.draw,
    while_serving.draw,
    what_if.draw,
    board_panel.draw,
    load_panel.draw,
    simulation.draw,
    check_it.draw,
)
for tab, draw in zip(st.tabs(SERVE_TABS, key="serve_tab", on_change="rerun"), DRAWN, strict=True):
    if tab.open:
        with tab:
            draw(advice)
how_made.open_if_asked(advice)
