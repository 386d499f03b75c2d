"""What a file leaves open, and nothing else: columns that could not be matched, fields that nobody said, names."""

from __future__ import annotations

import functools
from typing import Any

import streamlit as st

from advisor.catalog.models import model_ids
from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.remap import likely_targets, target_label
from advisor.measured.ingest.result import ANSWERS, COMMA, TIMES, MissingField
from advisor.measured.ingest.rows import Measured
from advisor.measured.ingest.side_by_side import METRICS, metrics_in_unit
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import hardware_ids
from advisor.predict.scenario import Scenario
from advisor.text import counted
from advisor.ui.measure.session import (
    FILES,
    FROM_BAR,
    OF_THE_MODEL,
    UploadFile,
    fill_in,
    fill_in_form,
    guess_of,
    header_in,
    of_scenario,
    one_a_file,
    other_model,
    problem,
    read_with,
    unknown_names,
    upload,
)
from advisor.ui.state import own_models, plain
from advisor.ui.widgets import show_problem

_YES_NO = {1: "yes, in these very runs", 0: "no, elsewhere"}
_FEW = 2
_STATED_NAMES = ("hardware_id", "model_id", "weight_dtype", "drafter")
"""Names that a file states and a user may know better, as they are offered."""


def read_as(read: Measured) -> list[tuple[str, str]]:
    """Pairs (meaning, column of the file), then the values taken from the bar."""
    known = COLUMNS[read.kind]
    columns: dict[str, str] = {}
    for headers in (source.headers for source in read.sources):
        for ours, (theirs, _) in headers.items():
            if ours in read.frame and read.frame[ours].notna().any():
                columns.setdefault(ours, theirs)
    found = list(read.frame["metric"].dropna().unique()) if "metric" in read.frame else []
    metric = METRICS[str(found[0])].title if len(found) == 1 and str(found[0]) in METRICS else ""
    metric = metric[:1].lower() + metric[1:]  # empty where there are no two values side by side, or several kinds
    titles = {"baseline_value": f"Plain: {metric}", "sd_value": f"With drafts: {metric}"} if metric else {}
    said = [(titles.get(name, known[name].title), column) for name, column in columns.items() if name in known]
    return [*said, *((_title(name), f"{value} (bar)") for name, value in FROM_BAR.result.items())]


def asked_text(read: Measured) -> str:
    """Words for the title on fields still asked for."""
    needed = [item for item in read.missing if item.needed]
    if not needed or unknown_names(read) or any(item.name not in _NAMED or item.prefill is None for item in needed):
        return "some values are missing"
    return f"confirm {', '.join(_NAMED[item.name].format(item.prefill) for item in needed)}"


_NAMED = {"draft_tokens_k": "K = {}", "metric": "what is counted", "drafter": "the drafter"}
_FROM_NAME = {
    "draft_tokens_k": ("sd_value", "Draft length K in {}"),
    "metric": ("baseline_value", "What {} counts"),
    "drafter": ("sd_value", "Drafter of {}"),
}
"""Fields guessed from a column's name: the column of ours, and the label."""


def draw_open_fields(read: Measured, scenario: Scenario) -> None:
    """Ask for what is needed and nobody said. What stands in the fields is what a refit uses, filled in or not."""
    unknown = unknown_names(read)
    if not read.missing and not unknown:
        return
    needed = [item for item in read.missing if item.needed]
    if not needed and not unknown:
        return
    other = other_model(read, scenario)
    with st.container(border=True, key="missing_fields"):
        st.subheader("What the file does not say", anchor=False)
        if other and (left := [item for item in needed if item.name in OF_THE_MODEL]):
            bar = ", ".join(f"{_title(item.name)} {of_scenario(item.name, scenario)}" for item in left)
            said = f"The file is of {other}. Not taken from the bar, which is for {scenario.model_id}: {bar}."
            st.caption(plain(said))
        for name, names in unknown.items():
            _field(f"{_title(name)}: {', '.join(names[:3])} is not known; read it as", name, None, f"known_{name}")
        with st.grid(3, min_column_width=250):
            for item in needed:
                _missing_field(item, guess_of(item, other, scenario), read)
        st.button("Fill in", key="fill_in", type="primary", on_click=fill_in_form)
        show_problem(problem("fields"))


def draw_more_fields(read: Measured) -> None:
    """Fields that may stay empty, and names as they were read: for whoever knows better."""
    optional = [item for item in read.missing if not item.needed]
    for item in optional:
        _missing_field(item, item.prefill, read)
    if optional:
        st.button("Fill in", key="fill_in_more", on_click=fill_in_form)
    _stated_names(read)


