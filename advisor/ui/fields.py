"""What each field of a scenario may be on screen: its default, choices or range, and how it is read from a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import streamlit as st

from advisor.architecture import WeightDtype
from advisor.calibration import parse_adjustment
from advisor.catalog import engine_choices, model_ids
from advisor.drafter import drafter_ids
from advisor.hardware import hardware_ids
from advisor.routing import routing_preset_ids
from advisor.scenario import MAX_BATCH, MAX_CONTEXT, PACKED, KvDtype, Scenario

START_ACCEPTANCE = "gpt-oss-20b-eagle3-mt-bench"
"""Acceptance has no default: the first screen takes this measured curve, and says so."""

NAMES = tuple(name for name in Scenario.model_fields if name not in PACKED)
"""Fields that lie in the session by their own name; documents lie there by the name of what they hold."""
WITHOUT_WIDGET = frozenset({"refit"})
"""Of these, the ones that pages set; the others are the keys of the sidebar's widgets."""
RANGES: dict[str, tuple[float, float]] = {
    "n_gpus": (1, 1024),
    "tensor_parallel": (1, 1024),
    "expert_parallel": (1, 1024),
    "batch_size": (1, MAX_BATCH),
    "context_tokens": (1, MAX_CONTEXT),
    "k_max": (1, 32),
    "input_tokens": (1, MAX_CONTEXT),
    "output_tokens": (1, MAX_CONTEXT),
    "max_tpot_ms": (0.01, 1e6),
}
_OWN = {"model_config_json": "_own_models", "hardware_json": "_own_hardware"}
OWNER = {"model_config_json": "model_id", "hardware_json": "hardware_id"}
"""The field that names what a document holds."""


def own(document: str) -> dict[str, str]:
    """What the user gave in this session, by name: texts of `model_config_json` or of `hardware_json`."""
    given: dict[str, str] = st.session_state.setdefault(_OWN[document], {})
    return given


def default(field: str) -> Any:
    """What a field is when neither link nor user says anything."""
    return START_ACCEPTANCE if field == "acceptance" else Scenario.model_fields[field].default


def choices(field: str) -> list[str]:
    """The values a field of choice may take here and now; the user's own come first."""
    listed = {
        "model_id": lambda: _with_own("model_config_json", model_ids()),
        "hardware_id": lambda: _with_own("hardware_json", hardware_ids()),
        "drafter_id": drafter_ids,
        "engine": engine_choices,
        "kv_dtype": lambda: list(get_args(KvDtype)),
        "weight_dtype": lambda: list(get_args(WeightDtype)),
        "expert_dtype": lambda: list(get_args(WeightDtype)),
        "routing": lambda: ["auto", "uniform", *routing_preset_ids()],
    }
    return listed[field]()


def read(field: str, text: str) -> Any:
    """The value of a field that `text` stands for. Raises ValueError when the screen cannot show it."""
    if text == "" and default(field) is None:
        return None
    if field in RANGES:
        low, high = RANGES[field]
        value = float(text) if field == "max_tpot_ms" else int(text)
        if not low <= value <= high:
            raise ValueError(f"{field} is outside {low:g} to {high:g}")
        return value
    if field == "refit":
        parse_adjustment(text)
        return text
    if field == "acceptance" or (field == "routing" and "," in text):  # checked where they are used, with a message
        if not text.strip():
            raise ValueError(f"{field} is empty")
        return text
    if text not in choices(field):
        raise ValueError(f"{text} is no choice for {field}")
    return text


def same(text: str, value: Any) -> bool:
    """Whether a text of an address stands for a value."""
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return text == ("" if value is None else str(value))


def _with_own(document: str, shipped: Sequence[str]) -> list[str]:
    return [*(name for name in own(document) if name not in shipped), *shipped]
