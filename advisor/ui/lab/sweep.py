"""What a sweep of the session answers: three questions, a map, files, and a row opened in the bar.

The grid that is asked for on the page: settings to vary, their values, and the plan they make.

Sweep: a grid of scenarios computed here, or a finished one opened; what it answers stands below.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.explore.cells import SETTINGS, sweep_rows
from advisor.answers.explore.grid import SweepPlan, made_by, read_plan
from advisor.answers.explore.questions import (
    SURE,
    axes,
    choices,
    fastest_within,
    one_k_for_all,
    setting_text,
    where_drafting_pays,
)
from advisor.answers.explore.sweep_files import parquet_bytes, read_sweep, sweep_from
from advisor.physics.acceptance import acceptance_curves
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, RANK_FIELDS, FieldRow
from advisor.prediction import AdvisorError
from advisor.show.charts.maps import sweep_chart
from advisor.show.words.sweep import (
    best_rows,
    fastest_text,
    label,
    map_text,
    one_k_text,
    pays_text,
    reasons_texts,
    settings_texts,
    swept_text,
)
from advisor.text import TOKENS_FORMS, counted, frame_csv, token_count
from advisor.ui.own_data import KEPT, MAX_ROWS, KeptSweep, Shown, keep, map_of, read, show, shown
from advisor.ui.own_data import choices as field_choices
from advisor.ui.own_data import own as own_documents
from advisor.ui.session import LARGEST_LIMIT, SMALLEST_LIMIT, Slot
from advisor.ui.state import note, take
from advisor.ui.widgets import plain, show_chart, upload_limit

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


def draw_sweep_answers(kept: KeptSweep, scenario: Scenario) -> None:
    """Everything under the controls."""
    frame = kept.sweep.frame
    st.caption(plain(f"{kept.origin}: {swept_text(kept.sweep)} {' '.join(kept.sweep.notes)}"))
    _files(kept)
    if (frame["n_draft"] < 0).all():
        st.warning(plain(f"Nothing in this sweep can be predicted. {' '.join(reasons_texts(frame))}"))
        return
    _pays(kept)
    limit = _fastest(kept, scenario)
    st.subheader("One K for everything", anchor=False)
    st.markdown(plain(one_k_text(frame)))
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
        st.button("Forget this sweep", key="sweep_forget", on_click=KEPT.drop, type="tertiary")


def _pays(kept: KeptSweep) -> None:
    st.subheader("Where drafting pays", anchor=False)
    pays = _pays_in(kept.digest, kept.sweep.frame)
    st.markdown(f"{plain(pays_text(pays))}")
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
    st.markdown(plain(fastest_text(fastest, limit)))
    _table(fastest, kept, "fastest")
    return None if limit is None else float(limit)


def _map(kept: KeptSweep, limit: float | None, scenario: Scenario) -> None:
    """The map over two settings, and its cells as a table."""
    st.subheader("Speedup over two settings", anchor=False)
    frame = kept.sweep.frame
    free, now = axes(frame), shown(kept)
    if now.axes is None:
        show(Shown(kept.digest, limit))
        st.caption("A map needs two settings with several values.")
        rows = frame[frame["recommended"]]
    else:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            x = _choose("Across", free, now.axes[0], f"sweep_x_{kept.digest}")
            y = _choose("Down", [one for one in free if one != x], now.axes[1], f"sweep_y_{kept.digest}")
            fixed = _fixed(kept, x, y, scenario)
        show(Shown(kept.digest, limit, (x, y), fixed))
        found = map_of(kept, shown(kept))
        assert found is not None, "two settings vary"
        st.caption(plain(map_text(found)))
        show_chart(sweep_chart(found), "sweep_map", scenario)
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
    what = plain(f"{one['model_id']} on {one['hardware_id']}")
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
    note(take({name: text for name, text in texts.items() if text}, {}, "sweep"))
    st.toast("The row is in the bar; Serve answers for it. Back in the browser undoes it.")


def _about(frame: pd.DataFrame) -> None:
    """What was varied, and why some combinations cannot be."""
    with st.expander("What was swept"):
        st.markdown("\n".join(f"- {plain(text)}" for text in settings_texts(frame)))
        if reasons := reasons_texts(frame):
            st.markdown("Scenarios that cannot be:")
            st.markdown("\n".join(f"- {plain(text)}" for text in reasons))


FIRST = ("model_id", "hardware_id", "batch_size", "context_tokens")
"""Settings whose values are asked for at once; the others are chosen."""
COPIES = RANK_FIELDS[1]
"""A setting that the bar has no widget for, and a sweep may vary all the same."""
_BATCHES = (1, 4, 16, 64, 256)
_MAX_VALUES = 64
_NONE = "none"
_SEEDS: Slot[dict[str, Any]] = Slot("_sweep_seeds", dict)
"""What each control was filled with: as long as nobody changes it, it follows the bar."""


def draw_sweep_ask(scenario: Scenario) -> SweepPlan:
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
    own = {name for document, owner in DOCUMENTS.items() if owner == row.name for name in own_documents(document)}
    listed: Sequence[Any] = field_choices(row.name) or [curve.id for curve in acceptance_curves()]
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
    return read(row.name, str(token_count(piece)) if _is_tokens(row) else piece)


def _is_tokens(row: FieldRow) -> bool:
    """Whether a setting's numbers may be typed as 128k, as everywhere else."""
    return row.name.endswith("_tokens")


