"""What a sweep of the session answers: three questions, a map, files, and a row opened in the bar."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from advisor.charts import sweep_chart
from advisor.scenario import FIELDS, Scenario
from advisor.sweep import (
    SETTINGS,
    SURE,
    axes,
    best_rows,
    choices,
    fastest_text,
    fastest_within,
    label,
    map_text,
    one_k_for_all,
    one_k_text,
    parquet_bytes,
    pays_text,
    reasons_texts,
    setting_text,
    settings_texts,
    swept_text,
    where_drafting_pays,
)
from advisor.text import frame_csv
from advisor.ui.shared import state, sweeps, widgets
from advisor.ui.shared.settings import LARGEST_LIMIT, SMALLEST_LIMIT
from advisor.ui.shared.sweeps import KeptSweep, Shown

_NUMBER, _TEXT = st.column_config.NumberColumn, st.column_config.TextColumn
_COLUMNS: Mapping[str, tuple[str, Any]] = {
    "pays_up_to": ("Pays up to batch", _NUMBER(format="localized", help="Empty: at no batch of the sweep.")),
    "n_draft": ("K", _NUMBER(width=40, help="Tokens drafted a step; 0 is plain decoding.")),
    "speedup": ("Speedup", _NUMBER(format="%.2f×", help="Over plain decoding on the same placement.")),
    "p_gain": (
        "Gains in",
        _NUMBER(format="%.0f%%", help="Share of the simulated cases that are faster than plain decoding."),
    ),
    "expected_loss": (
        "Expected loss",
        _NUMBER(format="%.1f%%", help="Against the best K of each simulated case, on average."),
    ),
    "tpot_ms": ("ms/token", _NUMBER(format="%.2f", help="Time per output token of one user.")),
    "tokens_per_s_per_gpu": ("Tokens/s/GPU", _NUMBER(format="localized", help="Of all users together.")),
    "tier": ("Tier", _TEXT(help="What the kernels rest on, best first: measured, interpolated, fitted, roofline.")),
    "fits": ("Fits", st.column_config.CheckboxColumn(help="Whether the batch fits in memory.")),
    "loss": (
        "Mean loss",
        _NUMBER(format="%.1f%%", help="Over the points that fit, against the best K of each simulated case."),
    ),
    "worst": ("Worst loss", _NUMBER(format="%.1f%%", help="At the point where it loses most.")),
    "points": ("Points", _NUMBER(format="localized", help="Scenarios that fit and have this K.")),
    "least_tpot_ms": ("Best ms/token", _NUMBER(format="%.2f", help="The least of the model in this sweep.")),
}
"""Head and look of a column."""
_BANDS = {
    "speedup": ("speedup_low", "speedup_high", ".2f"),
    "tpot_ms": ("tpot_low_ms", "tpot_high_ms", ".2f"),
    "tokens_per_s_per_gpu": ("tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high", ",.0f"),
}
_SHARES = ("p_gain", "expected_loss", "loss", "worst")
_MAX_SHOWN = 2000
"""Rows of a table on screen; the files have all. [-]"""
_ROW_PX, _HIGHEST_PX = 35, 400


def draw(kept: KeptSweep, scenario: Scenario) -> None:
    """Everything under the controls."""
    frame = kept.sweep.frame
    st.caption(widgets.plain(f"{kept.origin}: {swept_text(kept.sweep)} {' '.join(kept.sweep.notes)}"))
    _files(kept)
    if (frame["n_draft"] < 0).all():
        st.warning(widgets.plain(f"Nothing in this sweep can be predicted. {' '.join(reasons_texts(frame))}"))
        return
    _pays(kept)
    limit = _fastest(kept, scenario)
    st.subheader("One K for everything", anchor=False)
    st.markdown(widgets.plain(one_k_text(frame)))
    st.caption("Over all points that fit. Tier: the lowest among them.")
    _table(one_k_for_all(frame), kept, "one_k", can_open=False)
    _map(kept, limit, scenario)
    _about(frame)


@st.cache_resource(max_entries=2, scope="session", show_spinner=False)
def _pays_in(digest: str, _frame: pd.DataFrame) -> pd.DataFrame:  # noqa: ARG001 - the cache's key
    """The first question, asked once of each sweep: half a second where it is large."""
    return where_drafting_pays(_frame)


@st.cache_resource(max_entries=8, scope="session", show_spinner=False)
def _fastest_in(digest: str, limit: float | None, _frame: pd.DataFrame) -> pd.DataFrame:  # noqa: ARG001 - the key
    """The second question, asked once with each limit."""
    return fastest_within(_frame, limit)


def _files(kept: KeptSweep) -> None:
    frame, name = kept.sweep.frame, f"sweep-{kept.digest}"
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "Parquet",
            functools.partial(parquet_bytes, frame, kept.sweep.maker),
            file_name=f"{name}.parquet",
            mime="application/vnd.apache.parquet",
            key="sweep_parquet",
            icon=":material/download:",
            on_click="ignore",
            help="All rows, which can be opened here again and read by DuckDB, Polars or pandas.",
        )
        st.download_button(
            "CSV",
            functools.partial(frame_csv, frame),
            file_name=f"{name}.csv",
            mime="text/csv",
            key="sweep_csv",
            icon=":material/download:",
            on_click="ignore",
        )
        st.button("Forget this sweep", key="sweep_forget", on_click=sweeps.KEPT.drop, type="tertiary")


def _pays(kept: KeptSweep) -> None:
    st.subheader("Where drafting pays", anchor=False)
    pays = _pays_in(kept.digest, kept.sweep.frame)
    st.markdown(f"{widgets.plain(pays_text(pays))}")
    st.caption(
        f"The largest batch at which the recommended K gains in {SURE:.0%} of the simulated cases or more, and fits."
    )
    _table(pays, kept, "pays")


def _fastest(kept: KeptSweep, scenario: Scenario) -> float | None:
    """The second question; returns the limit that it was asked with. [ms]"""
    st.subheader("Fastest accelerator and K of each model", anchor=False)
    limit = st.number_input(
        "Time per token at most (ms)",
        min_value=SMALLEST_LIMIT,
        max_value=LARGEST_LIMIT,
        value=scenario.max_tpot_ms,
        key=f"sweep_limit_{kept.digest}",
        placeholder="no limit",
        width=240,
        persist_state="session",
    )
    fastest = _fastest_in(kept.digest, limit, kept.sweep.frame)
    st.markdown(widgets.plain(fastest_text(fastest, limit)))
    _table(fastest, kept, "fastest")
    return None if limit is None else float(limit)


def _map(kept: KeptSweep, limit: float | None, scenario: Scenario) -> None:
    """The map over two settings, and its cells as a table."""
    st.subheader("Speedup over two settings", anchor=False)
    frame = kept.sweep.frame
    free, now = axes(frame), sweeps.shown(kept)
    if now.axes is None:
        sweeps.show(Shown(kept.digest, limit))
        st.caption("A map needs two settings with several values.")
        rows = frame[frame["recommended"]]
    else:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            x = _choose("Across", free, now.axes[0], f"sweep_x_{kept.digest}")
            y = _choose("Down", [one for one in free if one != x], now.axes[1], f"sweep_y_{kept.digest}")
            fixed = _fixed(kept, x, y, scenario)
        sweeps.show(Shown(kept.digest, limit, (x, y), fixed))
        found = sweeps.map_of(kept, sweeps.shown(kept))
        assert found is not None, "two settings vary"
        st.caption(widgets.plain(map_text(found)))
        widgets.show_chart(sweep_chart(found), "sweep_map", scenario)
        rows = best_rows(frame, found)
    names = ["n_draft", *_BANDS, "p_gain", "expected_loss", "tier", "fits"]
    bands = [end for low, high, _ in _BANDS.values() for end in (low, high)]
    _table(rows[[*dict.fromkeys((*free, "batch_size")), *names, *bands]].reset_index(names="row"), kept, "cells")


def _choose(name: str, free: Any, first: str, key: str) -> str:
    """One axis of the map."""
    if key not in st.session_state or st.session_state[key] not in free:
        st.session_state[key] = first if first in free else free[0]
    return str(st.selectbox(name, free, key=key, format_func=label, width=190, persist_state="session"))


def _fixed(kept: KeptSweep, x: str, y: str, scenario: Scenario) -> dict[str, Any]:
    """A select box for each further axis; the bar's value first, where the grid has it."""
    wishes = {name: getattr(scenario, name) for name in SETTINGS}
    for name in SETTINGS:
        if (key := f"sweep_at_{name}_{kept.digest}") in st.session_state:
            wishes[name] = st.session_state[key]
    settled = choices(kept.sweep.frame, x, y, wishes)
    for name, (values, chosen) in settled.items():
        key = f"sweep_at_{name}_{kept.digest}"
        st.session_state[key] = chosen
        shown = functools.partial(setting_text, name)
        st.selectbox(label(name), values, key=key, format_func=shown, width=190, persist_state="session")
    return {name: chosen for name, (_, chosen) in settled.items()}


