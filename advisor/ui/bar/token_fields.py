"""The bar's context, typed as people say it: 128k or 1M, of which a number field would make 128 and 1."""

from __future__ import annotations

from typing import Any

import streamlit as st

from advisor.scenario import FIELDS
from advisor.text import TOKENS_FORMS, token_count
from advisor.ui.shared.session import Slot

FIELD, TYPED = "context_tokens", "context_typed"
_ROW = FIELDS[FIELD]
_REFUSED: Slot[tuple[Any, str]] = Slot("_context_refused", lambda: (None, ""))
"""What was typed in vain: the context that stayed, and why."""


def draw(label: str, width: int) -> int:
    """The field, which shows the context in tokens, and the context."""
    now = st.session_state
    now[TYPED] = str(now[FIELD])
    st.text_input(
        label,
        key=TYPED,
        on_change=_take,
        width=width,
        persist_state="session",
        help=f"{_ROW.widget.help if _ROW.widget else ''} Type {TOKENS_FORMS}. From {_ROW.limits}.",
    )
    return int(now[FIELD])


def remark() -> str:
    """Reason that the context last typed was not taken.

    Empty once another is set.
    """
    stayed, said = _REFUSED.get()
    return f"Context: {said}; {stayed:,} stays." if said and stayed == st.session_state[FIELD] else ""


def _take() -> None:
    now = st.session_state
    _REFUSED.drop()
    try:
        count = token_count(str(now[TYPED] or ""))
        low, high = _ROW.range or (1, count)
        if not low <= count <= high:
            raise ValueError(f"{count:,} tokens lie outside {_ROW.limits}")
    except ValueError as error:
        _REFUSED.put((now[FIELD], str(error)))
        return
    now[FIELD] = count