def _missing_field(item: MissingField, guess: Any, read: Measured) -> None:
    """One field, by its meaning and with how many rows lack it; of a few, which."""
    either = {"gpu_count": "tensor_parallel", "tensor_parallel": "gpu_count"}.get(item.name)
    need = "needed" if item.needed else "may stay empty"
    if item.needed and either is not None:
        need = f"this or the {COLUMNS['points'][either].in_text} is needed"
    empty = read.frame.index[read.frame[item.name].isna()]
    lines = f" (line {', '.join(map(str, empty))})" if item.rows == len(empty) <= _FEW < len(read.frame) else ""
    label = f"{_title(item.name)} ({need}); missing in {counted(item.rows, 'row')}{lines}"
    meaning = item.meaning
    column, words = _FROM_NAME.get(item.name, ("", ""))
    if item.needed and (item.prefill is not None or item.name == "metric") and (header := header_in(read, column)):
        label = words.format(header)
    if files := one_a_file(item.name):
        label += "; one for all files, or one for each"
        meaning += f". One for each file: separated by commas, in this order: {', '.join(files)}"
    _field(label, item.name, guess, f"missing_{item.name}", meaning)


def _title(name: str) -> str:
    column = COLUMNS["points"].get(name) or COLUMNS["kernels"][name]
    return column.title


def _stated_names(read: Measured) -> None:
    """Names as they were read, each with another one to choose: a server may be called by any name."""
    stated = {name: sorted(read.frame[name].dropna().unique()) for name in _STATED_NAMES if name in read.frame}
    stated = {name: names for name, names in stated.items() if names}
    if not stated:
        return
    with st.form("stated_names", border=False):
        st.caption("A name chosen here holds for all rows of the upload.")
        chosen = {
            name: _field(f"{_title(name)}: {', '.join(names[:4])}", name, None, f"stated_{name}")
            for name, names in stated.items()
        }
        if st.form_submit_button("Read with these names"):
            fill_in({}, chosen, "names")
            st.rerun()
        show_problem(problem("names"))


def _field(label: str, name: str, guess: Any, key: str, meaning: str = "") -> Any:
    read = upload()
    choices: dict[str, list[Any]] = {
        "hardware_id": list(hardware_ids()),
        "model_id": [*own_models(), *model_ids()],
        "drafter": list(drafter_ids()),
        "accepted_length_same_run": list(_YES_NO),
        "metric": metrics_in_unit(header_in(read, "baseline_value") if read else ""),
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


_ASKED = {COMMA: "What a comma in numbers marks", TIMES: "Unit of times that name none"}
_SAID = {"": "Not said", "decimal": "Decimals", "thousands": "Thousands"}
MAX_FIELDS = 40
"""Columns asked for, those first that nothing is read from."""


def draw_mapping_panel(scenario: Scenario) -> None:
    """A form for each file that can be mapped, open where it could not be read or columns look swapped."""
    given, read = FILES.result, upload()
    swapped = read is not None and bool(read.swapped)
    for number, file in enumerate(given):
        if file.headers:
            _form(number, file, scenario, len(given) > 1, swapped and not file.chosen)


def _form(number: int, file: UploadFile, scenario: Scenario, several: bool, swapped: bool) -> None:
    """The form of one file; `several`: its name is said."""
    said = f" ({counted(file.unused, 'column')} {'not understood' if file.rows is None else 'not used'})"
    label = f"Which column is which{f' in {plain(file.name)}' if several else ''}{said if file.unused else ''}"
    of = f"{number}_" if several else ""
    with (
        st.expander(label, expanded=file.rows is None or swapped or bool(file.asked)),
        st.form(f"column_mapping_{number}", border=False),
    ):
        st.caption("Likely meanings first; type to search. Nothing changes until you confirm. Times need a unit.")
        chosen: dict[str, str] = {}
        for asked in file.asked:
            st.warning(plain(f"{asked.text[0].upper()}{asked.text[1:]}"), icon=":material/help:")
            chosen[asked.key] = st.selectbox(
                _ASKED[asked.key],
                ["", *ANSWERS[asked.key]],
                key=f"map_{of}{'comma' if asked.key == COMMA else asked.key}",
                format_func=lambda meaning: _SAID.get(meaning, meaning),
            )
        shown = sorted(file.headers, key=lambda item: item.native == item.ours)[:MAX_FIELDS]
        with st.grid(3, min_column_width=200):
            for item in shown:
                options = likely_targets(item, file.kind)
                chosen[item.theirs] = st.selectbox(
                    plain(item.theirs),
                    options,
                    index=options.index(item.ours),
                    key=f"map_{of}{item.theirs}",
                    format_func=functools.partial(target_label, kind=file.kind),
                    help=f"First cells: {plain(', '.join(item.cells))}" if item.cells else None,
                )
        if st.form_submit_button("Read with these columns", key=f"read_columns_{number}"):
            read_with(number, {item.theirs: item.ours for item in file.headers} | chosen, scenario)
            st.rerun()
        show_problem(problem(f"columns {number}"))
        if len(file.headers) > MAX_FIELDS:
            st.caption(f"{len(file.headers) - MAX_FIELDS} more columns have no field: leave some out of the file.")
