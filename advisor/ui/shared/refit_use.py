"""The refit that this session predicts with: chosen on the page Data or carried by a link, shown on every page, undone.

It lies in the session as one line of text under its field's name, as the widgets' values do, and goes into the scenario
of every run whose accelerator and engine it is for, and so into its hash, its link and its report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from advisor.calibration import parse_adjustment, write_adjustment
from advisor.points import RefitResult, adjustment_of
from advisor.scenario import Scenario
from advisor.ui.shared.session import Slot

FIELD = "refit"
_LEFT_OUT: Slot[tuple[str, str]] = Slot("_refit_left_out", lambda: ("", ""))
"""A refit, and how far off points are that it did not see."""


def in_use() -> str | None:
    """Text of the refit chosen in this session, or None for the shipped constants."""
    found: str | None = st.session_state.get(FIELD)
    return found


def text_of(result: RefitResult) -> str:
    """A refit as a scenario carries it."""
    return write_adjustment(adjustment_of(result))


def use(result: RefitResult) -> None:
    """Predict with a refit from the next run on, in this session only."""
    text, errors = text_of(result), result.own_errors
    st.session_state[FIELD] = text
    if errors.before.mape is not None and errors.after.mape is not None:
        said = f"Points left out of the refit are off by {errors.after.mape:.0%} in the mean, {errors.before.mape:.0%}"
        _LEFT_OUT.put((text, f"{said} before it."))


def left_out_text() -> str:
    """Sentence on how far off points are that the refit in use did not see.

    Empty where it came by a link, which has no points.
    """
    of, said = _LEFT_OUT.get()
    return said if of == in_use() else ""


def undo() -> None:
    """Back to the shipped constants."""
    st.session_state[FIELD] = None


def is_used(result: RefitResult) -> bool:
    """Whether this very refit is the one in use."""
    return in_use() == text_of(result)


def is_for(values: Mapping[str, Any]) -> bool:
    """Whether the refit among a scenario's values is for their accelerator and engine."""
    text = values.get(FIELD)
    if text is None:
        return False
    made = parse_adjustment(text)
    return (made.hardware_id, made.engine) == (values["hardware_id"], values["engine"])


def banner(scenario: Scenario) -> None:
    """Note on every page saying whose points the constants were refitted on, or why they were not.

    One click undoes it.
    """
    text = in_use()
    if text is None:
        return
    made = parse_adjustment(text)
    place = f"`{made.hardware_id}` with `{made.engine_class}`"
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        if scenario.refit is not None:
            st.markdown(f":material/tune: **{made.label[0].upper()}{made.label[1:]}** in this session: {place}.")
        else:
            st.markdown(f":material/tune: The refit is for {place}; **here the shipped constants are used.**")
        st.button("Back to the shipped constants", key="undo_refit_in_use", on_click=undo, icon=":material/undo:")
