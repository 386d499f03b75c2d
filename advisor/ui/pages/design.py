"""Design space: the model to train instead, at equal quality, and how speed moves with k/N, sharing and granularity."""

import streamlit as st

from advisor.charts import granularity_chart, heat_map_chart, shared_sweep_chart
from advisor.design import Candidate, DesignAnswer
from advisor.ui import design_pick, design_question, design_tables, design_view, widgets


def verdict(answer: DesignAnswer) -> None:
    design_view.figures(answer)
    if cautious := design_tables.cautious_sentence(answer):
        st.warning(cautious, icon=":material/balance:")
    st.dataframe(design_tables.compared(answer), hide_index=True, column_config=design_view.COLUMNS)
    for sentence in (answer.disagreement, answer.binding_text):
        st.markdown(widgets.plain(sentence))
    if answer.warnings:
        st.warning("\n".join(f"- {widgets.plain(warning)}" for warning in answer.warnings))


def choose(answer: DesignAnswer, tag: str) -> Candidate | None:
    item = design_pick.picked(answer, tag)
    rows_key, points_key, _ = design_pick.selection_keys(tag)
    st.subheader("Pick a design" if answer.top else "Trade-offs that meet all other limits", anchor=False)
    if answer.top:
        st.caption("The best designs that differ in kind. Choose a row here or click a point of the chart.")
        st.dataframe(
            design_tables.candidates(answer), hide_index=True, column_config=design_view.COLUMNS, height=245,
            on_select="rerun", selection_mode="single-row", key=rows_key,
        )  # fmt: skip
    chart, panel = st.columns([3, 2])
    with chart:
        design_view.trade_offs(answer, item, points_key)
    if item is not None:
        with panel:
            design_pick.panel(answer, item)
    return item


def maps(answer: DesignAnswer, tag: str) -> None:
    st.subheader("How speed moves with the design", anchor=False)
    space, own = answer.space, answer.space.baseline
    times = st.segmented_control("Show", ("Speedup", "Time per output token"), default="Speedup", key="design_shown")
    base = design_tables.baseline_tpot_s(answer) if times == "Time per output token" else None
    options, shown = design_tables.line_batches(answer)
    batches = st.pills("Batches of the lines", options, selection_mode="multi", default=shown)
    scenario, best = space.setup.scenario, answer.recommended
    if len(answer.heat_map.ratio):
        chart = heat_map_chart(
            answer.heat_map,
            baseline_ratio=own.n_active / own.n_experts,
            recommended_ratio=None if best is None else best.n_active / best.n_experts,
            batches=space.question.batches.tolist(),
            baseline_tpot_s=base,
            describe=space.describe,
        )
        widgets.show_chart(chart, "design_map", scenario, select_key=design_pick.selection_keys(tag)[2])
        st.caption(
            "The frame is the recommended design. Each cell is its own search; an empty one does not fit in memory. "
            "Click a cell to pick its design: it stands under Pick a design above."
        )
    left, right = st.columns(2)
    with left:
        chart = shared_sweep_chart(answer.shared_sweep, batches, baseline_shared=own.n_shared, baseline_tpot_s=base)
        widgets.show_chart(chart, "design_shared", scenario)
    with right:
        chart = granularity_chart(
            answer.granularity_sweep, batches, baseline_experts=own.n_experts, baseline_tpot_s=base
        )
        widgets.show_chart(chart, "design_granularity", scenario)


scenario = widgets.scenario_or_stop()
head = st.container()
question = design_question.draw(scenario)
answer = design_question.answer_or_stop(scenario, question, head)
with head:
    design_pick.show_adopted()
    st.title(design_tables.headline(answer), anchor=False)
    if answer.recommended is not None and not design_tables.keeps_baseline(answer):
        st.caption(widgets.plain(answer.verdict))
    st.caption(widgets.acceptance_note(answer.space))
if answer.recommended is not None:
    verdict(answer)
else:
    design_view.infeasible(answer)
item = choose(answer, question.tag(scenario))
if answer.recommended is not None:
    design_view.next_steps(answer)
maps(answer, question.tag(scenario))
design_view.limits(answer, item)
design_pick.downloads(answer)
design_pick.explain_if_asked(answer, item)
