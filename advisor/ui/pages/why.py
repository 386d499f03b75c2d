"""Why: what a round costs, where the time goes, how many experts are loaded, and the formula with its numbers."""

import streamlit as st

from advisor.advice import Advice
from advisor.charts import components_chart, distinct_experts_chart, roofline_chart, round_cost_chart
from advisor.explain import positions, roof_of
from advisor.ui import answers, how_made, widgets
from advisor.ui.formula import speedup_formula


def experts(advice: Advice, k_draft: int) -> None:
    series = answers.expert_series(advice, k_draft)
    if series is None:
        st.info("A dense model has no routed experts: each step loads all weights once, whatever K is.")
        return
    chart = distinct_experts_chart(
        series.tokens,
        series.routed,
        series.low,
        series.high,
        series.uniform,
        n_experts=series.n_experts,
        n_active=series.n_active,
        tokens_per_sequence=k_draft + 1,
        batch_size=advice.scenario.batch_size,
        band_level=advice.band_level,
    )
    widgets.show_chart(chart, "experts", advice.scenario)
    st.caption(widgets.plain(advice.setup.routing_because))


def roof(advice: Advice, k_draft: int) -> None:
    setup, curve = advice.setup, advice.curve
    column = int(curve.drafts.searchsorted(k_draft))
    chart = roofline_chart(
        positions(setup, curve, advice.batch_index, column),
        roof_of(setup),
        k_draft=k_draft,
        batch_size=advice.scenario.batch_size,
        name=setup.hardware.name,
    )
    widgets.show_chart(chart, "roofline", advice.scenario)
    st.caption(
        "Open circles: plain step; diamonds: verification. Roofs are the data sheet's; a point far below them waits "
        "for fixed costs. Operations of routed experts include the rows that pad a tile."
    )


scenario = widgets.scenario_or_stop()
advice = widgets.advice_or_stop(scenario)
answer, k_draft = advice.recommendation, advice.curve_k
figures = answers.round_figures(advice, k_draft)

st.title(f"{answer.bound_because}", anchor=False)
if answer.k_draft == 0:
    st.info(f"K = 0 is recommended; this page shows K = {k_draft}, the best draft length above it.")
st.markdown(
    f"One round with K = {k_draft} costs {figures.round_s / figures.plain_step_s:.2f} plain steps "
    f"(verification alone {figures.verify_ratio:.2f}) and emits {figures.accepted_length:.2f} tokens."
)
st.latex(speedup_formula(figures))
how_made.button(figures.batch_size, k_draft, how_made.ANSWER, "formula")
st.caption(widgets.acceptance_note(advice))

parts = {"k_draft": k_draft, "batch_size": figures.batch_size}
cost, time = st.columns(2)
with cost:
    chart = round_cost_chart(
        figures.plain_components, figures.round_components, accepted_length=figures.accepted_length, **parts
    )
    widgets.show_chart(chart, "round_cost", scenario)
with time:
    chart = components_chart(figures.plain_components, figures.round_components, **parts)
    widgets.show_chart(chart, "components", scenario)
experts(advice, k_draft)
roof(advice, k_draft)
how_made.open_if_asked(advice)
