"""What the user's points change: refit, before and after, residuals, what was learnt; use it everywhere, undo."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.charts import before_after_chart, residual_chart
from advisor.ingest import COLUMNS, IngestResult
from advisor.points import (
    MIN_POINTS,
    PARAMETER_COLUMNS,
    Point,
    RefitResult,
    before_after,
    curve_groups,
    curve_name,
    moesd_of,
    notes,
    parameter_rows,
)
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.text import counted
from advisor.ui.data import uploads
from advisor.ui.shared import answers, refit_use, widgets


def ask(read: IngestResult, scenario: Scenario) -> str:
    """The button that refits, and the accepted length that rows without one borrow, which is returned."""
    if read.kind != "points":
        st.info("Kernel times are kept and shown; a refit needs served runs with speedup, step or token times.")
        return scenario.acceptance
    lacking = int((read.frame["accepted_length"].isna() & (read.frame["draft_tokens_k"] != 0)).sum())
    acceptance = None
    if lacking:
        acceptance = st.text_input(
            f"Accepted length for {counted(lacking, 'row')} without one",
            scenario.acceptance,
            key="refit_acceptance",
            help="2.4@3, or 0.7,0.5,0.4, or the id of a measured curve; it counts as one of another run.",
        )
    lacks = uploads.lacks(read)
    st.button(
        "Refit on these points",
        key="refit_upload",
        icon=":material/tune:",
        on_click=uploads.refit_upload,
        args=(acceptance,),
        disabled=bool(lacks) or read.rows_kept < MIN_POINTS,
    )
    if lacks:
        fields = "; ".join(_needed(names, rows) for names, rows in lacks.items())
        st.caption(f"A refit needs {MIN_POINTS} rows that say all of it. Still missing above: {fields}.")
    elif read.rows_kept < MIN_POINTS:
        st.caption(f"A refit needs {MIN_POINTS} rows and more; give the files of several runs together.")
    borrowed = acceptance or scenario.acceptance
    said = uploads.problem("refit")
    if said and said != uploads.unit_problem(borrowed):
        st.error(widgets.plain(said), icon=":material/error:")
    return borrowed


def _needed(names: tuple[str, ...], rows: int) -> str:
    """A field that is needed, or several of which one is, in words."""
    columns = COLUMNS["points"]
    titles = [columns[names[0]].title, *(columns[name].in_text for name in names[1:])]
    return f"{' or '.join(titles)} ({counted(rows, 'row')})"


def draw(points: list[Point], result: RefitResult, scenario: Scenario) -> None:
    """The refit of this session."""
    st.subheader("What your data changed", anchor=False)
    st.markdown(widgets.plain(result.sentence))
    if changed := _changed(result, scenario):
        st.markdown(f":material/tune: {widgets.plain(changed)}")
    _use(result, scenario)
    groups = curve_groups(result)
    if groups:
        chosen = st.selectbox(
            "Curve",
            range(len(groups)),
            key="refit_curve",
            format_func=lambda i: curve_name(*groups[i]),
        )
        chart = before_after_chart(before_after(points, result, groups[chosen]))
        widgets.show_chart(chart, "before_after", scenario)
    widgets.show_chart(residual_chart(result), "residuals", scenario)
    st.dataframe(pd.DataFrame(parameter_rows(result), columns=PARAMETER_COLUMNS), hide_index=True)
    for note in notes(result):
        st.caption(note)
    small = moesd_of(points)
    if small is not None:
        st.caption(
            f"Cross-check: MoESD's ten-parameter form fits the {small.n_points} speedups with an RMS error of "
            f"{small.rms:.2f}."
        )
    if result.outliers or result.refused:
        unused = (*result.outliers, *result.refused)
        with st.expander(f"Rows not used ({sum(one.rows for one in unused):,})"):
            st.dataframe(uploads.refused_rows(unused), hide_index=True)


def _changed(result: RefitResult, scenario: Scenario) -> str:
    """What the refit does to the scenario's speedup and band, and why; empty where it is for another accelerator or
    engine, or where the scenario has no answer."""
    if (result.hardware_id, result.engine) != (scenario.hardware_id, scenario.engine):
        return ""
    try:
        return answers.refit_text_for(scenario.model_copy(update={"refit": refit_use.text_of(result)}))
    except AdvisorError:
        return ""


def _use(result: RefitResult, scenario: Scenario) -> None:
    """Take it into every prediction of this session, or drop it."""
    used = refit_use.is_used(result)
    for reason in result.reasons_against:
        st.warning(widgets.plain(reason), icon=":material/help:")
    use, drop = st.columns(2)
    offer = "Use it all the same, on every page" if result.reasons_against else "Use this refit on every page"
    use.button(
        "In use on every page" if used else offer,
        key="use_refit",
        disabled=used,
        icon=":material/public:",
        on_click=refit_use.use,
        args=(result,),
        help="In this session only; the link and the report of a scenario then carry it.",
    )
    drop.button("Undo the refit", key="undo_refit", on_click=uploads.undo_refit, icon=":material/undo:")
    if (result.hardware_id, result.engine) != (scenario.hardware_id, scenario.engine):
        st.caption(
            widgets.plain(
                f"It holds for {result.hardware_id} with {result.engine_class}; the scenario in the bar is on "
                f"{scenario.hardware_id} with {scenario.engine}."
            )
        )
