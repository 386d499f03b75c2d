"""What is asked of the leaderboard on the page: the order, sizes, names, the load, and a table of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from advisor.catalog import model_ids
from advisor.prediction import AdvisorError
from advisor.ranking import BY, MAX_SCORES_BYTES, By, Scores, read_scores, users_of
from advisor.scenario import Scenario
from advisor.text import printable
from advisor.ui.shared import boards, widgets
from advisor.ui.shared.boards import BoardAsked
from advisor.ui.shared.session import Slot, nothing
from advisor.ui.shared.settings import LARGEST_LIMIT, MAX_GPUS, SMALLEST_LIMIT

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


def draw(scenario: Scenario) -> tuple[BoardAsked, Quality | None]:
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
    return boards.asked().model_copy(update={"listed": listed}), quality


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
    if (offered := boards.OFFERED.get()) and offered != st.session_state["rank_users"]:
        st.button(
            f"Take those of K while serving: {widgets.plain(printable(offered, 40))}",
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
    st.session_state["rank_users"] = boards.OFFERED.get()


def _scores(own_id: str) -> tuple[Quality | None, tuple[str, ...] | None]:
    """The quality axis, and the models that the least score leaves (None: all)."""
    st.file_uploader(
        "Table of scores (CSV)",
        type=["csv"],
        key=_FILE,
        on_change=_take,
        help=_SCORES_HELP,
        max_upload_size=max(1, widgets.upload_limit(MAX_SCORES_BYTES)),
    )
    if problem := _PROBLEM.get():
        st.error(widgets.plain(problem), icon=":material/error:")
    table = _SCORES.get()
    if table is None:
        return None, None
    name = str(st.selectbox("Score", table.columns, key="board_score", help="Higher is better."))
    least = st.number_input("Least score", value=None, key="board_least_score", placeholder="any")
    where = st.text_input("Only where", key="board_where", placeholder="column=value, e.g. licence=mit")
    st.button("Forget the scores", key="board_forget", on_click=_forget, type="tertiary", icon=":material/delete:")
    if unknown := table.unknown:
        st.caption(widgets.plain(f"No shipped model is called {_names(unknown)}."))
    try:
        return _judged(table, name, least, where.strip(), (*model_ids(), own_id))
    except AdvisorError as error:
        st.error(widgets.plain(str(error)), icon=":material/error:")
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
