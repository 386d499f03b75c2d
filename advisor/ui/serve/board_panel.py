"""Which model: all of them at the scenario's load, ranked with doubt, and the one that is opened in the bar."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.catalog import drafter_name, model_name
from advisor.charts import leaderboard_chart, quality_chart
from advisor.prediction import AdvisorError, Prediction
from advisor.ranking import (
    Leaderboard,
    Standing,
    best_of_sizes,
    csv_rows,
    front_of,
    load_as_text,
    load_from_text,
    missed_texts,
    notes,
    own_place,
    placement_text,
    quality_text,
    users_of,
    verdict,
)
from advisor.scenario import Scenario
from advisor.spend import digits
from advisor.text import counted, csv_text
from advisor.ui.serve import board_ask
from advisor.ui.serve.board_ask import Quality
from advisor.ui.shared import boards, widgets

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
    "K": _TEXT(width=36, help="Tokens drafted a step; 0 is plain decoding."),
    "Memory": _NUMBER(format="%.0f%%", help="Of what an engine may use of the fullest GPU."),
    "Keeps limit": _NUMBER(format="%.0f%%", help="Share of simulated cases within the limit on time per token."),
    "Total B": _NUMBER(format="%.1f", help="Billions of parameters."),
    "Active B": _NUMBER(format="%.1f", help="Billions of parameters that a token uses."),
    "Accepted": _TEXT(help="Where the accepted length is from; the notes below say more."),
    "Speedup": _NUMBER(format="%.2f×", help="Over plain decoding on the same placement."),
}
_ROW_PX, _HIGHEST_PX = 35, 470
_FEW_LOADS = 6
"""Numbers of users whose shares of the time are told. [-]"""


def draw(advice: Advice) -> None:
    """The whole tab."""
    scenario = advice.scenario
    st.subheader("Which model serves this load best", anchor=False)
    wanted, quality = board_ask.draw(scenario)
    try:
        board = boards.board_for(scenario, wanted)
    except AdvisorError as error:
        st.error(widgets.plain(str(error)), icon=":material/error:")
        return
    _asked(scenario, board)
    _verdict(advice, board, quality)
    if board.standings:
        _table(scenario, board, quality)
        _charts(scenario, board, quality)
        with st.expander("What this rests on"):
            st.markdown("\n".join(f"- {widgets.plain(text)}" for text in notes(board)))
    _missed(board)
    st.caption("Several accelerators, engines or contexts at once: the tab Sweep of Data.")


def _asked(scenario: Scenario, board: Leaderboard) -> None:
    """The load that is answered for, and the way back to the bar's where it is another."""
    asked = board.question.scenario
    limit = "" if asked.max_tpot_ms is None else f", each token within {asked.max_tpot_ms:g} ms"
    users = f"{board.question.load_text} at once{_over_time(board)}"
    load = f"{users} on {board.place}, {asked.context_tokens:,} tokens of context{limit}"
    st.caption(
        widgets.plain(f"For {load}. Each model stands at its best placement (TP n: spread over n GPUs), drafter and K.")
    )
    if _load_of(board) != (str(users_of(scenario)), scenario.n_gpus):
        st.button(
            f"Answer for the bar's load: {users_of(scenario):,} on {counted(scenario.n_gpus, 'GPU')}",
            key="rank_follow",
            on_click=_follow_the_bar,
            type="tertiary",
            icon=":material/undo:",
        )


def _over_time(board: Leaderboard) -> str:
    """Share of the time at each number of users, where there are a few."""
    users = board.question.users
    if not 1 < len(users.batches) <= _FEW_LOADS:
        return ""
    whole = sum(users.weights)
    each = (f"{batch:,} in {weight / whole:.0%}" for batch, weight in zip(users.batches, users.weights, strict=True))
    return f" ({', '.join(each)} of the time)"


def _load_of(board: Leaderboard) -> tuple[str, int]:
    """Users, as they are typed, and GPUs of a board."""
    return load_as_text(board.question.users), board.question.scenario.n_gpus


def _follow_the_bar() -> None:
    st.session_state["rank_users"], st.session_state["rank_gpus"] = "", None


def _verdict(advice: Advice, board: Leaderboard, quality: Quality | None) -> None:
    """Who is first, that size is not quality, the best of each size, and where the bar's own model stands."""
    st.markdown(f"**{widgets.plain(verdict(board))}**")
    if quality is None and (said := quality_text(board)):
        st.markdown(f":material/info: {widgets.plain(said)}")
    if len(sizes := best_of_sizes(board)) > 1:
        st.markdown("\n".join(f"- {size} parameters: {widgets.plain(said)}" for size, said in sizes))
    if placed := own_place(board, advice.scenario.model_id):
        st.caption(widgets.plain(f"In the bar: {placed} {_other_k(advice, board)}".rstrip()))


def _other_k(advice: Advice, board: Leaderboard) -> str:
    """Why the bar's answer has another K than the standing that was opened; empty where it has the same."""
    asked, n_draft = advice.scenario, advice.recommendation.n_draft
    for one in board.standings:
        ranked_as = (one.name, one.gpus, one.tensor_parallel, one.drafter, one.acceptance)
        in_bar = (asked.model_id, asked.n_gpus, asked.tensor_parallel, asked.drafter_id, asked.acceptance)
        if ranked_as == in_bar and one.drafts != (n_draft,) and one.accepted in ("borrowed", "carried"):
            return (
                f"It was ranked with K = {one.drafts[0]}, in the wider doubt of a {one.accepted} length; the bar takes "
                f"the length as yours and recommends K = {n_draft}."
            )
    return ""


