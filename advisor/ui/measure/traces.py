"""Routing trace, acceptance by position and power log in the session: read, drawn, predicted
with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import streamlit as st

from advisor.answers.advice import Advice
from advisor.catalog.routing_shift import is_moved
from advisor.measured.ingest.acceptance import (
    AcceptanceRates,
    rates_from_list,
    read_acceptance_file,
)
from advisor.measured.ingest.traces import PowerLog, layer_counts, read_traces
from advisor.physics.expert_ranks import Choices
from advisor.physics.routing_trace import TraceFit, fit_sequences
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.predict.spend import spend_at
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import acceptance_chart, union_chart
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.reading import reading_texts
from advisor.show.table import Column, Table
from advisor.text import counted
from advisor.ui.own_data import use_length
from advisor.ui.session import Kept
from advisor.ui.state import plain
from advisor.ui.widgets import advice_or_stop, show_chart, show_table

Heading = Callable[[str], object]
"""Draws a panel's first line: the page's title for the first panel, a smaller heading for those
after it."""
PASTED = "pasted text"


@dataclass(frozen=True)
class UserTrace:
    """A routing trace as read."""

    fit: TraceFit
    layout: str
    """How its file was understood."""
    sequences: tuple[Choices, ...]
    """Its first ones, for counting ranks."""
    digest: str
    """Another for another trace: of all its sequences, since the fit is of all."""


TRACE: Kept[UserTrace | None] = Kept("_trace")
RATES: Kept[AcceptanceRates | None] = Kept("_rates")
_RATES_FROM: Kept[tuple[tuple[str, bytes], ...]] = Kept("_rates_from", tuple)
POWER: Kept[PowerLog | None] = Kept("_power_log")
KEPT_BYTES = 64 * 2**20
"""Of a trace's expert ids that stay in the session for counting ranks, its first sequences. [B]"""
RATES_GIVEN = "given that all before it were accepted"
"""The choice of `rates_kind` that makes a list conditional."""


def take_trace(setup: Setup, given: Sequence[tuple[str, bytes]]) -> None:
    """Read and fit a routing trace, or keep the reason that it cannot be."""
    forget_trace()
    TRACE.take(_read_trace, setup, given)


def _read_trace(setup: Setup, files: Sequence[tuple[str, bytes]]) -> UserTrace:
    moe = setup.architecture.moe
    if moe is None:
        raise AdvisorError(f"{setup.architecture.name} is dense: it has no experts to trace.")
    read = read_traces(files, layer_counts(setup.architecture))
    digest = hashlib.sha256()
    for ids in read.sequences:
        digest.update(f"{ids.shape} {ids.dtype} ".encode())
        digest.update(np.ascontiguousarray(ids).tobytes())
    small = [ids.astype(np.uint16) for ids in read.sequences]
    within = np.cumsum([ids.nbytes for ids in small]) <= KEPT_BYTES
    first = tuple(ids for ids, is_within in zip(small, within, strict=True) if is_within)
    return UserTrace(
        fit_sequences(read.sequences, moe.n_experts), read.layout, first, digest.hexdigest()
    )


def forget_trace() -> None:
    """Drop the trace. A scenario that uses it goes back to the model's own routing."""
    TRACE.forget()
    routing = str(st.session_state.get("routing", ""))
    if "," in routing and not is_moved(routing):
        st.session_state["routing"] = "auto"


def _use_trace(trace: TraceFit) -> None:
    """Make the trace the scenario's routing, in the bar and the address."""
    st.session_state["routing"] = trace.fit.text


def take_acceptance(given: Sequence[tuple[str, bytes]]) -> None:
    """Read acceptance by position from one file, or from the counts between two scrapes of one
    server."""
    RATES.forget()
    _RATES_FROM.put(tuple(given))
    conditional = st.session_state.get("rates_kind") == RATES_GIVEN
    orders = (
        [(given[0], given[1]), (given[1], given[0])] if len(given) == 2 else [(given[-1], None)]
    )
    for later, earlier in orders:
        if RATES.take(read_acceptance_file, *later, earlier, conditional):
            return


def forget_all() -> None:
    """Drop trace, acceptance and power log."""
    forget_trace()
    for session_value in (RATES, _RATES_FROM, POWER):
        session_value.forget()


def use_rates(by_position: str) -> None:
    """Make an uploaded run's acceptance by position the scenario's, as shares of all rounds:
    `0.8;0.6;0.4`."""
    try:
        use_length(rates_from_list(by_position).text)
    except AdvisorError as error:
        RATES.refuse(error)


