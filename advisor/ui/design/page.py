"""Design: the model to train instead, at equal quality, and how speed moves with k/N, sharing and granularity."""

from __future__ import annotations

import streamlit as st

from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.candidates import DECIDING_LAW, Candidate
from advisor.answers.summary import borrowed_from, place_text
from advisor.show.charts.design import granularity_chart, heat_map_chart, shared_sweep_chart
from advisor.ui.design.pick import (
    downloads,
    draw_targets,
    explain_if_asked,
    panel,
    picked,
    selection_keys,
    show_adopted,
)
from advisor.ui.design.question import answer_or_stop, draw_curves, draw_question, show_note
from advisor.ui.design.tables import (
    COLUMNS,
    baseline_tpot_s,
    below_the_title,
    candidates,
    compared,
    headline,
    infeasible_section,
    limits,
    line_batches,
    next_steps,
    remarks,
    trade_offs,
    what_would_change,
)
from advisor.ui.session import DESIGN_TABS, Slot
from advisor.ui.state import escaped
from advisor.ui.widgets import place, plain, scenario_or_stop, show_chart


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
        baseline_tpot_s=None if by_ratio else baseline_tpot_s(answer),
        describe=space.describe,
    )
    show_chart(chart, "design_map", space.setup.scenario, select_key=selection_keys(tag)[2])
    st.caption("Each cell is its own search, at equal quality. Click one to see its design; the frame is recommended.")


def best_designs(answer: DesignAnswer, tag: str) -> None:
    """Tables of the designs that stand out, and what binds or divides them."""
    if answer.recommended is not None:
        st.dataframe(compared(answer), hide_index=True, column_config=COLUMNS)
    if answer.top:
        st.caption("The best design of each kind. Choose a row to see it beside the map.")
        st.dataframe(
            candidates(answer),
            hide_index=True,
            column_config=COLUMNS,
            height=245,
            on_select="rerun",
            selection_mode="single-row",
            key=selection_keys(tag)[0],
        )
    for sentence in (answer.disagreement, answer.binding_text):
        st.markdown(plain(sentence))
    if answer.recommended is not None:
        next_steps(answer)
    downloads(answer)


def sweeps(answer: DesignAnswer) -> None:
    """Charts of speed against shared experts and against granularity."""
    space, own = answer.space, answer.space.baseline
    times = st.segmented_control("Show", ("Speedup", "Time per output token"), default="Speedup", key="design_shown")
    base = baseline_tpot_s(answer) if times == "Time per output token" else None
    options, shown = line_batches(answer)
    batches = st.pills("Batches of the lines", options, selection_mode="multi", default=shown)
    left, right = st.columns(2)
    with left:
        chart = shared_sweep_chart(answer.shared_sweep, batches, baseline_shared=own.n_shared, baseline_tpot_s=base)
        show_chart(chart, "design_shared", space.setup.scenario)
    with right:
        chart = granularity_chart(
            answer.granularity_sweep, batches, baseline_experts=own.n_experts, baseline_tpot_s=base
        )
        show_chart(chart, "design_granularity", space.setup.scenario)


def details(answer: DesignAnswer, item: Candidate | None, tag: str) -> None:
    """Tabs below the map, of which the open one alone is computed."""
    one, two, three, four, five = st.tabs(DESIGN_TABS, key="design_tab", on_change="rerun")
    if one.open:
        with one:
            best_designs(answer, tag)
    if two.open:
        with two:
            trade_offs(answer, item, selection_keys(tag)[1])
    if three.open:
        with three:
            sweeps(answer)
    if four.open:
        with four:
            draw_targets(scenario, asked)
    if five.open:
        with five:
            limits(answer, item)


SEEN: Slot[bool] = Slot("_design_seen", bool)
"""Whether this session has had an answer here: the first one is announced."""
scenario = scenario_or_stop()
head = st.container(key="design_head", gap="small")
with head:
    waiting = st.empty()
if not SEEN.get():
    waiting.title("Costing tens of thousands of designs", anchor=False)
asked = draw_question(scenario)
answer = answer_or_stop(scenario, asked, head)
waiting.empty()
SEEN.put(True)
tag = asked.tag(scenario)
item = picked(answer, tag)
with head:
    show_adopted()
    show_note(scenario)
    what, where = place_text(answer.space)
    borrowed = f", acceptance borrowed from {whose}" if (whose := borrowed_from(answer.space)) else ""
    where = escaped(f"{where}, at equal quality by {DECIDING_LAW}{borrowed}")
    place(f"In place of **{escaped(what)}** {where}")
    st.title(headline(answer), anchor=False)
    below_the_title(answer)
shown, card = st.columns([5, 3], gap="medium")
with shown:
    heat_map(answer, tag)
with card, st.container(border=True):
    infeasible_section(answer)
    if item is not None:
        panel(answer, item)
draw_curves(answer, item)
remarks(answer)
what_would_change(answer)
details(answer, item, tag)
explain_if_asked(answer, item)
