"""Sources: what this scenario's answer rests on, what the model assumes, and what its words mean."""

import streamlit as st

from advisor.report.words import LIMITS
from advisor.ui import provenance, widgets

scenario = widgets.scenario_or_stop()
advice = widgets.advice_or_stop(scenario)
st.title("What this answer rests on", anchor=False)
st.markdown(
    f"Tier of the recommended speedup: **{advice.recommendation.speedup.tier}** "
    f"({widgets.plain(advice.recommendation.speedup.because)})."
)
widgets.show_warnings(advice)

st.subheader("Sources of this scenario", anchor=False)
st.markdown("\n".join(f"- {widgets.plain(source)}" for source in advice.setup.sources))

st.subheader("Constants of the accelerator", anchor=False)
st.dataframe(provenance.hardware_table(advice.setup.hardware), hide_index=True)
for note in advice.setup.hardware.notes:
    st.caption(widgets.plain(note))

st.subheader("Accepted length by K", anchor=False)
st.caption(widgets.acceptance_note(advice))
st.dataframe(
    provenance.acceptance_table(advice),
    hide_index=True,
    column_config={name: st.column_config.NumberColumn(format="%.2f") for name in ("Tokens per round", "Low", "High")},
)

if advice.setup.routing is not None:
    st.subheader("Routing", anchor=False)
    st.caption(widgets.plain(advice.setup.routing_because))
    st.dataframe(provenance.routing_table(advice.setup.routing), hide_index=True)

st.subheader("Model", anchor=False)
st.dataframe(
    provenance.model_table(advice.setup),
    hide_index=True,
    column_config={"Value": st.column_config.NumberColumn(format="localized")},
)

st.subheader("Assumptions and limits", anchor=False)
st.markdown("\n".join(f"- {line}" for line in LIMITS))

st.subheader("Nomenclature", anchor=False)
st.dataframe(provenance.nomenclature_table(), hide_index=True)
