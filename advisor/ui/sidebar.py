"""The scenario's widgets, drawn by the entry script; the address follows what they say, so that a link restores all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from advisor.acceptance import acceptance_curves
from advisor.scenario import MAX_BATCH, MAX_CONTEXT
from advisor.ui import address, fields, own_config, own_hardware, pins, share_panel, start_panel, state, widgets


def draw() -> None:
    """Draw all widgets and keep the scenario they describe; see `state.scenario_or_problem`."""
    with st.sidebar:
        start_panel.draw()
        place = st.container()
        values = _model() | _hardware() | _load() | _drafter() | _engine() | _advanced()
        values |= {name: st.session_state.get(name) for name in fields.WITHOUT_WIDGET}
        state.keep_scenario(values)
        address.write(values)
        with place:
            start_panel.say_which(state.scenario_or_problem()[0])
        pins.draw_button()
        share_panel.draw()


def _model() -> dict[str, Any]:
    st.subheader("Model", anchor=False)
    values = {"model_id": _choice("Model", "model_id", on_change=_follow_drafter)}
    own_config.note_shipped(str(values["model_id"]))
    with st.expander("Your own config.json"):
        own_config.draw(_follow_drafter)
        if problem := own_config.problem():
            st.error(widgets.plain(problem))
            st.caption(f"The answer is for {widgets.plain(str(values['model_id']))}.")
    return values


def _hardware() -> dict[str, Any]:
    st.subheader("Hardware and placement", anchor=False)
    values = {"hardware_id": _choice("Accelerator", "hardware_id")}
    with st.expander("Your own accelerator"):
        own_hardware.draw()
    gpus, tensor, expert = st.columns(3)
    with gpus:
        values["n_gpus"] = _number("GPUs", "n_gpus", on_change=_follow_gpus)
    with tensor:
        values["tensor_parallel"] = _number(
            "TP", "tensor_parallel", on_change=_follow_parallel, help="Tensor-parallel ranks of one instance."
        )
    with expert:
        values["expert_parallel"] = _number(
            "EP", "expert_parallel", on_change=_follow_parallel, help="Expert-parallel ranks of one instance."
        )
    return values


def _load() -> dict[str, Any]:
    st.subheader("Batch and context", anchor=False)
    batch, context = st.columns(2)
    with batch:
        size = _number("Batch", "batch_size", help="Sequences that decode together in one instance.")
    with context:
        tokens = _number("Context", "context_tokens", help="Cached tokens per sequence.")
    st.caption(f"Batch 1 to {MAX_BATCH:,}, context 1 to {MAX_CONTEXT:,}.")
    return {"batch_size": size, "context_tokens": tokens}


def _drafter() -> dict[str, Any]:
    st.subheader("Drafter and acceptance", anchor=False)
    values = {"drafter_id": _choice("Drafter", "drafter_id", on_change=_follow_drafter)}
    curves = [curve.id for curve in acceptance_curves()]
    given = st.session_state["acceptance"]
    own = [given] if given and given not in curves else []
    values["acceptance"] = st.selectbox(
        "Accepted length: measured curve, or type your own",
        [*own, *curves],
        key="acceptance",
        accept_new_options=True,
        help="Type `2.4@3` (2.4 tokens per round at K = 3, bonus token included) or `0.7,0.5,0.4` (chance that each "
        "draft token is accepted, given those before it), or choose a measured curve by its model, drafter and data.",
    )
    values["k_max"] = _number("Longest draft to consider (K max)", "k_max")
    return values


def _engine() -> dict[str, Any]:
    st.subheader("Engine and formats", anchor=False)
    values = {"engine": _choice("Engine", "engine")}
    weights, cache = st.columns(2)
    with weights:
        values["weight_dtype"] = _format("Weights", "weight_dtype")
    with cache:
        values["kv_dtype"] = _choice("KV cache", "kv_dtype")
    return values


def _advanced() -> dict[str, Any]:
    with st.expander("Advanced"):
        chosen = str(st.session_state["routing"])
        values = {
            "routing": _choice(
                "Routing", "routing", [chosen] if "," in chosen else [],
                help="auto: the model's own measured routing, else the default of its class. "
                "uniform: every token chooses its experts independently. Your own: upload a routing trace under "
                "Measurements.",
            )
        }  # fmt: skip
        values["expert_dtype"] = _format(
            "Routed experts' weights", "expert_dtype", help="Overrides the format of the weights for the experts alone."
        )
        values["input_tokens"] = _optional(
            "Prompt tokens", "input_tokens", help="With output tokens, prefill is charged."
        )
        values["output_tokens"] = _optional("Output tokens", "output_tokens")
        if (values["input_tokens"] is None) != (values["output_tokens"] is None):
            lacking = "Output tokens" if values["output_tokens"] is None else "Prompt tokens"
            st.caption(f"Prefill is not charged yet: {lacking} is not set.")
        values["max_tpot_ms"] = _optional(
            "Limit on time per output token (ms)", "max_tpot_ms", help="K that miss it are not recommended."
        )
    return values


def _choice(label: str, field: str, more: Sequence[str] = (), **extra: Any) -> Any:
    return st.selectbox(label, [*fields.choices(field), *more], key=field, **extra)


def _format(label: str, field: str, **extra: Any) -> Any:
    return st.selectbox(label, fields.choices(field), index=None, key=field, placeholder="as stored", **extra)


def _number(label: str, field: str, help: str = "", **extra: Any) -> Any:
    low, high = (int(end) for end in fields.RANGES[field])
    return st.number_input(label, low, high, key=field, step=1, help=_range(help, low, high), **extra)


def _optional(label: str, field: str, help: str = "", **extra: Any) -> Any:
    low, high = fields.RANGES[field]
    return st.number_input(
        label, low, high, value=None, key=field, placeholder="not set", help=_range(help, low, high), **extra
    )


def _range(text: str, low: float, high: float) -> str:
    """A field's help: outside its range the browser turns a field red and says no more."""
    return f"{text} From {low:,} to {high:,.0f}.".strip()


def _follow_drafter() -> None:
    """Another model or drafter: take its own measured acceptance, unless the user's numbers are in use."""
    now = st.session_state
    now.acceptance = state.best_acceptance(now.model_id, now.drafter_id, now.acceptance)


def _follow_gpus() -> None:
    """More or fewer GPUs than before: tensor parallelism over all of them, as most deployments do."""
    now = st.session_state
    now.tensor_parallel = now.n_gpus
    if now.n_gpus % now.expert_parallel:
        now.expert_parallel = 1


def _follow_parallel() -> None:
    """A placement that needs other GPUs than there are gets exactly the GPUs it needs."""
    now = st.session_state
    needed = max(now.tensor_parallel, now.expert_parallel)
    if now.n_gpus % needed:
        now.n_gpus = needed
