"""How much is accepted, as two numbers in the bar: 2.4 tokens per round at K = 3; a measured curve fills them in.

The bar's numbers of tokens, typed as people say them: 128k or 1M, of which a number field would make 128 and 1.

Scenarios pinned in this session, to compare with the one on screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from advisor.answers.explore.compare import MAX_COMPARED
from advisor.catalog.hardware import drafter_name, model_name
from advisor.physics.acceptance import Acceptance, acceptance_curves, parse_acceptance
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS, MAX_DRAFT, FieldRow
from advisor.prediction import AdvisorError
from advisor.text import TOKENS_FORMS, token_count
from advisor.ui.session import Slot
from advisor.ui.state import escaped, known_as, scenario_or_problem

LENGTH, AT = "accepted", "accepted_k"
DEFAULT_K = 3


def draw_accepted(model_id: str, drafter_id: str) -> None:
    """The two number fields, marked where the length is borrowed.

    Typing into the first makes it the user's own.
    """
    given = str(st.session_state["acceptance"])
    typed = _typed(given)
    if typed is not None:
        st.session_state[LENGTH], st.session_state[AT] = typed
    else:
        st.session_state.setdefault(AT, DEFAULT_K)
        st.session_state[LENGTH] = _at(given, int(st.session_state[AT]))
    label = ":orange[Accepted?]" if _borrowed(given, model_id, drafter_id) else "Accepted"
    st.number_input(
        label,
        1.0,
        MAX_DRAFT + 1.0,
        value=None,
        step=0.05,
        format="%.2f",
        key=LENGTH,
        on_change=_take,
        width=92,
        placeholder="list",
        persist_state="session",
        help="Tokens emitted per drafting step, counting the model's own. Type your value, or choose a measured curve "
        f"under More. Now: {escaped(origin(given))}.",
    )
    st.number_input(
        "at K",
        1,
        MAX_DRAFT,
        step=1,
        key=AT,
        on_change=_take_k,
        width=58,
        persist_state="session",
    )


def remark(model_id: str, drafter_id: str) -> str:
    """Remark on an accepted length that is borrowed, or at a K beyond what was measured, else empty."""
    if whose := _borrowed(str(st.session_state["acceptance"]), model_id, drafter_id):
        return f"Accepted is borrowed from {whose}: fill in your own."
    given, k = str(st.session_state["acceptance"]), int(st.session_state[AT])
    if _typed(given) is not None:
        curves = acceptance_curves(drafter_id=drafter_id) or acceptance_curves()
        longest = max(curve.n_draft[-1] for curve in curves)
        said = f"K = {k} is longer than any shipped measurement with this drafter (K = {longest})"
        return f"{said}: shorter K are carried from your number, with a wide band." if k > longest else ""
    try:
        read = parse_acceptance(given, MAX_DRAFT)
    except AdvisorError:
        return ""  # the answer says what is wrong with it
    last = int((~read.extrapolated).nonzero()[0][-1])
    if k <= last:
        return ""
    return f"Accepted was measured to K = {last}; at K = {k} it is carried on from there, not measured."


def _borrowed(given: str, model_id: str, drafter_id: str) -> str:
    """Model and drafter of a measured curve of another model or drafter; empty for the scenario's own."""
    curve = next((curve for curve in acceptance_curves() if curve.id == given), None)
    if curve is None or drafter_id == "none" or (curve.model_id, curve.drafter_id) == (known_as(model_id), drafter_id):
        return ""
    return f"{curve.checkpoint or model_name(curve.model_id)} with {drafter_name(curve.drafter_id)}"


def origin(given: str) -> str:
    """Source of an accepted length, in a few words."""
    curve = next((curve for curve in acceptance_curves() if curve.id == given), None)
    if curve is None:
        return "your own number"
    return f"measured with {curve.checkpoint or curve.model_id} and {curve.drafter_id} on {curve.dataset}"


def understood(given: str) -> str:
    """An accepted length as the scenario takes it: a bare `2.4` is one at the K of the bar."""
    text = given.strip()
    try:
        bare = float(text)
    except ValueError:
        return text
    return f"{bare:g}@{st.session_state.get(AT, DEFAULT_K)}" if bare > 1.0 else text


def _typed(given: str) -> tuple[float, int] | None:
    """The two numbers of `X@K`; None for anything else."""
    left, at, right = given.partition("@")
    try:
        length, k = float(left), int(right)
    except ValueError:
        return None
    return (length, k) if at and 1.0 <= length <= MAX_DRAFT + 1.0 and 1 <= k <= MAX_DRAFT else None


def _at(given: str, n_draft: int) -> float | None:
    """The accepted length that a curve or list has at one K; None where it cannot be read."""
    try:
        read: Acceptance = parse_acceptance(given, max(n_draft, 1))
    except AdvisorError:
        return None
    return round(float(read.accepted_length[n_draft]), 2)


def _take() -> None:
    now = st.session_state
    if now[LENGTH] is not None:
        now["acceptance"] = f"{now[LENGTH]:g}@{now[AT]}"


def _take_k() -> None:
    now = st.session_state
    typed = _typed(str(now["acceptance"]))
    if typed is not None:
        now["acceptance"] = f"{typed[0]:g}@{now[AT]}"


TYPED: Mapping[str, str] = {name: f"{name}_typed" for name in ("context_tokens", "input_tokens", "output_tokens")}
"""The key of each field's text; the number itself lies in the session under the field's name."""
_REFUSED: Slot[tuple[str, Any, str]] = Slot("_tokens_refused", lambda: ("", None, ""))
"""What was typed in vain: the field, its number that stayed, and why."""


def draw_token_fields(row: FieldRow, label: str, width: int | str) -> int | None:
    """Draw the field with its number and return that number. [tokens]

    None where none is set.
    """
    now, field = st.session_state, row.name
    now[TYPED[field]] = "" if now[field] is None else str(now[field])
    asked: dict[str, Any] = {"width": width} | ({"placeholder": row.unset} if row.is_optional else {})
    st.text_input(
        label,
        key=TYPED[field],
        on_change=_take_tokens,
        args=(field,),
        persist_state="session",
        help=f"{row.widget.help if row.widget else ''} Type {TOKENS_FORMS}. From {row.limits}.".strip(),
        **asked,
    )
    return None if now[field] is None else int(now[field])


def token_remark() -> str:
    """Reason that the number last typed was not taken.

    Empty once another is set.
    """
    field, stayed, said = _REFUSED.get()
    if not said or stayed != st.session_state[field]:
        return ""
    return f"{FIELDS[field].screen_label}: {said}; {'none' if stayed is None else f'{stayed:,}'} stays."


def _take_tokens(field: str) -> None:
    """Callback: the number that was typed, or the reason why there is none."""
    now, row = st.session_state, FIELDS[field]
    _REFUSED.drop()
    typed = str(now[TYPED[field]] or "").strip()
    if row.is_optional and not typed:
        now[field] = None
        return
    try:
        count = token_count(typed)
        low, high = row.range or (1, count)
        if not low <= count <= high:
            raise ValueError(f"{count:,} tokens lie outside {row.limits}")
    except ValueError as error:
        _REFUSED.put((field, now[field], str(error)))
        return
    now[field] = count


MAX_PINS = MAX_COMPARED - 1
"""One place is left for the scenario on screen."""
_PINS: Slot[list[Scenario]] = Slot("_pins", list)


def pinned() -> list[Scenario]:
    """The pinned scenarios, oldest first."""
    return _PINS.get()


def draw_button() -> None:
    """Pins the scenario on screen, or takes its pin away."""
    scenario, _ = scenario_or_problem()
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
