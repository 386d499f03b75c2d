"""Sweep: a grid of scenarios computed here, or a finished one opened; what it answers stands below."""

from __future__ import annotations

import hashlib

import pandas as pd
import streamlit as st

from advisor.prediction import AdvisorError
from advisor.scenario import FIELDS, RANK_FIELDS, Scenario
from advisor.sweep import SweepPlan, made_by, read_sweep, sweep_from, sweep_rows
from advisor.text import counted
from advisor.ui.data import sweep_answers, sweep_ask
from advisor.ui.shared import sweeps, widgets
from advisor.ui.shared.session import Slot
from advisor.ui.shared.sweeps import KEPT

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


def draw(scenario: Scenario) -> None:
    """The whole tab."""
    st.subheader("Many scenarios at once", anchor=False)
    way = st.segmented_control(
        "Source", (_NEW, _OPEN), default=_NEW, required=True, key="sweep_source", label_visibility="collapsed"
    )
    if way == _OPEN:
        _files()
    else:
        _grid(scenario)
    kept = KEPT.get()
    if kept is not None:
        sweep_answers.draw(kept, scenario)


def _grid(scenario: Scenario) -> None:
    """Settings, size, and the button; beyond the limit the way to the command line."""
    with st.container(border=True):
        try:
            plan = sweep_ask.draw(scenario)
        except AdvisorError as error:
            st.error(widgets.plain(f"{error}."), icon=":material/error:")
            return
        for note in _left_out(scenario, plan):
            st.caption(note)
        if len(plan.axes.get("model_id", ())) > 1:
            st.caption("Every model has the same drafter and accepted length unless those take several values, too.")
        n_rows = plan.n_scenarios * (1 + max(plan.axes.get("k_max", (scenario.k_max,))))
        at = f"{counted(plan.n_curves, 'combination')} at {counted(len(plan.batches), 'batch', 'batches')}"
        too_long = plan.expected_s > MAX_EXPECTED_S
        if plan.n_curves > MAX_COMBINATIONS or n_rows > sweeps.MAX_ROWS or too_long:
            st.warning(
                f"{at}: this page computes up to {MAX_COMBINATIONS:,} combinations and {sweeps.MAX_ROWS:,} rows, for "
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
    if any(one is not None for one in plan.axes.get(sweep_ask.COPIES, ())):
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
    st.code("python -m advisor sweep sweep.yaml --output sweep --workers 2", language="bash", wrap_lines=True)


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
    sweeps.keep(sweep, plan.digest.encode(), "Computed here")


def _files() -> None:
    """Files of a sweep, and why the last ones could not be read."""
    with st.container(border=True):
        st.file_uploader(
            "Parquet files of the command sweep or of this page",
            type=["parquet"],
            accept_multiple_files=True,
            key=_FILES,
            on_change=_take,
            max_upload_size=widgets.upload_limit(_UPLOAD_MIB * 2**20),
            help=f"All part-*.parquet of one folder, or some; up to {sweeps.MAX_ROWS:,} rows. Kept in this session.",
        )
        if problem := _PROBLEM.get():
            kept = " The sweep below is the one from before." if KEPT.get() is not None else ""
            st.error(widgets.plain(f"{problem}.{kept}"), icon=":material/error:")


def _take() -> None:
    """Callback: read the files; a sweep that cannot be read leaves the session as it was."""
    given = [(item.name, item.getvalue()) for item in st.session_state.get(_FILES) or []]
    _PROBLEM.drop()
    if not given:
        return
    try:
        sweep = read_sweep(given, sweeps.MAX_ROWS)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
        return
    names = given[0][0] if len(given) == 1 else counted(len(given), "file")
    digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for _, data in given)).digest()
    sweeps.keep(sweep, digest, f"From {names}")
