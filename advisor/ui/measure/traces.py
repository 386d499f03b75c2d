"""Routing trace, acceptance by position and power log in the session: read, drawn, predicted with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.catalog.routing_presets import load_routing_preset
from advisor.measured.ingest.acceptance import AcceptanceRates, rates_from_list, read_acceptance_file
from advisor.measured.ingest.logs import PowerLog, read_power_log
from advisor.measured.ingest.traces import layer_counts, read_traces
from advisor.physics.expert_ranks import Choices
from advisor.physics.routing_trace import TraceFit, fit_sequences, implied_overlaps
from advisor.physics.touched_experts import RoutingPreset, write_own_routing
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.predict.spend import spend_at
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import acceptance_chart, layer_chart, overlap_chart, union_chart
from advisor.text import counted
from advisor.ui.session import Slot, nothing
from advisor.ui.widgets import advice_or_stop, plain, show_chart

Heading = Callable[[str], object]
"""Draws a panel's first line: the page's title for the first panel, a smaller heading for those after it."""
PASTED = "pasted text"
COHERE = "cohere-128-8"
_STATISTICS = ("Load spread (CV)", "Affinity (phi)", "Stickiness (rho)")
_TRACE: Slot[tuple[TraceFit, str] | None] = Slot("_trace", nothing)
_SEQUENCES: Slot[tuple[Choices, ...]] = Slot("_trace_sequences", tuple)
_DIGEST: Slot[str] = Slot("_trace_digest", str)
_RATES: Slot[AcceptanceRates | None] = Slot("_rates", nothing)
_RATES_FROM: Slot[tuple[tuple[str, bytes], ...]] = Slot("_rates_from", tuple)
_POWER: Slot[PowerLog | None] = Slot("_power_log", nothing)
_PROBLEM: Slot[str] = Slot("_trace_problem", str)
KEPT_BYTES = 64 * 2**20
"""Of a trace's expert ids that stay in the session for counting ranks, its first sequences. [B]"""
RATES_GIVEN = "given that all before it were accepted"
"""The choice of `rates_kind` that makes a list conditional."""


def take_trace(setup: Setup, given: Sequence[tuple[str, bytes]]) -> None:
    """Read and fit a routing trace. A reason that it cannot be is kept for the page."""
    moe = setup.architecture.moe
    forget_trace()
    if moe is None:
        _PROBLEM.put(f"{setup.architecture.name} is dense: it has no experts to trace.")
        return
    try:
        read = read_traces(given, layer_counts(setup.architecture))
        _TRACE.put((fit_sequences(read.sequences, moe.n_experts), read.layout))
        _SEQUENCES.put(_first(read.sequences))
        _DIGEST.put(_digest(read.sequences))
    except AdvisorError as error:
        _PROBLEM.put(str(error))


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


def forget_trace() -> None:
    """Drop the trace.

    A scenario that uses it goes back to the model's own routing.
    """
    for slot in (_TRACE, _SEQUENCES, _DIGEST, _PROBLEM):
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


def take_acceptance(given: Sequence[tuple[str, bytes]]) -> None:
    """Read acceptance by position from one file, or from two scrapes of one server.

    Of two, the counts in between are used.
    """
    _RATES.drop()
    _RATES_FROM.put(tuple(given))
    _PROBLEM.drop()
    conditional = st.session_state.get("rates_kind") == RATES_GIVEN
    orders = [(given[0], given[1]), (given[1], given[0])] if len(given) == 2 else [(given[-1], None)]
    for later, earlier in orders:
        try:
            _RATES.put(read_acceptance_file(*later, earlier, conditional))
        except AdvisorError as error:
            _PROBLEM.put(str(error))
        else:
            _PROBLEM.drop()
            return


def take_power(given: Sequence[tuple[str, bytes]]) -> None:
    """Read a power log.

    A reason that it cannot be is kept for the page.
    """
    _PROBLEM.drop()
    try:
        _POWER.put(read_power_log(*given[-1]))
    except AdvisorError as error:
        _PROBLEM.put(str(error))


def trace_or_rates_problem() -> str:
    """Reason that the last trace, acceptance or power log could not be used, empty when it could."""
    return _PROBLEM.get()


def forget_all() -> None:
    """Drop trace, acceptance and power log."""
    forget_trace()
    for slot in (_RATES, _RATES_FROM, _POWER):
        slot.drop()


def acceptance() -> AcceptanceRates | None:
    """The acceptance by position of this session."""
    return _RATES.get()


def power() -> PowerLog | None:
    """The power log of this session."""
    return _POWER.get()


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
    _PROBLEM.drop()
    try:
        st.session_state["acceptance"] = rates_from_list(by_position).text
    except AdvisorError as error:
        _PROBLEM.put(str(error))


