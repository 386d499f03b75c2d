"""The widgets of the simulation on the page Run-time K: how acceptance varies, and what load is served."""

from __future__ import annotations

import streamlit as st

from advisor.charts import POLICY_COLUMNS, POLICY_FORMATS, SHARES, simulation_table
from advisor.runtime import DEFAULT_PASSAGE_TOKENS, DEFAULT_SPREAD, MAX_TRACE_BYTES, SimulationPlan, SimulationReport
from advisor.ui.serve.runtime_answers import LIST, SWITCHING, TRACE, ProcessChoice

MAX_ITERATIONS = 4000
"""Limit on each server, so that a page answers in seconds."""


def process_choice() -> ProcessChoice | None:
    """Process by which acceptance varies, or None while a trace was chosen and not yet given."""
    kind = st.radio("How acceptance varies", (LIST, SWITCHING, TRACE), horizontal=True, key="process")
    if kind == SWITCHING:
        spread = st.slider("Good and bad passages apart (logits; assumed)", 0.0, 4.0, DEFAULT_SPREAD, key="spread")
        tokens = st.number_input("Passage length (tokens; assumed)", 1.0, 1e5, DEFAULT_PASSAGE_TOKENS, key="passage")
        return ProcessChoice(kind, spread, tokens)
    if kind == TRACE:
        given = st.file_uploader(
            "Accepted drafts per step: JSON ([[3, 0, 2], [1, 1]]) or CSV (columns accepted, request)",
            type=["json", "csv"],
            key="trace",
            max_upload_size=MAX_TRACE_BYTES // 1_000_000,
        )
        return None if given is None else ProcessChoice(kind, file_name=given.name, data=given.getvalue())
    return ProcessChoice(kind)


def plan(batch_size: int) -> tuple[SimulationPlan, bool]:
    """Load that is served, and whether the drafter is kept ready at K = 0."""
    with st.grid(4, min_column_width=150):
        requests = st.number_input("Requests", 1, 5000, 200, key="simulated_requests")
        length = st.number_input("Tokens each", 1, 4096, 250, key="simulated_tokens")
        seed = st.number_input("Seed", 0, 2**31, 0, key="simulated_seed")
        share = st.number_input(
            "Load (empty: all at once)",
            0.05,
            2.0,
            value=None,
            key="simulated_load",
            help="Poisson arrivals at this share of what plain decoding could serve, so that the batch varies. Empty: "
            "all requests wait from the start, and a free slot takes the next at once.",
        )
    warm = st.toggle("Charge for keeping the drafter ready at K = 0", True, key="warm_drafter")
    return SimulationPlan(int(requests), MAX_ITERATIONS, int(length), batch_size, share, int(seed)), warm


def show_outcomes(report: SimulationReport) -> None:
    """The table under the simulation's chart: one row per way to choose K."""
    table = simulation_table(report)
    table[list(SHARES)] *= 100
    columns = {
        name: st.column_config.Column(label)
        if name not in POLICY_FORMATS
        else st.column_config.NumberColumn(label, format=POLICY_FORMATS[name])
        for name, label in POLICY_COLUMNS.items()
    }
    st.dataframe(table, hide_index=True, placeholder="", column_config=columns)
