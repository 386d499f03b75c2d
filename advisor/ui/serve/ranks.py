"""Experts on the scenario's ranks, counted on the user's trace or loads, else from the preset:
layouts, exchange."""

from __future__ import annotations

import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.expert_ranks import LayoutCost, LayoutOptions, RanksAnswer, ranks_answer
from advisor.physics.expert_loads import traffic_of_trace
from advisor.predict.load import load_setup
from advisor.predict.scenario import loads_shape, read_loads, write_loads
from advisor.predict.setup import Setup, traffic_of
from advisor.show.charts.measured import rank_chart
from advisor.show.phrases.notes import note_texts
from advisor.show.words.expert_ranks import (
    exchange_table,
    exchange_text,
    layout_table,
    notes,
    trace_notes,
    verdict,
)
from advisor.text import typeset
from advisor.ui.measure.traces import TRACE, UserTrace
from advisor.ui.own_data import use_ranks
from advisor.ui.session import Kept
from advisor.ui.state import plain
from advisor.ui.widgets import show_chart, show_problem, show_table

_ANSWER: Kept[tuple[tuple[str, str, int], RanksAnswer] | None] = Kept("_rank_answer")
LOADS_FILE: Kept[str] = Kept("_own_loads", str)
"""Loads by layer of a file of this session, packed; empty without one."""


def take_loads(setup: Setup, name: str, data: bytes) -> None:
    """Keep the table of loads of a file. Raises AdvisorError for one that cannot be read, which
    leaves the one before.

    A dense model has no experts, and takes a table as it is.
    """
    moe = setup.architecture.moe
    LOADS_FILE.put(write_loads(read_loads(name, data, moe.n_experts if moe is not None else 0)))


def use(arm: LayoutCost, found: RanksAnswer) -> None:
    """Predict with one layout of an answer from the next run on, and with the loads that it was
    counted on."""
    loads = None if found.traffic.kind == "preset" else write_loads(found.traffic.loads)
    use_ranks(loads, arm.redundant if arm.is_balanced else None, found.traffic.routing)


def count(setup: Setup) -> None:
    """Place the experts of a setup with the copies that were chosen. Keeps the answer, or why there
    is none."""
    _ANSWER.forget()
    _ANSWER.take(_counted, setup)


def _counted(setup: Setup) -> tuple[tuple[str, str, int], RanksAnswer]:
    if (trace := _trace_of(setup)) is not None:
        traffic = traffic_of_trace(
            trace.sequences, trace.fit.n_experts, setup.longest_step, trace.fit
        )
    else:
        traffic = traffic_of(setup, _loads(setup))
    # The experts touched are those that the trace or the loads say.
    update = (
        {"expert_loads": _loads(setup)} if traffic.routing is None else {"routing": traffic.routing}
    )
    touched = load_setup(setup.scenario.on_assumed_ranks().model_copy(update=update))
    placing = LayoutOptions(redundant=tuple(dict.fromkeys((0, _copies(setup)))))
    return _question(setup), ranks_answer(touched, traffic, placing)


def copies_key(ranks: int) -> str:
    """Key of the number of copies: what fills one number of ranks evenly may not fill another."""
    return f"rank_copies_{ranks}"


def _copies(setup: Setup) -> int:
    return int(st.session_state.get(copies_key(setup.placement.expert_parallel), 0))


def _kept_trace() -> UserTrace | None:
    """This session's trace where it has sequences to count."""
    trace = TRACE.result
    return trace if trace is not None and trace.sequences else None


def _trace_of(setup: Setup) -> UserTrace | None:
    """This session's trace where it is of as many experts as the scenario's model has, else
    None."""
    moe = setup.architecture.moe
    trace = _kept_trace()
    return (
        trace
        if moe is not None and trace is not None and trace.fit.n_experts == moe.n_experts
        else None
    )


def _own_loads(setup: Setup) -> str:
    """This session's table of loads where it is of as many experts as the scenario's model has,
    else empty."""
    moe = setup.architecture.moe
    text = LOADS_FILE.result
    return text if moe is not None and loads_shape(text)[1] == moe.n_experts else ""


def _loads(setup: Setup) -> str | None:
    """Loads to count on where there is no trace: this session's table, else those that the scenario
    carries."""
    return _own_loads(setup) or setup.scenario.expert_loads


def _question(setup: Setup) -> tuple[str, str, int]:
    """What an answer is to: the scenario, the trace or loads that are counted on, and the copies
    chosen."""
    # What using an answer changes in the scenario is left out, so that the answer stays on screen.
    scenario = setup.scenario.on_assumed_ranks()
    if (trace := _trace_of(setup)) is None:
        return scenario.hash, _loads(setup) or "", _copies(setup)
    return scenario.model_copy(update={"routing": "auto"}).hash, trace.digest, _copies(setup)


