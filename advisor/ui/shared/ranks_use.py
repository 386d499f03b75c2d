"""Loads of experts and the layout that this session predicts with: chosen on the page Data or carried by a link.

They lie in the session under their fields' names, as a refit does, and go into the scenario of every run whose model
has as many experts and whose placement has expert-parallel ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from advisor.catalog import load_model, model_ids
from advisor.expert_traffic import loads_shape
from advisor.hf import architecture_from_config
from advisor.prediction import AdvisorError
from advisor.scenario import RANK_FIELDS, Scenario
from advisor.text import counted
from advisor.ui.shared import fields

LOADS, COPIES = RANK_FIELDS


def use(loads: str | None, copies: int | None, routing: str | None) -> None:
    """Predict with these from the next run on, in this session only.

    loads : None for the spread of the routing preset. copies : None for experts in order. [-]
    routing : the scenario's routing as a trace gave it; None leaves it as it is.
    """
    st.session_state[LOADS], st.session_state[COPIES] = loads, copies
    if routing is not None:
        st.session_state["routing"] = routing


def undo() -> None:
    """Back to experts in order with the slowest rank assumed."""
    st.session_state[LOADS] = st.session_state[COPIES] = None


def is_for(values: Mapping[str, Any]) -> bool:
    """Whether what the session holds says something of a scenario's model on its ranks."""
    loads, copies = values.get(LOADS), values.get(COPIES)
    if (loads is None and copies is None) or not values["expert_parallel"] or values["expert_parallel"] < 2:
        return False
    return loads is None or loads_shape(loads)[1] == _experts(str(values["model_id"]))


def _experts(model: str) -> int:
    own = fields.own("model_config_json").get(model)
    try:
        found = architecture_from_config(own, model) if own is not None else None
        moe = (found or load_model(model)).moe if own is not None or model in model_ids() else None
    except AdvisorError:
        return 0
    return moe.n_experts if moe is not None else 0


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
        if scenario != scenario.on_assumed_ranks():
            how = "in order" if copies is None else f"balanced, {copies} copies" if copies else "balanced"
            st.markdown(f":material/grid_view: **Experts on ranks**: counted on {origin}, {how}.")
        else:
            needed = f"EP above 1 and {experts} experts" if loads else "EP above 1"
            st.markdown(f":material/grid_view: Experts on ranks need {needed}; **here they are assumed.**")
        st.button("Back to assumed ranks", key="undo_ranks_in_use", on_click=undo, icon=":material/undo:")
