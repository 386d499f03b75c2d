"""Keep or forget an upload; the data sets that somebody chose to keep, which all who use this advisor see."""

from __future__ import annotations

import streamlit as st

from advisor.ingest import IngestResult, csv_of
from advisor.ui.data import kept, uploads
from advisor.ui.shared import widgets

_SHOWN_ROWS = 200
_FORGET = "Drops the rows, your points on the chart of Serve, and a refit on them from every page that uses it."


def keep(read: IngestResult) -> None:
    """Save the upload under a name, unless its very bytes are kept already, download it, or forget it."""
    st.subheader("Keep or forget", anchor=False)
    known = kept.kept_name()
    if known:
        st.info(f"This file is kept already as {widgets.plain(known)}.", icon=":material/inventory_2:")
    else:
        called, person = st.columns(2)
        name = called.text_input("Name on this server", read.file_name, key="keep_name")
        given_by = person.text_input("Given by (optional, shown to all)", key="keep_given_by")
    save, csv, forget = st.columns(3)
    if not known:
        save.button("Save on this server", key="keep", on_click=kept.save, args=(name, given_by))
    csv.download_button(
        "Download as CSV",
        lambda: csv_of(read.frame.reset_index()),
        "measurements.csv",
        "text/csv",
        key="upload_csv",
        on_click="ignore",
    )
    forget.button("Forget this upload", key="forget", on_click=uploads.forget, help=_FORGET)
    if said := uploads.problem("keep"):
        st.error(widgets.plain(said), icon=":material/error:")


def draw() -> None:
    """List, inspect, refit on, export and delete."""
    sets = kept.kept()
    if sets is None or not len(sets):
        return
    if said := uploads.problem("kept"):
        st.error(widgets.plain(said), icon=":material/error:")
    with st.expander(f"Kept on this server ({len(sets)})"):
        st.dataframe(sets, hide_index=True)
        names = dict(zip(sets["dataset_id"], sets["name"], strict=True))
        chosen = st.selectbox(
            "Data set", list(names), key="kept_dataset", format_func=lambda item: f"{names[item]} ({item})"
        )
        use, csv, drop = st.columns(3)
        use.button("Refit on it", key="use_kept", on_click=kept.use_kept, args=(chosen,))
        csv.download_button(
            "Download it as CSV",
            lambda: kept.kept_data(chosen),
            f"{chosen}.csv",
            "text/csv",
            key="kept_csv",
            on_click="ignore",
        )
        drop.button("Delete it", key="forget_kept", on_click=kept.forget_kept, args=(chosen,))
        if st.toggle("Show its rows", key="inspect_kept"):
            rows = kept.kept_rows(chosen).dropna(axis="columns", how="all")
            st.dataframe(rows.head(_SHOWN_ROWS), hide_index=True)
            if len(rows) > _SHOWN_ROWS:
                st.caption(f"The first {_SHOWN_ROWS} of {len(rows):,} rows.")
