"""Own data in the session: an upload, its refit, acceptance, a routing trace. Nothing here is shared or cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from advisor import ingest
from advisor.hardware import hardware_ids
from advisor.ingest.acceptance import AcceptanceRates
from advisor.ingest.kept import kept_points
from advisor.ingest.result import IngestResult
from advisor.model_profiles import load_model, model_ids
from advisor.prediction import AdvisorError
from advisor.refit import RefitResult, refit_chosen, select_points
from advisor.refit_points import RefitPoint, Refused
from advisor.routing_presets import write_own_routing
from advisor.routing_trace import TraceFit, fit_sequences
from advisor.scenario import Scenario
from advisor.ui import state

_RESULT, _PROBLEM, _REFIT, _TRACE, _TRACE_PROBLEM, _RATES, _RATES_PROBLEM = (
    "_upload", "_upload_problem", "_upload_refit", "_trace", "_trace_problem", "_rates", "_rates_problem",
)  # fmt: skip
RATES_GIVEN = "given that all before it were accepted"
"""The choice of `rates_kind` that makes a list conditional."""


def result() -> IngestResult | None:
    """The upload of this session, as read and completed so far."""
    found: IngestResult | None = st.session_state.get(_RESULT)
    return found


def problem() -> str:
    """Why the last thing asked of the upload did not work; empty when it did."""
    return str(st.session_state.get(_PROBLEM, ""))


def take_file() -> None:
    """Read the file of the uploader `bench_file`; another file replaces the one before and its refit."""
    given = st.session_state.get("bench_file")
    if given is None:
        return
    forget()
    try:
        read = ingest.read_upload(given.name, given.getvalue())
        st.session_state[_RESULT] = ingest.resolve_names(read, hardware_ids(), model_ids())
    except AdvisorError as error:
        st.session_state[_PROBLEM] = str(error)


def fill_in(values: Mapping[str, Any], override: Mapping[str, Any]) -> None:
    """Complete the upload's missing context, and replace names that are not known; drops the refit."""
    read = result()
    if read is None:
        return
    forget_refit()
    try:
        completed = ingest.complete(ingest.complete(read, values), override, override=True)
        st.session_state[_RESULT] = completed
    except AdvisorError as error:
        st.session_state[_PROBLEM] = str(error)


def unknown_names(read: IngestResult) -> dict[str, list[str]]:
    """Hardware and model names in the upload that are no known id, by column."""
    if read.kind != "points":
        return {}
    known = {"hardware_id": set(hardware_ids()), "model_id": set(model_ids()) | set(state.own_models())}
    found = {name: sorted(set(read.frame[name].dropna()) - ids) for name, ids in known.items()}
    return {name: names for name, names in found.items() if names}


def refit_upload(acceptance: str | None) -> None:
    """Refit on the session's upload and keep the result in the session."""
    read = result()
    if read is None:
        return
    forget_refit()
    try:
        points, refused = select_points(read.frame, acceptance=acceptance, configs=state.own_models())
        st.session_state[_REFIT] = (points, refit_chosen(points, refused))
    except AdvisorError as error:
        st.session_state[_PROBLEM] = str(error)


def refitted() -> tuple[list[RefitPoint], RefitResult] | None:
    """The points and the refit of this session, if there is one."""
    found: tuple[list[RefitPoint], RefitResult] | None = st.session_state.get(_REFIT)
    return found


def forget_refit() -> None:
    """Back to the shipped constants."""
    st.session_state.pop(_REFIT, None)
    st.session_state.pop(_PROBLEM, None)


def forget() -> None:
    """Drop the upload and its refit from the session."""
    forget_refit()
    st.session_state.pop(_RESULT, None)


def refused_rows(rows: tuple[Refused, ...]) -> dict[str, list[Any]]:
    """Refused rows as columns: reason, rows, first line."""
    reasons: dict[str, list[int]] = {}
    for row in rows:
        reasons.setdefault(row.reason, []).append(row.line)
    return {
        "Reason": list(reasons),
        "Rows": [len(lines) for lines in reasons.values()],
        "First line": [min(lines) for lines in reasons.values()],
    }


def save(name: str, given_by: str) -> None:
    """Keep the upload in this advisor's store, for all who use it."""
    from advisor.ingest.kept import kept_table
    from advisor.store import save_upload

    read = result()
    if read is None:
        return
    st.session_state.pop(_PROBLEM, None)
    try:
        save_upload(kept_table(read), name=name.strip() or read.file_name, sha256=read.sha256, given_by=given_by)
    except AdvisorError as error:
        st.session_state[_PROBLEM] = str(error)


