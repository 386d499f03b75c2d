"""The user's runs against the model: verdict, the step that follows, chart, parts of the gap, what was read as what."""

from __future__ import annotations

import functools

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.given import KIND_NAMES
from advisor.answers.own_gap import (
    OwnVerdict,
    decision_text,
    drafts_of,
    own_verdict,
    rows_to_compare,
    steps_beside,
    verdict_text,
    verdict_title,
)
from advisor.measured.ingest.result import csv_of
from advisor.measured.ingest.rows import Measured
from advisor.measured.own_points import plain_sweep_of
from advisor.measured.readers.prose import PROSE
from advisor.measured.refit import lacking
from advisor.predict.curve import held_sweep
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import gap_parts_chart, own_gap_chart, steps_chart
from advisor.text import counted
from advisor.ui.answers import advice_for
from advisor.ui.measure import diagnosis
from advisor.ui.measure.drop import KINDS, is_served, take
from advisor.ui.measure.fill import asked_text, draw_mapping_panel, draw_more_fields, draw_open_fields, read_as
from advisor.ui.measure.refit import draw_refit, draw_refit_button, draw_refit_problem
from advisor.ui.measure.session import (
    FILES,
    MAPPED_FORMATS,
    acceptances,
    likely_columns,
    scenario_of,
    unknown_names,
)
from advisor.ui.measure.traces import PASTED, Heading, use_rates
from advisor.ui.own_data import SWEEP, is_own_length, use_length
from advisor.ui.session import attempt
from advisor.ui.state import plain, show_other
from advisor.ui.widgets import download, show_chart, show_problem

_SHOWN_ROWS = 200


def draw_benchmark(read: Measured | None, scenario: Scenario, heading: Heading) -> None:
    """The whole panel. Without rows, the form that says which column is which."""
    if read is None:
        heading("Which column is which?" if any(file.headers for file in FILES.result) else "Nothing could be read")
        draw_mapping_panel(scenario)
        return
    if read.kind != "points":
        heading(f"{counted(read.rows_kept, 'kernel time')} read")
        st.caption("Kernel times alone move no prediction: give served runs, or see them in Lab.")
        _details(read, scenario)
        return
    if likely_columns():
        heading(f"{counted(read.rows_kept, 'row')} read: confirm the columns")
        draw_mapping_panel(scenario)
        _details(read, scenario)
        return
    if lacking(read.frame) or unknown_names(read):
        heading(f"{counted(read.rows_kept, 'row')} read: {asked_text(read)}")
        draw_open_fields(read, scenario)
        if _concerns_the_doctor(read, None):
            diagnosis.draw(diagnosis.diagnosed(scenario), scenario)
        _refitted(scenario)
        _read_as(read, scenario)
    else:
        _compared(read, scenario, heading)
        draw_open_fields(read, scenario)
    draw_mapping_panel(scenario)
    _details(read, scenario)


def _refitted(scenario: Scenario) -> None:
    draw_refit_problem(scenario)
    draw_refit(scenario)


def _concerns_the_doctor(read: Measured, found: OwnVerdict | None) -> bool:
    """Whether runs are slower with drafts than without, or than modelled, or their server is known."""
    slower = found is not None and found.kind == "slower"
    return slower or is_served() or bool((read.frame["speedup"] < 1.0).fillna(False).any())


def _compared(read: Measured, scenario: Scenario, heading: Heading) -> None:
    """Verdict, buttons, charts; or why the rows are not of the scenario, and the button that makes it theirs."""
    advice, unpredicted = attempt(advice_for, scenario)
    if advice is None:
        drafts = drafts_of(read.frame[read.frame["speedup"].notna()])
        decision = decision_text(read.frame, drafts[0], one_k=not drafts[1:]) if drafts else ""
        heading("Measured, not predicted" if decision else "No answer for this scenario")
        st.markdown(f"**{plain(decision)}**" if decision else "")
        show_problem(unpredicted)
        return
    rows, why = rows_to_compare(advice, read.frame)
    if why:
        doctor = diagnosis.diagnosed(scenario) if _concerns_the_doctor(read, None) else None
        other = "Your runs are of another scenario" if len(read.frame) else "No row can be used"
        heading(other if doctor is None else doctor.title)
        diagnosis.draw(doctor, scenario)
        st.caption(plain(why))
        if (theirs := scenario_of(read.frame, scenario)) is not None:
            use = functools.partial(show_other, theirs)
            st.button("Use the file's settings", key="bar_to_file", type="primary", on_click=use)
        _refitted(scenario)
        _read_as(read, scenario)
        return
    asked = drafts_of(rows)
    k = int(st.session_state.get("measure_k") or asked[0])
    found = own_verdict(advice, rows, k if k in asked else asked[0])
    doctor = diagnosis.diagnosed(scenario) if _concerns_the_doctor(read, found) else None
    leads = doctor is not None and found.kind in ("slower", "plain_step")
    title, decision = verdict_title(found), decision_text(rows, found.n_draft, one_k=len(asked) == 1)
    if doctor is not None and leads:
        heading(doctor.title)
        st.markdown(f"**{plain(decision)}**" if decision else "")
        diagnosis.draw(doctor, scenario)
    else:
        heading(plain(decision.rstrip(".")) if decision else title)
        taken = "With the accepted length taken over from your runs: " if is_own_length(scenario.acceptance) else ""
        lead = f"**{plain(title)}.** " if decision else ""
        st.markdown(lead + plain(f"{taken}{verdict_text(found)}"))
    _steps_that_follow(found, read, scenario, leads)
    _refitted(scenario)
    if not leads:
        diagnosis.draw(doctor, scenario)
    if len(asked) > 1:
        st.segmented_control("K", asked, key="measure_k", default=asked[0], required=True)
    chart, side = st.columns([17, 10], gap="large")
    with chart:
        show_chart(own_gap_chart(advice, found), "own_gap", scenario)
    with side:
        show_chart(gap_parts_chart(found), "gap_parts", scenario)
        _read_as(read, scenario)
    _steps(advice, rows, read)


