"""The user's own acceptance by draft position: vLLM's metrics or a list, accepted length by K, use it."""

from __future__ import annotations

import streamlit as st

from advisor.charts import acceptance_chart
from advisor.ingest import MAX_METRICS_BYTES, MIB, AcceptanceRates
from advisor.scenario import Scenario
from advisor.ui.data import own_traces
from advisor.ui.shared import widgets


def draw(scenario: Scenario) -> None:
    """The whole panel."""
    later, earlier = st.columns(2)
    later.file_uploader(
        "Metrics of vLLM or SGLang (GET /metrics), or AIPerf's JSON",
        key="metrics_file",
        on_change=own_traces.take_acceptance,
        max_upload_size=MAX_METRICS_BYTES // MIB,
    )
    earlier.file_uploader(
        "An earlier scrape (optional)",
        key="metrics_before",
        on_change=own_traces.take_acceptance,
        max_upload_size=MAX_METRICS_BYTES // MIB,
        help="Only what was counted between the two is used.",
    )
    text, kind = st.columns(2)
    text.text_input(
        "or acceptance rates by draft position",
        key="rates_text",
        on_change=own_traces.take_acceptance,
        placeholder="0.72, 0.51, 0.35",
        help="Used when no file is given.",
    )
    kind.selectbox(
        "Each rate is",
        ["a share of all rounds (vLLM's log and results)", own_traces.RATES_GIVEN],
        key="rates_kind",
        on_change=own_traces.take_acceptance,
    )
    if own_traces.acceptance_problem():
        st.error(widgets.plain(own_traces.acceptance_problem()), icon=":material/error:")
    found = own_traces.acceptance()
    if found is not None:
        _found(found, scenario)


def _found(found: AcceptanceRates, scenario: Scenario) -> None:
    kind = "Probability of each token, given those before it" if found.length is None else "Value used by the scenario"
    st.markdown(f"{widgets.plain(found.source)}. {kind}: `{found.text}`")
    for warning in found.warnings:
        st.warning(widgets.plain(warning))
    lengths = found.accepted_lengths(max(scenario.k_max, len(found.conditional)))
    widgets.show_chart(acceptance_chart(lengths), "accepted_lengths", scenario)
    st.caption(
        "Measured up to the last position; beyond it the last probability is held, and the band widens by how far the "
        "shipped measured curves depart from such an extrapolation."
    )
    st.button("Use in the scenario", key="use_acceptance", icon=":material/input:", on_click=own_traces.use_acceptance)
