"""Explore: the answer over any two settings; under Compare, all models at this load."""

from __future__ import annotations

import functools

import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.explore.cells import AXES, Explored, explore
from advisor.predict.scenario import Scenario
from advisor.show.charts.maps import SHOWN, explored_chart, explored_table
from advisor.ui.answers import remembered
from advisor.ui.serve.board import draw_board
from advisor.ui.session import EXPLORE_AS
from advisor.ui.widgets import show_chart, tried

_, _TABLE, _COMPARE = EXPLORE_AS


@remembered(st.cache_resource, shared=64, own=16)
def _explored(scenario: Scenario, across: str, down: str) -> Explored:
    return explore(scenario, across, down)


@st.fragment
def draw_explore(advice: Advice) -> None:
    """The whole tab, drawn anew alone when its own choices change."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        shown_as = st.segmented_control("As", EXPLORE_AS, key="explore_as", required=True)
        if shown_as != _COMPARE:
            across = st.selectbox("Across", AXES, key="explore_across", width=150)
            down = st.selectbox("Down", AXES, key="explore_down", width=150)
            figure = st.segmented_control("Show", tuple(SHOWN), key="explore_show", required=True)
    if shown_as == _COMPARE:
        draw_board(advice)
        return
    _cells(advice.scenario, across, down, str(figure), shown_as == _TABLE)


def _cells(scenario: Scenario, across: str, down: str, figure: str, as_table: bool) -> None:
    if (found := tried(_explored, scenario, across, down)) is None:
        return
    if as_table:
        column = functools.partial(st.column_config.NumberColumn, format=SHOWN[figure][2])
        named = {name: column() for name in found.columns}
        st.dataframe(explored_table(found, figure), hide_index=True, column_config=named)
    else:
        show_chart(explored_chart(found, figure), "explore", scenario)
    st.caption(
        "Each cell at its own best K, unless K is an axis. Blue: faster than no speculation; –: does not fit in memory."
    )
