"""The user's benchmark results in the session: read, mapped, completed, refitted, kept. Nothing here is shared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from advisor import ingest
from advisor.catalog import model_ids
from advisor.hardware import hardware_ids
from advisor.ingest import Header, IngestResult, Rows, TableKind, csv_of, kept_points, kept_table
from advisor.points import Point, RefitResult, Refused, refit_chosen, select_points
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario, build_scenario
from advisor.summary import sample_csv
from advisor.ui.shared import answers, fields, own_points, refit_use, state
from advisor.ui.shared.session import Slot, nothing

_RESULT = own_points.UPLOAD
_ROWS: Slot[Rows | None] = Slot("_upload_rows", nothing)
_FILES: Slot[tuple[str, ...]] = Slot("_upload_files", tuple)
"""Hashes of the files that were read."""
_PROBLEM: Slot[str] = Slot("_upload_problem", str)
_REFIT: Slot[tuple[list[Point], RefitResult] | None] = Slot("_upload_refit", nothing)
_CSV: Slot[tuple[str, bytes, TableKind] | None] = Slot("_upload_csv", nothing)
"""Name, content and kind of rows of the one CSV whose headers may be mapped."""
_HEADERS: Slot[tuple[Header, ...]] = Slot("_upload_headers", tuple)
_NOTES: Slot[list[str]] = Slot("_upload_notes", list)
_KEPT_AS: Slot[str] = Slot("_upload_kept_as", str)
_CLEARED: Slot[int] = Slot("_uploads_cleared", int)
"""How often the upload was forgotten."""
MAPPED_FORMATS = ("canonical_csv", "canonical_json", "kernel_table")
"""Formats whose headers a user may give in words of their own."""


def result() -> IngestResult | None:
    """The upload of this session, as read and completed so far."""
    return _RESULT.get()


def problem() -> str:
    """Why the last thing asked of the upload did not work; empty when it did."""
    return _PROBLEM.get()


def notes() -> list[str]:
    """What was recognised about the files of the uploader: already read, already kept."""
    return _NOTES.get()


def kept_name() -> str:
    """Under which name the upload is kept in this advisor's store already; empty when it is not."""
    return _KEPT_AS.get()


def uploader_key() -> str:
    """Key of the uploader: a new one after the upload was forgotten, so that no file stands there that is not read."""
    cleared = _CLEARED.get()
    return f"bench_file_{cleared}" if cleared else "bench_file"


def take_sample(scenario: Scenario) -> None:
    """Read rows that the advisor itself computed for a scenario, with a slower host: something to try."""
    _drop()
    asked = build_scenario(**fields.START) if scenario.is_private or scenario.drafter_id == "none" else scenario
    data = sample_csv(answers.advice_for(asked)).encode()
    _FILES.put((hashlib.sha256(data).hexdigest(),))
    try:
        _take(_read("made-up-sample.csv", data))
    except AdvisorError as error:
        _PROBLEM.put(str(error))
    _NOTES.put(["A made-up sample: computed for your scenario with a slower host, not measured"])


def take_files() -> None:
    """Read the files of the uploader as one; files that were read before are recognised by their hash."""
    given = st.session_state.get(uploader_key()) or []
    if not given:
        return
    by_hash: dict[str, tuple[str, bytes]] = {}
    said: list[str] = []
    for item in given:
        data = item.getvalue()
        digest = hashlib.sha256(data).hexdigest()
        if digest in by_hash:
            said.append(f"{item.name} is the same file as {by_hash[digest][0]}: read once")
        else:
            by_hash[digest] = (item.name, data)
    if set(by_hash) == set(_FILES.get()):
        _NOTES.put(said or ["This is already read in this session; nothing changed"])
        return
    _drop()
    _FILES.put(tuple(by_hash))
    tables, failed = [], []
    for name, data in by_hash.values():
        try:
            tables.append(_read(name, data))
        except AdvisorError as error:
            failed.append(str(error))
    try:
        if tables:
            _take(ingest.combine(tables))
    except AdvisorError as error:
        failed.append(str(error))
    if len(by_hash) == 1:
        _offer_mapping(*next(iter(by_hash.values())), result())
        if headers() and failed and "is not recognised" in failed[0]:
            failed = [f"{given[0].name} is not recognised by its headers; say below which column is which"]
    _look_up_kept()
    _NOTES.put(said)
    _PROBLEM.put(". ".join(failed))