MAX_COMBINATIONS = 400
"""What this page computes at most, with all batches of each: some seconds. [-]"""
MAX_EXPECTED_S = 60.0
"""Longest that a page computes at a stretch (own choice). [s]"""
_AT_ONCE = 8
"""Combinations between two steps of the progress bar; one where each may have to be counted. [-]"""
_PROBLEM: Slot[str] = Slot("_sweep_problem", str)
_NEW, _OPEN = "Compute a grid", "Open a finished sweep"
_FILES = "sweep_files"
_UPLOAD_MIB = 64


def draw_sweep_panel(scenario: Scenario) -> None:
    """The whole tab."""
    st.subheader("Many scenarios at once", anchor=False)
    way = st.segmented_control(
        "Source", (_NEW, _OPEN), default=_NEW, required=True, key="sweep_source", label_visibility="collapsed"
    )
    if way == _OPEN:
        _opened_files()
    else:
        _grid(scenario)
    kept = KEPT.get()
    if kept is not None:
        draw_sweep_answers(kept, scenario)


def _grid(scenario: Scenario) -> None:
    """Settings, size, and the button; beyond the limit the way to the command line."""
    with st.container(border=True):
        try:
            plan = draw_sweep_ask(scenario)
        except AdvisorError as error:
            st.error(plain(f"{error}."), icon=":material/error:")
            return
        for note in _left_out(scenario, plan):
            st.caption(note)
        if len(plan.axes.get("model_id", ())) > 1:
            st.caption("Every model has the same drafter and accepted length unless those take several values, too.")
        n_rows = plan.n_scenarios * (1 + max(plan.axes.get("k_max", (scenario.k_max,))))
        at = f"{counted(plan.n_curves, 'combination')} at {counted(len(plan.batches), 'batch', 'batches')}"
        too_long = plan.expected_s > MAX_EXPECTED_S
        if plan.n_curves > MAX_COMBINATIONS or n_rows > MAX_ROWS or too_long:
            st.warning(
                f"{at}: this page computes up to {MAX_COMBINATIONS:,} combinations and {MAX_ROWS:,} rows, for "
                f"up to {MAX_EXPECTED_S:.0f} s. Take away some values, or let the command line do it (about "
                f"{_time(plan)} on one core) and open the result here.",
                icon=":material/terminal:",
            )
            _command(plan)
            return
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            pressed = st.button("Compute", key="sweep_compute", type="primary", icon=":material/grid_on:")
            st.markdown(f"**{at}**, about {_time(plan)}")
        if pressed:
            _compute(plan)
        with st.expander("The same from the command line"):
            _command(plan)


def _left_out(scenario: Scenario, plan: SweepPlan) -> list[str]:
    """A sentence on each thing of the bar that takes no part in the plan, and on what copies are counted on."""
    said = []
    if scenario.refit is not None:
        said.append("Your refit takes no part: a sweep is computed with the shipped constants.")
    given = [FIELDS[name].label.lower() for name in RANK_FIELDS if getattr(scenario, name) is not None]
    if any(one is not None for one in plan.axes.get(COPIES, ())):
        own = "" if scenario.expert_loads is None else " Your loads of experts take no part."
        said.append(f"Copies of experts are placed and counted on the routing preset's spread of loads.{own}")
    elif given:
        what = " and ".join(given)
        said.append(f"Your {what} take no part: experts stand in order, and the slowest rank is assumed.")
    return said


def _time(plan: SweepPlan) -> str:
    seconds = max(1, round(plan.expected_s))
    return f"{seconds:,} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _command(plan: SweepPlan) -> None:
    """The plan as a file, and the command that computes it."""
    st.code(plan.text, language="yaml")
    st.download_button(
        "sweep.yaml",
        plan.text,
        file_name="sweep.yaml",
        mime="application/yaml",
        key="sweep_yaml",
        icon=":material/download:",
        on_click="ignore",
    )
    st.code("python -m advisor explore --plan sweep.yaml --output sweep --workers 2", language="bash", wrap_lines=True)


def _compute(plan: SweepPlan) -> None:
    """The grid, some combinations at a time. What the session holds stays as it is until all is done."""
    bar, found, at_once = st.progress(0.0, "Computing"), [], 1 if plan.n_counts else _AT_ONCE
    every = [one for index in range(plan.n_parts) for one in plan.part(index)]
    for first in range(0, len(every), at_once):
        found.append(sweep_rows(every[first : first + at_once], plan.batches))
        done = min(first + at_once, len(every))
        bar.progress(done / len(every), f"{done:,} of {counted(len(every), 'combination')}")
    bar.empty()
    sweep = sweep_from(pd.concat(found, ignore_index=True), made_by())
    keep(sweep, plan.digest.encode(), "Computed here")


def _opened_files() -> None:
    """Files of a sweep, and why the last ones could not be read."""
    with st.container(border=True):
        st.file_uploader(
            "Parquet files of the command sweep or of this page",
            type=["parquet"],
            accept_multiple_files=True,
            key=_FILES,
            on_change=_take,
            max_upload_size=upload_limit(_UPLOAD_MIB * 2**20),
            help=f"All part-*.parquet of one folder, or some; up to {MAX_ROWS:,} rows. Kept in this session.",
        )
        if problem := _PROBLEM.get():
            kept = " The sweep below is the one from before." if KEPT.get() is not None else ""
            st.error(plain(f"{problem}.{kept}"), icon=":material/error:")


def _take() -> None:
    """Callback: read the files; a sweep that cannot be read leaves the session as it was."""
    given = [(item.name, item.getvalue()) for item in st.session_state.get(_FILES) or []]
    _PROBLEM.drop()
    if not given:
        return
    try:
        sweep = read_sweep(given, MAX_ROWS)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
        return
    names = given[0][0] if len(given) == 1 else counted(len(given), "file")
    digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for _, data in given)).digest()
    keep(sweep, digest, f"From {names}")
