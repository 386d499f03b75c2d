"""Which column of a user's CSV is which of ours: a form for each file, for headers unknown or seemingly swapped."""

from __future__ import annotations

import functools

import streamlit as st

from advisor.ingest import target_label, targets
from advisor.text import counted
from advisor.ui.data import uploads
from advisor.ui.data.upload_files import UploadFile
from advisor.ui.shared import widgets

MAX_FIELDS = 40
"""Columns asked for; wider files are mapped on the command line (`ingest --map`)."""


def draw() -> None:
    """A form for each file that can be mapped, open where it could not be read or columns look swapped."""
    files = uploads.files()
    read = uploads.result()
    swapped = read is not None and bool(read.swapped)
    for number, file in enumerate(files):
        if file.headers:
            _form(number, file, len(files) > 1, swapped and not file.chosen)


def _form(number: int, file: UploadFile, several: bool, swapped: bool) -> None:
    """The form of one file; `several`: its name is said."""
    said = f" ({counted(file.unused, 'column')} {'not understood' if file.rows is None else 'not used'})"
    label = f"Which column is which{f' in {widgets.plain(file.name)}' if several else ''}{said if file.unused else ''}"
    of = f"{number}_" if several else ""
    with (
        st.expander(label, expanded=file.rows is None or swapped),
        st.form(f"column_mapping_{number}", border=False),
    ):
        st.caption(
            "Columns are matched where the name allows it. Nothing is renamed until you confirm. Times need a unit."
        )
        options, chosen = targets(file.kind), {}
        shown = sorted(file.headers, key=lambda item: item.native == item.ours)[:MAX_FIELDS]
        with st.grid(3, min_column_width=200):
            for item in shown:
                chosen[item.theirs] = st.selectbox(
                    widgets.plain(item.theirs),
                    options,
                    index=options.index(item.ours),
                    key=f"map_{of}{item.theirs}",
                    format_func=functools.partial(target_label, kind=file.kind),
                    help=f"First cells: {widgets.plain(', '.join(item.cells))}" if item.cells else None,
                )
        if st.form_submit_button("Read with these columns", key=f"read_columns_{number}"):
            uploads.read_with(number, {item.theirs: item.ours for item in file.headers} | chosen)
            st.rerun()
        if said := uploads.problem(f"columns {number}"):
            st.error(widgets.plain(said), icon=":material/error:")
        if len(file.headers) > MAX_FIELDS:
            st.caption(
                f"{len(file.headers) - MAX_FIELDS} more columns can be mapped with `python -m advisor ingest --map`."
            )
