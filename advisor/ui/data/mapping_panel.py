"""Which column of a user's CSV is which of ours: a form with guesses, for headers unknown or seemingly swapped."""

from __future__ import annotations

import streamlit as st

from advisor.ingest import IGNORE
from advisor.ui.data import uploads
from advisor.ui.shared import widgets

MAX_FIELDS = 40
"""Columns asked for; wider files are mapped on the command line (`ingest --map`)."""


def draw() -> None:
    """The form, open when the file could not be read or columns look swapped; nothing for files of other kinds."""
    headers, read = uploads.headers(), uploads.result()
    if not headers:
        return
    strange = [item for item in headers if item.native is None and (read is None or item.ours == IGNORE)]
    needed = read is None or bool(read.swapped)
    what = "not understood" if read is None else "not used"
    label = "Which column is which" + (f" ({len(strange)} {what})" if strange else "")
    with st.expander(label, expanded=needed), st.form("column_mapping", border=False):
        st.caption("Guessed where it could be; nothing is exchanged before you say so. Times carry their unit.")
        options, chosen = uploads.mapping_targets(), {}
        shown = sorted(headers, key=lambda item: item.native == item.ours)[:MAX_FIELDS]
        with st.grid(3, min_column_width=200):
            for item in shown:
                chosen[item.theirs] = st.selectbox(
                    widgets.plain(item.theirs), options, index=options.index(item.ours), key=f"map_{item.theirs}",
                    format_func=lambda name: "(ignored)" if name == IGNORE else name,
                    help=f"First cells: {widgets.plain(', '.join(item.cells))}" if item.cells else None,
                )  # fmt: skip
        if st.form_submit_button("Read with these columns"):
            uploads.read_as({item.theirs: item.ours for item in headers} | chosen)
            st.rerun()
    if len(headers) > MAX_FIELDS:
        st.caption(f"{len(headers) - MAX_FIELDS} more columns can be mapped with `python -m advisor ingest --map`.")
