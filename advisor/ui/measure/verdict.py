"""The user's runs against the model: verdict, the step that follows, chart, parts of the gap, what
was read as what.

And what the points change: refit, before and after, what was learnt; use it everywhere, undo.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from advisor.answers.diagnosis.verdict import OF_THE_RUN
from advisor.answers.file_kinds import KIND_NAMES
from advisor.answers.own_gap import Mismatch, mismatch_of, own_schedule
from advisor.catalog.hardware import hardware_called, model_name
from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.result import csv_of
from advisor.measured.ingest.rows import Measured
from advisor.measured.observations import QUANTITIES
from advisor.measured.own_points import plain_sweep_of
from advisor.measured.points import Refused
from advisor.measured.refit import MIN_POINTS, before_after, curve_groups
from advisor.measured.refit_result import RefitResult
from advisor.physics.acceptance import acceptance_curve
from advisor.predict.curve import held_sweep
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.charts.measured import before_after_chart
from advisor.show.own_runs import measured_command, runs_plate
from advisor.show.phrases.notes import note_text
from advisor.show.phrases.reading import reading_texts
from advisor.show.phrases.runs import BOOK
from advisor.show.table import Table, matrix
from advisor.show.words.diagnosis import DiagnosisView
from advisor.show.words.explain import PARAMETERS
from advisor.show.words.refit import notes as refit_notes
from advisor.show.words.refit import sentence
from advisor.text import counted, listed
from advisor.ui.answers import advice_for, refit_text_for
from advisor.ui.measure import diagnosis
from advisor.ui.measure.drop import (
    KINDS,
    asked_text,
    draw_mapping_panel,
    draw_more_fields,
    draw_open_fields,
    read_as,
    told_apart,
    uncompared,
)
from advisor.ui.measure.session import (
    FILES,
    FROM_BAR,
    MAPPED_FORMATS,
    REFIT,
    acceptances,
    fill_as_bar,
    lacks,
    likely_columns,
    of_scenario,
    own_length,
    problem,
    refit_upload,
    scenario_of,
    undo_refit,
    unit_problem,
    unknown_names,
    upload,
)
from advisor.ui.measure.traces import Heading, use_rates
from advisor.ui.own_data import SWEEP, in_use, measured_points, text_of, use_length, use_refit
from advisor.ui.session import Kept, attempt
from advisor.ui.state import PAGE, plain, show_other
from advisor.ui.widgets import download, show_chart, show_problem, show_table


def draw_refit_button(read: Measured, scenario: Scenario, *, filled: bool) -> None:
    """The button that refits where rows are enough, with the bar's accepted length for rows that
    lack one."""
    if read.rows_kept < MIN_POINTS:
        return
    absent = lacks(read)
    timed = read.frame[read.frame.columns.intersection(QUANTITIES[1:])].notna().any(axis=None)
    n_speedups = 0 if timed else int(read.frame["speedup"].notna().sum())
    speedups = f"{n_speedups} speedups of " if 0 < n_speedups < read.rows_kept else ""
    missing_help = None
    if absent:
        titles = [COLUMNS["points"][columns[0]].in_text for columns in absent]
        missing_help = f"Still missing: {listed(titles)}."
    st.button(
        f"Refit to these {speedups}{counted(read.rows_kept, 'row')}",
        key="refit_upload",
        type="primary" if filled else "secondary",
        on_click=refit_upload,
        args=(scenario.acceptance if _without_length(read) else None,),
        disabled=bool(absent),
        help=missing_help,
    )


def _without_length(read: Measured | None) -> bool:
    """Whether some rows with drafts state no accepted length."""
    return read is not None and bool(
        (read.frame["accepted_length"].isna() & (read.frame["draft_tokens_k"] != 0)).any()
    )


def draw_refit(scenario: Scenario) -> None:
    """Refit of this session, or reasons against its rows."""
    for text in dict.fromkeys((unit_problem(scenario.acceptance), problem("refit"))):
        show_problem(text)
    if REFIT.result is None:
        return
    points, result = REFIT.result
    st.subheader("What your data changed", anchor=False)
    against = result.reasons_against
    changed = _changed(result, scenario)
    if against:
        st.warning(plain(" ".join(against)), icon=":material/help:")
    else:
        st.markdown("  \n".join(filter(None, map(plain, (sentence(result), changed)))))
    _use(result, scenario)
    groups = curve_groups(result)
    with st.expander("Before and after, constants"):
        for text in filter(None, (sentence(result), changed) if against else ()):
            st.markdown(plain(text))
        if groups:
            show_chart(
                before_after_chart(before_after(points, result, groups[0])),
                "before_after",
                scenario,
            )
        show_table(Table(PARAMETERS, result.parameters))
        for note in refit_notes(result):
            st.caption(note)
    if result.outliers or result.refused:
        unused = (*result.outliers, *result.refused)
        with st.expander(f"Measured not used ({sum(refusal.rows for refusal in unused):,})"):
            show_table(_refused_rows(unused))


def _changed(result: RefitResult, scenario: Scenario) -> str:
    """What the refit does to the speedup of the row nearest to the scenario; empty for another
    server or no answer."""
    used = result.rows[result.rows["used"] & result.rows["n_draft"].gt(0)]
    if (result.hardware_id, result.engine) != (scenario.hardware_id, scenario.engine) or not len(
        used
    ):
        return ""
    cells = zip(used["batch_size"].astype(float), used["n_draft"].astype(int), strict=True)
    batch, k = min(
        cells,
        key=lambda cell: (
            max(cell[0] / scenario.batch_size, scenario.batch_size / cell[0]),
            -cell[1],
        ),
    )
    changes = {
        "refit": text_of(result),
        "batch_size": max(round(batch), 1),
        "k_max": max(scenario.k_max, k),
    }
    return attempt(refit_text_for, scenario.model_copy(update=changes), k)[0] or ""


def _use(result: RefitResult, scenario: Scenario) -> None:
    """Take it into every prediction of this session, or drop it.

    The accepted length that the upload counted comes with it where the scenario's is borrowed from
    a measured curve.
    """
    used = in_use() == text_of(result)
    read = upload()
    borrowed = acceptance_curve(scenario.acceptance) is not None
    length = own_length(read, scenario) if read is not None and borrowed else None
    row = st.container(horizontal=True, gap="small")
    offer = (
        "Use anyway, on every page" if result.reasons_against else "Use this refit on every page"
    )
    with_length = f" With it comes the accepted length of your runs, {length}." if length else ""
    row.button(
        "In use on every page" if used else offer,
        key="use_refit",
        disabled=used,
        icon=":material/public:",
        on_click=use_refit,
        args=(result, length),
        help=(
            "In this session only; the link and the report of a scenario then carry "
            f"it.{with_length}"
        ),
    )
    row.button("Undo the refit", key="undo_refit", on_click=undo_refit, icon=":material/undo:")


_SHOWN_ROWS = 200


def draw_benchmark(read: Measured | None, scenario: Scenario, heading: Heading) -> None:
    """The whole panel. Without rows, the form that says which column is which."""
    if read is not None and read.rows_refused:
        heading = functools.partial(_refusing, heading, read.rows_refused)
    if read is None:
        heading(
            "Which column is which?"
            if any(file.headers for file in FILES.result)
            else "Nothing could be read"
        )
        draw_mapping_panel(scenario)
        return
    if read.kind != "points":
        heading(f"{counted(read.rows_kept, 'kernel time')} read")
        st.caption(
            "Kernel times alone move no prediction: give served runs, or see them under Measure "
            "this machine."
        )
        _details(read, scenario)
        return
    if likely_columns():
        heading(f"{counted(read.rows_kept, 'row')} read: confirm the columns")
        draw_mapping_panel(scenario)
        _details(read, scenario)
        return
    if uncompared(read) or unknown_names(read):
        heading(f"{counted(read.rows_kept, 'row')} read: {asked_text(read)}")
        draw_open_fields(read, scenario)
        view = diagnosis.diagnosed(scenario)
        if view is not None and view.verdict.case in OF_THE_RUN:
            diagnosis.draw(view, scenario, filled=False)
            diagnosis.draw_rests_on(view)
        draw_refit(scenario)
    else:
        _compared(read, scenario, heading)
        draw_open_fields(read, scenario)
    draw_mapping_panel(scenario)
    _details(read, scenario)


def _refusing(heading: Heading, n_refused: int, title: str) -> None:
    """A title, and below it how many rows it does not rest on."""
    heading(title)
    st.caption(f"{counted(n_refused, 'row')} refused: why stands at the end.")


def _compared(read: Measured, scenario: Scenario, heading: Heading) -> None:
    """Verdict, buttons, charts; or why there are none."""
    view = diagnosis.diagnosed(scenario)
    advice, unpredicted = attempt(advice_for, scenario)
    mismatch = mismatch_of(scenario, read.frame)
    if mismatch is not None and advice is not None:
        _of_another_scenario(read, scenario, mismatch, heading)
        return
    heading("Nothing to diagnose" if view is None else plain(view.title))
    if view is None:
        show_problem(diagnosis.VIEW.problem)
        return
    points = measured_points(scenario) if advice else None
    drawn = advice is not None and view.verdict.unfit is None  # else all is of another server
    plate = runs_plate(advice, view.by_k, points) if advice and drawn and view.by_k else None
    command = measured_command(advice, own_schedule(points)) if advice and drawn else None
    diagnosis.draw(view, scenario, plate=plate, command=command)
    if view.verdict.unfit is None:
        _steps_that_follow(view, read, scenario)
        draw_refit(scenario)
        show_problem(unpredicted)
        _plain_sweep(read, scenario)
    diagnosis.draw_rests_on(view)


def _of_another_scenario(
    read: Measured, scenario: Scenario, mismatch: Mismatch, heading: Heading
) -> None:
    """Why the rows are not of the scenario, and the button that makes it theirs."""
    view = diagnosis.diagnosed(scenario)
    is_faulty = view is not None and (view.findings or not len(read.frame))
    heading(plain(view.title) if view is not None and is_faulty else _OTHER)
    diagnosis.draw(view, scenario)
    facts = {
        "model": model_name(scenario.model_id),
        "gpus": scenario.n_gpus,
        "accelerator": hardware_called(scenario.hardware_id),
        "drafter_id": scenario.drafter_id,
    }
    st.caption(plain(BOOK.say("mismatch", vars(mismatch) | facts)))
    if FROM_BAR.result.keys() & _OF_BAR:
        label = f"Read as {facts['model']} on {facts['accelerator']}"
        st.button(label, key="file_as_bar", type="primary", on_click=fill_as_bar, args=(scenario,))
    elif (theirs := scenario_of(read.frame, scenario)) is not None:
        use = functools.partial(show_other, theirs)
        st.button("Use the file's settings", key="bar_to_file", type="primary", on_click=use)
    draw_refit(scenario)
    diagnosis.draw_rests_on(view)


_OTHER = "Your runs are of another scenario"
_OF_BAR = frozenset({"model_id", "hardware_id"})
_BAR: Kept[Mapping[str, Any]] = Kept("_bar_of_files", dict)
"""What the bar said of columns that were taken from it when Measure was drawn last."""


def follow_bar(scenario: Scenario) -> None:
    """Read files anew that name no model or accelerator where the bar was changed beside them.

    A bar that was changed on another page is of another question; a refit is of the rows as they
    were read.
    """
    before = _BAR.result
    now = {name: of_scenario(name, scenario) for name in FROM_BAR.result}
    _BAR.put(now)
    changed = PAGE.result == "measure" and before.keys() == now.keys() and before != now
    if changed and REFIT.result is None and now.keys() & _OF_BAR:
        fill_as_bar(scenario)


def _steps_that_follow(view: DiagnosisView, read: Measured, scenario: Scenario) -> None:
    """Buttons: take over the runs' accepted length, and refit; the one that the verdict names is
    filled."""
    verdict = view.verdict
    length = own_length(read, scenario)
    with st.container(horizontal=True, gap="small", key="verdict_actions"):
        if length is not None and length != scenario.acceptance:
            st.button(
                f"Use my accepted length {length.replace(',', ', ')}",
                key="use_own_length",
                type="primary" if verdict.case == "own_length" else "secondary",
                on_click=use_length,
                args=(length,),
                help=f"In place of {scenario.acceptance}, on every page.",
            )
        if not view.is_far:
            draw_refit_button(read, scenario, filled=verdict.case == "faster")


def _plain_sweep(read: Measured, scenario: Scenario) -> None:
    """The sweep of plain steps to predict with, where the rows hold one."""
    if not read.frame["draft_tokens_k"].eq(0).any():
        return
    text, _ = attempt(plain_sweep_of, read.frame, scenario)
    held, _ = attempt(lambda: held_sweep(load_setup(scenario.model_copy(update={SWEEP: text}))))
    if text is None or held is None:
        return
    st.markdown(plain(note_text(held.note_at())))
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
    notes = reading_texts((*read.derived, *read.warnings))
    refused = f", {counted(read.rows_refused, 'row')} refused" if read.rows_refused else ""
    by = "" if read.sources[0].format_id in MAPPED_FORMATS else f" ({read.format_name})"
    open_ = bool(read.rows_refused) or attempt(advice_for, scenario)[0] is None
    with st.expander(
        f"{plain(read.file_name)}: {counted(read.rows_kept, 'row')} read{refused}{by}", open_
    ):
        kinds = [(KIND_NAMES[kind], name) for name, kind in KINDS.result]
        show_table(matrix(("Read as", "File"), kinds, "ll"))
        show_table(matrix(("Meaning", "Read from"), read_as(read), "ll"), widest=222)
        for line in told_apart():
            st.caption(plain(line))
        if notes:
            st.markdown("\n".join(f"- {plain(note)}" for note in notes))
        st.dataframe(read.frame.dropna(axis="columns", how="all").head(_SHOWN_ROWS))
        if len(read.rejects):
            st.subheader("Refused rows", anchor=False)
            st.dataframe(read.rejects.head(_SHOWN_ROWS), hide_index=True)
        rows = functools.partial(csv_of, read.frame.reset_index())
        download("Measured as CSV", rows, "measurements.csv", "upload_csv", quiet=True)
        if acceptance_texts := acceptances(read):
            label = st.selectbox(
                "Acceptance by position, as measured in these runs",
                list(acceptance_texts),
                key="own_acceptance",
            )
            st.button(
                "Predict with this acceptance",
                key="use_own_acceptance",
                on_click=use_rates,
                args=(acceptance_texts[label],),
            )
        draw_more_fields(read, scenario)


def _refused_rows(rows: Sequence[Refused]) -> Table[Any]:
    """Refused rows: reason, rows, first line."""
    reasons: dict[str, list[Refused]] = {}
    for row in rows:
        reasons.setdefault(row.reason, []).append(row)
    table_rows = [
        (why, sum(refusal.rows for refusal in refusals), min(refusal.line for refusal in refusals))
        for why, refusals in reasons.items()
    ]
    return matrix(("Reason", "Measured", "First line"), table_rows)
