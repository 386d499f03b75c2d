"""What is asked of the leaderboard on the page: the order, sizes, names, the load, and a table of scores.

Which model: all of them at the scenario's load, ranked with doubt, and the one that is opened in the bar.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.explore.entrants import (
    BY,
    MAX_SCORES_BYTES,
    By,
    Scores,
    load_as_text,
    load_from_text,
    read_scores,
    users_of,
)
from advisor.answers.explore.leaderboard import Leaderboard, Standing
from advisor.catalog.hardware import drafter_name, model_name
from advisor.catalog.models import model_ids
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError, Prediction
from advisor.show.charts.leaderboard import leaderboard_chart, quality_chart
from advisor.show.words.leaderboard import (
    best_of_sizes,
    front_of,
    missed_texts,
    notes,
    own_place,
    placement_text,
    quality_text,
    verdict,
)
from advisor.show.words.leaderboard import table as board_table
from advisor.show.words.load import digits
from advisor.text import counted, printable
from advisor.ui.answers import OFFERED, BoardAsked, asked, board_for
from advisor.ui.session import LARGEST_LIMIT, MAX_GPUS, SMALLEST_LIMIT, Slot, nothing
from advisor.ui.widgets import plain, show_chart, upload_limit

_SCORES: Slot[Scores | None] = Slot("_board_scores", nothing)
_PROBLEM: Slot[str] = Slot("_board_scores_problem", str)
"""Why the table of scores given last cannot be used."""
_FILE = "board_scores_file"
_BY_NAMES: dict[By, str] = {"cost": "Cost", "throughput": "Throughput", "speed": "Speed", "energy": "Energy"}
_SIZES = {
    "rank_min_total": ("Size from (B)", "All parameters, in billions. Empty: any."),
    "rank_max_total": ("Size to (B)", "All parameters, in billions. Empty: any."),
    "rank_min_active": ("Active from (B)", "Parameters that a token uses, in billions. Empty: any."),
    "rank_max_active": ("Active to (B)", "Parameters that a token uses, in billions. Empty: any."),
}
_SCORES_HELP = (
    "CSV with a column model (id or Hugging Face repository) and one or more of scores. It stays in this session; no "
    "score is shipped."
)
_NAMED = 5
"""Names of a table that no shipped model has and that are told. [-]"""


@dataclass(frozen=True)
class Quality:
    """A column of the user's scores, by model."""

    name: str
    scores: dict[str, float]


