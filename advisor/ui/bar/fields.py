"""What is typed into the bar in other words than a number field takes: 128k or 1M tokens, an accepted length."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import streamlit as st

from advisor.predict.field_rows import FieldRow
from advisor.predict.scenario_fields import FIELDS
from advisor.text import TOKENS_FORMS, token_count
from advisor.ui.session import Kept, folded_key, take_typed

DEFAULT_K = 3
"""K that a bare accepted length is taken to be of. [-]"""


def understood(given: str) -> str:
    """An accepted length as the scenario takes it: a bare `2.4` is one at DEFAULT_K."""
    text = given.strip()
    try:
        bare = float(text)
    except ValueError:
        return text
    return f"{bare:g}@{DEFAULT_K}" if bare > 1.0 else text


TYPED: Mapping[str, str] = {name: f"{name}_typed" for name in ("context_tokens", "input_tokens", "output_tokens")}
"""The key of each field's text; the number itself lies in the session under the field's name."""
_REFUSED: Kept[tuple[str, Any, str]] = Kept("_tokens_refused", lambda: ("", None, ""))
"""What was typed in vain: the field, its number that stayed, and why."""


def draw_token_fields(row: FieldRow, label: str, width: int | str) -> int | None:
    """Draw the field with its number and return that number. [tokens]

    None where none is set.
    """
    now, field = st.session_state, row.name
    now[TYPED[field]] = _text(field)
    key = TYPED[field] if field == "context_tokens" else folded_key(TYPED[field])
    asked: dict[str, Any] = {"width": width} | ({"placeholder": row.unset} if row.is_optional else {})
    st.text_input(
        label,
        key=key,
        on_change=take_typed,
        args=(TYPED[field], key, functools.partial(_take_tokens, field)),
        persist_state="session",
        help=None if field == "context_tokens" else f"Type {TOKENS_FORMS}. From {row.limits}.",
        **asked,
    )
    return None if now[field] is None else int(now[field])


def token_remark() -> str:
    """Reason that the number last typed was not taken. Empty once another is set."""
    field, stayed, said = _REFUSED.result
    if not said or stayed != st.session_state[field]:
        return ""
    return f"{FIELDS[field].screen_label}: {said}; {'none' if stayed is None else f'{stayed:,}'} stays."


def _text(field: str) -> str:
    number = st.session_state[field]
    return "" if number is None else str(number)


def _take_tokens(field: str) -> None:
    """The number that was typed, or the reason why there is none; its text is the number's again."""
    _read_tokens(field)
    st.session_state[TYPED[field]] = _text(field)


def _read_tokens(field: str) -> None:
    now, row = st.session_state, FIELDS[field]
    _REFUSED.forget()
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
