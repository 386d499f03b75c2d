"""The live answer and its Why as components of the browser: one payload in, what the user settled on out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.summary import fit_of
from advisor.show.live_answer import live_answer, live_why
from advisor.ui.answers import published_for
from advisor.ui.own_data import own_points
from advisor.ui.state import show
from advisor.ui.widgets import ask

_FILES = Path(__file__).with_name("browser")
_KEY = "live_answer"


def _script(*names: str) -> str:
    """The files of one component, joined: a component is one script."""
    return "\n".join((_FILES / f"{name}.js").read_text(encoding="utf-8") for name in names)


_CSS = (_FILES / "live.css").read_text(encoding="utf-8")
_ANSWER = st.components.v2.component("live_answer", css=_CSS, js=_script("rules", "chart", "kept", "answer"))
_WHY = st.components.v2.component("live_why", css=_CSS, js=_script("rules", "chart", "kept", "why"))


def draw_live(advice: Advice) -> None:
    """Draw headline, sliders, chart, command, table and flips. A slider that is let go becomes the scenario's."""
    scenario = advice.scenario
    data = live_answer(advice, published_for(scenario), own_points(scenario), st.session_state.get("load_price"))
    wider = None if (fit := fit_of(advice)) is None else fit.scenario
    _ANSWER(
        key=_KEY,
        data=data,
        on_moved_change=_take,
        on_how_change=_asked,
        on_wider_change=lambda: show(wider, "button") if wider is not None else None,
    )


def _given(name: str) -> Any:
    """What the browser sent with a trigger, in its callback."""
    return (st.session_state.get(_KEY) or {}).get(name)


def _take() -> None:
    moved = _given("moved") or {}
    if "batch" in moved:
        st.session_state["batch_size"] = int(moved["batch"])
    if "accepted" in moved:
        st.session_state["acceptance"] = str(moved["accepted"])


def _asked() -> None:
    point = _given("how") or {}
    ask(float(point["batch"]), int(point["k"]))


def draw_why(advice: Advice) -> None:
    """The whole tab: a round by K, and why the drafted K pays."""
    _WHY(key="live_why", data=live_why(advice))