def draw_trace(scenario: Scenario, heading: Heading) -> None:
    """The fit of a trace against what it counts, and the button that predicts with it."""
    advice = advice_or_stop(scenario)
    moe = advice.setup.architecture.moe
    found = trace()
    if moe is not None and found is not None and found[0].n_experts == moe.n_experts:
        heading(f"Your routing: experts touched within {found[0].largest_error:.1%}")
        _found(*found, advice)
    elif found is not None:
        heading("A trace of another model")
        other = advice.setup.architecture.name
        st.caption(plain(f"It is of {found[0].n_experts} experts; choose its model in the bar, not {other}."))


def _found(trace: TraceFit, layout: str, advice: Advice) -> None:
    fit, scenario = trace.fit, advice.scenario
    st.markdown(
        f"{counted(trace.n_sequences, 'sequence')}, {trace.n_tokens:,} tokens, "
        f"{counted(len(trace.layers), 'layer')}, {trace.n_active} of {trace.n_experts} experts; read as "
        f"{plain(layout)}. The fit predicts the experts counted within {trace.largest_error:.1%}."
    )
    for warning in trace.warnings:
        st.warning(plain(warning))
    intervals = (fit.load_cv_interval, fit.affinity_interval, fit.stickiness_interval)
    values = (fit.load_cv, fit.affinity, fit.stickiness)
    _statistics([(name, value, *ends, "yes") for name, value, ends in zip(_STATISTICS, values, intervals, strict=True)])
    show_chart(union_chart(trace.unions), "unions", scenario)
    presets = [load_routing_preset(COHERE)]
    if advice.setup.routing is not None and advice.setup.routing.kind != "own_trace":
        presets.append(advice.setup.routing)
    others = {preset.name: _implied(preset, trace) for preset in presets}
    show_chart(overlap_chart(trace, others), "overlaps", scenario)
    if len(trace.layers) > 1:
        show_chart(layer_chart(trace), "layers", scenario)
    _buttons()


def _statistics(rows: list[tuple[str, float, float, float, str]]) -> None:
    st.dataframe(
        pd.DataFrame(rows, columns=["Statistic", "Value", "Likely from", "to", "Learnt"]),
        hide_index=True,
        column_config={n: st.column_config.NumberColumn(format="%.3f") for n in ("Value", "Likely from", "to")},
    )


def _buttons() -> None:
    use, forget = st.columns([1, 3])
    use.button("Predict with this routing", key="use_trace", icon=":material/input:", on_click=use_trace)
    forget.button("Forget the trace", key="forget_trace", on_click=forget_trace)


def _implied(preset: RoutingPreset, trace: TraceFit) -> list[float]:
    """A preset's overlaps at its own N and k where it has them, else at the trace's."""
    experts, active = preset.n_experts or trace.n_experts, preset.n_active or trace.n_active
    values = (preset.load_cv.value, preset.affinity.value, preset.stickiness.value)
    return implied_overlaps(*values, experts, active)


def draw_acceptance(scenario: Scenario, heading: Heading) -> None:
    """The accepted length by K that was counted, and the button that predicts with it."""
    found = acceptance()
    if found is None:
        return
    k = len(found.conditional)
    lengths = found.accepted_lengths(max(scenario.k_max, k))
    counted_length = float(lengths.loc[lengths["n_draft"] == k, "accepted_length"].iloc[0])
    heading(f"You accept {counted_length:.2f} tokens at K = {k}")
    st.caption(plain(f"{found.source}."))
    for warning in found.warnings:
        st.warning(plain(warning))
    st.button(
        "Predict with it",
        key="use_acceptance",
        type="primary",
        on_click=use_acceptance,
        disabled=scenario.acceptance == found.text,
    )
    if any(name == PASTED for name, _ in _RATES_FROM.get()):
        st.selectbox(
            "Each rate is",
            ["a share of all rounds (vLLM's log and results)", RATES_GIVEN],
            key="rates_kind",
            on_change=lambda: take_acceptance(_RATES_FROM.get()),
        )
    show_chart(acceptance_chart(lengths), "accepted_lengths", scenario)


def draw_power(scenario: Scenario, heading: Heading) -> None:
    """Mean power of the GPUs at work beside the model's, of a plain step and of a round."""
    found = power()
    if found is None:
        return
    advice = advice_or_stop(scenario)
    k = advice.recommendation.n_draft
    modelled = spend_at(advice.setup, advice.curve, advice.batch_index, advice.curve.column(k), None)
    heading(f"{found.mean_w:,.0f} W a GPU at work")
    watts = [
        f"{arm.power_w.value:,.0f} W at K = {arm.n_draft}" for arm in (modelled.plain, modelled.chosen) if arm.power_w
    ]
    st.caption(plain(f"{found.text}. Modelled at batch {scenario.batch_size:,}: {', '.join(watts) or 'not known'}."))
    st.caption("`advisor report --power-log` takes the log into cost and energy.")
