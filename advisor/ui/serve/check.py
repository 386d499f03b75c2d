"""Command check: a launch line of the user's own flag by flag, and the commands that measure the prediction."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.engines.config import MAX_LINE, check_line, one_option_a_line
from advisor.prediction import AdvisorError
from advisor.show.live_answer import engine_of
from advisor.show.report.build import check_steps, engine_setup
from advisor.ui.state import plain

_LONGEST = 120
"""Characters of a flag's value that the table shows. [-]"""


def draw_check(advice: Advice) -> None:
    """The whole tab."""
    name, is_written = engine_of(advice.scenario.engine)
    given = st.text_area(f"Your {name} launch line", key="own_line", height=110, max_chars=MAX_LINE)
    if not is_written:
        st.caption(f"No command is written for {name}, so there is nothing to hold yours against.")
    elif given.strip():
        _checked(advice, given)
    if advice.scenario.engine == "vllm" and (steps := check_steps(advice)):
        with st.expander("Measure this prediction with vLLM"):
            st.caption("Drop the results on the page Measure.")
            for step in steps:
                st.caption(plain(step.purpose))
                st.code(one_option_a_line(step.command), language=None, wrap_lines=True)


def _checked(advice: Advice, given: str) -> None:
    made = engine_setup(advice, advice.scenario.engine)
    if made.problem:
        st.info(plain(f"{made.problem}."))
        return
    try:
        found = check_line(given, made.launch_line)
    except AdvisorError as error:
        st.error(plain(f"{error}."), icon=":material/error:")
        return
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in ("change", "set", "same")}
    st.markdown(f"**Flags: {counts['change']} to change, {counts['set']} to add, {counts['same']} as recommended**")
    rows = [(one.verdict, one.flag, one.given[:_LONGEST], one.wanted[:_LONGEST]) for one in found]
    st.dataframe(pd.DataFrame(rows, columns=["Action", "Flag", "Yours", "Recommended"]), hide_index=True)
    for warning in made.warnings:
        st.caption(plain(f"{warning}."))
