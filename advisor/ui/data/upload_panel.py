"""The user's own benchmark: upload, what was read, which column is which, what is missing, refused rows.

Which column of a user's CSV is which of ours: a form for each file, for headers unknown or seemingly swapped.

Keep or forget an upload; the data sets that somebody chose to keep, which all who use this advisor see.

What the user's points change: refit, before and after, residuals, what was learnt; use it everywhere, undo.
"""

from __future__ import annotations

import functools
from typing import Any

import streamlit as st

from advisor.catalog.models import model_ids
from advisor.measured.ingest.cells import COMMA
from advisor.measured.ingest.columns import COLUMNS, template_csv
from advisor.measured.ingest.remap import target_label, targets
from advisor.measured.ingest.result import IngestResult, MissingField, csv_of
from advisor.measured.ingest.side_by_side import METRICS
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.moesd import moesd_of
from advisor.measured.observations import QUANTITIES
from advisor.measured.points import Point
from advisor.measured.refit import MIN_POINTS, before_after, curve_groups, curve_name
from advisor.measured.refit_result import RefitResult
from advisor.measured.refit_result import notes as refit_notes
from advisor.physics.acceptance import acceptance_curves
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import hardware_ids
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import before_after_chart, residual_chart
from advisor.show.table import Table
from advisor.show.words.refit import PARAMETERS
from advisor.text import counted
from advisor.ui.answers import refit_text_for
from advisor.ui.data.own_sweep import draw_sweep_of_upload
from advisor.ui.data.own_traces import acceptance_problem, use_length, use_rates
from advisor.ui.data.uploads import (
    UploadFile,
    acceptances,
    fill_in,
    fill_in_form,
    forget_kept,
    kept,
    kept_data,
    kept_name,
    kept_rows,
    notes,
    one_a_file,
    own_length,
    problem,
    read_with,
    refit_upload,
    refitted,
    refused_rows,
    result,
    take_files,
    take_sample,
    take_text,
    undo_refit,
    unit_problem,
    unknown_names,
    uploader_key,
    use_kept,
)
from advisor.ui.data.uploads import files as uploaded_files
from advisor.ui.data.uploads import forget as forget_upload
from advisor.ui.data.uploads import lacks as upload_lacks
from advisor.ui.data.uploads import save as save_upload
from advisor.ui.own_data import is_used, text_of, use_refit
from advisor.ui.state import own_hardware, own_models
from advisor.ui.widgets import plain, show_chart, show_table, upload_limit

_FROM_SCENARIO = {
    "hardware_id": "hardware_id",
    "model_id": "model_id",
    "engine": "engine",
    "batch_size": "batch_size",
    "tensor_parallel": "tensor_parallel",
    "expert_parallel": "expert_parallel",
    "drafter": "drafter_id",
}
_OF_THE_MODEL = ("gpu_count", "tensor_parallel", "expert_parallel", "drafter")
"""Fields of the bar that hold for its own model: a file of another model is asked for them."""
_YES_NO = {1: "yes, in these very runs", 0: "no, elsewhere"}
_SHOWN_ROWS = 200
_FEW = 2
MAX_PASTED = 1_000_000
"""Characters of a pasted text; longer logs are uploaded as files."""
_STATED_NAMES = ("hardware_id", "model_id", "weight_dtype", "drafter")
"""Names that a file states and a user may know better, as they are offered."""


def draw_upload_panel(scenario: Scenario) -> None:
    """The whole panel in the order of its steps.

    What was given, what was read and what it lacks, what it changed, and what else it has.
    """
    _given(scenario)
    read, found = result(), refitted()
    units = st.container()
    if read is not None:
        with units:
            _what_was_read(read)
    draw_mapping_panel()
    if read is not None:
        _missing_form(read, scenario)
        _stated_names(read)
        draw_sweep_of_upload(read, scenario)
        acceptance = ask(read, scenario)
        if said := unit_problem(acceptance):
            units.error(plain(said), icon=":material/straighten:")
    if found is not None:
        draw_refit_panel(found[0], found[1], scenario)
    if read is not None:
        _acceptance(read, scenario)
        _notes(read)
        _refused(read)
        keep(read)
    draw_kept_panel()


