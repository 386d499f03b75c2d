"""A sheet (show/sheet.py) on a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from advisor.show.sheet import Sheet
from advisor.text import json_values
from advisor.ui.widgets import component

_SHEET = component("sheet", "svg", "command", "sheet", style="sheet.css")


def draw_sheet(
    sheet: Sheet, key: str, on_action: Callable[[str, Any], None] = lambda _name, _value: None
) -> None:
    """Put answers on the page.

    on_action : gets name and value of the action that was pressed, in a callback.
    """

    def pressed() -> None:
        act = (st.session_state.get(key) or {}).get("act")
        if act is not None:
            on_action(*act)

    _SHEET(key=key, data=json_values(sheet), on_act_change=pressed)
