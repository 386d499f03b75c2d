"""What the bar keeps under More: examples, acceptance, placement, engine, formats, and the user's own files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import streamlit as st

from advisor.acceptance import acceptance_curves
from advisor.catalog import drafter_name, hardware_label, model_label
from advisor.scenario import FIELDS, SETTINGS, FieldRow, FieldSection
from advisor.ui.bar import accepted, own_config, own_hardware, start_panel, token_fields
from advisor.ui.shared import fields, state
from advisor.ui.shared.session import Slot

IN_THE_BAR = frozenset(
    ("model_id", "hardware_id", "n_gpus", "batch_size", "context_tokens", "drafter_id", "max_tpot_ms")
)
_SET_ELSEWHERE_TOO = frozenset({"tensor_parallel", "expert_parallel", "acceptance", "routing"})
"""Fields that follow others, or that pages set."""
_TYPED: Slot[dict[str, tuple[int, Any]]] = Slot("_more_typed", dict)
"""Of these: how many widgets the field has had, and what was typed into the present one; None: nothing."""
_LONGEST = 20
"""Characters of a name that the bar shows; a longer one of the user's own is told by its help."""
_SHOWN: Mapping[str, Callable[[str], str]] = {
    "model_id": model_label,
    "hardware_id": hardware_label,
    "drafter_id": drafter_name,
    "task": lambda task: task.replace("_", " "),
}


def draw(values: dict[str, Any], *, on_model: Callable[[], None], on_parallel: Callable[[], None]) -> None:
    """The button and the widgets under it, whose values are put into `values`."""
    with st.popover("More", icon=":material/tune:", width="content", key="more"):
        start_panel.draw()
        with st.expander(FIELDS["model_config_json"].label):
            own_config.draw(on_model)
        with st.expander(FIELDS["hardware_json"].label):
            own_hardware.draw()
        for section in FieldSection:
            _section(section, values, on_parallel)


def _key(name: str) -> str:
    """Key of a field's widget: the field's name, but another once its value was set elsewhere after it was typed.

    A browser that has the widget folded away is not told, and would go on sending what was typed: under a new key the
    widget starts from the value that holds.
    """
    now, typed = st.session_state, _TYPED.get()
    number, value = typed.get(name, (0, None))
    if value is not None and now[name] != value:
        number += 1
        _TYPED.put(typed | {name: (number, None)})
    if not number:
        return name
    key = f"{name}_{number}"
    now[name] = now[name]  # no widget of its own keeps it any more
    if now.get(key) != now[name]:
        now[key] = now[name]
    return key


def _typed(name: str, key: str, follow: Callable[[], None] | None) -> None:
    """Callback of a field's widget: what was typed is the field's value, and what follows from it."""
    now, typed = st.session_state, _TYPED.get()
    now[name] = now[key]
    if follow is not None:
        follow()
    _TYPED.put(typed | {name: (typed.get(name, (0, None))[0], now[name])})


def say_what_lacks(values: Mapping[str, Any]) -> None:
    """One line where a setting alone says nothing yet."""
    if (values["input_tokens"] is None) != (values["output_tokens"] is None):
        lacking = FIELDS["output_tokens" if values["output_tokens"] is None else "input_tokens"]
        st.caption(f"The prompt is not charged yet: {lacking.label} is not set.")


def _section(section: FieldSection, values: dict[str, Any], on_parallel: Callable[[], None]) -> None:
    rows = [
        row
        for row in SETTINGS
        if row.widget is not None and row.screen_section == section and row.name not in IN_THE_BAR
    ]
    if not rows:
        return
    st.markdown(f"**{section}**")
    for _, line in groupby(sorted(rows, key=_line), key=_line):
        beside = list(line)
        for row, place in zip(beside, st.columns(len(beside)), strict=True):
            with place:
                follow = on_parallel if row.name.endswith("_parallel") else None
                follow = _understand if row.name == "acceptance" else follow
                if row.name in _SET_ELSEWHERE_TOO:
                    key = _key(row.name)
                    follow = functools.partial(_typed, row.name, key, follow)
                    values[row.name] = widget(row, on_change=follow, key=key)
                else:
                    values[row.name] = widget(row)
    if section == FieldSection.DRAFTER:
        st.button(
            "I don't know: take the nearest measured curve",
            key="acceptance_unknown",
            on_click=_nearest,
            type="tertiary",
            icon=":material/help:",
        )


def _line(row: FieldRow) -> int:
    return 0 if row.widget is None else row.widget.line


def widget(
    row: FieldRow, on_change: Any = None, label: str = "", width: int | str = "stretch", key: str | None = None
) -> Any:
    """Draw the widget that a field's type asks for, and return what is set in it.

    Its key is the field's name where none is given.
    """
    asked: dict[str, Any] = {"key": key or row.name, "on_change": on_change, "width": width, "persist_state": "session"}
    help_text = row.widget.help if row.widget is not None else ""
    label = label or row.screen_label
    if row.name in token_fields.TYPED:
        return token_fields.draw(row, label, width)
    if row.range is not None:
        low, high = map(row.kind, row.range)
        # Outside its range the browser turns a field red and says no more.
        help_text = f"{help_text} From {row.limits}.".strip()
        asked |= {"min_value": low, "max_value": high, "help": help_text}
        asked |= {"value": None, "placeholder": row.unset if width == "stretch" else "none"}
        if not row.is_optional:
            asked = {name: value for name, value in asked.items() if name not in ("value", "placeholder")}
            asked["step"] = 1
        return st.number_input(label, **asked)
    if row.name in _SHOWN and len(name := str(st.session_state[row.name])) > _LONGEST and name.startswith("own-"):
        help_text = f"{help_text} {state.escaped(name)}".strip()
    asked["help"] = help_text or None
    if row.name == "acceptance":
        return _acceptance(**asked)
    options, chosen = fields.choices(row.name), st.session_state[row.name]
    if not options:
        return st.text_input(label, **asked) or None
    if row.name in _SHOWN:
        asked["format_func"] = _SHOWN[row.name]
    asked |= {"index": None, "placeholder": row.unset} if row.is_optional else {}
    return st.selectbox(label, [*options, *([chosen] if row.free_text and chosen not in options else [])], **asked)


def _acceptance(**asked: Any) -> Any:
    """A measured curve, or chances of acceptance of the user's own."""
    curves = [curve.id for curve in acceptance_curves()]
    given = st.session_state["acceptance"]
    own = [given] if given and given not in curves else []
    return st.selectbox(
        "Accepted: a measured curve, or type chances 0.7,0.5,0.4",
        [*own, *curves],
        accept_new_options=True,
        format_func=_curve_label,
        **asked,
    )


def _curve_label(curve_id: str) -> str:
    """A measured curve by what was measured; anything else as it was typed."""
    curve = next((curve for curve in acceptance_curves() if curve.id == curve_id), None)
    if curve is None:
        return curve_id
    return f"{curve.checkpoint or model_label(curve.model_id)}, {drafter_name(curve.drafter_id)}, {curve.dataset}"


def _understand() -> None:
    st.session_state["acceptance"] = accepted.understood(str(st.session_state["acceptance"] or ""))


def _nearest() -> None:
    """Callback: the measured curve nearest to model and drafter, which counts as borrowed where it is another's."""
    now = st.session_state
    now["acceptance"] = state.best_acceptance(now.model_id, now.drafter_id, fields.START_ACCEPTANCE)