def _table(table: pd.DataFrame, kept: KeptSweep, name: str, *, can_open: bool = True) -> None:
    """A table of the sweep; the picked row can be opened in the bar."""
    frame, looks = _for_screen(table.head(_MAX_SHOWN))
    key = f"sweep_{name}_{kept.digest}"
    select: Any = "rerun" if can_open else "ignore"
    event: Any = st.dataframe(
        frame,
        hide_index=True,
        placeholder="",
        column_config=looks,
        key=key,
        row_height=_ROW_PX,
        height=min(_ROW_PX * len(frame) + 38, _HIGHEST_PX),
        on_select=select,
        selection_mode="single-row",
    )
    if len(table) > _MAX_SHOWN:
        st.caption(f"The first {_MAX_SHOWN:,} of {len(table):,} rows; the files have all.")
    if not can_open:
        return
    picked = [at for at in event["selection"]["rows"] if at < len(frame)]
    place = table["row"].iloc[picked[0]] if picked else None
    if place is None or pd.isna(place):
        st.caption("Pick a row to open it as the scenario in the bar.")
        return
    one = kept.sweep.frame.loc[int(place)]
    what = widgets.plain(f"{one['model_id']} on {one['hardware_id']}")
    st.button(
        f"Open {what} at batch {one['batch_size']:,} in the bar",
        key=f"{key}_open",
        icon=":material/input:",
        on_click=_open,
        args=({field: one[field] for field in SETTINGS},),
    )


