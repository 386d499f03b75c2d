"""What each field of a scenario may be on screen: its default, its choices here and now, how it is read from a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from advisor.calibration import parse_adjustment
from advisor.catalog import hardware_by_vendor, models_by_maker
from advisor.drafter import drafter_ids
from advisor.expert_traffic import parse_loads
from advisor.routing import routing_preset_ids
from advisor.scenario import DOCUMENTS, FIELDS, SETTINGS, Catalogue

START_ACCEPTANCE = "gpt-oss-20b-eagle3-mt-bench"
"""Acceptance has no default: a link without one takes this measured curve, and the page says so."""
START: Mapping[str, str] = {"hardware_id": "b200-sxm", "model_id": "gpt-oss-20b", "acceptance": START_ACCEPTANCE}
"""What the first screen asks: a model, accelerator and drafter with published speedups to hold the answer against."""

NAMES = tuple(row.name for row in FIELDS.values() if row.name not in DOCUMENTS)
"""Fields that lie in the session by their own name; documents lie there by the name of what they hold."""
WITHOUT_WIDGET = frozenset(row.name for row in SETTINGS if row.widget is None)
"""Of these, the ones that pages set; the others are the keys of the bar's widgets."""
_LISTED: dict[Catalogue, Callable[[], Sequence[str]]] = {
    "models": models_by_maker,
    "accelerators": hardware_by_vendor,
    "drafters": drafter_ids,
    "routing presets": lambda: ["auto", "uniform", *routing_preset_ids()],
}
_CHECKED: dict[str, Callable[[str], object]] = {"refit": parse_adjustment, "expert_loads": parse_loads}
"""Texts that no reader types, with what reads them."""
_OWN = {"model_config_json": "_own_models", "hardware_json": "_own_hardware"}


def own(document: str) -> dict[str, str]:
    """Texts given by the user in this session, by name: of `model_config_json` or of `hardware_json`."""
    given: dict[str, str] = st.session_state.setdefault(_OWN[document], {})
    return given


def default(field: str) -> Any:
    """Value of a field when neither link nor user says anything."""
    return START_ACCEPTANCE if field == "acceptance" else FIELDS[field].default


def choices(field: str) -> list[str]:
    """Values that a field of choice may take here and now, the user's own first."""
    row = FIELDS[field]
    listed = row.choices if row.catalogue is None else _LISTED[row.catalogue]()
    named = [name for document, owner in DOCUMENTS.items() if owner == field for name in own(document)]
    return [*(name for name in named if name not in listed), *listed]


def read(field: str, text: str) -> Any:
    """The value of a field that `text` stands for. Raises ValueError when the screen cannot show it."""
    row = FIELDS[field]
    if text == "" and default(field) is None:
        return None
    if row.range is not None:
        low, high = row.range
        value = row.kind(text)
        if not low <= value <= high:
            raise ValueError(f"{field} is outside {row.limits}")
        return value
    if field in _CHECKED:
        _CHECKED[field](text)
        return text
    is_listed = row.catalogue is not None or row.choices
    if not is_listed or (row.free_text and "," in text):  # checked where it is used, with a message
        if not text.strip():
            raise ValueError(f"{field} is empty")
        return text
    if text not in choices(field):
        raise ValueError(f"{text} is not a valid choice for {field}")
    return text


def same(text: str, value: Any) -> bool:
    """Whether a text of an address stands for a value."""
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return text == ("" if value is None else str(value))
