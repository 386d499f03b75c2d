"""The user's own benchmark: upload, what was read, which column is which, what is missing, refused rows."""

from __future__ import annotations

from typing import Any

import streamlit as st

from advisor import ingest
from advisor.catalog import model_ids
from advisor.drafter import drafter_ids
from advisor.hardware import hardware_ids
from advisor.ingest import MAX_BYTES, IngestResult, MissingField
from advisor.scenario import Scenario
from advisor.text import counted
from advisor.ui.data import kept_panel, mapping_panel, own_traces, refit_panel, uploads
from advisor.ui.shared import state, widgets

_FROM_SCENARIO = {
    "hardware_id": "hardware_id",
    "model_id": "model_id",
    "engine": "engine",
    "batch_size": "batch_size",
    "gpu_count": "n_gpus",
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


def draw(scenario: Scenario) -> None:
    """The whole panel in the order of its steps.

    What was given, what was read and what it lacks, what it changed, and what else it has.
    """
    _given(scenario)
    read, found = uploads.result(), uploads.refitted()
    units = st.container()
    if read is not None:
        with units:
            _what_was_read(read)
    mapping_panel.draw()
    if read is not None:
        _missing_form(read, scenario)
        _stated_names(read)
        acceptance = refit_panel.ask(read, scenario)
        if said := uploads.unit_problem(acceptance):
            units.error(widgets.plain(said), icon=":material/straighten:")
    if found is not None:
        refit_panel.draw(found[0], found[1], scenario)
    if read is not None:
        _acceptance(read)
        _notes(read)
        _refused(read)
        kept_panel.keep(read)
    kept_panel.draw()


def _given(scenario: Scenario) -> None:
    """The uploader, the box for pasted text, a sample to try, and beside them why something could not be read."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.file_uploader(
            "Benchmark results (vLLM, SGLang, guidellm, AIPerf, InferenceX, or the template)",
            key=uploads.uploader_key(),
            on_change=uploads.take_files,
            accept_multiple_files=True,
            max_upload_size=widgets.upload_limit(MAX_BYTES),
        )
        _problem("file")
        for note in uploads.notes():
            st.info(widgets.plain(note), icon=":material/content_copy:")
        with st.expander("Or paste the block that the benchmark printed"):
            hint = (
                "============ Serving Benchmark Result ============\nSuccessful requests:                     64\n..."
            )
            asked = "Console output, JSON or CSV"
            st.text_area(asked, key="bench_text", height=200, max_chars=MAX_PASTED, placeholder=hint)
            st.button("Read the text", key="read_bench_text", on_click=uploads.take_text)
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
                on_click=uploads.take_sample,
                args=(scenario,),
                help="Rows that this advisor computed for your scenario, with a slower host.",
            )
            st.download_button(
                "Template (CSV)",
                ingest.template_csv(),
                file_name="measurements-template.csv",
                mime="text/csv",
                type="tertiary",
                icon=":material/download:",
                on_click="ignore",
            )
        st.caption("Files are read in memory and stay in this session until you save them on this server.")


def _what_was_read(read: IngestResult) -> None:
    st.subheader("What was read", anchor=False)
    st.markdown(f"Format: **{widgets.plain(read.format_name)}**")
    with st.grid(2, min_column_width=150):
        st.metric("Rows usable", f"{read.rows_kept:,}")
        st.metric("Rows refused", f"{read.rows_refused:,}")


def _notes(read: IngestResult) -> None:
    """What was derived and what is remarkable; after the result."""
    notes = [*read.derived, *read.warnings]
    if notes:
        st.markdown("\n".join(f"- {widgets.plain(note)}" for note in notes))
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
            lambda: ingest.csv_of(read.rejects),
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
    unknown = uploads.unknown_names(read)
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
            st.caption(widgets.plain(said))
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
    st.button("Fill in", key="fill_in", on_click=uploads.fill_in_form)
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
        need = f"this or the {ingest.COLUMNS['points'][either].in_text} is needed"
    empty = read.frame.index[read.frame[item.name].isna()]
    lines = f" (line {', '.join(map(str, empty))})" if item.rows == len(empty) <= _FEW < len(read.frame) else ""
    label = f"{_title(item.name)} ({need}); missing in {counted(item.rows, 'row')}{lines}"
    _field(label, item.name, guess, f"missing_{item.name}", item.meaning)


def _title(name: str) -> str:
    column = ingest.COLUMNS["points"].get(name) or ingest.COLUMNS["kernels"][name]
    return column.title


def _problem(place: str) -> None:
    """What went wrong with the button that stands here."""
    if said := uploads.problem(place):
        st.error(widgets.plain(said), icon=":material/error:")


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
            uploads.fill_in({}, chosen, "names")
            st.rerun()
        _problem("names")


def _of_scenario(name: str, scenario: Scenario) -> Any:
    return getattr(scenario, _FROM_SCENARIO[name]) if name in _FROM_SCENARIO else None


def _field(label: str, name: str, guess: Any, key: str, meaning: str = "") -> Any:
    choices: dict[str, list[Any]] = {
        "hardware_id": list(hardware_ids()),
        "model_id": [*state.own_models(), *model_ids()],
        "drafter": list(drafter_ids()),
        "accepted_length_same_run": list(_YES_NO),
    }
    options = choices.get(name)
    help_text = widgets.plain(meaning) or None
    if options is None:
        return st.text_input(widgets.plain(label), "" if guess is None else str(guess), key=key, help=help_text)
    index = options.index(guess) if guess in options else None
    return st.selectbox(
        widgets.plain(label),
        options,
        index=index,
        key=key,
        help=help_text,
        format_func=lambda option: _YES_NO.get(option, option),
        placeholder="Not stated",
    )


def _acceptance(read: IngestResult) -> None:
    """Acceptance by position that the runs themselves measured, for the scenario."""
    found = uploads.acceptances(read)
    if not found:
        return
    if own_traces.acceptance_problem():
        st.error(widgets.plain(own_traces.acceptance_problem()), icon=":material/error:")
    label = st.selectbox("Acceptance by draft position, as measured in these runs", list(found), key="own_acceptance")
    st.button(
        "Use this acceptance in the scenario",
        key="use_own_acceptance",
        on_click=own_traces.use_rates,
        args=(found[label],),
    )