def answer(setup: Setup) -> RanksAnswer | None:
    """The answer counted for this scenario, trace and copies, or None. One of another trace is
    dropped."""
    last_answer = _ANSWER.result
    question = _question(setup)
    if last_answer is not None and last_answer[0][1] != question[1]:
        _ANSWER.forget()
    return last_answer[1] if last_answer is not None and last_answer[0] == question else None


def last(setup: Setup) -> tuple[str, RanksAnswer] | None:
    """The answer that was counted last for this scenario and trace, with whatever copies, and a
    name of it.

    Another page does not know the copies that are chosen on Serve. None where none was counted, or
    for another.
    """
    last_answer = _ANSWER.result
    if last_answer is None or last_answer[0][:2] != _question(setup)[:2]:
        return None
    return "/".join(map(str, last_answer[0])), last_answer[1]


def basis(setup: Setup) -> str:
    """Traffic that would be counted, in words."""
    if _trace_of(setup) is not None:
        return (
            "Counts on your trace: balanced layouts are planned on one half of it and judged on "
            "the other."
        )
    if file_loads := _own_loads(setup):
        layers, experts = loads_shape(file_loads)
        return (
            f"Counts on your table of loads, {layers} layers of {experts} experts, which is taken "
            "to stay as it is."
        )
    if setup.scenario.expert_loads is not None:
        return "Counts on the loads that the scenario carries, which are taken to stay as they are."
    preset = "loads have the routing preset's spread and hot experts are placed at random"
    moe = setup.architecture.moe
    trace = _kept_trace()
    if trace is not None and moe is not None:
        return (
            f"Your trace is not counted: it is of {trace.fit.n_experts} experts and "
            f"{setup.architecture.name} has {moe.n_experts}. Instead, {preset}; choose the model "
            "of the trace in the bar."
        )
    if LOADS_FILE.result:
        of = loads_shape(LOADS_FILE.result)[1]
        return f"Your table of loads is not counted: it is of {of} experts. Instead, {preset}."
    return f"Without a trace or loads, {preset}; drop yours on Measure."


def draw_ranks_panel(advice: Advice) -> None:
    """The panel: a button, then the answer. Nothing where no experts lie on ranks."""
    ranks = advice.setup.placement.expert_parallel
    setup = advice.setup
    if ranks < 2:
        return
    st.subheader("Experts on ranks", anchor=False)
    copies, button = st.columns([1, 2], vertical_alignment="bottom")
    copies.number_input(
        "Copies of hot experts",
        min_value=0,
        max_value=64 * ranks,
        value=ranks,
        step=ranks,
        key=copies_key(ranks),
        help=(
            f"Redundant experts, as EPLB places them. {ranks} ranks share experts and copies "
            "evenly."
        ),
    )
    button.button(
        "Count the ranks",
        key="count_ranks",
        icon=":material/grid_view:",
        on_click=count,
        args=(setup,),
    )
    show_problem(_ANSWER.problem)
    counted_layouts = answer(setup)
    if counted_layouts is None:
        st.caption(basis(setup))
        return
    _shown(counted_layouts, advice)


def _shown(answer: RanksAnswer, advice: Advice) -> None:
    if answer.traffic.kind == "preset":
        st.info(
            "Not counted on a file of yours: loads have the routing preset's spread.",
            icon=":material/info:",
        )
    st.markdown(plain(typeset(verdict(answer))))
    for text in note_texts(trace_notes(answer)):
        st.warning(plain(text))
    show_table(layout_table(answer))
    _choose(answer)
    show_chart(rank_chart(answer), "ranks", advice.scenario)
    st.caption(plain(exchange_text(answer)))
    if answer.moved:
        show_table(exchange_table(answer))
    for text in notes(answer):
        st.caption(plain(text))


def _choose(answer: RanksAnswer) -> None:
    """The choice of a layout to predict with, on all pages. Experts in order on a preset's loads
    are the assumption."""
    arms = [arm for arm in answer.arms[1:] if arm.is_balanced or answer.traffic.kind != "preset"]
    layout, button = st.columns([1, 2], vertical_alignment="bottom")
    names = [arm.name for arm in arms]
    chosen = layout.selectbox(
        "Layout to predict with",
        names,
        index=names.index(answer.best.name) if answer.best.name in names else 0,
        key="rank_layout",
    )
    arm = arms[names.index(chosen)]
    button.button(
        "Use it in every answer",
        key="use_ranks",
        icon=":material/check:",
        on_click=use,
        args=(arm, answer),
        help=(
            "The slowest rank is then counted and no longer assumed: on Serve, in the report and "
            "in what is exported."
        ),
    )
