"""The scenario's widgets, drawn by the entry script; the address follows what they say, so that a link restores all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Any

import streamlit as st

from advisor.acceptance import acceptance_curves
from advisor.scenario import FIELDS, SETTINGS, FieldRow, Section
from advisor.ui import address, fields, own_config, own_hardware, pins, share_panel, start_panel, state, widgets


def draw() -> None:
    """Draw all widgets and keep the scenario they describe; see `state.scenario_or_problem`."""
    with st.sidebar:
        start_panel.draw()
        place = st.container()
        values: dict[str, Any] = {}
        for section in Section:
            _section(section, values)
        values |= {name: st.session_state.get(name) for name in fields.WITHOUT_WIDGET}
        state.keep_scenario(values)
        address.write(values)
        with place:
            start_panel.say_which(state.scenario_or_problem()[0])
        pins.draw_button()
        share_panel.draw()


def _section(section: Section, values: dict[str, Any]) -> None:
    """The widgets under one heading, line by line; puts what they say into `values`."""
    rows = [row for row in SETTINGS if row.widget is not None and row.screen_section == section]
    with _heading(section):
        for _, line in groupby(sorted(rows, key=_line), key=_line):
            beside = list(line)
            alone: list[AbstractContextManager[Any]] = [nullcontext()]
            places = alone if len(beside) == 1 else [*st.columns(len(beside))]
            for row, place in zip(beside, places, strict=True):
                with place:
                    values[row.name] = _widget(row)
            for row in beside:
                _below(row.name, values)


def _heading(section: Section) -> AbstractContextManager[Any]:
    if section == Section.ADVANCED:
        return st.expander(section)
    st.subheader(section, anchor=False)
    return nullcontext()


def _line(row: FieldRow) -> int:
    return 0 if row.widget is None else row.widget.line


def _widget(row: FieldRow) -> Any:
    """The widget that a field's type asks for; returns what is set in it."""
    asked: dict[str, Any] = {"key": row.name, "on_change": _follow(row.name)}
    help_text = row.widget.help if row.widget is not None else ""
    if row.range is not None:
        low, high = map(row.kind, row.range)
        # Outside its range the browser turns a field red and says no more.
        asked |= {"min_value": low, "max_value": high, "help": f"{help_text} From {row.limits}.".strip()}
        asked |= {"value": None, "placeholder": row.unset} if row.is_optional else {"step": 1}
        return st.number_input(row.screen_label, **asked)
    asked["help"] = help_text or None
    if row.name == "acceptance":
        return _acceptance(row.screen_label, **asked)
    options, chosen = fields.choices(row.name), st.session_state[row.name]
    if not options:
        return st.text_input(row.screen_label, **asked) or None
    asked |= {"index": None, "placeholder": row.unset} if row.is_optional else {}
    return st.selectbox(
        row.screen_label, [*options, *([chosen] if row.free_text and chosen not in options else [])], **asked
    )


def _acceptance(label: str, **asked: Any) -> Any:
    """A measured curve, or numbers of the user's own."""
    curves = [curve.id for curve in acceptance_curves()]
    given = st.session_state["acceptance"]
    own = [given] if given and given not in curves else []
    return st.selectbox(label, [*own, *curves], accept_new_options=True, **asked)


def _below(field: str, values: Mapping[str, Any]) -> None:
    """What stands below a field's line besides its widget."""
    match field:
        case "model_id":
            _own_model(str(values["model_id"]))
        case "hardware_id":
            with st.expander(FIELDS["hardware_json"].label):
                own_hardware.draw()
        case "context_tokens":
            st.caption(f"Batch {FIELDS['batch_size'].limits}, context {FIELDS['context_tokens'].limits}.")
        case "output_tokens" if (values["input_tokens"] is None) != (values["output_tokens"] is None):
            lacking = FIELDS["output_tokens" if values["output_tokens"] is None else "input_tokens"]
            st.caption(f"Prefill is not charged yet: {lacking.label} is not set.")


def _own_model(chosen: str) -> None:
    own_config.note_shipped(chosen)
    with st.expander(FIELDS["model_config_json"].label):
        own_config.draw(_follow_drafter)
        if problem := own_config.problem():
            st.error(widgets.plain(problem))
            st.caption(f"The answer is for {widgets.plain(chosen)}.")


def _follow(field: str) -> Callable[[], None] | None:
    """What moves with a field when the user changes it."""
    match field:
        case "model_id" | "drafter_id":
            return _follow_drafter
        case "n_gpus":
            return _follow_gpus
        case "tensor_parallel" | "expert_parallel":
            return _follow_parallel
    return None


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
