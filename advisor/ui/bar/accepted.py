"""How much is accepted, as two numbers in the bar: 2.4 tokens per round at K = 3; a measured curve fills them in."""

from __future__ import annotations

import streamlit as st

from advisor.acceptance import Acceptance, acceptance_curves, parse_acceptance
from advisor.catalog import drafter_name, model_name
from advisor.prediction import AdvisorError
from advisor.scenario import MAX_DRAFT
from advisor.ui.shared import state

LENGTH, AT = "accepted", "accepted_k"
DEFAULT_K = 3


def draw(model_id: str, drafter_id: str) -> None:
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
        f"under More. Now: {state.escaped(origin(given))}.",
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
    if curve is None or drafter_id == "none" or (curve.model_id, curve.drafter_id) == (model_id, drafter_id):
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
