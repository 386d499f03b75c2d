"""Which model: all of them at the scenario's load, ranked with doubt, and the one that is opened in the bar."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.explore.entrants import BY, By, load_as_text, load_from_text
from advisor.answers.explore.leaderboard import Leaderboard, Standing
from advisor.catalog.hardware import model_name
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError, Prediction
from advisor.show.words.leaderboard import missed_texts, notes, own_place, placement_text, verdict
from advisor.show.words.leaderboard import table as board_table
from advisor.show.words.load import digits
from advisor.text import counted
from advisor.ui.answers import asked, board_for
from advisor.ui.session import LARGEST_LIMIT, SMALLEST_LIMIT
from advisor.ui.widgets import plain

_BY_NAMES: dict[By, str] = {"cost": "Cost", "throughput": "Throughput", "speed": "Speed", "energy": "Energy"}
_NUMBER, _TEXT = st.column_config.NumberColumn, st.column_config.TextColumn
_FIGURES = (
    ("USD/M tokens", "usd_per_million", 1.0, "%.3f", "USD per million output tokens."),
    ("ms/token", "tpot_s", 1e3, "%.1f", "Time per output token of one user."),
    ("Tokens/s/GPU", "tokens_per_s_per_gpu", 1.0, "localized", "Of all users together, per GPU in use."),
    ("J/token", "joules_per_token", 1.0, "%.3f", "The boards' energy per output token, a roofline estimate."),
)
"""Column, field of a standing, factor to its unit, format, help."""
_COLUMNS: dict[str, Any] = {
    "Rank": _TEXT(width=76, help="In brackets the likely ranks: eight in ten simulated cases lie in there."),
    "Model": _TEXT(width=156),
    "Placement": _TEXT(help="GPUs of one copy: TP n spreads each layer over n GPUs; copies share the users."),
    "Memory": _NUMBER(format="%.0f%%", help="Of what an engine may use of the fullest GPU."),
    "Total B": _NUMBER(format="%.1f", help="Billions of parameters."),
    "Speedup": _NUMBER(format="%.2f×", help="Over plain decoding on the same placement."),
}
_ROW_PX, _HIGHEST_PX = 35, 470


def draw_board(advice: Advice) -> None:
    """The leaderboard at the scenario's load."""
    _ask()
    try:
        board = board_for(advice.scenario, asked())
    except AdvisorError as error:
        st.error(plain(str(error)), icon=":material/error:")
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
        for key, label in (("rank_min_total", "Size from (B)"), ("rank_max_total", "Size to (B)")):
            st.number_input(label, SMALLEST_LIMIT, LARGEST_LIMIT, None, key=key, placeholder="any", width=132)
        st.text_input("Name has", key="rank_names", placeholder="any, e.g. qwen3, gpt-oss", width=190)


def _table(scenario: Scenario, board: Leaderboard) -> None:
    """Every ranked model; the picked row can be opened in the bar."""
    key = f"board_{hashlib.sha256(repr(board.question).encode()).hexdigest()[:12]}"
    frame = _frame(board)
    event = st.dataframe(
        frame,
        hide_index=True,
        column_config=_COLUMNS | {label: _NUMBER(format=form, help=said) for label, _, _, form, said in _FIGURES},
        key=key,
        on_select="rerun",
        row_height=_ROW_PX,
        height=min(_ROW_PX * len(frame) + 38, _HIGHEST_PX),
        selection_mode="single-row-required",
        selection_default={"selection": {"rows": [0]}},
        alt="Every ranked model: likely rank, cost, time per token, tokens/s, placement, K, memory, size and speedup.",
    )
    rows = event["selection"]["rows"] or [0]
    one = board.standings[min(rows[0], len(board.standings) - 1)]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        opened = st.button(
            f"Open {plain(model_name(one.name))} on {placement_text(one)} in the bar",
            key="rank_open",
            on_click=_open,
            args=(one, load_as_text(board.question.users)),
        )
        if opened:
            st.rerun()  # the board is a fragment, and the bar is not part of it
        st.download_button(
            "All figures as CSV",
            board_table(board).csv(),
            file_name=f"models-{scenario.hash}.csv",
            mime="text/csv",
            key="rank_csv",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )


def _frame(board: Leaderboard) -> pd.DataFrame:
    """The board with numbers that sort, the figure that ranks beside the ends of its band."""
    order = {"cost": 0, "speed": 1, "throughput": 2, "energy": 3}[board.question.by]
    figures = [_FIGURES[order], *(each for i, each in enumerate(_FIGURES) if i != order)]
    rows = []
    for one in board.standings:
        row: dict[str, Any] = {"Rank": _rank(one), "Model": model_name(one.name)}
        for label, field, factor, _, _ in figures:
            value: Prediction | None = getattr(one, field)
            row[label] = None if value is None else _shown(value.value * factor)
            if label == figures[0][0]:
                ends = () if value is None else (value.low * factor, value.high * factor)
                row |= {"Likely": "–".join(map(digits, ends)), "Placement": placement_text(one)}
        row |= {"K": "/".join(map(str, sorted(set(one.drafts)))), "Memory": 100 * one.memory_share}
        row |= {"Total B": one.total_params / 1e9, "Accepted": one.accepted, "Speedup": one.speedup.value}
        rows.append(row)
    return pd.DataFrame(rows)


def _shown(value: float) -> float:
    """Whole above 100, where a fraction says nothing."""
    return float(round(value)) if value >= 100 else value


def _rank(one: Standing) -> str:
    """`3 (2–9)`, or `1` where that is sure."""
    return f"{one.rank}" if one.rank_low == one.rank_high else f"{one.rank} ({one.rank_low}–{one.rank_high})"


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
