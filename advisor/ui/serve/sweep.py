"""Sweep: a finished one opened, what it answers, its files, a row opened in the bar; and the
command that makes one."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.best_k import MAY_LOSE
from advisor.answers.explore.cells import SETTINGS
from advisor.answers.explore.grid import SweepPlan
from advisor.answers.explore.questions import (
    axes,
    choices,
    fastest_within,
    setting_text,
    sweep_map,
    where_drafting_pays,
)
from advisor.answers.explore.sweep_files import read_sweep
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, POOL_FIELDS, RANK_FIELDS
from advisor.show.charts.maps import sweep_chart
from advisor.show.table import Table
from advisor.show.words.sweep import (
    best_rows,
    cells_table,
    fastest_table,
    fastest_text,
    label,
    map_text,
    one_k_table,
    one_k_text,
    pays_table,
    pays_text,
    reasons_texts,
    settings_texts,
    sweep_notes,
    swept_text,
)
from advisor.text import counted, frame_csv
from advisor.ui.own_data import KEPT, MAX_ROWS, SHOWN, KeptSweep, Shown, shown
from advisor.ui.session import LARGEST_LIMIT, SMALLEST_LIMIT
from advisor.ui.state import note, plain, take
from advisor.ui.widgets import download, show_chart, show_table, upload_limit


def draw_sweep_answers(kept: KeptSweep, scenario: Scenario) -> None:
    """Everything under the uploader."""
    frame = kept.sweep.frame
    st.caption(
        plain(f"{kept.origin}: {swept_text(kept.sweep)} {' '.join(sweep_notes(kept.sweep))}")
    )
    with st.container(horizontal=True, gap="small"):
        download(
            "CSV", functools.partial(frame_csv, frame), f"sweep-{kept.digest}.csv", "sweep_csv"
        )
        st.button("Forget this sweep", key="sweep_forget", on_click=KEPT.forget, type="tertiary")
    if (frame["n_draft"] < 0).all():
        st.warning(
            plain(f"Nothing in this sweep can be predicted. {' '.join(reasons_texts(frame))}")
        )
        return
    st.subheader("Where drafting pays", anchor=False)
    pays = _pays_in(kept.digest, frame)
    st.markdown(plain(pays_text(pays)))
    st.caption(
        f"The largest batch at which the recommended K has a chance of a gain of {MAY_LOSE:.0%} or "
        "more, and fits."
    )
    _table(pays_table(pays), kept, "pays")
    limit = _fastest(kept, scenario)
    st.subheader("One K for everything", anchor=False)
    st.markdown(plain(one_k_text(frame)))
    st.caption("Over all points that fit. Tier: the lowest among them.")
    show_table(one_k_table(frame), f"sweep_one_k_{kept.digest}")
    _map(kept, limit, scenario)
    with st.expander("What was swept"):
        st.markdown("\n".join(f"- {plain(text)}" for text in settings_texts(frame)))
        if reasons := reasons_texts(frame):
            st.markdown("Scenarios that cannot be:")
            st.markdown("\n".join(f"- {plain(text)}" for text in reasons))


@st.cache_resource(max_entries=2, scope="session", show_spinner=False)
def _pays_in(digest: str, _frame: pd.DataFrame) -> pd.DataFrame:  # noqa: ARG001 - the cache's key
    """The first question, asked once of each sweep: half a second where it is large."""
    return where_drafting_pays(_frame)


@st.cache_resource(max_entries=8, scope="session", show_spinner=False)
def _fastest_in(digest: str, limit: float | None, _frame: pd.DataFrame) -> pd.DataFrame:  # noqa: ARG001 - the key
    """The second question, asked once with each limit."""
    return fastest_within(_frame, limit)


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
    st.markdown(plain(fastest_text(fastest, limit)))
    _table(fastest_table(fastest), kept, "fastest")
    return None if limit is None else float(limit)


def _map(kept: KeptSweep, limit: float | None, scenario: Scenario) -> None:
    """The map over two settings, and its cells as a table."""
    st.subheader("Speedup over two settings", anchor=False)
    frame = kept.sweep.frame
    free = axes(frame)
    now = shown(kept)
    if now.axes is None:
        SHOWN.put(Shown(kept.digest, limit))
        st.caption("A map needs two settings with several values.")
        rows = frame[frame["recommended"]]
    else:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            x = _choose("Across", free, now.axes[0], f"sweep_x_{kept.digest}")
            y = _choose(
                "Down", [axis for axis in free if axis != x], now.axes[1], f"sweep_y_{kept.digest}"
            )
            fixed = _fixed(kept, x, y, scenario)
        SHOWN.put(Shown(kept.digest, limit, (x, y), fixed))
        speedup_map = sweep_map(frame, x, y, fixed)
        st.caption(plain(map_text(speedup_map)))
        show_chart(sweep_chart(speedup_map), "sweep_map", scenario)
        rows = best_rows(frame, speedup_map)
    _table(cells_table(rows, free), kept, "cells")


def _choose(name: str, free: Any, first: str, key: str) -> str:
    """One axis of the map."""
    if key not in st.session_state or st.session_state[key] not in free:
        st.session_state[key] = first if first in free else free[0]
    return str(
        st.selectbox(name, free, key=key, format_func=label, width=190, persist_state="session")
    )


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
        format_value = functools.partial(setting_text, name)
        st.selectbox(
            label(name),
            values,
            key=key,
            format_func=format_value,
            width=190,
            persist_state="session",
        )
    return {name: chosen for name, (_, chosen) in settled.items()}


def _table(table: Table[Any], kept: KeptSweep, name: str) -> None:
    """A table of the sweep; the picked row can be opened in the bar."""
    key = f"sweep_{name}_{kept.digest}"
    picked = show_table(table, key, pick=True)
    place = None if picked is None else table.rows[picked]["row"]
    if place is None or pd.isna(place):
        st.caption("Pick a row to open it as the scenario in the bar.")
        return
    row = kept.sweep.frame.loc[int(place)]
    what = plain(f"{row['model_id']} on {row['hardware_id']}")
    st.button(
        f"Open {what} at batch {row['batch_size']:,} in the bar",
        key=f"{key}_open",
        icon=":material/input:",
        on_click=_open,
        args=({field: row[field] for field in SETTINGS},),
    )


def _open(settings: Mapping[str, Any]) -> None:
    """Callback: the bar asks for the scenario of a row."""
    texts = {name: "" if pd.isna(value) else f"{value}" for name, value in settings.items()}
    note(*take({name: text for name, text in texts.items() if text}, {}, "sweep"))
    st.toast("The row is in the bar; Serve answers for it. Back in the browser undoes it.")


_BATCHES = (1, 4, 16, 64, 256)
_FILES = "sweep_files"
_UPLOAD_MIB = 64


def draw_sweep_panel(advice: Advice) -> None:
    """The whole tab."""
    scenario = advice.scenario
    st.file_uploader(
        "Parquet files of the command sweep",
        type=["parquet"],
        accept_multiple_files=True,
        key=_FILES,
        on_change=_take,
        max_upload_size=upload_limit(_UPLOAD_MIB * 2**20),
        help=(
            f"All part-*.parquet of one folder, or some; up to {MAX_ROWS:,} rows. Kept in this "
            "session."
        ),
    )
    session_sweep = KEPT.result
    if problem := KEPT.problem:
        before = " The sweep below is the one from before." if session_sweep is not None else ""
        st.error(plain(f"{problem}.{before}"), icon=":material/error:")
    with st.expander("Compute a sweep", expanded=session_sweep is None):
        st.caption("Give any setting several values, run the command, and open the result here.")
        text = plan_of(scenario).text
        st.code(text, language=None)
        download("sweep.yaml", text, "sweep.yaml", "sweep_yaml")
        st.code(
            "python -m advisor explore --plan sweep.yaml --output sweep --workers 2",
            language=None,
            wrap_lines=True,
        )
    if session_sweep is not None:
        draw_sweep_answers(session_sweep, scenario)


def plan_of(scenario: Scenario) -> SweepPlan:
    """The scenario as a plan of one combination at several batches.

    A model or accelerator of one's own stands there by its file. Loads, copies of experts and a
    refit take no part: a plan cannot state them.
    """
    file_fields = {owner for document, owner in DOCUMENTS.items() if getattr(scenario, document)}
    left_out = {"batch_size", *RANK_FIELDS, *POOL_FIELDS}
    rows = [FIELDS[name] for name in SETTINGS if name not in left_out]
    values = {row.name: getattr(scenario, row.name) for row in rows}
    stated = {
        row.name for row in rows if row.is_required or row.needed or values[row.name] != row.default
    }
    axes = {
        name: (f"{value}.json" if name in file_fields else value,)
        for name, value in values.items()
        if name in stated
    }
    return SweepPlan(({},), axes, tuple(sorted({*_BATCHES, scenario.batch_size})))


def _take() -> None:
    """Callback: read the files; a sweep that cannot be read leaves the session as it was."""
    uploaded_files = [
        (upload.name, upload.getvalue()) for upload in st.session_state.get(_FILES) or []
    ]
    if uploaded_files:
        KEPT.take(_read, uploaded_files)
    else:
        KEPT.put(KEPT.result)


def _read(files: list[tuple[str, bytes]]) -> KeptSweep:
    names = files[0][0] if len(files) == 1 else counted(len(files), "file")
    content = b"".join(hashlib.sha256(data).digest() for _, data in files)
    return KeptSweep(
        read_sweep(files, MAX_ROWS), hashlib.sha256(content).hexdigest()[:12], f"From {names}"
    )
