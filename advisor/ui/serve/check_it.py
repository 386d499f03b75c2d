"""Check it: the commands that measure the prediction on the user's own machine."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.engines import check_commands
from advisor.ui.serve import runtime_answers as runtime
from advisor.ui.shared import widgets


def draw(advice: Advice) -> None:
    """The whole tab."""
    if advice.setup.drafter.kind == "none":
        st.info("Nothing is drafted in this scenario; choose a drafter in the bar above.")
        return
    st.markdown("These commands measure the prediction with vLLM; upload their results on the page Data.")
    served, draft = runtime.served_model(advice), str(st.session_state.get("draft_model") or "")
    if not draft and runtime.needs_draft_name(advice):
        draft = runtime.PLACEHOLDER
    made = runtime.attempt(check_commands, advice.setup, advice.curve_k, served_model=served, draft_model=draft)
    for item in made or ():
        st.caption(widgets.plain(item.purpose))
        st.code(item.command, language=None, wrap_lines=True)