PASTED = "pasted text"


def take_text() -> None:
    """Read what stands in the box `bench_text` as one file: a console block, JSON, or a CSV."""
    text = str(st.session_state.get("bench_text") or "")
    if not text.strip():
        return
    data = text.encode("utf-8", errors="replace")
    _drop()
    _FILES.put((hashlib.sha256(data).hexdigest(),))
    failed = ""
    try:
        _take(_read(PASTED, data))
    except AdvisorError as error:
        failed = str(error)
    _offer_mapping(PASTED, data, result())
    _look_up_kept()
    _PROBLEM.put(failed)


def _take(rows: Rows) -> None:
    _RESULT.put(rows.result)
    _ROWS.put(rows)


def _read(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> Rows:
    return ingest.resolve_names(ingest.read_upload(name, data, columns=columns), hardware_ids(), model_ids())


def _offer_mapping(name: str, data: bytes, read: IngestResult | None) -> None:
    """Keep what the mapping form needs when a lone file is a CSV under headers that a user may choose."""
    if read is None or read.format_id in MAPPED_FORMATS:
        kind = read.kind if read is not None else "points"
        headers = ingest.own_headers(name, data, kind, read.swapped if read is not None else ())
        if headers:
            _CSV.put((name, data, kind))
            _HEADERS.put(headers)


def headers() -> tuple[Header, ...]:
    """The upload's own headers where it is one CSV that can be mapped, each with what it is or may be read as."""
    return _HEADERS.get()


def mapping_targets() -> list[str]:
    """What a column of the upload may be read as."""
    given = _CSV.get()
    return [] if given is None else ingest.targets(given[2])


def read_as(chosen: Mapping[str, str]) -> None:
    """Read the CSV anew with its headers as chosen {theirs: ours}; what was filled in and refitted is dropped."""
    given = _CSV.get()
    if given is None:
        return
    name, data, _ = given
    changed = {item.theirs: chosen[item.theirs] for item in headers() if _differs(item, chosen[item.theirs])}
    forget_refit()
    try:
        _take(_read(name, data, changed or None))
    except AdvisorError as error:
        _RESULT.drop()
        _ROWS.drop()
        _PROBLEM.put(str(error))
    _HEADERS.put(tuple(replace(item, ours=chosen[item.theirs]) for item in headers()))
    _look_up_kept()


def _differs(item: Header, ours: str) -> bool:
    """Whether a choice asks for anything else than what the readers do by themselves."""
    return ours != (item.native or ingest.IGNORE)


def fill_in(values: Mapping[str, Any], override: Mapping[str, Any]) -> None:
    """Complete the upload's missing context, and replace names that are not known; drops the refit."""
    rows = _ROWS.get()
    if rows is None:
        return
    forget_refit()
    try:
        given = {name: value for name, value in override.items() if value}
        _take(ingest.with_given(ingest.complete(rows, values), given))
    except AdvisorError as error:
        _PROBLEM.put(str(error))


def unknown_names(read: IngestResult) -> dict[str, list[str]]:
    """Hardware and model names in the upload that are no known id, by column."""
    if read.kind != "points":
        return {}
    known = {"hardware_id": set(hardware_ids()), "model_id": set(model_ids()) | set(state.own_models())}
    found = {name: sorted(set(read.frame[name].dropna()) - ids) for name, ids in known.items()}
    return {name: names for name, names in found.items() if names}


def acceptances(read: IngestResult) -> dict[str, str]:
    """Acceptance by position that the upload's runs measured: label to shares of rounds `0.8;0.6;0.4`."""
    if read.kind != "points":
        return {}
    column = read.frame["acceptance_by_position"].dropna()
    return {
        f"line {line}, {len(text.split(';'))} positions: {text.replace(';', ', ')}": text
        for line, text in column.drop_duplicates().items()
    }


def refit_upload(acceptance: str | None) -> None:
    """Refit on the session's upload and keep the result in the session."""
    read = result()
    if read is not None:
        _refit(read.frame, acceptance)


def _refit(frame: pd.DataFrame, acceptance: str | None = None) -> None:
    forget_refit()
    try:
        points, refused = select_points(frame, acceptance=acceptance, configs=state.own_models())
        _REFIT.put((points, refit_chosen(points, refused)))
    except AdvisorError as error:
        _PROBLEM.put(str(error))


def refitted() -> tuple[list[Point], RefitResult] | None:
    """The points and the refit of this session, if there is one."""
    return _REFIT.get()


def forget_refit() -> None:
    """Drop the refit from this page; predictions that use it go on until that is undone."""
    _REFIT.drop()
    _PROBLEM.drop()


def undo_refit() -> None:
    """Back to the shipped constants, here and in every prediction."""
    forget_refit()
    refit_use.undo()


def forget() -> None:
    """Drop the upload, its refit and every prediction with it from the session."""
    _drop()
    _CLEARED.put(_CLEARED.get() + 1)
    refit_use.undo()


def _drop() -> None:
    forget_refit()
    for slot in (_RESULT, _ROWS, _FILES, _CSV, _HEADERS, _NOTES, _KEPT_AS):
        slot.drop()


def refused_rows(rows: tuple[Refused, ...]) -> dict[str, list[Any]]:
    """Refused rows as columns: reason, rows, first line."""
    reasons: dict[str, list[Refused]] = {}
    for row in rows:
        reasons.setdefault(row.reason, []).append(row)
    return {
        "Reason": list(reasons),
        "Rows": [sum(one.rows for one in alike) for alike in reasons.values()],
        "First line": [min(one.line for one in alike) for alike in reasons.values()],
    }


def save(name: str, given_by: str) -> None:
    """Keep the upload in this advisor's store, for all who use it."""
    from advisor.store import save_upload

    read = result()
    if read is None:
        return
    _PROBLEM.drop()
    try:
        save_upload(kept_table(read), name=name.strip() or read.file_name, sha256=read.sha256, given_by=given_by)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
    _look_up_kept()


def _look_up_kept() -> None:
    """Note whether the upload's very bytes are kept in the store."""
    from advisor.store import kept_as

    read = result()
    _KEPT_AS.drop()
    try:
        found = kept_as(read.sha256) if read is not None else None
    except AdvisorError:
        return  # the list of kept data sets says why they cannot be looked at
    if found:
        _KEPT_AS.put(f"{found[1]} ({found[0]})")


def kept() -> pd.DataFrame | None:
    """The kept data sets; None, with the reason on the next screen, when their file cannot be opened now."""
    from advisor.store import list_uploads

    try:
        return list_uploads()
    except AdvisorError as error:
        st.text(f"Kept data sets cannot be listed: {error}")
        return None


def kept_rows(dataset_id: str) -> pd.DataFrame:
    """The rows of a kept data set; empty, with the reason on the next screen, when it cannot be read."""
    from advisor.store import read_upload

    try:
        return read_upload(dataset_id)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
        return pd.DataFrame()


def kept_data(dataset_id: str) -> bytes:
    """A kept data set as CSV."""
    from advisor.store import read_upload

    return csv_of(read_upload(dataset_id))


def use_kept(dataset_id: str) -> None:
    """Refit on a kept data set, with the models of this session."""
    from advisor.store import read_upload

    _drop()
    try:
        frame = kept_points(read_upload(dataset_id))
    except AdvisorError as error:
        _PROBLEM.put(str(error))
        return
    _refit(frame)


def forget_kept(dataset_id: str) -> None:
    """Delete a kept data set from the store."""
    from advisor.store import forget_upload

    try:
        forget_upload(dataset_id)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
    _look_up_kept()
