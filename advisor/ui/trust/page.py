"""Trust: how often this has been right, what its sources claim, what an answer rests on, what the model assumes."""

from __future__ import annotations

import streamlit as st

from advisor.ui.session import TRUST_TABS
from advisor.ui.trust.panels import draw_assumptions, draw_claims, draw_sources, draw_validation_panel
from advisor.ui.widgets import advice_or_stop, open_if_asked, scenario_or_stop

scenario = scenario_or_stop()
st.title("How far to trust it", anchor=False)
right, claimed, where, assumed = st.tabs(TRUST_TABS, key="trust_tab", on_change="rerun")
if right.open:
    with right:
        draw_validation_panel(scenario)
if claimed.open:
    with claimed:
        draw_claims()
if where.open:
    with where:
        draw_sources(advice_or_stop(scenario))
if assumed.open:
    with assumed:
        draw_assumptions(advice_or_stop(scenario))
if where.open or assumed.open:
    open_if_asked(advice_or_stop(scenario))