def kept() -> pd.DataFrame | None:
    """The kept data sets; None, with the reason on the next screen, when their file cannot be opened now."""
    from advisor.store import list_uploads

    try:
        return list_uploads()
    except AdvisorError as error:
        st.caption(f"Kept data sets cannot be listed: {error}")
        return None


def kept_data(dataset_id: str) -> bytes:
    """A kept data set as CSV."""
    from advisor.ingest.kept import kept_csv
    from advisor.store import read_upload

    return kept_csv(read_upload(dataset_id))


def use_kept(dataset_id: str) -> None:
    """Refit on a kept data set."""
    from advisor.store import read_upload

    forget()
    try:
        points, refused = select_points(kept_points(read_upload(dataset_id)))
        st.session_state[_REFIT] = (points, refit_chosen(points, refused))
    except AdvisorError as error:
        st.session_state[_PROBLEM] = str(error)


def forget_kept(dataset_id: str) -> None:
    """Delete a kept data set from the store."""
    from advisor.store import forget_upload

    try:
        forget_upload(dataset_id)
    except AdvisorError as error:
        st.session_state[_PROBLEM] = str(error)


def take_trace(scenario: Scenario, n_experts: int) -> None:
    """Read and fit the routing trace of the uploader `trace_file`."""
    given = st.session_state.get("trace_file")
    if given is None:
        return
    forget_trace()
    try:
        moe = None if scenario.model_config_json else load_model(scenario.model_id).moe
        read = ingest.read_trace(
            given.name, given.getvalue(), moe.count if moe else None, moe.n_active if moe else None
        )
        st.session_state[_TRACE] = fit_sequences(read.sequences, n_experts)
    except AdvisorError as error:
        st.session_state[_TRACE_PROBLEM] = str(error)


def trace() -> TraceFit | None:
    """The fitted routing trace of this session."""
    found: TraceFit | None = st.session_state.get(_TRACE)
    return found


def trace_problem() -> str:
    """Why the last trace could not be used; empty when it could."""
    return str(st.session_state.get(_TRACE_PROBLEM, ""))


def forget_trace() -> None:
    """Drop the trace; a scenario that uses it goes back to the model's own routing."""
    st.session_state.pop(_TRACE, None)
    st.session_state.pop(_TRACE_PROBLEM, None)
    if "," in str(st.session_state.get("routing", "")):
        st.session_state["routing"] = "auto"


def use_trace() -> None:
    """Make the trace the scenario's routing, in the sidebar and the address."""
    found = trace()
    if found is None:
        return
    fit = found.fit
    st.session_state["routing"] = write_own_routing(
        (fit.load_cv, fit.affinity, fit.stickiness),
        (fit.load_cv_interval, fit.affinity_interval, fit.stickiness_interval),
    )


def take_acceptance() -> None:
    """Read the scrapes of `metrics_file` and `metrics_before`, or else the list typed into `rates_text`."""
    now = st.session_state
    now.pop(_RATES, None)
    now.pop(_RATES_PROBLEM, None)
    later, earlier = now.get("metrics_file"), now.get("metrics_before")
    conditional = now.get("rates_kind") == RATES_GIVEN
    try:
        if later is not None:
            before = (earlier.name, earlier.getvalue()) if earlier is not None else None
            now[_RATES] = ingest.read_acceptance(later.name, later.getvalue(), before, conditional)
        elif earlier is not None:
            now[_RATES_PROBLEM] = "The earlier scrape alone is not used; give the later one too."
        elif str(now.get("rates_text") or "").strip():
            now[_RATES] = ingest.rates_from_list(str(now.rates_text), conditional)
    except AdvisorError as error:
        now[_RATES_PROBLEM] = str(error)


def acceptance() -> AcceptanceRates | None:
    """The acceptance by position of this session."""
    found: AcceptanceRates | None = st.session_state.get(_RATES)
    return found


def acceptance_problem() -> str:
    """Why the last acceptance could not be used; empty when it could."""
    return str(st.session_state.get(_RATES_PROBLEM, ""))


def use_acceptance() -> None:
    """Make it the scenario's acceptance, in the sidebar and the address."""
    found = acceptance()
    if found is not None:
        st.session_state["acceptance"] = found.text
