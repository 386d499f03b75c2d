"""The scenario's widgets in a bar on top of every page, drawn by the entry script; the address follows what they say.

On a telephone the bar is folded to one line; the browser unfolds it without a rerun.
"""

from __future__ import annotations

import math
from typing import Any

import streamlit as st

from advisor.catalog.engines import engines
from advisor.catalog.hardware import hardware_called, model_name
from advisor.physics.hardware import USUAL_NODE, gpus_of_node
from advisor.predict.scenario import usual_tensor_parallel
from advisor.predict.scenario_fields import FIELDS, RELEASE_FIELDS, SETTINGS
from advisor.ui.bar.fields import token_remark
from advisor.ui.bar.more import IN_THE_BAR, chosen_hardware, draw_more, draw_share_panel, say_what_lacks, widget
from advisor.ui.own_data import NAMES, own
from advisor.ui.state import follow_drafter, follow_model, keep_scenario, plain, write

FOLD, OPEN, FIELDS_KEY = "bar_fold", "bar_open", "bar_fields"
_WIDTHS = {"model_id": 210, "hardware_id": 160, "n_gpus": 84, "drafter_id": 150, "context_tokens": 96}
_ENGINES = {one.id: one.name for one in engines()}
assert {row.name for row in SETTINGS} >= IN_THE_BAR == {*_WIDTHS, "engine"}


def draw_bar() -> None:
    """Draw all widgets and keep the scenario they describe, for `state.scenario_or_problem`."""
    values: dict[str, Any] = {}
    with st.container(key="bar", gap=None):
        with st.container(key=FIELDS_KEY, horizontal=True, vertical_alignment="bottom", gap="small"):
            _field("model_id", values, on_change=follow_model)
            _field("hardware_id", values)
            _field("n_gpus", values, on_change=_follow_gpus)
            _engine(values)
            _field("drafter_id", values, on_change=follow_drafter)
            _field("context_tokens", values)
            with st.container(
                key="bar_end", horizontal=True, gap="small", width="content", vertical_alignment="bottom"
            ):
                draw_more(values, on_parallel=_follow_parallel)
                share = st.container(width="content")
        values |= {name: st.session_state.get(name) for name in NAMES if name not in values}
        keep_scenario(values)
        write(values)
        with share:
            draw_share_panel()
        _fold(values)
    if said := token_remark():
        st.markdown(f":red[:material/error: {plain(said)}]")
    say_what_lacks(values)


def _engine(values: dict[str, Any]) -> None:
    """Engines as chips: numbers, command, checks and track record are always those of the one that is lit."""
    chosen = str(st.session_state["engine"])
    values["engine"] = st.segmented_control(
        "Engine",
        [*_ENGINES, *([] if chosen in _ENGINES else [chosen])],
        key="engine",
        format_func=lambda name: _ENGINES.get(name, name),
        required=True,
        on_change=_follow_engine,
        persist_state="session",
        width="content",
    )


def _fold(values: dict[str, Any]) -> None:
    """What a narrow screen shows instead of the fields, with the switch that unfolds them."""
    with st.container(key=FOLD, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        document = own("hardware_json").get(str(values["hardware_id"]))
        gpus = f"{values['n_gpus']} × {hardware_called(str(values['hardware_id']), document)}"
        engine = _ENGINES.get(str(values["engine"]), str(values["engine"]))
        st.markdown(f"**{plain(model_name(str(values['model_id'])))}** · {plain(gpus)} · {engine}", width="stretch")
        st.toggle("Change", key=OPEN, on_change="ignore", persist_state="session")


def _field(name: str, values: dict[str, Any], on_change: Any = None) -> None:
    label = "Context" if name == "context_tokens" else ""
    values[name] = widget(FIELDS[name], on_change=on_change, label=label, width=_WIDTHS[name])


def _follow_engine() -> None:
    """Another engine: what is said of a release of the former says nothing of it."""
    for name in RELEASE_FIELDS:
        st.session_state[name] = None


def _follow_gpus() -> None:
    """More or fewer GPUs than before: tensor parallelism over all of them, as most deployments do, but within a node.

    Experts stay on as many ranks as the GPUs allow.
    """
    gpus = int(st.session_state.n_gpus)
    st.session_state.expert_parallel = math.gcd(gpus, int(st.session_state.expert_parallel))
    chosen = chosen_hardware()
    st.session_state.tensor_parallel = usual_tensor_parallel(gpus, gpus_of_node(chosen) if chosen else USUAL_NODE)


def _follow_parallel() -> None:
    """A placement that needs other GPUs than there are gets exactly the GPUs it needs."""
    now = st.session_state
    needed = max(now.tensor_parallel, now.expert_parallel)
    if now.n_gpus % needed:
        now.n_gpus = needed