def _for_screen(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Columns under their heads, shares in percent, each figure beside its band; and how they look."""
    found: dict[str, Any] = {}
    looks: dict[str, Any] = {}
    ends = {end for low, high, _ in _BANDS.values() for end in (low, high)}
    for name in table.columns:
        if name == "row" or name in ends:
            continue
        if name in FIELDS:
            number = FIELDS[name].range is not None
            texts = [setting_text(name, one) for one in table[name]]
            if "row" in table:  # a pair or model without a row of its own has no settings
                empty = table["row"].isna() & table[name].isna()
                texts = ["" if none else text for none, text in zip(empty, texts, strict=True)]
            found[label(name)] = table[name] if number else texts
            continue
        head, look = _COLUMNS[name]
        found[head] = table[name] * 100 if name in _SHARES else table[name]
        if name == "tokens_per_s_per_gpu":
            found[head] = table[name].astype(float).round()
        looks[head] = look
        if name in _BANDS and _BANDS[name][0] in table:
            low, high, form = _BANDS[name]
            pairs = zip(table[low], table[high], strict=True)
            found[f"{head}, likely"] = ["" if pd.isna(a) or pd.isna(b) else f"{a:{form}}–{b:{form}}" for a, b in pairs]
            looks[f"{head}, likely"] = _TEXT(help="Eight outcomes of ten lie in there.")
    return pd.DataFrame(found), looks


def _open(settings: Mapping[str, Any]) -> None:
    """Callback: the bar asks for the scenario of a row."""
    texts = {name: "" if pd.isna(value) else f"{value}" for name, value in settings.items()}
    state.note(state.take({name: text for name, text in texts.items() if text}, {}, "sweep"))
    st.toast("The row is in the bar; Serve answers for it. Back in the browser undoes it.")


def _about(frame: pd.DataFrame) -> None:
    """What was varied, and why some combinations cannot be."""
    with st.expander("What was swept"):
        st.markdown("\n".join(f"- {widgets.plain(text)}" for text in settings_texts(frame)))
        if reasons := reasons_texts(frame):
            st.markdown("Scenarios that cannot be:")
            st.markdown("\n".join(f"- {widgets.plain(text)}" for text in reasons))