def _given(scenario: Scenario) -> None:
    """The uploader, the box for pasted text, a sample to try, and beside them why something could not be read."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.file_uploader(
            "Benchmark results (vLLM, SGLang, guidellm, AIPerf, InferenceX, or the template)",
            key=uploader_key(),
            on_change=take_files,
            accept_multiple_files=True,
            max_upload_size=upload_limit(MAX_BYTES),
        )
        _problem("file")
        for note in notes():
            st.info(plain(note), icon=":material/content_copy:")
        with st.expander("Or paste the block that the benchmark printed"):
            hint = (
                "============ Serving Benchmark Result ============\nSuccessful requests:                     64\n..."
            )
            asked = "Console output, JSON or CSV"
            st.text_area(asked, key="bench_text", height=200, max_chars=MAX_PASTED, placeholder=hint)
            st.button("Read the text", key="read_bench_text", on_click=take_text)
    with right:
        st.markdown(
            "1. **Give** the files of one sweep together, plain runs among them.  \n"
            "2. **Read**: columns, units and names are recognised, or asked for.  \n"
            "3. **Refit**: the constants move to your machine, and you see by how much.  \n"
            "4. **Use** it on every page, and see your points on the chart of Serve."
        )
        with st.container(horizontal=True):
            st.button(
                "Try a made-up sample",
                key="bench_sample",
                icon=":material/science:",
                on_click=take_sample,
                args=(scenario,),
                help="Rows that this advisor computed for your scenario, with a slower host.",
            )
            st.download_button(
                "Template (CSV)",
                template_csv(),
                file_name="measurements-template.csv",
                mime="text/csv",
                type="tertiary",
                icon=":material/download:",
                on_click="ignore",
            )
        st.caption("Files are read in memory and stay in this session until you save them on this server.")


def _what_was_read(read: IngestResult) -> None:
    st.subheader("What was read", anchor=False)
    st.markdown(f"Format: **{plain(read.format_name)}**")
    with st.grid(2, min_column_width=150):
        st.metric("Rows usable", f"{read.rows_kept:,}")
        st.metric("Rows refused", f"{read.rows_refused:,}")


def _notes(read: IngestResult) -> None:
    """What was derived and what is remarkable; after the result."""
    notes = [*read.derived, *read.warnings]
    if notes:
        st.markdown("\n".join(f"- {plain(note)}" for note in notes))
    shown = read.frame.dropna(axis="columns", how="all").head(_SHOWN_ROWS)
    with st.expander(f"Columns as understood ({len(shown.columns)})"):
        st.dataframe(shown)


def _refused(read: IngestResult) -> None:
    if not len(read.rejects):
        return
    with st.expander(f"Refused rows ({read.rows_refused:,})"):
        st.dataframe(read.rejects.head(_SHOWN_ROWS), hide_index=True)
        st.download_button(
            "Refused rows (CSV)",
            lambda: csv_of(read.rejects),
            file_name="refused-rows.csv",
            mime="text/csv",
            key="rejects_csv",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )


def _missing_form(read: IngestResult, scenario: Scenario) -> None:
    """Ask for what the file lacks, prefilled from the file, else from the scenario in the bar where that is alike.

    No `st.form`: what stands in the fields is what a refit uses, whether or not it was filled in before.
    """
    unknown = unknown_names(read)
    if not read.missing and not unknown:
        return
    other = _other_model(read, scenario)
    guesses = {item.name: _guess(item, other, scenario) for item in read.missing}
    if not unknown and not any(item.needed or guesses[item.name] is not None for item in read.missing):
        with st.expander(f"All that is needed is there; {counted(len(read.missing), 'field')} may stay empty"):
            for item in read.missing:
                _missing_field(item, None, read)
            _fill_in(read)
        return
    with st.container(border=True, key="missing_fields"):
        st.markdown("**What the file does not say**")
        if other and (left := [item for item in read.missing if item.name in _OF_THE_MODEL]):
            bar = ", ".join(f"{_title(item.name)} {_of_scenario(item.name, scenario)}" for item in left)
            said = f"The file is of {other}. Not taken from the bar, which is for {scenario.model_id}: {bar}."
            st.caption(plain(said))
        for name, names in unknown.items():
            _field(f"{_title(name)}: {', '.join(names[:3])} is not known; read it as", name, None, f"known_{name}")
        first = [item for item in read.missing if _asked_first(item, guesses[item.name])]
        rest = [item for item in read.missing if item not in first]
        with st.grid(3, min_column_width=250):
            for item in first:
                _missing_field(item, guesses[item.name], read)
        if rest:
            with st.expander(f"{counted(len(rest), 'field')} that may stay empty"):
                for item in rest:
                    _missing_field(item, None, read)
        _fill_in(read)


def _fill_in(read: IngestResult) -> None:
    """The button that takes what stands in the fields, and why it could not."""
    st.button("Fill in", key="fill_in", on_click=fill_in_form)
    _problem("fields")
    if read.kind == "points":
        st.caption("A refit uses what stands here. Fill it in to see first which speedups follow.")


def _guess(item: MissingField, other: str, scenario: Scenario) -> Any:
    """What the file suggests, else what the bar says where that is not of another model; None without either."""
    if item.prefill is not None or (other and item.name in _OF_THE_MODEL):
        return item.prefill
    return _of_scenario(item.name, scenario)


def _asked_first(item: MissingField, guess: Any) -> bool:
    """Whether a field stands open: it is needed, shows a guess that would be used, or decides what a refit moves."""
    return item.needed or guess is not None or item.name == "accepted_length_same_run"


def _missing_field(item: MissingField, guess: Any, read: IngestResult) -> None:
    """One field, by its meaning and with how many rows lack it; of a few, which."""
    either = {"gpu_count": "tensor_parallel", "tensor_parallel": "gpu_count"}.get(item.name)
    need = "needed" if item.needed else "may stay empty"
    if item.needed and either is not None:
        need = f"this or the {COLUMNS['points'][either].in_text} is needed"
    empty = read.frame.index[read.frame[item.name].isna()]
    lines = f" (line {', '.join(map(str, empty))})" if item.rows == len(empty) <= _FEW < len(read.frame) else ""
    label = f"{_title(item.name)} ({need}); missing in {counted(item.rows, 'row')}{lines}"
    meaning = item.meaning
    if files := one_a_file(item.name):
        label += "; one for all files, or one for each"
        meaning += f". One for each file: separated by commas, in this order: {', '.join(files)}"
    _field(label, item.name, guess, f"missing_{item.name}", meaning)


def _title(name: str) -> str:
    column = COLUMNS["points"].get(name) or COLUMNS["kernels"][name]
    return column.title


def _problem(place: str) -> None:
    """What went wrong with the button that stands here."""
    if said := problem(place):
        st.error(plain(said), icon=":material/error:")


def _other_model(read: IngestResult, scenario: Scenario) -> str:
    """The first model that the file names and the bar does not; empty where there is none."""
    named = read.frame["model_id"].dropna() if "model_id" in read.frame else ()
    return next((str(name) for name in named if name != scenario.model_id), "")


def _stated_names(read: IngestResult) -> None:
    """Names as they were read, each with another one to choose: a server may be called by any name."""
    stated = {name: sorted(read.frame[name].dropna().unique()) for name in _STATED_NAMES if name in read.frame}
    stated = {name: names for name, names in stated.items() if names}
    if not stated:
        return
    with st.expander("Names as read, to change"), st.form("stated_names", border=False):
        st.caption("A name chosen here holds for all rows of the upload; what it replaces is said above.")
        chosen = {
            name: _field(f"{_title(name)}: {', '.join(names[:4])}", name, None, f"stated_{name}")
            for name, names in stated.items()
        }
        if st.form_submit_button("Read with these names"):
            fill_in({}, chosen, "names")
            st.rerun()
        _problem("names")


def _of_scenario(name: str, scenario: Scenario) -> Any:
    if name == "gpu_count":  # of one copy, as the scenario's batch is
        return max(scenario.tensor_parallel, scenario.expert_parallel)
    return getattr(scenario, _FROM_SCENARIO[name]) if name in _FROM_SCENARIO else None


def _field(label: str, name: str, guess: Any, key: str, meaning: str = "") -> Any:
    choices: dict[str, list[Any]] = {
        "hardware_id": [*own_hardware(), *hardware_ids()],
        "model_id": [*own_models(), *model_ids()],
        "drafter": list(drafter_ids()),
        "accepted_length_same_run": list(_YES_NO),
        "metric": list(METRICS),
    }
    options = choices.get(name)
    help_text = plain(meaning) or None
    if options is None:
        return st.text_input(plain(label), "" if guess is None else str(guess), key=key, help=help_text)
    index = options.index(guess) if guess in options else None
    return st.selectbox(
        plain(label),
        options,
        index=index,
        key=key,
        help=help_text,
        format_func=lambda option: METRICS[option].title if option in METRICS else _YES_NO.get(option, option),
        placeholder="Not stated",
    )


def _acceptance(read: IngestResult, scenario: Scenario) -> None:
    """Accepted length, and acceptance by position, that the runs themselves measured, for the scenario."""
    length = own_length(read, scenario)
    if length is not None and length != scenario.acceptance:
        own, _, k = length.partition("@")
        st.button(
            f"Use your accepted length {float(own):.2f} at K = {k} on every page",
            key="use_own_length",
            icon=":material/input:",
            on_click=use_length,
            args=(length,),
            help=f"In place of {scenario.acceptance} at Accepted in the bar.",
        )
    found = acceptances(read)
    if not found:
        return
    if acceptance_problem():
        st.error(plain(acceptance_problem()), icon=":material/error:")
    label = st.selectbox("Acceptance by draft position, as measured in these runs", list(found), key="own_acceptance")
    st.button(
        "Use this acceptance in the scenario",
        key="use_own_acceptance",
        on_click=use_rates,
        args=(found[label],),
    )


_COMMAS = {"": "Not said", "decimal": "Decimals", "thousands": "Thousands"}
MAX_FIELDS = 40
"""Columns asked for; wider files are mapped on the command line (`ingest --map`)."""


def draw_mapping_panel() -> None:
    """A form for each file that can be mapped, open where it could not be read or columns look swapped."""
    files = uploaded_files()
    read = result()
    swapped = read is not None and bool(read.swapped)
    for number, file in enumerate(files):
        if file.headers:
            _form(number, file, len(files) > 1, swapped and not file.chosen)


def _form(number: int, file: UploadFile, several: bool, swapped: bool) -> None:
    """The form of one file; `several`: its name is said."""
    said = f" ({counted(file.unused, 'column')} {'not understood' if file.rows is None else 'not used'})"
    label = f"Which column is which{f' in {plain(file.name)}' if several else ''}{said if file.unused else ''}"
    of = f"{number}_" if several else ""
    with (
        st.expander(label, expanded=file.rows is None or swapped or bool(file.asked)),
        st.form(f"column_mapping_{number}", border=False),
    ):
        st.caption(
            "Columns are matched where the name allows it. Nothing is renamed until you confirm. Times need a unit."
        )
        options = targets(file.kind)
        chosen: dict[str, str] = {}
        if file.asked:
            st.warning(plain(f"{file.asked[0].upper()}{file.asked[1:]}"), icon=":material/help:")
            named = "What a comma in numbers marks"
            chosen[COMMA] = st.selectbox(
                named, list(_COMMAS), key=f"map_{of}comma", format_func=lambda meaning: _COMMAS[meaning]
            )
        shown = sorted(file.headers, key=lambda item: item.native == item.ours)[:MAX_FIELDS]
        with st.grid(3, min_column_width=200):
            for item in shown:
                chosen[item.theirs] = st.selectbox(
                    plain(item.theirs),
                    options,
                    index=options.index(item.ours),
                    key=f"map_{of}{item.theirs}",
                    format_func=functools.partial(target_label, kind=file.kind),
                    help=f"First cells: {plain(', '.join(item.cells))}" if item.cells else None,
                )
        if st.form_submit_button("Read with these columns", key=f"read_columns_{number}"):
            read_with(number, {item.theirs: item.ours for item in file.headers} | chosen)
            st.rerun()
        if said := problem(f"columns {number}"):
            st.error(plain(said), icon=":material/error:")
        if len(file.headers) > MAX_FIELDS:
            st.caption(
                f"{len(file.headers) - MAX_FIELDS} more columns can be mapped with `python -m advisor ingest --map`."
            )


_SHOWN_KEPT = 200
_FORGET = "Drops the rows, your points on the chart of Serve, and a refit on them from every page that uses it."


def keep(read: IngestResult) -> None:
    """Save the upload under a name, unless its very bytes are kept already, download it, or forget it."""
    st.subheader("Keep or forget", anchor=False)
    known = kept_name()
    if known:
        st.info(f"This file is kept already as {plain(known)}.", icon=":material/inventory_2:")
    else:
        called, person = st.columns(2)
        name = called.text_input("Name on this server", read.file_name, key="keep_name")
        given_by = person.text_input("Given by (optional, shown to all)", key="keep_given_by")
    save, csv, forget = st.columns(3)
    if not known:
        save.button("Save on this server", key="keep", on_click=save_upload, args=(name, given_by))
    csv.download_button(
        "Download as CSV",
        lambda: csv_of(read.frame.reset_index()),
        "measurements.csv",
        "text/csv",
        key="upload_csv",
        on_click="ignore",
    )
    forget.button("Forget this upload", key="forget", on_click=forget_upload, help=_FORGET)
    if said := problem("keep"):
        st.error(plain(said), icon=":material/error:")


def draw_kept_panel() -> None:
    """List, inspect, refit on, export and delete."""
    sets = kept()
    if sets is None or not len(sets):
        return
    if said := problem("kept"):
        st.error(plain(said), icon=":material/error:")
    with st.expander(f"Kept on this server ({len(sets)})"):
        st.dataframe(sets, hide_index=True)
        names = dict(zip(sets["dataset_id"], sets["name"], strict=True))
        chosen = st.selectbox(
            "Data set", list(names), key="kept_dataset", format_func=lambda item: f"{names[item]} ({item})"
        )
        use, csv, drop = st.columns(3)
        use.button("Refit on it", key="use_kept", on_click=use_kept, args=(chosen,))
        csv.download_button(
            "Download it as CSV",
            lambda: kept_data(chosen),
            f"{chosen}.csv",
            "text/csv",
            key="kept_csv",
            on_click="ignore",
        )
        drop.button("Delete it", key="forget_kept", on_click=forget_kept, args=(chosen,))
        if st.toggle("Show its rows", key="inspect_kept"):
            rows = kept_rows(chosen).dropna(axis="columns", how="all")
            st.dataframe(rows.head(_SHOWN_KEPT), hide_index=True)
            if len(rows) > _SHOWN_KEPT:
                st.caption(f"The first {_SHOWN_KEPT} of {len(rows):,} rows.")


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
    lacks = upload_lacks(read)
    st.button(
        "Refit on these points",
        key="refit_upload",
        icon=":material/tune:",
        on_click=refit_upload,
        args=(acceptance,),
        disabled=bool(lacks) or read.rows_kept < MIN_POINTS,
    )
    if lacks:
        fields = "; ".join(_needed(names, rows) for names, rows in lacks.items())
        st.caption(f"A refit needs {MIN_POINTS} rows that say all of it. Still missing above: {fields}.")
    elif read.rows_kept < MIN_POINTS:
        st.caption(f"A refit needs {MIN_POINTS} rows and more; give the files of several runs together.")
    borrowed = acceptance or scenario.acceptance
    said = problem("refit")
    if said and said != unit_problem(borrowed):
        st.error(plain(said), icon=":material/error:")
    return borrowed


def _needed(names: tuple[str, ...], rows: int) -> str:
    """A field that is needed, or several of which one is, in words."""
    if names == QUANTITIES:
        return f"a speedup, or a time per step or token ({counted(rows, 'row')})"
    columns = COLUMNS["points"]
    titles = [columns[names[0]].title, *(columns[name].in_text for name in names[1:])]
    return f"{' or '.join(titles)} ({counted(rows, 'row')})"


def draw_refit_panel(points: list[Point], result: RefitResult, scenario: Scenario) -> None:
    """The refit of this session."""
    st.subheader("What your data changed", anchor=False)
    st.markdown(plain(result.sentence))
    if changed := _changed(result, scenario):
        st.markdown(f":material/tune: {plain(changed)}")
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
        show_chart(chart, "before_after", scenario)
    show_chart(residual_chart(result), "residuals", scenario)
    show_table(Table(PARAMETERS, result.parameters))
    for note in refit_notes(result):
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
            st.dataframe(refused_rows(unused), hide_index=True)


def _changed(result: RefitResult, scenario: Scenario) -> str:
    """What the refit does to the scenario's speedup and band, and why; empty where it is for another accelerator or
    engine, or where the scenario has no answer."""
    if (result.hardware_id, result.engine) != (scenario.hardware_id, scenario.engine):
        return ""
    try:
        return refit_text_for(scenario.model_copy(update={"refit": text_of(result)}))
    except AdvisorError:
        return ""


def _use(found: RefitResult, scenario: Scenario) -> None:
    """Take it into every prediction of this session, or drop it.

    The accepted length that the upload counted comes with it where the scenario's is borrowed from a measured curve.
    """
    used = is_used(found)
    read = result()
    borrowed = scenario.acceptance in {curve.id for curve in acceptance_curves()}
    length = own_length(read, scenario) if read is not None and borrowed else None
    for reason in found.reasons_against:
        st.warning(plain(reason), icon=":material/help:")
    use, drop = st.columns(2)
    offer = "Use it all the same, on every page" if found.reasons_against else "Use this refit on every page"
    with_length = f" With it comes the accepted length of your runs, {length}." if length else ""
    use.button(
        "In use on every page" if used else offer,
        key="use_refit",
        disabled=used,
        icon=":material/public:",
        on_click=use_refit,
        args=(found, length),
        help=f"In this session only; the link and the report of a scenario then carry it.{with_length}",
    )
    drop.button("Undo the refit", key="undo_refit", on_click=undo_refit, icon=":material/undo:")
    if (found.hardware_id, found.engine) != (scenario.hardware_id, scenario.engine):
        st.caption(
            plain(
                f"It holds for {found.hardware_id} with {found.engine_class}; the scenario in the bar is on "
                f"{scenario.hardware_id} with {scenario.engine}."
            )
        )
