"""Trust: how often this has been right, what an answer rests on, what the model assumes."""

import streamlit as st

from advisor.ui.shared import how_made, widgets
from advisor.ui.shared.settings import TRUST_TABS
from advisor.ui.trust import assumptions, sources, validation_panel

scenario = widgets.scenario_or_stop()
st.title("How far to trust it", anchor=False)
right, where, assumed = st.tabs(TRUST_TABS, key="trust_tab", on_change="rerun")
if right.open:
    with right:
        validation_panel.draw(scenario)
if where.open:
    with where:
        sources.draw(widgets.advice_or_stop(scenario))
if assumed.open:
    with assumed:
        assumptions.draw(widgets.advice_or_stop(scenario))
if where.open or assumed.open:
    how_made.open_if_asked(widgets.advice_or_stop(scenario))
