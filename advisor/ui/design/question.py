"""The question of the page Design: batch, limits and the start, bound to the address, and the
remembered answer."""

from __future__ import annotations

from typing import Any

import streamlit as st

from advisor.answers.design.answer import DesignAnswer, design_answer
from advisor.answers.design.search import design_space
from advisor.answers.design.start import (
    SHAPE_EXAMPLE,
    Start,
    parse_batches,
    start_from_shape,
    start_from_size,
    starts,
)
from advisor.catalog.hardware import model_name
from advisor.physics.quality import DEFAULT_EPS
from advisor.predict.scenario import Scenario
from advisor.prediction import Frozen
from advisor.show.phrases.design import STARTED
from advisor.ui.answers import remembered
from advisor.ui.session import LARGEST_LIMIT, SMALLEST_LIMIT, Kept, folded_key, take_typed
from advisor.ui.state import add_own_model
from advisor.ui.widgets import show_problem

_BILLION = 1e9
_TRILLION = 1e12
_TARGETS = ("design_target_total", "design_target_active")
_STARTS = ("design_start_total", "design_start_active")
"""Sizes that a new model is asked by: targets of the search once one has started it."""
_LIMITS = {
    "design_tokens": ("Training tokens (trillions)", "The same for every design."),
    "design_total_params": ("Largest total size (B)", "Billions of parameters."),
    "design_target_total": ("Total size (B)", "Billions of parameters, met within 5%."),
    "design_target_active": (
        "Active size (B), no embeddings",
        "Billions of parameters, met within 5%.",
    ),
    "design_tpot": (
        "Time per output token (ms)",
        "Upper limit at every batch. Empty: the scenario's.",
    ),
    "design_memory": ("Memory per GPU (GB)", "Empty: 90% of the accelerator's."),
}


class DesignQuestion(Frozen):
    """Question that the controls ask, with limits of None where not set."""

    batches: str = ""
    """As typed; empty: the scenario's batch."""
    quality_eps: float = DEFAULT_EPS
    training_tokens: float | None = None
    max_total_params: float | None = None
    target_total_params: float | None = None
    target_active_params: float | None = None
    max_tpot_ms: float | None = None
    """None: the scenario's."""
    max_memory_bytes: float | None = None


@remembered(
    st.cache_resource, shared=24, own=8, spinner="Costing designs ...", keys=(DesignQuestion,)
)
def answer_for(scenario: Scenario, question: DesignQuestion) -> DesignAnswer:
    """The search, remembered. Raises AdvisorError as the search does."""
    batches = parse_batches(question.batches) if question.batches else None
    limits = question.model_dump(exclude={"batches"})
    return design_answer(design_space(scenario, batches=batches, **limits))


def asked() -> DesignQuestion:
    """The question as the controls and the address have it now."""
    now = st.session_state

    def size(key: str, unit: float = _BILLION) -> float | None:
        value = now.get(key)
        return None if value is None else value * unit

    return DesignQuestion(
        batches=str(now["design_batches"]).strip(),
        quality_eps=now["design_quality"] / 100,
        training_tokens=size("design_tokens", _TRILLION),
        max_total_params=size("design_total_params"),
        target_total_params=size("design_target_total"),
        target_active_params=size("design_target_active"),
        max_tpot_ms=now["design_tpot"],
        max_memory_bytes=size("design_memory"),
    )


def _draw_limits() -> None:
    """Limits that every design keeps, behind a button."""
    with st.popover("Limits", type="tertiary"):
        st.caption(
            "Target batch: `64`, a list `1,16,64`, a range `1-512`, or shares of the tokens "
            "`1:0.2,64:0.8`."
        )
        key = folded_key("design_quality")
        st.number_input(
            "Quality loss (%)",
            0.0,
            50.0,
            step=0.5,
            key=key,
            persist_state="session",
            on_change=take_typed,
            args=("design_quality", key),
            help=(
                "Share of the size of an equally good model that a design may give up, by each of "
                "three scaling laws."
            ),
        )
        for key in (
            "design_tokens",
            "design_total_params",
            "design_tpot",
            "design_memory",
            *_TARGETS,
        ):
            widget_key = folded_key(key)
            _limit(key, widget_key, on_change=take_typed, args=(key, widget_key))


def _limit(name: str, key: str, **then: Any) -> None:
    label, help_text = _LIMITS[name]
    how = {
        "label": label,
        "persist_state": "session",
        "placeholder": "not set",
        "help": help_text,
    } | then
    st.number_input(min_value=SMALLEST_LIMIT, max_value=LARGEST_LIMIT, value=None, key=key, **how)