def draw_board_ask(scenario: Scenario) -> tuple[BoardAsked, Quality | None]:
    """The controls: what they ask, and the quality axis where there is one."""
    with st.container(key="rank_ask", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.segmented_control(
            "Best by",
            BY,
            key="rank_by",
            format_func=_BY_NAMES.__getitem__,
            required=True,
            help="USD per million output tokens, tokens/s per GPU, time per output token, or J per output token.",
        )
        _size("rank_min_total", 132)
        _size("rank_max_total", 132)
        st.text_input(
            "Name has",
            key="rank_names",
            placeholder="any, e.g. qwen3, gpt-oss",
            width=190,
            help="Pieces of names, comma-separated: a model needs one of them.",
        )
        with st.popover("More filters", icon=":material/tune:", width="content", key="rank_more"):
            _size("rank_min_active")
            _size("rank_max_active")
            price()
            _load(scenario)
        with st.popover("Your scores", icon=":material/upload_file:", width="content"):
            quality, listed = _scores(scenario.model_id)
    return asked().model_copy(update={"listed": listed}), quality


def _size(key: str, width: int | Literal["stretch"] = "stretch") -> None:
    label, said = _SIZES[key]
    st.number_input(
        label,
        min_value=SMALLEST_LIMIT,
        max_value=LARGEST_LIMIT,
        value=None,
        key=key,
        placeholder="any",
        width=width,
        help=said,
    )


def price() -> float | None:
    """The price of a GPU-hour, one setting wherever it is asked for. [USD/h]"""
    return st.number_input(
        "Price of a GPU (USD/hour)",
        min_value=SMALLEST_LIMIT,
        max_value=LARGEST_LIMIT,
        value=None,
        key="load_price",
        placeholder="the accelerator's",
        help="Empty: the accelerator profile's, with its date.",
    )


def _load(scenario: Scenario) -> None:
    """Users and GPUs where they are other than the bar's, and what is searched."""
    st.text_input(
        "Users at once",
        key="rank_users",
        placeholder=f"the bar's, {users_of(scenario):,}",
        help="Sequences that decode together on the whole machine: 64, or over time 1:10,64:90, each number of users "
        "with its share of the time.",
    )
    if (offered := OFFERED.get()) and offered != st.session_state["rank_users"]:
        st.button(
            f"Take those of K while serving: {plain(printable(offered, 40))}",
            key="rank_offered",
            on_click=_take_offered,
            type="tertiary",
            icon=":material/input:",
        )
    st.number_input(
        "GPUs",
        min_value=1,
        max_value=MAX_GPUS,
        value=None,
        key="rank_gpus",
        step=1,
        placeholder=f"the bar's, {scenario.n_gpus:,}",
    )
    st.toggle(
        "Use and pay every GPU", key="rank_whole", help="Off: only the GPUs that a model serves best on are paid."
    )
    st.toggle(
        "Try expert parallelism too",
        key="rank_ep",
        help="Its effect was predicted in the right direction in few measured pairs (Trust).",
    )


def _take_offered() -> None:
    st.session_state["rank_users"] = OFFERED.get()


def _scores(own_id: str) -> tuple[Quality | None, tuple[str, ...] | None]:
    """The quality axis, and the models that the least score leaves (None: all)."""
    st.file_uploader(
        "Table of scores (CSV)",
        type=["csv"],
        key=_FILE,
        on_change=_take,
        help=_SCORES_HELP,
        max_upload_size=max(1, upload_limit(MAX_SCORES_BYTES)),
    )
    if problem := _PROBLEM.get():
        st.error(plain(problem), icon=":material/error:")
    table = _SCORES.get()
    if table is None:
        return None, None
    name = str(st.selectbox("Score", table.columns, key="board_score", help="Higher is better."))
    least = st.number_input("Least score", value=None, key="board_least_score", placeholder="any")
    where = st.text_input("Only where", key="board_where", placeholder="column=value, e.g. licence=mit")
    st.button("Forget the scores", key="board_forget", on_click=_forget, type="tertiary", icon=":material/delete:")
    if unknown := table.unknown:
        st.caption(plain(f"No shipped model is called {_names(unknown)}."))
    try:
        return _judged(table, name, least, where.strip(), (*model_ids(), own_id))
    except AdvisorError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None, None


def _names(unknown: Sequence[str]) -> str:
    more = " and others" if len(unknown) > _NAMED else ""
    return f"{', '.join(printable(name, 40) for name in unknown[:_NAMED])}{more}"


def _judged(
    table: Scores, name: str, least: float | None, where: str, known: Sequence[str]
) -> tuple[Quality, tuple[str, ...] | None]:
    """The quality axis, and the models that the least score and the condition leave (None: all).

    Raises AdvisorError for a column that holds no numbers, and for a condition that no model meets.
    """
    quality = Quality(name, table.numbers(name))
    kept = frozenset(known) if where == "" else table.where(where)
    if least is not None:
        kept &= {model for model, score in quality.scores.items() if score >= least}
    # Of the file only this leaves the session, as a typed name would: which models take part.
    return quality, None if least is None and where == "" else tuple(
        each for each in dict.fromkeys(known) if each in kept
    )


def _take() -> None:
    """Callback: read the table that was given; one that cannot be read leaves none."""
    _forget()
    file = st.session_state[_FILE]
    if file is None:
        return
    try:
        _SCORES.put(read_scores(file.name, file.getvalue()))
    except AdvisorError as error:
        _PROBLEM.put(str(error))


def _forget() -> None:
    _SCORES.drop()
    _PROBLEM.drop()


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


def draw_board_panel(advice: Advice) -> None:
    """The whole tab."""
    scenario = advice.scenario
    st.subheader("Which model serves this load best", anchor=False)
    wanted, quality = draw_board_ask(scenario)
    try:
        board = board_for(scenario, wanted)
    except AdvisorError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return
    _asked(scenario, board)
    _verdict(advice, board, quality)
    if board.standings:
        _table(scenario, board, quality)
        _charts(scenario, board, quality)
        with st.expander("What this rests on"):
            st.markdown("\n".join(f"- {plain(text)}" for text in notes(board)))
    _missed(board)
    st.caption("Several accelerators, engines or contexts at once: the tab Sweep of Data.")


def _asked(scenario: Scenario, board: Leaderboard) -> None:
    """The load that is answered for, and the way back to the bar's where it is another."""
    asked = board.question.scenario
    limit = "" if asked.max_tpot_ms is None else f", each token within {asked.max_tpot_ms:g} ms"
    users = f"{board.question.load_text} at once{_over_time(board)}"
    load = f"{users} on {board.place}, {asked.context_tokens:,} tokens of context{limit}"
    st.caption(plain(f"For {load}. Each model stands at its best placement (TP n: spread over n GPUs), drafter and K."))
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
    st.markdown(f"**{plain(verdict(board))}**")
    if quality is None and (said := quality_text(board)):
        st.markdown(f":material/info: {plain(said)}")
    if len(sizes := best_of_sizes(board)) > 1:
        st.markdown("\n".join(f"- {size} parameters: {plain(said)}" for size, said in sizes))
    if placed := own_place(board, advice.scenario.model_id):
        st.caption(plain(f"In the bar: {placed} {_other_k(advice, board)}".rstrip()))


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
            f"Open {plain(model_name(one.name))} on {placement_text(one)} in the bar",
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
            board_table(board, quality=axis).csv(),
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
    st.toast(f"{plain(model_name(one.name))} is in the bar; the page above answers for it.")


def _charts(scenario: Scenario, board: Leaderboard, quality: Quality | None) -> None:
    if quality is not None:
        show_chart(quality_chart(board, quality.name, quality.scores), "board_quality", scenario)
    show_chart(leaderboard_chart(board), "board_ranks", scenario)


def _missed(board: Leaderboard) -> None:
    """The models that are not ranked, with the reason of each."""
    if not board.missed:
        return
    with st.expander(f"{counted(len(board.missed), 'model')} not ranked"):
        st.markdown("\n".join(f"- {plain(text)}" for text in missed_texts(board)))
        rows = [{"Model": model_name(each.name), "Why": each.reason, "Detail": each.detail} for each in board.missed]
        st.dataframe(pd.DataFrame(rows), hide_index=True)
