"""The curves of the page Design: baseline, recommended and picked design against batch, as speedup and as time."""

from __future__ import annotations

import streamlit as st

from advisor.charts import design_curves_chart
from advisor.design import Candidate, DesignAnswer, design_curves
from advisor.ui.shared import widgets


def draw(answer: DesignAnswer, item: Candidate | None) -> None:
    """Both charts side by side, where a design keeps every limit or one was picked."""
    space, best = answer.space, answer.recommended
    if best is None and item is None:
        return
    picked = item is not None and (best is None or item.index != best.index)
    curves = answer.curves
    if picked and item is not None:
        curves = (*curves, design_curves(space, {"picked": item.index})[-1])
    batches, scenario = [float(batch) for batch in space.question.batches], space.setup.scenario
    left, right = st.columns(2)
    with left:
        widgets.show_chart(design_curves_chart(curves, batches), "design_curves", scenario)
    with right:
        widgets.show_chart(design_curves_chart(curves, batches, "tpot"), "design_times", scenario)
