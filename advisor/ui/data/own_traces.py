"""The user's own routing trace and acceptance in the session. Nothing here is shared or cached."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import streamlit as st

from advisor import ingest
from advisor.ingest import AcceptanceRates, ActivationLog
from advisor.prediction import AdvisorError
from advisor.routing import Choices, CountFit, TraceFit, fit_counts, fit_sequences, preset_for, write_own_routing
from advisor.setup import Setup
from advisor.ui.shared.session import Slot, nothing

_TRACE: Slot[tuple[TraceFit, str] | None] = Slot("_trace", nothing)
_COUNTS: Slot[tuple[ActivationLog, CountFit] | None] = Slot("_activation_log", nothing)
_SEQUENCES: Slot[tuple[Choices, ...]] = Slot("_trace_sequences", tuple)
_DIGEST: Slot[str] = Slot("_trace_digest", str)
_TRACE_PROBLEM: Slot[str] = Slot("_trace_problem", str)
_RATES: Slot[AcceptanceRates | None] = Slot("_rates", nothing)
_RATES_PROBLEM: Slot[str] = Slot("_rates_problem", str)
KEPT_BYTES = 64 * 2**20
"""Of a trace's expert ids that stay in the session for counting ranks, its first sequences. [B]"""
RATES_GIVEN = "given that all before it were accepted"
"""The choice of `rates_kind` that makes a list conditional."""


def take_trace(setup: Setup) -> None:
    """Read and fit the routing trace, or the log of activated experts, of the uploader `trace_file`."""
    files = st.session_state.get("trace_file")
    moe = setup.architecture.moe
    if not files or moe is None:
        return
    forget_trace()
    try:
        given = [(file.name, file.getvalue()) for file in files]
        log = ingest.open_activation_log(*given[0]) if len(given) == 1 else None
        if log is not None:
            shape = (moe.n_experts, moe.n_active)
            found = fit_counts(
                log.sequences, log.tokens_per_sequence, log.experts, *shape, preset_for(setup.architecture)[0]
            )
            _COUNTS.put((log, found))
            return
        read = ingest.read_traces(given, ingest.layer_counts(setup.architecture))
        _TRACE.put((fit_sequences(read.sequences, moe.n_experts), read.layout))
        _SEQUENCES.put(_first(read.sequences))
        _DIGEST.put(_digest(read.sequences))
    except AdvisorError as error:
        _TRACE_PROBLEM.put(str(error))


def _first(sequences: Sequence[Choices]) -> tuple[Choices, ...]:
    """The first sequences that KEPT_BYTES hold, in 16 bits."""
    small = [ids.astype(np.uint16) for ids in sequences]
    within = np.cumsum([ids.nbytes for ids in small]) <= KEPT_BYTES
    return tuple(ids for ids, kept in zip(small, within, strict=True) if kept)


def _digest(sequences: Sequence[Choices]) -> str:
    """Short text that is another for another trace: of all its sequences, since the fit is of all."""
    found = hashlib.sha256()
    for ids in sequences:
        found.update(f"{ids.shape} {ids.dtype} ".encode())
        found.update(np.ascontiguousarray(ids).tobytes())
    return found.hexdigest()


def digest() -> str:
    """Digest of this session's routing trace, empty without one."""
    return _DIGEST.get()


def kept() -> tuple[TraceFit, tuple[Choices, ...]] | None:
    """The fit of this session's trace and the sequences kept of it."""
    found, sequences = _TRACE.get(), _SEQUENCES.get()
    return (found[0], sequences) if found is not None and sequences else None


def trace() -> tuple[TraceFit, str] | None:
    """The fitted routing trace of this session, and how its file was understood."""
    return _TRACE.get()


def trace_problem() -> str:
    """Reason that the last trace could not be used, empty when it could."""
    return _TRACE_PROBLEM.get()


def counts() -> tuple[ActivationLog, CountFit] | None:
    """The log of activated experts of this session and its fit."""
    return _COUNTS.get()


def forget_trace() -> None:
    """Drop the trace or log.

    A scenario that uses it goes back to the model's own routing.
    """
    for slot in (_TRACE, _SEQUENCES, _DIGEST, _COUNTS, _TRACE_PROBLEM):
        slot.drop()
    if "," in str(st.session_state.get("routing", "")):
        st.session_state["routing"] = "auto"


def use_trace() -> None:
    """Make the trace or log the scenario's routing, in the bar and the address."""
    found, log = trace(), counts()
    if log is not None:
        st.session_state["routing"] = log[1].routing
    elif found is not None:
        fit = found[0].fit
        st.session_state["routing"] = write_own_routing(
            (fit.load_cv, fit.affinity, fit.stickiness),
            (fit.load_cv_interval, fit.affinity_interval, fit.stickiness_interval),
        )


def take_acceptance() -> None:
    """Read the scrapes of `metrics_file` and `metrics_before`, or else the list typed into `rates_text`."""
    now = st.session_state
    _RATES.drop()
    _RATES_PROBLEM.drop()
    later, earlier = now.get("metrics_file"), now.get("metrics_before")
    conditional = now.get("rates_kind") == RATES_GIVEN
    try:
        if later is not None:
            before = (earlier.name, earlier.getvalue()) if earlier is not None else None
            _RATES.put(ingest.read_acceptance(later.name, later.getvalue(), before, conditional))
        elif earlier is not None:
            _RATES_PROBLEM.put("The earlier scrape alone is not used; give the later one too.")
        elif str(now.get("rates_text") or "").strip():
            _RATES.put(ingest.rates_from_list(str(now.rates_text), conditional))
    except AdvisorError as error:
        _RATES_PROBLEM.put(str(error))


def acceptance() -> AcceptanceRates | None:
    """The acceptance by position of this session."""
    return _RATES.get()


def acceptance_problem() -> str:
    """Reason that the last acceptance could not be used, empty when it could."""
    return _RATES_PROBLEM.get()


def use_acceptance() -> None:
    """Make it the scenario's acceptance, in the bar and the address."""
    found = acceptance()
    if found is not None:
        st.session_state["acceptance"] = found.text


def use_rates(by_position: str) -> None:
    """Make the acceptance by position of an uploaded run the scenario's.

    It is given as shares of all rounds, `0.8;0.6;0.4`.
    """
    _RATES_PROBLEM.drop()
    try:
        st.session_state["acceptance"] = ingest.rates_from_list(by_position).text
    except AdvisorError as error:
        _RATES_PROBLEM.put(str(error))
