"""Experts on ranks in the session: counted from the user's own trace where there is one, else from the preset."""

from __future__ import annotations

import streamlit as st

from advisor.expert_ranks import Placing, RankArm, RanksAnswer, ranks_answer
from advisor.expert_traffic import (
    Traffic,
    loads_shape,
    read_loads,
    traffic_of_trace,
    write_loads,
)
from advisor.prediction import AdvisorError
from advisor.routing import Choices, TraceFit
from advisor.setup import Setup, load_setup, traffic_of
from advisor.ui.data import own_traces
from advisor.ui.shared import ranks_use
from advisor.ui.shared.session import Slot, nothing

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
    ranks_use.use(loads, arm.redundant if arm.is_balanced else None, found.traffic.routing)


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
    moe, kept = setup.architecture.moe, own_traces.kept()
    return kept if moe is not None and kept is not None and kept[0].n_experts == moe.n_experts else None


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
    return asked.model_copy(update={"routing": "auto"}).hash, own_traces.digest(), _copies(setup)


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
    moe, kept = setup.architecture.moe, own_traces.kept()
    if kept is not None and moe is not None:
        return (
            f"Your trace is not counted: it is of {kept[0].n_experts} experts and {setup.architecture.name} has "
            f"{moe.n_experts}. Instead, {preset}; choose the model of the trace in the bar."
        )
    if _LOADS.get():
        of = loads_shape(_LOADS.get())[1]
        return f"Your table of loads is not counted: it is of {of} experts. Instead, {preset}."
    return f"Without a trace or loads, {preset}; upload yours above."
