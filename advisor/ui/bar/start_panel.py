"""The named examples, at the top of More."""

from __future__ import annotations

import streamlit as st

from advisor.scenario import Example, Scenario, example_ids, load_example
from advisor.ui.shared import state, widgets


def draw() -> None:
    """The list of examples, each made the scenario by one click."""
    with st.expander("Start from an example", icon=":material/lightbulb:"):
        for name in example_ids():
            example = load_example(name)
            st.button(example.title, key=f"example_{name}", on_click=_start, args=(example.scenario,), width="stretch")
            st.caption(widgets.plain(example.description))


def said_of(scenario: Scenario) -> str:
    """The example that a scenario is, and the source of its accepted length.

    Empty once anything is changed.
    """
    example = next((found for found in map(load_example, example_ids()) if found.scenario == scenario), None)
    return "" if example is None else f"{example.description} Accepted length: {_origin(example)}."


def _origin(example: Example) -> str:
    return f"{example.acceptance_origin}, {example.acceptance_note}"


def _start(scenario: Scenario) -> None:
    state.show(scenario, "example")
