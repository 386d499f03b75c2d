"""What the user's points change: refit, before and after, what was learnt; use it everywhere, undo."""

from __future__ import annotations

import streamlit as st

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.rows import Measured
from advisor.measured.observations import QUANTITIES
from advisor.measured.refit import MIN_POINTS, before_after, curve_groups, curve_name
from advisor.measured.refit_result import RefitResult
from advisor.measured.refit_result import notes as refit_notes
from advisor.physics.acceptance import acceptance_curves
from advisor.predict.scenario import Scenario
from advisor.show.charts.measured import before_after_chart
from advisor.show.table import Table
from advisor.show.words.explain import PARAMETERS
from advisor.text import counted
from advisor.ui.answers import refit_text_for
from advisor.ui.measure.session import (
    REFIT,
    lacks,
    own_length,
    problem,
    refit_upload,
    refused_rows,
    undo_refit,
    unit_problem,
    upload,
)
from advisor.ui.own_data import in_use, text_of, use_refit
from advisor.ui.session import attempt
from advisor.ui.state import plain
from advisor.ui.widgets import show_chart, show_problem, show_table


def draw_refit_button(read: Measured, scenario: Scenario, *, filled: bool) -> None:
    """The button that refits, and the accepted length that rows without one borrow where some lack it."""
    missing = int((read.frame["accepted_length"].isna() & (read.frame["draft_tokens_k"] != 0)).sum())
    absent = lacks(read)
    fields = "; ".join(_needed(names, rows) for names, rows in absent.items())
    few = f"A refit needs {MIN_POINTS} rows and more; give the files of several runs together."
    st.button(
        f"Refit to these {counted(read.rows_kept, 'row')}"
        if read.rows_kept >= MIN_POINTS
        else f"Refit ({MIN_POINTS} rows and more)",
        key="refit_upload",
        type="primary" if filled else "secondary",
        on_click=refit_upload,
        args=(scenario.acceptance if missing else None,),
        disabled=bool(absent) or read.rows_kept < MIN_POINTS,
        help=f"Still missing: {fields}." if absent else few if read.rows_kept < MIN_POINTS else None,
    )


def draw_refit_problem(scenario: Scenario) -> None:
    """Reasons that a refit was refused, or that no engine explains a column in its unit."""
    unit, refused = unit_problem(scenario.acceptance), problem("refit")
    for said in dict.fromkeys((unit, refused)):
        show_problem(said)


def _needed(names: tuple[str, ...], rows: int) -> str:
    """A field that is needed, or several of which one is, in words."""
    if names == QUANTITIES:
        return f"a speedup, or a time per step or token ({counted(rows, 'row')})"
    columns = COLUMNS["points"]
    titles = [columns[names[0]].title, *(columns[name].in_text for name in names[1:])]
    return f"{' or '.join(titles)} ({counted(rows, 'row')})"


def draw_refit(scenario: Scenario) -> None:
    """The refit of this session, where there is one."""
    if REFIT.result is None:
        return
    points, result = REFIT.result
    st.subheader("What your data changed", anchor=False)
    st.markdown(plain(result.sentence))
    if changed := _changed(result, scenario):
        st.markdown(f":material/tune: {plain(changed)}")
    _use(result, scenario)
    groups = curve_groups(result)
    with st.expander("Before and after, constants"):
        if groups:
            chosen = st.selectbox(
                "Curve", range(len(groups)), key="refit_curve", format_func=lambda i: curve_name(*groups[i])
            )
            chart = before_after_chart(before_after(points, result, groups[chosen]))
            show_chart(chart, "before_after", scenario)
        show_table(Table(PARAMETERS, result.parameters))
        for note in refit_notes(result):
            st.caption(note)
    if result.outliers or result.refused:
        unused = (*result.outliers, *result.refused)
        with st.expander(f"Measured not used ({sum(one.rows for one in unused):,})"):
            st.dataframe(refused_rows(unused), hide_index=True)


def _changed(result: RefitResult, scenario: Scenario) -> str:
    """What the refit does to the scenario's speedup and band, and why; empty where it is for another accelerator or
    engine, or where the scenario has no answer."""
    if (result.hardware_id, result.engine) != (scenario.hardware_id, scenario.engine):
        return ""
    return attempt(refit_text_for, scenario.model_copy(update={"refit": text_of(result)}))[0] or ""


def _use(found: RefitResult, scenario: Scenario) -> None:
    """Take it into every prediction of this session, or drop it.

    The accepted length that the upload counted comes with it where the scenario's is borrowed from a measured curve.
    """
    used = in_use() == text_of(found)
    read = upload()
    borrowed = scenario.acceptance in {curve.id for curve in acceptance_curves()}
    length = own_length(read, scenario) if read is not None and borrowed else None
    for reason in found.reasons_against:
        st.warning(plain(reason), icon=":material/help:")
    row = st.container(horizontal=True, gap="small")
    offer = "Use anyway, on every page" if found.reasons_against else "Use this refit on every page"
    with_length = f" With it comes the accepted length of your runs, {length}." if length else ""
    row.button(
        "In use on every page" if used else offer,
        key="use_refit",
        disabled=used,
        icon=":material/public:",
        on_click=use_refit,
        args=(found, length),
        help=f"In this session only; the link and the report of a scenario then carry it.{with_length}",
    )
    row.button("Undo the refit", key="undo_refit", on_click=undo_refit, icon=":material/undo:")
    if (found.hardware_id, found.engine) != (scenario.hardware_id, scenario.engine):
        st.caption(
            plain(
                f"It holds for {found.hardware_id} with {found.engine_class}; the scenario in the bar is on "
                f"{scenario.hardware_id} with {scenario.engine}."
            )
        )
