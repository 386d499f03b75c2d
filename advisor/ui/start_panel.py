"""The named examples, at the top of the sidebar."""

from __future__ import annotations

import streamlit as st

from advisor.scenario import Example, Scenario, example_ids, load_example
from advisor.ui import state, widgets

_OPEN = "examples_open"


def draw() -> None:
    """A button that opens the list of examples; one click makes an example the scenario."""
    with st.popover(
        "Start from an example", icon=":material/lightbulb:", width="stretch", key=_OPEN, on_change="rerun"
    ):
        for name in example_ids():
            example = load_example(name)
            st.button(example.title, key=f"example_{name}", on_click=_start, args=(example.scenario,), width="stretch")
            st.caption(widgets.plain(example.description))


def say_which(scenario: Scenario | None) -> None:
    """Names the example on screen and where its accepted length comes from; nothing once anything is changed."""
    example = next((found for found in map(load_example, example_ids()) if found.scenario == scenario), None)
    if example is not None:
        st.caption(widgets.plain(f"{example.description} Accepted length: {_origin(example)}."))


def _origin(example: Example) -> str:
    return f"{example.acceptance_origin}, {example.acceptance_note}"


def _start(scenario: Scenario) -> None:
    state.show(scenario, "example")
    st.session_state[_OPEN] = False
