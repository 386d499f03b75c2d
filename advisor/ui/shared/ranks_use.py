"""Loads of experts and the layout that this session predicts with: chosen on the page Data or carried by a link.

They lie in the session under their fields' names, as a refit does, and go into the scenario of every run whose model
has as many experts and no fewer layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from advisor.architecture import Moe
from advisor.catalog import load_model, model_ids
from advisor.expert_traffic import loads_shape
from advisor.hf import architecture_from_config
from advisor.prediction import AdvisorError
from advisor.scenario import RANK_FIELDS, Scenario
from advisor.text import counted
from advisor.ui.shared import fields
from advisor.ui.shared.session import Slot

LOADS, COPIES = RANK_FIELDS
_ROUTING_BEFORE: Slot[tuple[str, str]] = Slot("_routing_before_ranks", lambda: ("", ""))
"""The routing that a trace brought, and the one before it."""


def use(loads: str | None, copies: int | None, routing: str | None) -> None:
    """Predict with these from the next run on, in this session only.

    loads : None for the spread of the routing preset. copies : None for experts in order. [-]
    routing : the scenario's routing as a trace gave it; None leaves it as it is.
    """
    now = st.session_state
    now[LOADS], now[COPIES] = loads, copies
    if routing is not None and now.get("routing") != routing:
        _ROUTING_BEFORE.put((routing, str(now.get("routing") or "auto")))
        now["routing"] = routing


def undo() -> None:
    """Back to experts in order with the slowest rank assumed, and to the routing before a trace's."""
    now = st.session_state
    now[LOADS] = now[COPIES] = None
    brought, before = _ROUTING_BEFORE.get()
    if brought and now.get("routing") == brought:
        now["routing"] = before
    _ROUTING_BEFORE.drop()


def is_for(values: Mapping[str, Any]) -> bool:
    """Whether what the session holds says something of a scenario's model."""
    loads = values.get(LOADS)
    if loads is None:
        return values.get(COPIES) is not None
    (layers, experts), moe = loads_shape(loads), _moe(str(values["model_id"]))
    return moe is not None and experts == moe.n_experts and layers <= moe.count


def _moe(model: str) -> Moe | None:
    own = fields.own("model_config_json").get(model)
    if own is None and model not in model_ids():
        return None
    try:
        return (architecture_from_config(own, model) if own is not None else load_model(model)).moe
    except AdvisorError:
        return None


def banner(scenario: Scenario) -> None:
    """Note on every page saying what the slowest rank is counted on, or why it is not.

    One click undoes it.
    """
    loads, copies = st.session_state.get(LOADS), st.session_state.get(COPIES)
    if loads is None and copies is None:
        return
    layers, experts = loads_shape(loads or "")
    origin = f"your loads ({counted(layers, 'layer')}, {experts} experts)" if loads else "the routing preset's loads"
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        if scenario != scenario.on_assumed_ranks() and scenario.expert_parallel == 1:
            st.markdown(f":material/grid_view: **Experts touched** by {origin}; with EP above 1 its slowest rank too.")
        elif scenario != scenario.on_assumed_ranks():
            how = "in order" if copies is None else f"balanced, {copies} copies" if copies else "balanced"
            st.markdown(f":material/grid_view: **Experts on ranks**: counted on {origin}, {how}.")
        else:
            text = f"Your loads are of {counted(layers, 'layer')} and {experts} experts; **this model is another.**"
            st.markdown(f":material/grid_view: {text}")
        st.button("Back to assumed ranks", key="undo_ranks_in_use", on_click=undo, icon=":material/undo:")
