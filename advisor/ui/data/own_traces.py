"""The user's own routing trace and acceptance in the session. Nothing here is shared or cached.

Experts on ranks in the session: counted from the user's own trace where there is one, else from the preset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import streamlit as st

from advisor.answers.expert_ranks import Placing, RankArm, RanksAnswer, ranks_answer
from advisor.measured.ingest.acceptance import AcceptanceRates, rates_from_list, read_acceptance_file
from advisor.measured.ingest.traces import layer_counts, read_traces
from advisor.physics.expert_loads import Traffic, traffic_of_trace
from advisor.physics.expert_ranks import Choices
from advisor.physics.routing_trace import TraceFit, fit_sequences
from advisor.physics.touched_experts import write_own_routing
from advisor.predict.load import load_setup
from advisor.predict.scenario import loads_shape, read_loads, write_loads
from advisor.predict.setup import Setup, traffic_of
from advisor.prediction import AdvisorError
from advisor.ui.own_data import use_ranks
from advisor.ui.session import Slot, nothing

_TRACE: Slot[tuple[TraceFit, str] | None] = Slot("_trace", nothing)
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
    """Read and fit the routing trace of the uploader `trace_file`."""
    files = st.session_state.get("trace_file")
    moe = setup.architecture.moe
    if not files or moe is None:
        return
    forget_trace()
    try:
        given = [(file.name, file.getvalue()) for file in files]
        read = read_traces(given, layer_counts(setup.architecture))
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


def forget_trace() -> None:
    """Drop the trace or log.

    A scenario that uses it goes back to the model's own routing.
    """
    for slot in (_TRACE, _SEQUENCES, _DIGEST, _TRACE_PROBLEM):
        slot.drop()
    if "," in str(st.session_state.get("routing", "")):
        st.session_state["routing"] = "auto"


def use_trace() -> None:
    """Make the trace the scenario's routing, in the bar and the address."""
    found = trace()
    if found is not None:
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
            _RATES.put(read_acceptance_file(later.name, later.getvalue(), before, conditional))
        elif earlier is not None:
            _RATES_PROBLEM.put("The earlier scrape alone is not used; give the later one too.")
        elif str(now.get("rates_text") or "").strip():
            _RATES.put(rates_from_list(str(now.rates_text), conditional))
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


def use_length(accepted_length: str) -> None:
    """Make the accepted length of an upload (`2.4@3`) the scenario's, in the bar and the address."""
    st.session_state["acceptance"] = accepted_length


def use_rates(by_position: str) -> None:
    """Make the acceptance by position of an uploaded run the scenario's.

    It is given as shares of all rounds, `0.8;0.6;0.4`.
    """
    _RATES_PROBLEM.drop()
    try:
        st.session_state["acceptance"] = rates_from_list(by_position).text
    except AdvisorError as error:
        _RATES_PROBLEM.put(str(error))


_ANSWER: Slot[tuple[tuple[str, str, int], RanksAnswer] | None] = Slot("_rank_answer", nothing)
_PROBLEM: Slot[str] = Slot("_rank_problem", str)
_LOADS: Slot[str] = Slot("_own_loads", str)
"""Loads by layer of a file of this session, packed; empty without one."""
_LOADS_PROBLEM: Slot[str] = Slot("_own_loads_problem", str)


def take_loads(setup: Setup) -> None:
    """Read the table of loads of the uploader `loads_file`. One that cannot be read leaves the one before."""
    file, moe = st.session_state.get("loads_file"), setup.architecture.moe
    _LOADS_PROBLEM.drop()
    if file is None:
        _LOADS.drop()
        return
    try:
        n_experts = moe.n_experts if moe is not None else 0
        _LOADS.put(write_loads(read_loads(file.name, file.getvalue(), n_experts)))
    except AdvisorError as error:
        _LOADS_PROBLEM.put(str(error))


def loads_problem() -> str:
    """Reason that the last table of loads cannot be used, empty when it can."""
    return _LOADS_PROBLEM.get()


def use(arm: RankArm, found: RanksAnswer) -> None:
    """Predict with one layout of an answer from the next run on, and with the loads that it was counted on."""
    loads = None if found.traffic.kind == "preset" else write_loads(found.traffic.loads)
    use_ranks(loads, arm.redundant if arm.is_balanced else None, found.traffic.routing)


