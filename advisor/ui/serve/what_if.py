"""What if: single changes that help, and scenarios pinned side by side."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.ui.serve import compare_panel, try_next
from advisor.ui.shared import answers, widgets


def draw(advice: Advice) -> None:
    """The whole tab."""
    goal = try_next.draw_goal()
    place = st.container()
    compare_panel.draw(advice)
    steps = answers.next_steps_for(advice.scenario)
    try_next.draw(place, advice, steps, goal)
    if steps.standing is not None:
        st.markdown(f"**Another design:** {widgets.plain(steps.standing.text)}")