def _table(scenario: Scenario, board: Leaderboard, quality: Quality | None) -> None:
    """Every ranked model; the picked row can be opened in the bar."""
    key = f"board_{hashlib.sha256(repr(board.question).encode()).hexdigest()[:12]}"
    frame = _frame(board, quality)
    columns = _COLUMNS | {label: _NUMBER(format=form, help=said) for label, _, _, form, said in _FIGURES}
    event = st.dataframe(
        frame,
        hide_index=True,
        placeholder="",
        column_config=columns,
        key=key,
        on_select="rerun",
        row_height=_ROW_PX,
        height=min(_ROW_PX * len(frame) + 38, _HIGHEST_PX),
        selection_mode="single-row-required",
        selection_default={"selection": {"rows": [0]}},
        alt="Every ranked model: likely rank, placement, K, cost, time per token, tokens/s, energy, memory and size.",
    )
    rows = event["selection"]["rows"] or [0]
    one = board.standings[min(rows[0], len(board.standings) - 1)]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            f"Open {widgets.plain(model_name(one.name))} on {placement_text(one)} in the bar",
            key="rank_open",
            icon=":material/input:",
            on_click=_open,
            args=(one, *_load_of(board)),
            help="The bar takes the model, its placement, the (most) users of one copy, drafter and accepted length; "
            "the page then answers for it. Pick another row to open another. A borrowed length is taken as yours.",
        )
        axis = None if quality is None else (quality.name, quality.scores)
        st.download_button(
            "All figures as CSV",
            csv_text(*csv_rows(board, axis)),
            file_name=f"models-{scenario.hash}.csv",
            mime="text/csv",
            key="rank_csv",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )


def _frame(board: Leaderboard, quality: Quality | None) -> pd.DataFrame:
    """The board with numbers that sort, each figure beside the ends of its band."""
    by = board.question.by
    order = {"cost": 0, "speed": 1, "throughput": 2, "energy": 3}[by]
    figures = [_FIGURES[order], *(each for i, each in enumerate(_FIGURES) if i != order)]
    front = {} if quality is None else front_of(board, quality.scores)
    rows = []
    for one in board.standings:
        row: dict[str, Any] = {"Rank": _rank(one), "Model": model_name(one.name)}
        for label, field, factor, _, _ in figures:
            value: Prediction | None = getattr(one, field)
            row[label] = None if value is None else _shown(value.value * factor)
            row[f"{label}, likely"] = "" if value is None else "–".join(digits(end * factor) for end in _ends(value))
            if label == figures[0][0]:
                row |= {"Placement": placement_text(one), "K": "/".join(map(str, sorted(set(one.drafts))))}
                if quality is not None:
                    row |= {f"Score: {quality.name}": quality.scores.get(one.name), "Not beaten": front[one.name]}
        row["Memory"] = 100 * one.memory_share
        if board.question.scenario.max_tpot_ms is not None:
            row["Keeps limit"] = 100 * one.p_limit
        row |= {"Total B": one.total_params / 1e9, "Active B": one.active_params / 1e9}
        drafts = one.accepted != "none"
        row |= {"Drafter": drafter_name(one.drafter) if drafts else "", "Accepted": one.accepted if drafts else ""}
        rows.append(row | {"Speedup": one.speedup.value, "Tier": str(one.tier)})
    return pd.DataFrame(rows)


def _shown(value: float) -> float:
    """Whole above 100, where a fraction says nothing."""
    return float(round(value)) if value >= 100 else value


def _rank(one: Standing) -> str:
    """`3 (2–9)`, or `1` where that is sure."""
    return f"{one.rank}" if one.rank_low == one.rank_high else f"{one.rank} ({one.rank_low}–{one.rank_high})"


def _ends(value: Prediction) -> tuple[float, float]:
    return value.low, value.high


def _open(one: Standing, users: str, n_gpus: int) -> None:
    """Callback: the bar asks for this model as it was ranked; the board goes on answering for its own load."""
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
    now["rank_users"], now["rank_gpus"] = users, n_gpus
    st.toast(f"{widgets.plain(model_name(one.name))} is in the bar; the page above answers for it.")


def _charts(scenario: Scenario, board: Leaderboard, quality: Quality | None) -> None:
    if quality is not None:
        widgets.show_chart(quality_chart(board, quality.name, quality.scores), "board_quality", scenario)
    widgets.show_chart(leaderboard_chart(board), "board_ranks", scenario)


def _missed(board: Leaderboard) -> None:
    """The models that are not ranked, with the reason of each."""
    if not board.missed:
        return
    with st.expander(f"{counted(len(board.missed), 'model')} not ranked"):
        st.markdown("\n".join(f"- {widgets.plain(text)}" for text in missed_texts(board)))
        rows = [{"Model": model_name(each.name), "Why": each.reason, "Detail": each.detail} for each in board.missed]
        st.dataframe(pd.DataFrame(rows), hide_index=True)
