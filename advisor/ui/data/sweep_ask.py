"""The grid that is asked for on the page: settings to vary, their values, and the plan they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from advisor.acceptance import acceptance_curves
from advisor.prediction import AdvisorError
from advisor.scenario import DOCUMENTS, FIELDS, RANK_FIELDS, FieldRow, Scenario
from advisor.sweep import SETTINGS, SweepPlan, label, read_plan
from advisor.text import TOKENS_FORMS, token_count
from advisor.ui.shared import fields
from advisor.ui.shared.session import Slot

FIRST = ("model_id", "hardware_id", "batch_size", "context_tokens")
"""Settings whose values are asked for at once; the others are chosen."""
COPIES = RANK_FIELDS[1]
"""A setting that the bar has no widget for, and a sweep may vary all the same."""
_BATCHES = (1, 4, 16, 64, 256)
_MAX_VALUES = 64
_NONE = "none"
_SEEDS: Slot[dict[str, Any]] = Slot("_sweep_seeds", dict)
"""What each control was filled with: as long as nobody changes it, it follows the bar."""


def draw(scenario: Scenario) -> SweepPlan:
    """The controls. Raises AdvisorError where what they say is no plan."""
    rows = {name: FIELDS[name] for name in SETTINGS if name == COPIES or FIELDS[name].widget is not None}
    vary = st.multiselect(
        "Settings with several values",
        list(rows),
        default=list(FIRST),
        key="sweep_vary",
        format_func=label,
        persist_state="session",
        help="Everything else is as in the bar.",
    )
    axes: dict[str, tuple[Any, ...]] = {}
    with st.grid(2, min_column_width=300):
        for name in vary:
            axes[name] = _values(rows[name], scenario)
    batches = axes.pop("batch_size", (scenario.batch_size,))
    return read_plan(SweepPlan(({},), _common(scenario, axes) | axes, batches).text)


def _common(scenario: Scenario, axes: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Settings of the bar that the plan states. Raises AdvisorError for one of the user's own, which no plan can."""
    # A placement and a length that are varied settle what follows from them. Copies of experts were chosen for loads
    # that no plan carries: without them they would be laid out for others.
    follows = {"n_gpus": ("tensor_parallel", "expert_parallel"), "context_tokens": ("input_tokens", "output_tokens")}
    found = {}
    for name in SETTINGS:
        row, value = FIELDS[name], getattr(scenario, name)
        if name in axes or name in ("batch_size", *RANK_FIELDS) or any(one in axes for one in follows.get(name, ())):
            continue
        if any(owner == name and getattr(scenario, document) for document, owner in DOCUMENTS.items()):
            raise AdvisorError(
                f"{row.label}: {value} is your own, and a sweep takes shipped ones; choose some under "
                f"Settings with several values, {label(name)}"
            )
        if row.is_required or row.needed or value != row.default:
            found[name] = (value,)
    return found


def _values(row: FieldRow, scenario: Scenario) -> tuple[Any, ...]:
    """The control of one setting. Raises AdvisorError for values that it cannot have."""
    key, options = f"sweep_of_{row.name}", _options(row, scenario)
    now = getattr(scenario, row.name)
    if row.range is None:
        _follow(key, [now] if now in options else [])
        chosen = st.multiselect(
            label(row.name),
            options,
            key=key,
            format_func=lambda one: row.unset if one is None else str(one),
            accept_new_options=row.free_text or row.is_required,
            persist_state="session",
        )
        if not chosen:
            raise AdvisorError(f"{label(row.name)}: no value is chosen; choose at least one")
        return tuple(chosen)
    texts = sorted({*_BATCHES, now}) if row.name == "batch_size" else [now]
    _follow(key, ", ".join(_NONE if one is None else f"{one:g}" if row.kind is float else str(one) for one in texts))
    typed = st.text_input(
        label(row.name),
        key=key,
        persist_state="session",
        help=f"Numbers with commas between them, each from {row.limits}"
        f"{f', or {_NONE} for {row.unset}' if row.is_optional else ''}."
        f"{f' Type them as {TOKENS_FORMS}.' if _is_tokens(row) else ''}",
    )
    return _numbers(row, str(typed))


def _options(row: FieldRow, scenario: Scenario) -> list[Any]:
    """What a setting of choice may be in a sweep: nothing of the user's own."""
    own = {name for document, owner in DOCUMENTS.items() if owner == row.name for name in fields.own(document)}
    listed: Sequence[Any] = fields.choices(row.name) or [curve.id for curve in acceptance_curves()]
    now = getattr(scenario, row.name)
    typed = [now] if (row.free_text or row.is_required) and now not in listed else []
    return [*([None] if row.is_optional else []), *typed, *(one for one in listed if one not in own)]


def _follow(key: str, seed: Any) -> None:
    """Fill a control that nobody has changed with what the bar says now."""
    seeds = _SEEDS.get()
    if key not in st.session_state or st.session_state[key] == seeds.get(key):
        st.session_state[key] = seed
    _SEEDS.put(seeds | {key: seed})


def _numbers(row: FieldRow, typed: str) -> tuple[Any, ...]:
    """Numbers of a text such as `1, 4, 16`, each once. Raises AdvisorError for a piece that is none."""
    found = []
    for piece in (one.strip() for one in typed.split(",")):
        try:
            found.append(_number(row, piece))
        except (ValueError, OverflowError):
            found.append("")
        if found[-1] == "":
            kind = "whole number" if row.kind is int else "number"
            example = "4096, 32k, 128K" if _is_tokens(row) else "1, 16, 64"
            raise AdvisorError(
                f"{label(row.name)}: '{piece[:20]}' is no {kind} from {row.limits}; give e.g. {example} (without "
                "separators within a number)"
            )
    if len(found) > _MAX_VALUES:
        raise AdvisorError(f"{label(row.name)}: {len(found):,} values; at most {_MAX_VALUES} are taken here")
    return tuple(dict.fromkeys(found))


def _number(row: FieldRow, piece: str) -> Any:
    """The number that a piece of text stands for, "" for an empty piece. Raises ValueError or OverflowError."""
    if not piece or (row.is_optional and piece == _NONE):
        return None if piece else ""
    return fields.read(row.name, str(token_count(piece)) if _is_tokens(row) else piece)


def _is_tokens(row: FieldRow) -> bool:
    """Whether a setting's numbers may be typed as 128k, as everywhere else."""
    return row.name.endswith("_tokens")
