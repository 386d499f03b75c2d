"""Experts on the scenario's expert-parallel ranks: the slowest one counted, layouts, hotter experts, what travels."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.charts import rank_chart
from advisor.expert_ranks import (
    RanksAnswer,
    exchange_table,
    exchange_text,
    heat_table,
    layout_table,
    notes,
    split_table,
    splits,
    trace_warnings,
    verdict,
)
from advisor.expert_traffic import MAX_LOADS_BYTES
from advisor.text import typeset
from advisor.ui.data import own_ranks
from advisor.ui.shared import widgets


def draw(advice: Advice) -> None:
    """The panel: a button, then the answer. Says what is missing where the scenario has no expert-parallel ranks."""
    st.subheader("Experts on ranks", anchor=False)
    ranks, setup = advice.setup.placement.expert_parallel, advice.setup
    if ranks < 2:
        st.caption("With EP above 1 in the bar, the slowest rank can be counted here instead of assumed.")
        return
    st.file_uploader(
        "Or loads by layer, where you have no trace (CSV, .npy)",
        key="loads_file",
        on_change=own_ranks.take_loads,
        args=(setup,),
        max_upload_size=widgets.upload_limit(MAX_LOADS_BYTES),
        help="CSV with columns layer, expert, tokens; or a .npy array [layers, experts]. It stays in this "
        "session until it is used; then links carry it.",
    )
    if own_ranks.loads_problem():
        st.error(widgets.plain(own_ranks.loads_problem()), icon=":material/error:")
    copies, button = st.columns([1, 2], vertical_alignment="bottom")
    copies.number_input(
        "Copies of hot experts",
        min_value=0,
        max_value=64 * ranks,
        value=ranks,
        step=ranks,
        key=own_ranks.copies_key(ranks),
        help=f"Redundant experts, as EPLB places them. {ranks} ranks share experts and copies evenly.",
    )
    button.button(
        "Count the ranks", key="count_ranks", icon=":material/grid_view:", on_click=own_ranks.count, args=(setup,)
    )
    if own_ranks.problem():
        st.error(widgets.plain(own_ranks.problem()), icon=":material/error:")
    answer = own_ranks.answer(setup)
    if answer is None:
        st.caption(own_ranks.basis(setup))
        return
    _answer(answer, advice)


def _answer(answer: RanksAnswer, advice: Advice) -> None:
    if answer.traffic.kind == "preset":
        st.info("Not counted on a file of yours: loads have the routing preset's spread.", icon=":material/info:")
    st.markdown(widgets.plain(typeset(verdict(answer))))
    for text in trace_warnings(answer):
        st.warning(widgets.plain(f"{text[0].upper()}{text[1:]}."))
    _table(layout_table(answer))
    _use(answer)
    widgets.show_chart(rank_chart(answer), "ranks", advice.scenario)
    with st.expander("Hotter experts, exchange, attention groups"):
        st.caption("Each layer's hottest expert hotter than it was planned for, at the recommended K.")
        _table(heat_table(answer))
        st.caption(widgets.plain(exchange_text(answer)))
        if answer.moved:
            _table(exchange_table(answer))
        st.caption("The same ranks with attention in other groups, experts in order.")
        found, refused = splits(answer)
        _table(split_table(found))
        for text in refused:
            st.caption(widgets.plain(f"Not possible: {text}"))
    for text in notes(answer):
        st.caption(widgets.plain(text))


def _use(answer: RanksAnswer) -> None:
    """The choice of a layout to predict with, on all pages. Experts in order on a preset's loads are the assumption."""
    arms = [
        arm for arm in answer.arms if arm.found is not None and (arm.is_balanced or answer.traffic.kind != "preset")
    ]
    layout, button = st.columns([1, 2], vertical_alignment="bottom")
    names = [arm.name for arm in arms]
    chosen = layout.selectbox("Layout to predict with", names, index=_offered(answer, names), key="rank_layout")
    arm = arms[names.index(chosen)]
    button.button(
        "Use it in every answer",
        key="use_ranks",
        icon=":material/check:",
        on_click=own_ranks.use,
        args=(arm, answer),
        help="The slowest rank is then counted and no longer assumed: on Serve, in the report and in what is exported.",
    )


def _offered(answer: RanksAnswer, names: list[str]) -> int:
    return names.index(answer.best.name) if answer.best.name in names else 0


def _table(table: tuple[tuple[str, ...], list[tuple[str, ...]]]) -> None:
    header, rows = table
    st.dataframe(pd.DataFrame(rows, columns=[name[0].upper() + name[1:] for name in header]), hide_index=True)
