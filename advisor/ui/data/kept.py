"""Data sets that somebody chose to keep in this advisor's store, for all who use it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.ingest import csv_of, kept_points, kept_table
from advisor.prediction import AdvisorError
from advisor.ui.data import uploads
from advisor.ui.shared.session import Slot

_KEPT_AS: Slot[tuple[str, str]] = Slot("_upload_kept_as", lambda: ("", ""))
"""Hash of the upload that was looked up last, and under which name it is kept; empty when it is not."""


def kept_name() -> str:
    """Name under which the upload's very bytes are kept in the store already, empty when they are not."""
    from advisor.store import kept_as

    read = uploads.result()
    if read is None:
        return ""
    digest, name = _KEPT_AS.get()
    if digest != read.sha256:
        try:
            found = kept_as(read.sha256)
        except AdvisorError:
            return ""  # the list of kept data sets says why they cannot be looked at
        name = f"{found[1]} ({found[0]})" if found else ""
        _KEPT_AS.put((read.sha256, name))
    return name


def save(name: str, given_by: str) -> None:
    """Keep the upload in the store."""
    from advisor.store import save_upload

    read = uploads.result()
    if read is None:
        return
    _KEPT_AS.drop()
    try:
        save_upload(kept_table(read), name=name.strip() or read.file_name, sha256=read.sha256, given_by=given_by)
    except AdvisorError as error:
        uploads.complain("keep", error)


def kept() -> pd.DataFrame | None:
    """Kept data sets, or None with the reason on this screen.

    None when their file cannot be opened now.
    """
    from advisor.store import list_uploads

    try:
        return list_uploads()
    except AdvisorError as error:
        st.text(f"Kept data sets cannot be listed: {error}")
        return None


def kept_rows(dataset_id: str) -> pd.DataFrame:
    """The rows of a kept data set.

    Empty, with the reason on the next screen, when it cannot be read.
    """
    from advisor.store import read_upload

    try:
        return read_upload(dataset_id)
    except AdvisorError as error:
        uploads.complain("kept", error)
        return pd.DataFrame()


def kept_data(dataset_id: str) -> bytes:
    """A kept data set as CSV.

    Empty, with the reason on the next screen, when it cannot be read.
    """
    return csv_of(kept_rows(dataset_id))


def use_kept(dataset_id: str) -> None:
    """Refit on a kept data set, with the models of this session."""
    from advisor.store import read_upload

    try:
        frame = kept_points(read_upload(dataset_id))
    except AdvisorError as error:
        uploads.complain("kept", error)
        return
    uploads.drop()  # what was uploaded gives way only to what can be read
    uploads.refit(frame, "kept")


def forget_kept(dataset_id: str) -> None:
    """Delete a kept data set from the store."""
    from advisor.store import forget_upload

    _KEPT_AS.drop()
    try:
        forget_upload(dataset_id)
    except AdvisorError as error:
        uploads.complain("kept", error)
