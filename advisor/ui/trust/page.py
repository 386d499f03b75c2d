"""Trust: how often this has been right, what its sources claim, what an answer rests on, what the
model assumes."""

from __future__ import annotations

import streamlit as st

from advisor.ui.trust.panels import (
    draw_assumptions,
    draw_claims,
    draw_evidence,
    draw_sources,
    draw_store_panel,
)
from advisor.ui.widgets import advice_or_stop, open_if_asked, scenario_or_stop

scenario = scenario_or_stop()
st.title("Track record", anchor=False)
draw_evidence(scenario)
st.subheader("Sources", anchor=False)
draw_claims()
st.subheader("Behind the answer in the bar", anchor=False)
shipped = st.expander("Data shipped", key="trust_data", on_change="rerun")
if shipped.open:
    with shipped:
        draw_store_panel()
rests = st.expander("Constants, works and routing", key="trust_sources", on_change="rerun")
assumed = st.expander("Assumptions and limits", key="trust_assumed", on_change="rerun")
if rests.open:
    with rests:
        draw_sources(advice_or_stop(scenario))
if assumed.open:
    with assumed:
        draw_assumptions(advice_or_stop(scenario))
if rests.open:
    open_if_asked(advice_or_stop(scenario))
