"""Design: the model to train instead, at equal quality, and how speed moves with k/N, sharing and granularity."""

import streamlit as st

from advisor.charts import granularity_chart, heat_map_chart, shared_sweep_chart
from advisor.design import DECIDING_LAW, Candidate, DesignAnswer
from advisor.summary import borrowed_from, place_text
from advisor.ui.design import curves, pick, question, start, tables, targets, view
from advisor.ui.shared import state, widgets
from advisor.ui.shared.session import Slot
from advisor.ui.shared.settings import DESIGN_TABS


def heat_map(answer: DesignAnswer, tag: str) -> None:
    """Map of the best design by k/N and batch, where a click picks a cell."""
    space, own, best = answer.space, answer.space.baseline, answer.recommended
    if not len(answer.heat_map.ratio):
        return
    by_ratio = space.question.objective == "sd_speedup"
    chart = heat_map_chart(
        answer.heat_map,
        baseline_ratio=own.n_active / own.n_experts,
        recommended_ratio=None if best is None else best.n_active / best.n_experts,
        batches=space.question.batches.tolist(),
        baseline_tpot_s=None if by_ratio else tables.baseline_tpot_s(answer),
        describe=space.describe,
    )
    widgets.show_chart(chart, "design_map", space.setup.scenario, select_key=pick.selection_keys(tag)[2])
    st.caption("Each cell is its own search, at equal quality. Click one to see its design; the frame is recommended.")


def best_designs(answer: DesignAnswer, tag: str) -> None:
    """Tables of the designs that stand out, and what binds or divides them."""
    if answer.recommended is not None:
        st.dataframe(tables.compared(answer), hide_index=True, column_config=view.COLUMNS)
    if answer.top:
        st.caption("The best design of each kind. Choose a row to see it beside the map.")
        st.dataframe(
            tables.candidates(answer),
            hide_index=True,
            column_config=view.COLUMNS,
            height=245,
            on_select="rerun",
            selection_mode="single-row",
            key=pick.selection_keys(tag)[0],
        )
    for sentence in (answer.disagreement, answer.binding_text):
        st.markdown(widgets.plain(sentence))
    if answer.recommended is not None:
        view.next_steps(answer)
    pick.downloads(answer)


def sweeps(answer: DesignAnswer) -> None:
    """Charts of speed against shared experts and against granularity."""
    space, own = answer.space, answer.space.baseline
    times = st.segmented_control("Show", ("Speedup", "Time per output token"), default="Speedup", key="design_shown")
    base = tables.baseline_tpot_s(answer) if times == "Time per output token" else None
    options, shown = tables.line_batches(answer)
    batches = st.pills("Batches of the lines", options, selection_mode="multi", default=shown)
    left, right = st.columns(2)
    with left:
        chart = shared_sweep_chart(answer.shared_sweep, batches, baseline_shared=own.n_shared, baseline_tpot_s=base)
        widgets.show_chart(chart, "design_shared", space.setup.scenario)
    with right:
        chart = granularity_chart(
            answer.granularity_sweep, batches, baseline_experts=own.n_experts, baseline_tpot_s=base
        )
        widgets.show_chart(chart, "design_granularity", space.setup.scenario)


def details(answer: DesignAnswer, item: Candidate | None, tag: str) -> None:
    """Tabs below the map, of which the open one alone is computed."""
    one, two, three, four, five = st.tabs(DESIGN_TABS, key="design_tab", on_change="rerun")
    if one.open:
        with one:
            best_designs(answer, tag)
    if two.open:
        with two:
            view.trade_offs(answer, item, pick.selection_keys(tag)[1])
    if three.open:
        with three:
            sweeps(answer)
    if four.open:
        with four:
            targets.draw(scenario, asked)
    if five.open:
        with five:
            view.limits(answer, item)


SEEN: Slot[bool] = Slot("_design_seen", bool)
"""Whether this session has had an answer here: the first one is announced."""
scenario = widgets.scenario_or_stop()
head = st.container(key="design_head", gap="small")
with head:
    waiting = st.empty()
if not SEEN.get():
    waiting.title("Costing tens of thousands of designs", anchor=False)
asked = question.draw(scenario)
answer = question.answer_or_stop(scenario, asked, head)
waiting.empty()
SEEN.put(True)
tag = asked.tag(scenario)
item = pick.picked(answer, tag)
with head:
    pick.show_adopted()
    start.show_note(scenario)
    what, where = place_text(answer.space)
    borrowed = f", acceptance borrowed from {whose}" if (whose := borrowed_from(answer.space)) else ""
    where = state.escaped(f"{where}, at equal quality by {DECIDING_LAW}{borrowed}")
    widgets.place(f"In place of **{state.escaped(what)}** {where}")
    st.title(tables.headline(answer), anchor=False)
    view.below_the_title(answer)
shown, card = st.columns([5, 3], gap="medium")
with shown:
    heat_map(answer, tag)
with card, st.container(border=True):
    view.infeasible(answer)
    if item is not None:
        pick.panel(answer, item)
curves.draw(answer, item)
view.remarks(answer)
view.what_would_change(answer)
details(answer, item, tag)
pick.explain_if_asked(answer, item)
