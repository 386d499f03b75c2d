"""Pinned scenarios beside the one on screen: what differs, what comes of it, and their curves in one chart."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.charts import compared_chart
from advisor.comparison import comparison_rows, finding, short_names
from advisor.prediction import AdvisorError
from advisor.ui.bar import pins
from advisor.ui.shared import answers, state, widgets


def draw(shown: Advice) -> None:
    """Comparison of the answer on screen with the pinned scenarios, or nothing without pins."""
    if not pins.pinned():
        return
    st.subheader("Pinned scenarios", anchor=False)
    advices = _answers(shown)
    if len(advices) < 2:
        st.caption("This scenario is pinned. Change something in the bar to compare.")
        return
    names = short_names([advice.scenario for advice in advices])
    st.markdown(widgets.plain(finding(advices, names)))
    rows = comparison_rows(advices)
    labels = pd.Index([row.label for row in rows], name="Setting or answer")
    table = pd.DataFrame([row.values for row in rows], columns=list(names), index=labels)
    st.dataframe(table, height="content")
    widgets.show_chart(compared_chart(advices, names), "comparison", shown.scenario)
    for name, advice in zip(names, advices, strict=True):
        _row(name, advice, shown)


def _answers(shown: Advice) -> list[Advice]:
    """The pinned scenarios' answers, the one on screen last where it is not pinned; says which has none."""
    found: list[Advice] = []
    for scenario in pins.pinned():
        try:
            found.append(answers.advice_for(scenario))
        except AdvisorError as error:
            st.error(widgets.plain(f"A pinned scenario has no answer: {error}"))
    return found if shown.scenario in pins.pinned() else [*found, shown]


def _row(name: str, advice: Advice, shown: Advice) -> None:
    scenario = advice.scenario
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{name}{' (on screen)' if scenario == shown.scenario else ''}", width="stretch")
        if scenario != shown.scenario:
            st.button(
                "Go to it",
                key=f"go_{scenario.hash}",
                on_click=state.show,
                args=(scenario, "pin"),
                help=f"Make {widgets.plain(name)} the scenario on screen.",
            )
        if scenario in pins.pinned():
            st.button("Unpin", key=f"unpin_{scenario.hash}", on_click=pins.unpin, args=(scenario,))
