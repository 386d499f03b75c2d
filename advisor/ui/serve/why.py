"""Why: what a step with drafting costs, where the time goes, how many experts are loaded, the formula with numbers."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.charts import components_chart, roofline_chart, round_cost_chart, touched_experts_chart
from advisor.explain import positions, roof_of
from advisor.ui.serve.formula import speedup_formula
from advisor.ui.shared import answers, how_made, widgets


def experts(advice: Advice, n_draft: int) -> None:
    """Chart of the distinct experts that a verification step touches, by batch."""
    series = answers.expert_series(advice, n_draft)
    if series is None:
        st.info("A dense model has no routed experts: each step loads all weights once, whatever K is.")
        return
    chart = touched_experts_chart(
        series.tokens,
        series.routed,
        series.low,
        series.high,
        series.uniform,
        n_experts=series.n_experts,
        n_active=series.n_active,
        tokens_per_sequence=n_draft + 1,
        batch_size=advice.scenario.batch_size,
        band_level=advice.band_level,
    )
    widgets.show_chart(chart, "experts", advice.scenario)
    st.caption(widgets.plain(advice.setup.routing_because))


def roof(advice: Advice, n_draft: int) -> None:
    """Roofline with the parts of a plain step and of verification."""
    setup, curve = advice.setup, advice.curve
    column = int(curve.drafts.searchsorted(n_draft))
    chart = roofline_chart(
        positions(setup, curve, advice.batch_index, column),
        roof_of(setup),
        n_draft=n_draft,
        batch_size=advice.scenario.batch_size,
        name=setup.hardware.name,
    )
    widgets.show_chart(chart, "roofline", advice.scenario)
    st.caption(
        "Open circles: a step without drafts; diamonds: verification. Roofs are the data sheet's; a point far below "
        "them waits for fixed costs. Operations of routed experts include the rows that pad a tile."
    )


def draw(advice: Advice) -> None:
    """The whole tab, for the recommended K or the best one above 0."""
    scenario, n_draft = advice.scenario, advice.curve_k
    figures = answers.round_figures(advice, n_draft)
    st.subheader(advice.recommendation.bound_because, anchor=False)
    if advice.recommendation.n_draft == 0 and n_draft:
        st.info(f"No drafting is recommended; this shows K = {n_draft}, the best draft length above 0.")
    st.markdown(
        f"One step with K = {n_draft} costs {figures.round_s / figures.plain_step_s:.2f} steps without drafts "
        f"(verification alone {figures.verify_ratio:.2f}) and emits {figures.accepted_length:.2f} tokens."
    )
    st.latex(speedup_formula(figures))
    how_made.button(figures.batch_size, n_draft, how_made.ANSWER, "formula")
    parts = {"n_draft": n_draft, "batch_size": figures.batch_size}
    cost, time = st.columns(2)
    with cost:
        chart = round_cost_chart(
            figures.plain_components, figures.round_components, accepted_length=figures.accepted_length, **parts
        )
        widgets.show_chart(chart, "round_cost", scenario)
    with time:
        chart = components_chart(figures.plain_components, figures.round_components, **parts)
        widgets.show_chart(chart, "components", scenario)
    left, right = st.columns(2)
    with left:
        experts(advice, n_draft)
    with right:
        roof(advice, n_draft)
