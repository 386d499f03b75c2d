"""Experts on ranks in the session: counted from the user's own trace where there is one, else from the preset."""

from __future__ import annotations

import numpy as np
import streamlit as st

from advisor.expert_ranks import Placing, RanksAnswer, Traffic, ranks_answer, traffic_of_preset, traffic_of_trace
from advisor.prediction import AdvisorError
from advisor.setup import Setup, load_setup
from advisor.ui.data import own_traces
from advisor.ui.shared.session import Slot, nothing

_ANSWER: Slot[tuple[str, RanksAnswer] | None] = Slot("_rank_answer", nothing)
_PROBLEM: Slot[str] = Slot("_rank_problem", str)


def count(setup: Setup) -> None:
    """Place the experts of a setup with the copies that were chosen.

    Keeps the answer, or why there is none.
    """
    _PROBLEM.drop()
    _ANSWER.drop()
    copies = int(st.session_state.get(copies_key(setup.placement.expert_parallel), 0))
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


def _traffic(setup: Setup) -> Traffic:
    moe, kept = setup.architecture.moe, own_traces.kept()
    if moe is None or kept is None or kept[0].n_experts != moe.n_experts:
        return traffic_of_preset(setup, np.random.default_rng(0))
    fit, sequences = kept
    longest = (setup.scenario.k_max if setup.drafter.kind != "none" else 0) + 1
    return traffic_of_trace(sequences, moe.n_experts, longest, fit)


def _with_routing(setup: Setup, traffic: Traffic) -> Setup:
    """`setup` with the experts touched that a trace says, as far as it says so."""
    if traffic.routing is None:
        return setup
    return load_setup(setup.scenario.model_copy(update={"routing": traffic.routing}))


def _question(setup: Setup) -> str:
    """What an answer is to: the scenario, and whether a trace was there."""
    return f"{setup.scenario.hash} {own_traces.kept() is not None}"


def answer(setup: Setup) -> RanksAnswer | None:
    """The answer that was counted for this scenario and trace.

    None where none was, or for another.
    """
    found = _ANSWER.get()
    return found[1] if found is not None and found[0] == _question(setup) else None


def problem() -> str:
    """Reason that ranks could not be counted, empty when they could."""
    return _PROBLEM.get()


def basis() -> str:
    """Traffic that would be counted, in words."""
    if own_traces.kept() is not None:
        return "Counts on your trace: balanced layouts are planned on one half of it and judged on the other."
    return "Without a trace, loads have the routing preset's spread and hot experts lie by chance; upload yours above."
