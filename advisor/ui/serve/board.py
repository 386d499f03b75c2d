"""Which model: all of them at the scenario's load, ranked with doubt, and the one that is opened in the bar."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.explore.entrants import BY, By, load_as_text, load_from_text
from advisor.answers.explore.leaderboard import Leaderboard, Standing
from advisor.catalog.hardware import model_name
from advisor.predict.scenario import Scenario
from advisor.show.words.leaderboard import missed_texts, notes, own_place, placement_text, verdict
from advisor.show.words.leaderboard import table as board_table
from advisor.text import counted
from advisor.ui.answers import asked, board_for
from advisor.ui.session import LARGEST_LIMIT, SMALLEST_LIMIT
from advisor.ui.state import plain
from advisor.ui.widgets import download, show_table, tried

_BY_NAMES: dict[By, str] = {"cost": "Cost", "throughput": "Throughput", "speed": "Speed", "energy": "Energy"}
_FIGURES: dict[By, str] = {
    "cost": "USD/M tokens",
    "speed": "ms/token",
    "throughput": "tokens/s/GPU",
    "energy": "J/token",
}
"""Column of what is ranked by."""


def draw_board(advice: Advice) -> None:
    """The leaderboard at the scenario's load."""
    _ask()
    if (board := tried(board_for, advice.scenario, asked())) is None:
        return
    st.markdown(f"**{plain(verdict(board))}**")
    if board.standings:
        _table(advice.scenario, board)
    if placed := own_place(board, advice.scenario.model_id):
        st.caption(plain(f"In the bar: {placed}"))
    if board.standings:
        with st.expander("What this rests on"):
            st.markdown("\n".join(f"- {plain(text)}" for text in notes(board)))
    _missed(board)


def _ask() -> None:
    """What is asked besides the scenario's load: the order, sizes and names."""
    with st.container(key="rank_ask", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.segmented_control("Best by", BY, key="rank_by", format_func=_BY_NAMES.__getitem__, required=True)
        for key, label in (("rank_min_total", "Min size (B)"), ("rank_max_total", "Max size (B)")):
            st.number_input(label, SMALLEST_LIMIT, LARGEST_LIMIT, None, key=key, placeholder="any", width=132)
        st.text_input("Name has", key="rank_names", placeholder="any, e.g. qwen3, gpt-oss", width=190)


def _table(scenario: Scenario, board: Leaderboard) -> None:
    """Every ranked model, what ranks them first; the picked row, at first the best, can be opened in the bar."""
    whole = board_table(board)
    first = _FIGURES[board.question.by]
    figures = (first, *(each for each in _FIGURES.values() if each != first))
    by_label = {column.label: column for column in whole.columns}
    by_label["model"] = replace(by_label["model"], text=model_name)
    rest = ("K", "memory", "total B", "accepted", "speedup")
    order = ("rank", "likely rank", "model", first, "placement", *figures[1:], *rest)
    key = f"board_{hashlib.sha256(repr(board.question).encode()).hexdigest()[:12]}"
    picked = show_table(replace(whole, columns=tuple(by_label[label] for label in order)), key, pick=True)
    one = board.standings[picked or 0]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        opened = st.button(
            f"Open {plain(model_name(one.name))} on {placement_text(one)} in the bar",
            key="rank_open",
            on_click=_open,
            args=(one, load_as_text(board.question.users)),
        )
        if opened:
            st.rerun()  # the board is a fragment, and the bar is not part of it
        download("All figures as CSV", whole.csv(), f"models-{scenario.hash}.csv", "rank_csv", quiet=True)


def _open(one: Standing, users: str) -> None:
    """Callback: the bar asks for this model as it was ranked."""
    now = st.session_state
    now.update(
        {
            "model_id": one.name,
            "n_gpus": one.gpus,
            "tensor_parallel": one.tensor_parallel,
            "expert_parallel": one.expert_parallel,
            "batch_size": math.ceil(max(load_from_text(users).batches) / one.copies),
            "drafter_id": one.drafter,
            "routing": "auto",
        }
    )
    if one.accepted != "none":
        now["acceptance"] = one.acceptance


def _missed(board: Leaderboard) -> None:
    """The models that are not ranked, with the reason of each."""
    if not board.missed:
        return
    with st.expander(f"{counted(len(board.missed), 'model')} not ranked"):
        st.markdown("\n".join(f"- {plain(text)}" for text in missed_texts(board)))
        rows = [{"Model": model_name(each.name), "Why": each.reason, "Detail": each.detail} for each in board.missed]
        st.dataframe(pd.DataFrame(rows), hide_index=True)
