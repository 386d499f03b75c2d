"""The scenario's widgets in a bar on top of every page, drawn by the entry script; the address follows what they say.

On a telephone the bar is folded to two lines; the browser unfolds it without a rerun.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import streamlit as st

from advisor.catalog.hardware import drafter_name, hardware_called, hardware_from_own, model_name, own_drafter
from advisor.physics.hardware import USUAL_NODE, gpus_of_node, load_hardware
from advisor.predict.curve import DEFAULT_BATCHES
from advisor.predict.scenario_fields import FIELDS, SETTINGS
from advisor.predict.usual import nearest_acceptance, usual_tensor_parallel
from advisor.prediction import AdvisorError
from advisor.ui.bar.fields import draw_accepted, token_remark
from advisor.ui.bar.fields import remark as accepted_remark
from advisor.ui.bar.more import draw_more, draw_share_panel, say_what_lacks, widget
from advisor.ui.own_data import NAMES, own
from advisor.ui.own_data import own as own_documents
from advisor.ui.state import escaped, keep_scenario, known_as, own_models, write

FOLD, OPEN, FIELDS_KEY = "bar_fold", "bar_open", "bar_fields"
_WIDTHS = {
    "model_id": 196,
    "hardware_id": 168,
    "n_gpus": 66,
    "batch_size": 80,
    "context_tokens": 84,
    "drafter_id": 154,
    "max_tpot_ms": 90,
}
_LABELS = {"context_tokens": "Context", "max_tpot_ms": "Limit, ms"}
_SLIDER = "batch_slider"
_STOPS = tuple(DEFAULT_BATCHES)


def draw_bar(page_title: str) -> None:
    """Draw all widgets and keep the scenario they describe, for `state.scenario_or_problem`.

    page_title : name of the page below, which a narrow screen shows nowhere else.
    """
    values: dict[str, Any] = {}
    with st.container(key="bar", border=True, gap="xxsmall"):
        with st.container(key=FIELDS_KEY, horizontal=True, vertical_alignment="bottom", gap="xxsmall"):
            _field("model_id", values, on_change=_follow_model)
            _field("hardware_id", values)
            _field("n_gpus", values, on_change=_follow_gpus)
            _batch(values)
            _field("context_tokens", values)
            _field("drafter_id", values, on_change=_follow_drafter)
            draw_accepted(str(values["model_id"]), str(values["drafter_id"]))
            _field("max_tpot_ms", values)
            draw_more(values, on_model=_follow_model, on_parallel=_follow_parallel)
            share = st.container(width="content")
        values |= {name: st.session_state.get(name) for name in NAMES if name not in values}
        keep_scenario(values)
        write(values)
        with share:
            draw_share_panel()
        _fold(values, page_title)
    if said := token_remark():
        st.markdown(f":red[:material/error: {escaped(said)}]")
    if said := accepted_remark(str(values["model_id"]), str(values["drafter_id"])):
        st.caption(said)
    say_what_lacks(values)


def _fold(values: dict[str, Any], page_title: str) -> None:
    """What a narrow screen shows instead of the fields, with the switch that unfolds them."""
    with st.container(key=FOLD, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        document = own("hardware_json").get(str(values["hardware_id"]))
        gpus = f"{values['n_gpus']} × {hardware_called(str(values['hardware_id']), document)}"
        what = f"{escaped(model_name(str(values['model_id'])))} + {drafter_name(str(values['drafter_id']))}"
        st.markdown(
            f"{page_title} · **{what}**  \n{escaped(gpus)}, batch {values['batch_size']:,}",
            width="stretch",
        )
        st.toggle("Change", key=OPEN, on_change="ignore", persist_state="session")


def _field(name: str, values: dict[str, Any], on_change: Any = None) -> None:
    values[name] = widget(FIELDS[name], on_change=on_change, label=_LABELS.get(name, ""), width=_WIDTHS[name])


def _batch(values: dict[str, Any]) -> None:
    """The batch as a number and, tied to it, as a slider over the curve's batches."""
    _field("batch_size", values)
    number = float(values["batch_size"])
    st.session_state[_SLIDER] = min(_STOPS, key=lambda stop: abs(np.log(stop / number)))
    st.select_slider(
        "Batch by slider",
        _STOPS,
        key=_SLIDER,
        on_change=_take_slider,
        label_visibility="collapsed",
        width=112,
        persist_state="session",
    )


def _take_slider() -> None:
    st.session_state["batch_size"] = st.session_state[_SLIDER]


def _follow_model() -> None:
    """Another model: its own draft module where it has one, and the acceptance measured with it."""
    now = st.session_state
    module = own_drafter(now.model_id)
    if module is not None:
        now.drafter_id = module
    elif now.drafter_id == "mtp" and now.model_id not in own_models():
        now.drafter_id = str(FIELDS["drafter_id"].default)
    _follow_drafter()


def _follow_drafter() -> None:
    """Another model or drafter: take its own measured acceptance, unless the user's numbers are in use."""
    now = st.session_state
    now.acceptance = nearest_acceptance(known_as(now.model_id), now.drafter_id, now.acceptance)


def _follow_gpus() -> None:
    """More or fewer GPUs than before: tensor parallelism over all of them, as most deployments do, but within a node.

    Experts stay on as many ranks as the GPUs allow.
    """
    gpus = int(st.session_state.n_gpus)
    st.session_state.expert_parallel = math.gcd(gpus, int(st.session_state.expert_parallel))
    st.session_state.tensor_parallel = usual_tensor_parallel(gpus, _node())


def _node() -> int:
    """GPUs that share fast links on the bar's accelerator. [-]"""
    name = str(st.session_state.hardware_id)
    own = own_documents("hardware_json").get(name)
    try:
        return gpus_of_node(load_hardware(name) if own is None else hardware_from_own(own, name))
    except AdvisorError:  # the answer says what is wrong with it
        return USUAL_NODE


def _follow_parallel() -> None:
    """A placement that needs other GPUs than there are gets exactly the GPUs it needs."""
    now = st.session_state
    needed = max(now.tensor_parallel, now.expert_parallel)
    if now.n_gpus % needed:
        now.n_gpus = needed


BAR = frozenset(_WIDTHS)
"""Fields that stand in the bar itself; the others with a widget stand under More."""
assert {row.name for row in SETTINGS} >= BAR