def _steps_that_follow(found: OwnVerdict, read: Measured, scenario: Scenario, diagnosed: bool) -> None:
    """Buttons: the one that the verdict names is filled, unless a diagnosis has its own."""
    with st.container(horizontal=True, gap="small", key="verdict_actions"):
        if found.own_length is not None and found.action in ("use_length", "diagnose", "refit"):
            length = f"{found.own_length:.3g}@{found.n_draft}"
            st.button(
                f"Use my accepted length {found.own_length:.2f}",
                key="use_own_length",
                type="primary" if found.action == "use_length" else "secondary",
                on_click=use_length,
                args=(length,),
                disabled=scenario.acceptance == length,
                help=f"In place of {scenario.acceptance}, on every page.",
            )
        draw_refit_button(read, scenario, filled=found.action == "refit" and not diagnosed)


def _read_as(read: Measured, scenario: Scenario) -> None:
    """What was read as what; of a text, as a table to correct."""
    st.subheader("Read as", anchor=False)
    st.dataframe(pd.DataFrame(read_as(read), columns=["Meaning", "Column"]), hide_index=True, height="content")
    if read.sources[0].format_id == PROSE.id:
        with st.popover("Correct it", type="tertiary"):
            table = csv_of(read.frame[list(read.sources[0].headers)]).decode()
            st.text_area("As a table", table, key="prose_table")
            st.button("Read the table", key="read_prose_table", on_click=_take_table, args=(scenario,))


def _take_table(scenario: Scenario) -> None:
    take({PASTED: str(st.session_state["prose_table"]).encode()}, scenario)


def _steps(advice: Advice, rows: pd.DataFrame, read: Measured) -> None:
    """Plain steps and rounds beside the modelled ones, and the sweep of plain steps to predict with."""
    steps = steps_beside(advice, rows)
    if not len(steps):
        return
    with st.expander(
        f"Your {counted(len(steps), 'step')} beside the model's", expanded=bool((steps["n_draft"] == 0).all())
    ):
        show_chart(steps_chart(advice, steps), "own_steps", advice.scenario)
        if not read.frame["draft_tokens_k"].eq(0).any():
            return
        scenario = advice.scenario
        try:
            text = plain_sweep_of(read.frame, scenario)
            held = held_sweep(load_setup(scenario.model_copy(update={SWEEP: text})))
        except AdvisorError as error:
            st.caption(plain(f"Not a sweep to predict with: {error}."))
            return
        if held is None:
            return
        st.markdown(plain(held.text))
        used = scenario.plain_sweep == text
        st.button(
            "In use on every page" if used else "Predict with this sweep on every page",
            key="use_plain_sweep",
            disabled=used or not held.steady,
            on_click=st.session_state.__setitem__,
            args=(SWEEP, text),
        )


def _details(read: Measured, scenario: Scenario) -> None:
    """What was derived, refused and understood; what may still be said; acceptance by position."""
    said = [*read.derived, *read.warnings]
    refused = f", {counted(read.rows_refused, 'row')} refused" if read.rows_refused else ""
    by = "" if read.sources[0].format_id in MAPPED_FORMATS else f" ({read.format_name})"
    unpredicted = attempt(advice_for, scenario)[0] is None
    with st.expander(f"{plain(read.file_name)}: {counted(read.rows_kept, 'row')} read{refused}{by}", unpredicted):
        kinds = [(KIND_NAMES[kind], name) for name, kind in KINDS.result]
        st.dataframe(pd.DataFrame(kinds, columns=["Read as", "File"]), hide_index=True)
        if said:
            st.markdown("\n".join(f"- {plain(note)}" for note in said))
        st.dataframe(read.frame.dropna(axis="columns", how="all").head(_SHOWN_ROWS))
        if len(read.rejects):
            st.subheader("Refused rows", anchor=False)
            st.dataframe(read.rejects.head(_SHOWN_ROWS), hide_index=True)
        rows = functools.partial(csv_of, read.frame.reset_index())
        download("Measured as CSV", rows, "measurements.csv", "upload_csv", quiet=True)
        if found := acceptances(read):
            label = st.selectbox("Acceptance by position, as measured in these runs", list(found), key="own_acceptance")
            st.button(
                "Predict with this acceptance", key="use_own_acceptance", on_click=use_rates, args=(found[label],)
            )
        draw_more_fields(read, scenario)
