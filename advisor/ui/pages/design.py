"""Design space: the model to train instead, at equal quality, and how speed moves with k/N, sharing and granularity."""

import streamlit as st

from advisor.design import Candidate, DesignAnswer
from advisor.design.answer import OBJECTIVE_TEXT
from advisor.design.sweeps import SWEEP_BATCHES
from advisor.ui import charts_design, design_pick, design_question, design_tables, design_view, widgets

number = st.column_config.NumberColumn


def verdict(answer: DesignAnswer) -> None:
    if cautious := design_tables.cautious_sentence(answer):
        st.warning(cautious, icon=":material/balance:")
    st.dataframe(design_tables.compared(answer), hide_index=True, column_config=design_view.COLUMNS)
    for sentence in (answer.disagreement, answer.binding_text):
        st.markdown(widgets.plain(sentence))
    if answer.warnings:
        st.warning("\n".join(f"- {widgets.plain(warning)}" for warning in answer.warnings))


def choose(answer: DesignAnswer, tag: str) -> Candidate | None:
    item = design_pick.picked(answer, tag)
    rows_key, points_key = design_pick.selection_keys(tag)
    question = answer.space.question
    st.subheader("Pick a design", anchor=False)
    chart, table = st.columns([2, 3])
    if len(answer.pareto):
        trade_offs = charts_design.pareto_chart(
            design_tables.pareto(answer),
            design_tables.marks(answer, item),
            objective=OBJECTIVE_TEXT[question.objective],
            objective_unit=design_tables.UNITS[question.objective],
            quality_eps=question.quality_eps,
        )
        with chart:
            widgets.show_chart(trade_offs, "design_trade_offs", answer.space.setup.scenario, select_key=points_key)
    with table:
        if answer.top:
            st.caption("The best designs that differ in kind. Choose a row here or a point of the chart.")
            st.dataframe(
                design_tables.candidates(answer), hide_index=True, column_config=design_view.COLUMNS, height=320,
                on_select="rerun", selection_mode="single-row", key=rows_key,
            )  # fmt: skip
        if item is not None:
            design_pick.panel(answer, item)
    return item


def next_steps(answer: DesignAnswer) -> None:
    st.subheader("Try next: single changes that help", anchor=False)
    if answer.recommended is not None and not answer.try_next:
        st.info("No single change of experts, active experts or shared experts helps at equal quality.")
    if answer.try_next:
        effects = dict.fromkeys(("Objective", "Speedup", "Speed per token"), number(format="%+.1f %%"))
        st.dataframe(design_tables.try_next(answer), hide_index=True, column_config=effects)
        st.caption("The expert width is solved again so that the quality stays.")
    st.subheader("What would change the answer", anchor=False)
    st.markdown(design_tables.sensitivity_sentence(answer))
    cost = number(format="%.1f %%", help="Objective lost by keeping the design; empty: it is then not allowed.")
    st.dataframe(
        design_tables.sensitivity(answer), hide_index=True, column_config={"Cost of keeping today's": cost}, height=250
    )


def maps(answer: DesignAnswer) -> None:
    st.subheader("How speed moves with the design", anchor=False)
    space, own = answer.space, answer.space.baseline
    times = st.segmented_control("Show", ("Speedup", "Time per output token"), default="Speedup", key="design_shown")
    base = design_tables.baseline_tpot_s(answer) if times == "Time per output token" else None
    batches = st.pills("Batches of the lines", SWEEP_BATCHES, selection_mode="multi", default=[1, 64, 512])
    scenario, best = space.setup.scenario, answer.recommended
    if len(answer.heat_map.ratio):
        chart = charts_design.heat_map_chart(
            answer.heat_map,
            baseline_ratio=own.n_active / own.n_experts,
            recommended_ratio=None if best is None else best.n_active / best.n_experts,
            batches=space.question.batches.tolist(),
            baseline_tpot_s=base,
            describe=space.describe,
        )
        widgets.show_chart(chart, "design_map", scenario)
        st.caption("▸ marks the baseline's k/N; the frame is the recommended design. Each cell is its own search.")
    left, right = st.columns(2)
    with left:
        chart = charts_design.shared_sweep_chart(
            answer.shared_sweep, batches, baseline_shared=own.n_shared, baseline_tpot_s=base
        )
        widgets.show_chart(chart, "design_shared", scenario)
    with right:
        chart = charts_design.granularity_chart(
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
    st.caption(widgets.plain(answer.verdict))
if answer.recommended is not None:
    verdict(answer)
else:
    design_view.infeasible(answer)
item = choose(answer, question.tag(scenario))
if answer.recommended is not None:
    next_steps(answer)
maps(answer)
design_view.limits(answer, item)
design_pick.downloads(answer)
