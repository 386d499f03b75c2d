"""The curves of the page Design: baseline, recommended and picked design against batch, as speedup and as time."""

from __future__ import annotations

import streamlit as st

from advisor.charts import DesignCurve, design_curves_chart
from advisor.curve import batches_with, curve_for
from advisor.design import Candidate, DesignAnswer, setup_of
from advisor.runtime import k_at, ranges_of
from advisor.setup import Setup
from advisor.ui.design import tables
from advisor.ui.shared import widgets


def draw(answer: DesignAnswer, item: Candidate | None) -> None:
    """Both charts side by side."""
    space, best = answer.space, answer.recommended
    named = [("baseline", tables.baseline_words(space), space.setup)]
    if best is not None and not tables.keeps_baseline(answer):
        named.append(("recommended", space.describe(best.index), setup_of(space, best.index)))
    if item is not None and (best is None or item.index != best.index):
        named.append(("picked", space.describe(item.index), setup_of(space, item.index)))
    batch = int(space.question.batches[-1])
    designs = [_curve(role, words, setup, batch) for role, words, setup in named]
    left, right = st.columns(2)
    with left:
        widgets.show_chart(design_curves_chart(designs, batch), "design_curves", space.setup.scenario)
    with right:
        widgets.show_chart(design_curves_chart(designs, batch, of_time=True), "design_times", space.setup.scenario)


def _curve(role: str, words: str, setup: Setup, batch: int) -> DesignCurve:
    curve = curve_for(setup, batches_with(batch))
    return DesignCurve(role, words, curve, k_at(ranges_of(setup, curve, beyond_memory=True), curve.batches))  # type: ignore[arg-type]