def count(setup: Setup) -> None:
    """Place the experts of a setup with the copies that were chosen.

    Keeps the answer, or why there is none.
    """
    _PROBLEM.drop()
    _ANSWER.drop()
    copies = _copies(setup)
    try:
        traffic = _traffic(setup)
        placing = Placing(redundant=tuple(dict.fromkeys((0, copies))))
        answer = ranks_answer(_with_routing(setup, traffic), traffic, placing)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
        return
    _ANSWER.put((_question(setup), answer))


def copies_key(ranks: int) -> str:
    """Key of the number of copies: what fills one number of ranks evenly may not fill another."""
    return f"rank_copies_{ranks}"


def _copies(setup: Setup) -> int:
    return int(st.session_state.get(copies_key(setup.placement.expert_parallel), 0))


def _trace_of(setup: Setup) -> tuple[TraceFit, tuple[Choices, ...]] | None:
    """This session's trace where it is of as many experts as the scenario's model has, else None."""
    moe, held = setup.architecture.moe, kept()
    return held if moe is not None and held is not None and held[0].n_experts == moe.n_experts else None


def _own_loads(setup: Setup) -> str:
    """This session's table of loads where it is of as many experts as the scenario's model has, else empty."""
    moe, text = setup.architecture.moe, _LOADS.get()
    return text if moe is not None and loads_shape(text)[1] == moe.n_experts else ""


def _loads(setup: Setup) -> str | None:
    """Loads to count on where there is no trace: this session's table, else those that the scenario carries."""
    return _own_loads(setup) or setup.scenario.expert_loads


def _traffic(setup: Setup) -> Traffic:
    found = _trace_of(setup)
    if found is not None:
        fit, sequences = found
        return traffic_of_trace(sequences, fit.n_experts, setup.longest_step, fit)
    return traffic_of(setup, _loads(setup))


def _with_routing(setup: Setup, traffic: Traffic) -> Setup:
    """`setup` with the experts touched that the trace or the loads say."""
    update = {"expert_loads": _loads(setup)} if traffic.routing is None else {"routing": traffic.routing}
    return load_setup(setup.scenario.on_assumed_ranks().model_copy(update=update))


def _question(setup: Setup) -> tuple[str, str, int]:
    """What an answer is to: the scenario, the trace or loads that are counted on, and the copies chosen."""
    # What using an answer changes in the scenario is left out, so that the answer stays on screen.
    asked = setup.scenario.on_assumed_ranks()
    if _trace_of(setup) is None:
        return asked.hash, _loads(setup) or "", _copies(setup)
    return asked.model_copy(update={"routing": "auto"}).hash, digest(), _copies(setup)


def answer(setup: Setup) -> RanksAnswer | None:
    """The answer that was counted for this scenario, trace and number of copies.

    None where none was, or for another; one of another trace is dropped.
    """
    found, asked = _ANSWER.get(), _question(setup)
    if found is not None and found[0][1] != asked[1]:
        _ANSWER.drop()
    return found[1] if found is not None and found[0] == asked else None


def last(setup: Setup) -> tuple[str, RanksAnswer] | None:
    """The answer that was counted last for this scenario and trace, with whatever copies, and a name of it.

    Another page does not know the copies that are chosen on Data. None where none was counted, or for another.
    """
    found = _ANSWER.get()
    if found is None or found[0][:2] != _question(setup)[:2]:
        return None
    return "/".join(map(str, found[0])), found[1]


def problem() -> str:
    """Reason that ranks could not be counted, empty when they could."""
    return _PROBLEM.get()


def basis(setup: Setup) -> str:
    """Traffic that would be counted, in words."""
    if _trace_of(setup) is not None:
        return "Counts on your trace: balanced layouts are planned on one half of it and judged on the other."
    if own := _own_loads(setup):
        layers, experts = loads_shape(own)
        return f"Counts on your table of loads, {layers} layers of {experts} experts, which is taken to stay as it is."
    if setup.scenario.expert_loads is not None:
        return "Counts on the loads that the scenario carries, which are taken to stay as they are."
    preset = "loads have the routing preset's spread and hot experts lie by chance"
    moe, held = setup.architecture.moe, kept()
    if held is not None and moe is not None:
        return (
            f"Your trace is not counted: it is of {held[0].n_experts} experts and {setup.architecture.name} has "
            f"{moe.n_experts}. Instead, {preset}; choose the model of the trace in the bar."
        )
    if _LOADS.get():
        of = loads_shape(_LOADS.get())[1]
        return f"Your table of loads is not counted: it is of {of} experts. Instead, {preset}."
    return f"Without a trace or loads, {preset}; upload yours above."
