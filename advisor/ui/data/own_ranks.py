"""Experts on ranks in the session: counted from the user's own trace where there is one, else from the preset."""

from __future__ import annotations

import numpy as np
import streamlit as st

from advisor.expert_ranks import Placing, RanksAnswer, Traffic, ranks_answer, traffic_of_preset, traffic_of_trace
from advisor.prediction import AdvisorError
from advisor.routing import Choices, TraceFit
from advisor.setup import Setup, load_setup
from advisor.ui.data import own_traces
from advisor.ui.shared.session import Slot, nothing

_ANSWER: Slot[tuple[tuple[str, str, int], RanksAnswer] | None] = Slot("_rank_answer", nothing)
_PROBLEM: Slot[str] = Slot("_rank_problem", str)


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


def _traffic(setup: Setup) -> Traffic:
    found = _trace_of(setup)
    if found is None:
        return traffic_of_preset(setup, np.random.default_rng(0))
    fit, sequences = found
    longest = (setup.scenario.k_max if setup.drafter.kind != "none" else 0) + 1
    return traffic_of_trace(sequences, fit.n_experts, longest, fit)


def _with_routing(setup: Setup, traffic: Traffic) -> Setup:
    """`setup` with the experts touched that a trace says, as far as it says so."""
    if traffic.routing is None:
        return setup
    return load_setup(setup.scenario.model_copy(update={"routing": traffic.routing}))


def _question(setup: Setup) -> tuple[str, str, int]:
    """What an answer is to: the scenario, the trace that is counted on (empty: none), and the copies chosen."""
    return setup.scenario.hash, own_traces.digest() if _trace_of(setup) is not None else "", _copies(setup)


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
    preset = "loads have the routing preset's spread and hot experts lie by chance"
    moe, kept = setup.architecture.moe, own_traces.kept()
    if kept is not None and moe is not None:
        return (
            f"Your trace is not counted: it is of {kept[0].n_experts} experts and {setup.architecture.name} has "
            f"{moe.n_experts}. Instead, {preset}; choose the model of the trace in the bar."
        )
    return f"Without a trace, {preset}; upload yours above."
