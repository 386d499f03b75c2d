"""Starting from nothing: a typed shape, or a target size, becomes the model that the search starts from."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from advisor.design import SHAPE_EXAMPLE, Start, start_from_shape, start_from_size
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.ui.shared import state, widgets
from advisor.ui.shared.session import Slot

_NOTE: Slot[tuple[str, str]] = Slot("_design_start_note", lambda: ("", ""))
"""A model's name, and where its shape comes from."""
_PROBLEM: Slot[tuple[str, str]] = Slot("_design_start_problem", lambda: ("", ""))
"""What was asked for, shape or size, and why it could not be."""
_SHAPE = "design_shape"
_BILLION = 1e9


def draw(scenario: Scenario, target: Callable[[str], float | None]) -> tuple[float | None, float | None]:
    """The controls, and the target sizes that every design is to meet (total, active). [parameters]

    target : draws the number field of a target size by its key. [1e9 parameters]
    """
    with st.popover("Start from nothing", icon=":material/edit_square:"):
        st.text_input(
            "Shape",
            key=_SHAPE,
            placeholder=SHAPE_EXAMPLE,
            help="Layers, hidden size, experts, experts per token, shared experts, expert width.",
        )
        st.button("Start from this shape", key="design_from_shape", on_click=_from_shape, args=(scenario,))
        _show_problem("shape")
        total, active = (
            None if size is None else size * _BILLION
            for size in (target("design_target_total"), target("design_target_active"))
        )
        st.caption("Every design then meets the target within 5%.")
        st.button(
            "Start from this size",
            key="design_from_size",
            disabled=total is None and active is None,
            on_click=_from_size,
            args=(scenario, total, active),
        )
        _show_problem("size")
    return total, active


def show_note(scenario: Scenario) -> None:
    """Source of the model's shape, as long as it is the one that was typed or sized."""
    name, note = _NOTE.get()
    if name == scenario.model_id:
        st.info(widgets.plain(note), icon=":material/edit_square:")


def _show_problem(asked: str) -> None:
    """Why the last start could not be, where this is what was asked for."""
    of, problem = _PROBLEM.get()
    if of == asked:
        st.error(widgets.plain(problem), icon=":material/error:")


def _from_shape(scenario: Scenario) -> None:
    text = str(st.session_state.get(_SHAPE) or "")
    _take("shape", lambda: start_from_shape(scenario, text))


def _from_size(scenario: Scenario, total: float | None, active: float | None) -> None:
    _take("size", lambda: start_from_size(scenario, total, active))


def _take(asked: str, found: Callable[[], Start]) -> None:
    """The start becomes the user's own model, as an uploaded configuration would; a refusal is kept in words."""
    _PROBLEM.drop()
    try:
        start = found()
        name = state.add_own_model(str(start.scenario.model_config_json), f"{start.scenario.model_id}.json")
    except AdvisorError as error:
        _PROBLEM.put((asked, str(error)))
        return
    st.session_state["model_id"] = name
    _NOTE.put((name, start.note))
