"""A sheet (show/sheet.py) on a page."""

from __future__ import annotations

from advisor.show.sheet import Sheet
from advisor.text import json_values
from advisor.ui.widgets import component

_SHEET = component("sheet", "svg", "command", "sheet", style="sheet.css")


def draw_sheet(sheet: Sheet, key: str) -> None:
    """Put answers on the page."""
    _SHEET(key=key, data=json_values(sheet))