def draw_trace(scenario: Scenario, heading: Heading) -> None:
    """The fit of a trace against what it counts, and the button that predicts with it."""
    advice = advice_or_stop(scenario)
    moe = advice.setup.architecture.moe
    if (user := TRACE.result) is None:
        return
    if moe is None or user.fit.n_experts != moe.n_experts:
        heading("A trace of another model")
        other = advice.setup.architecture.name
        st.caption(
            plain(
                f"It is of {user.fit.n_experts} experts; choose its model in the bar, not {other}."
            )
        )
        return
    heading(f"Your routing: experts touched within {user.fit.largest_error:.1%}")
    _fitted(user.fit, user.layout, advice)


def _fitted(trace: TraceFit, layout: str, advice: Advice) -> None:
    fit = trace.fit
    scenario = advice.scenario
    st.markdown(
        f"{counted(trace.n_sequences, 'sequence')}, {trace.n_tokens:,} tokens, "
        f"{counted(len(trace.layers), 'layer')}, {trace.n_active} of {trace.n_experts} experts; "
        f"read as {plain(layout)}. The fit predicts the experts counted within "
        f"{trace.largest_error:.1%}."
    )
    for text in note_texts(trace.notes):
        st.warning(plain(text))
    rows = [
        ("Load spread (CV)", fit.load_cv, fit.load_cv_interval),
        ("Affinity (phi)", fit.affinity, fit.affinity_interval),
        ("Stickiness (rho)", fit.stickiness, fit.stickiness_interval),
    ]
    show_table(Table(_STATISTICS, rows))
    show_chart(union_chart(trace.unions), "unions", scenario)
    with st.container(horizontal=True, gap="small"):
        icon = ":material/input:"
        st.button(
            "Predict with this routing",
            key="use_trace",
            icon=icon,
            on_click=_use_trace,
            args=(trace,),
        )
        st.button("Forget the trace", key="forget_trace", on_click=forget_trace)


_STATISTICS: tuple[Column[tuple[str, float, tuple[float, float]]], ...] = (
    Column("Statistic", itemgetter(0), words=True),
    Column("Value", itemgetter(1), "{:.3f}".format),
    Column("80% interval", lambda row: "{:.3f}-{:.3f}".format(*row[2])),
)


def draw_acceptance(scenario: Scenario, heading: Heading) -> None:
    """The accepted length by K that was counted, and the button that predicts with it."""
    rates = RATES.result
    if rates is None:
        return
    k = len(rates.conditional)
    lengths = rates.accepted_lengths(max(scenario.k_max, k))
    counted_length = float(lengths.loc[lengths["n_draft"] == k, "accepted_length"].iloc[0])
    heading(f"You accept {counted_length:.2f} tokens at K = {k}")
    st.caption(plain(f"{rates.source}."))
    for warning in reading_texts(rates.warnings):
        st.warning(plain(warning))
    st.button(
        "Predict with it",
        key="use_acceptance",
        type="primary",
        on_click=use_length,
        args=(rates.text,),
        disabled=scenario.acceptance == rates.text,
    )
    if any(name == PASTED for name, _ in _RATES_FROM.result):
        st.selectbox(
            "Each rate is",
            ["a share of all rounds (vLLM's log and results)", RATES_GIVEN],
            key="rates_kind",
            on_change=lambda: take_acceptance(_RATES_FROM.result),
        )
    show_chart(acceptance_chart(lengths), "accepted_lengths", scenario)


def draw_power(scenario: Scenario, heading: Heading) -> None:
    """Mean power of the GPUs at work beside the model's, of a plain step and of a round."""
    power_log = POWER.result
    if power_log is None:
        return
    advice = advice_or_stop(scenario)
    k = advice.recommendation.n_draft
    modelled = spend_at(
        advice.setup, advice.curve, advice.batch_index, advice.curve.column(k), None
    )
    heading(f"{power_log.mean_w:,.0f} W a GPU at work")
    watts = [
        f"{arm.power_w.value:,.0f} W at K = {arm.n_draft}"
        for arm in (modelled.plain, modelled.chosen)
        if arm.power_w
    ]
    st.caption(
        plain(
            f"{power_log.text}. Modelled at batch {scenario.batch_size:,}: "
            f"{', '.join(watts) or 'not known'}."
        )
    )
    st.caption("`advisor report --power-log` takes the log into cost and energy.")
