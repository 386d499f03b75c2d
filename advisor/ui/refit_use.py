"""The refit that this session predicts with: chosen on Measurements or carried by a link, shown on every page, undone.

It lies in the session as one line of text, goes into the scenario of every run whose accelerator and engine it is for,
and so into its hash, its link and its report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from advisor.adjustment import parse_adjustment, write_adjustment
from advisor.prediction import AdvisorError
from advisor.refit import RefitResult, adjustment_of
from advisor.scenario import Scenario

FIELD = "refit"
_TEXT, _SEEN = "_refit_in_use", "_refit_link"


def in_use() -> str | None:
    """The text of the refit chosen in this session; None: the shipped constants."""
    found: str | None = st.session_state.get(_TEXT)
    return found


def use(result: RefitResult) -> None:
    """Predict with a refit from the next run on, in this session only."""
    st.session_state[_TEXT] = write_adjustment(adjustment_of(result))


def undo() -> None:
    """Back to the shipped constants."""
    st.session_state.pop(_TEXT, None)


def is_used(result: RefitResult) -> bool:
    """Whether this very refit is the one in use."""
    return in_use() == write_adjustment(adjustment_of(result))


def read_link(query: Mapping[str, str]) -> str:
    """Take a refit from the address, once; why it cannot be used, or an empty text."""
    text = query.get(FIELD)
    if text is None or text in (st.session_state.get(_SEEN), in_use()):
        return ""
    st.session_state[_SEEN] = text
    try:
        parse_adjustment(text)
    except AdvisorError:
        return "The link carries a refit that cannot be read; the shipped constants are used."
    st.session_state[_TEXT] = text
    return ""


def for_scenario(values: Mapping[str, Any]) -> dict[str, str]:
    """The scenario's field where the refit is for its accelerator and engine, else nothing."""
    text = in_use()
    if text is None:
        return {}
    made = parse_adjustment(text)
    return {FIELD: text} if (made.hardware_id, made.engine) == (values["hardware_id"], values["engine"]) else {}


def write_address(scenario: Scenario) -> None:
    """Keep the refit in the address, so that a reload and a copied link predict the same."""
    if scenario.refit is None:
        st.query_params.pop(FIELD, None)
        return
    st.session_state[_SEEN] = scenario.refit  # what stands in the address after an undo is not a new link
    if st.query_params.get(FIELD) != scenario.refit:
        st.query_params[FIELD] = scenario.refit


def banner(scenario: Scenario) -> None:
    """On every page: whose points the constants were refitted on, or why they were not; one click undoes it."""
    text = in_use()
    if text is None:
        return
    made = parse_adjustment(text)
    place = f"`{made.hardware_id}` with `{made.engine_class}`"
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        if scenario.refit is not None:
            st.markdown(f":material/tune: **{made.label[0].upper()}{made.label[1:]}** in this session: {place}.")
        else:
            st.markdown(f":material/tune: Your refit is for {place}; **here the shipped constants are used.**")
        st.button("Back to the shipped constants", key="undo_refit_in_use", on_click=undo, icon=":material/undo:")
