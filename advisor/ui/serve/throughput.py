"""Throughput: tokens/s of a GPU against tokens/s of a user, plain and drafting."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.charts import frontier_chart
from advisor.ui.serve.answer import picked_k
from advisor.ui.shared import widgets


def draw(advice: Advice) -> None:
    """Chart of throughput against time per token, with what a limit makes too slow in shade."""
    scenario, curve = advice.scenario, advice.curve
    chart = frontier_chart(
        curve,
        picked_k(advice) or advice.curve_k,
        scenario.batch_size,
        largest_batch=advice.setup.memory.largest_batch,
        max_tpot_ms=scenario.max_tpot_ms,
    )
    widgets.show_chart(chart, "frontier", scenario)
    if scenario.max_tpot_ms is None:
        st.caption("Set a limit in the bar to shade the batches that are too slow for a user.")