START: Kept[tuple[str, str, str]] = Kept("_design_start_note", lambda: ("", "", ""))
"""A model's name, and where its shape comes from."""
_OF_SIZE: Kept[tuple[float | None, float | None]] = Kept(
    "_design_start_sizes", lambda: (None, None)
)
"""Total and active size that it was started from. [parameters]"""
MOVED: Kept[bool] = Kept("_design_model_moved", bool)
"""Whether a control of this page has changed the model, which the bar above must then show."""


def draw_question(scenario: Scenario) -> None:
    """Size of a model to start from, batch, and behind buttons that model's layers or shape, and
    limits."""
    with st.container(
        horizontal=True, vertical_alignment="bottom", gap="small", key="design_question"
    ):
        how: dict[str, Any] = {"on_change": _from_size, "args": (scenario,), "help": None}
        _limit(
            "design_target_total",
            _STARTS[0],
            **how,
            label="New size (B)",
            width=110,
            format="%g",
            placeholder="e.g. 40",
        )
        st.text_input(
            "Target batch",
            key="design_batches",
            width=125,
            placeholder=str(scenario.batch_size),
        )
        _draw_shape(scenario, how)
        _draw_limits()
        st.text_input(
            "Compare with",
            key="design_compare",
            width=300,
            placeholder="4 of 64; 8 of 256 + 1",
            help=(
                "Up to four designs: active of all + shared experts. The width keeps the total "
                "size, or is given: N64 k4 s0 w2048."
            ),
        )
    show_problem(START.problem)


def _draw_shape(scenario: Scenario, how: dict[str, Any]) -> None:
    """The active size, the layers that a size gets, or a typed shape, behind a button."""
    # Another model, another key: so it closes once it has started one.
    with st.popover("Shape", type="tertiary", key=f"design_new_{START.result[0]}"):
        _limit("design_target_active", _STARTS[1], **how)
        if any(_OF_SIZE.result) and own_name(scenario) == "start":
            st.selectbox(
                "Layers and attention of",
                starts(*_OF_SIZE.result),
                key="design_like",
                format_func=model_name,
                on_change=_from_size,
                args=(scenario, True),
            )
        st.text_input(
            "Layers, hidden size, experts, per token, shared, width",
            key="design_shape",
            placeholder=SHAPE_EXAMPLE,
            on_change=_from_shape,
            args=(scenario,),
        )


def leave_start(scenario: Scenario) -> None:
    """Forget the size that a model was started from once another is served."""
    if any(_OF_SIZE.result) and own_name(scenario) == "today":
        st.session_state.update(dict.fromkeys((*_STARTS, *_TARGETS)))
        _OF_SIZE.forget()


def own_name(scenario: Scenario) -> str:
    """Name of the baseline: `start` where the model was started from nothing, else `today`."""
    return "start" if START.result[0] == scenario.model_id else "today"


def _from_shape(scenario: Scenario) -> None:
    typed = st.session_state["design_shape"]
    if typed.strip() and START.take(lambda: _taken(start_from_shape(scenario, typed))):
        _OF_SIZE.forget()


def _from_size(scenario: Scenario, is_like: bool = False) -> None:
    """Callback of the sizes, or of the model whose layers they get."""
    now = st.session_state
    typed = {key: now[start] for key, start in zip(_TARGETS, _STARTS, strict=True)}
    if not any(typed.values()):
        START.refuse("")
        return
    sizes = (
        _OF_SIZE.result if is_like else tuple(size and size * _BILLION for size in typed.values())
    )
    total, active = sizes
    like = now["design_like"] if is_like else None
    if START.take(lambda: _taken(start_from_size(scenario, total, active, like))):
        _OF_SIZE.put((total, active))
        now.update({} if is_like else typed)


def _taken(start: Start) -> tuple[str, str, str]:
    """Make a start the user's own model, as an uploaded configuration would be. Its name there,
    where its shape comes from, and the rest of what is to say."""
    take_model(str(start.scenario.model_config_json), start.scenario.model_id)
    whence = STARTED.say("whence", start.facts)
    return st.session_state["model_id"], whence, STARTED.say("more", start.facts)


def take_model(config: str, name: str) -> None:
    """Make a config.json the scenario's model, with nothing beside it."""
    st.session_state["model_id"] = add_own_model(config, f"{name}.json")
    st.session_state["design_compare"] = ""
    MOVED.put(True)
