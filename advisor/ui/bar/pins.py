"""Scenarios pinned in this session, to compare with the one on screen."""

from __future__ import annotations

import streamlit as st

from advisor.comparison import MAX_COMPARED
from advisor.scenario import Scenario
from advisor.ui.shared import state
from advisor.ui.shared.session import Slot

MAX_PINS = MAX_COMPARED - 1
"""One place is left for the scenario on screen."""
_PINS: Slot[list[Scenario]] = Slot("_pins", list)


def pinned() -> list[Scenario]:
    """The pinned scenarios, oldest first."""
    return _PINS.get()


def draw_button() -> None:
    """Pins the scenario on screen, or takes its pin away."""
    scenario, _ = state.scenario_or_problem()
    if scenario is not None and scenario in pinned():
        st.button("Unpin", key="pin", icon=":material/keep_off:", on_click=unpin, args=(scenario,), width="stretch")
        return
    full = len(pinned()) >= MAX_PINS
    st.button(
        "Pin to compare",
        key="pin",
        icon=":material/keep:",
        on_click=_pin,
        args=(scenario,),
        width="stretch",
        disabled=scenario is None or full,
        help=f"{MAX_PINS} are pinned; unpin one first." if full else "Keep it, change something, and see both.",
    )


def unpin(scenario: Scenario) -> None:
    """Callback: take a pin away."""
    _PINS.put([one for one in pinned() if one != scenario])


def _pin(scenario: Scenario) -> None:
    _PINS.put([*pinned(), scenario])
    st.session_state["serve_tab"] = "What if"  # where they stand side by side
