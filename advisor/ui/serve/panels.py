"""Panels of Serve: the live answer and its Why, Explore with all models, what was published, a
launch line checked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.by_context import KByContext
from advisor.answers.engines.config import MAX_LINE, check_line, one_option_a_line
from advisor.answers.engines.export import is_served_as
from advisor.answers.explore.cells import AXES, Explored, explore
from advisor.answers.explore.drafters import DrafterRow, drafters_beside
from advisor.answers.explore.entrants import BY, By, load_as_text, load_from_text
from advisor.answers.explore.leaderboard import Leaderboard, Standing
from advisor.answers.outcome import outcome_of
from advisor.answers.own_gap import NOTHING_DECIDED, at_batch, decision
from advisor.answers.summary import on_more_gpus
from advisor.catalog.hardware import model_name
from advisor.measured.validation import chance_kept_text, chances_kept, read_judged
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.maps import SHOWN, explored_chart, explored_table
from advisor.show.explain.nearby import nearest_speedups
from advisor.show.live_answer import MOST_PINS, engine_label, live_answer, live_why
from advisor.show.phrases.answer import BOOK, PIN
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.runs import decision_text
from advisor.show.phrases.schedule import BOOK as SCHEDULE_BOOK
from advisor.show.phrases.schedule import CONTEXT, TEXTS
from advisor.show.report.build import check_steps
from advisor.show.sheet import Sheet
from advisor.show.table import Column, Table, matrix
from advisor.show.track_record import chances_plate
from advisor.show.words.answer import engine_setup, k_by_context_table
from advisor.show.words.basis import accepted_text, correction_text, errors_text, tier_words
from advisor.show.words.drafters import drafters_side_by_side
from advisor.show.words.explain import PUBLISHED
from advisor.show.words.leaderboard import (
    detail_text,
    missed_texts,
    notes,
    own_place,
    placement_text,
    reason_text,
    verdict,
)
from advisor.show.words.leaderboard import table as board_table
from advisor.text import counted
from advisor.ui import PAGES
from advisor.ui.answers import advice_for, asked, board_for, errors_for, published_for, remembered
from advisor.ui.bar import said_of
from advisor.ui.own_data import own_points
from advisor.ui.pins import pin_of, setup_of
from advisor.ui.serve.ranks import draw_ranks_panel
from advisor.ui.session import EXPLORE_AS, LARGEST_LIMIT, SERVE_TABS, SMALLEST_LIMIT
from advisor.ui.sheet import draw_sheet
from advisor.ui.state import plain, show
from advisor.ui.widgets import ask, component, download, show_chart, show_table, tried

_BY_NAMES: dict[By, str] = {
    "cost": "Cost",
    "throughput": "Throughput",
    "speed": "Speed",
    "energy": "Energy",
}
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
    if board.missed:
        with st.expander(f"{counted(len(board.missed), 'model')} not ranked"):
            st.markdown("\n".join(f"- {plain(text)}" for text in missed_texts(board)))
            rows = [
                (model_name(each.name), reason_text(each), detail_text(each))
                for each in board.missed
            ]
            show_table(matrix(("Model", "Why", "Detail"), rows, "lll"))


def _ask() -> None:
    """What is asked besides the scenario's load: the order, sizes and names."""
    with st.container(key="rank_ask", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.segmented_control(
            "Best by", BY, key="rank_by", format_func=_BY_NAMES.__getitem__, required=True
        )
        for key, label in (("rank_min_total", "Min size (B)"), ("rank_max_total", "Max size (B)")):
            st.number_input(
                label, SMALLEST_LIMIT, LARGEST_LIMIT, None, key=key, placeholder="any", width=132
            )
        st.text_input(
            "Name has", key="rank_names", placeholder="any, e.g. qwen3, gpt-oss", width=190
        )


def _table(scenario: Scenario, board: Leaderboard) -> None:
    """Every ranked model, what ranks them first; the picked row, at first the best, can be opened
    in the bar."""
    all_figures = board_table(board)
    first = _FIGURES[board.question.by]
    figures = (first, *(each for each in _FIGURES.values() if each != first))
    by_label = {column.label: column for column in all_figures.columns}
    by_label["model"] = replace(by_label["model"], text=model_name)
    rest = ("K", "memory", "total B", "accepted", "speedup")
    order = ("rank", "likely rank", "model", first, "placement", *figures[1:], *rest)
    key = f"board_{hashlib.sha256(repr(board.question).encode()).hexdigest()[:12]}"
    picked = show_table(
        replace(all_figures, columns=tuple(by_label[label] for label in order)), key, pick=True
    )
    standing = board.standings[picked or 0]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        opened = st.button(
            f"Open {plain(model_name(standing.name))} on {placement_text(standing)} in the bar",
            key="rank_open",
            on_click=_open,
            args=(standing, load_as_text(board.question.users)),
        )
        if opened:
            st.rerun()  # the board is a fragment, and the bar is not part of it
        download(
            "All figures as CSV",
            all_figures.csv(),
            f"models-{scenario.hash}.csv",
            "rank_csv",
            quiet=True,
        )


def _open(standing: Standing, users: str) -> None:
    """Callback: the bar asks for this model as it was ranked."""
    now = st.session_state
    now.update(
        {
            "model_id": standing.name,
            "n_gpus": standing.gpus,
            "tensor_parallel": standing.tensor_parallel,
            "expert_parallel": standing.expert_parallel,
            "batch_size": math.ceil(max(load_from_text(users).batches) / standing.copies),
            "drafter_id": standing.drafter,
            "routing": "auto",
        }
    )
    if standing.accepted != "none":
        now["acceptance"] = standing.acceptance


_, _TABLE, _CONTEXTS, _COMPARE = EXPLORE_AS


@remembered(st.cache_resource, shared=64, own=16)
def _explored(scenario: Scenario, across: str, down: str) -> Explored:
    return explore(scenario, across, down)


@remembered(st.cache_resource, shared=32, own=8)
def _beside(scenario: Scenario) -> list[DrafterRow]:
    return drafters_beside(scenario)


def draw_drafters(advice: Advice) -> None:
    """The whole tab: every drafter of the model, each with its own accepted length."""
    if (rows := tried(_beside, advice.scenario)) is not None:
        data = drafters_side_by_side(rows, advice.scenario)
        _BESIDE(key=_BESIDE_KEY, data=data, on_chosen_change=_use_drafter)


def _use_drafter() -> None:
    chosen = _given("chosen", _BESIDE_KEY) or {}
    for name in ("drafter_id", "acceptance"):
        st.session_state[name] = str(chosen[name])


def _draw_contexts(advice: Advice) -> None:
    """The recommended K by batch and context, and how far context changes it."""
    if (at_contexts := tried(_at_contexts, advice)) is None:
        return
    show_table(k_by_context_table(at_contexts))
    st.caption(plain(f"-: does not fit. {CONTEXT.say('context', at_contexts.facts)}"))


def _at_contexts(advice: Advice) -> KByContext:
    return advice.decided.at_contexts


@st.fragment
def draw_explore(advice: Advice) -> None:
    """The whole tab, drawn anew alone when its own choices change."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        shown_as = st.segmented_control("As", EXPLORE_AS, key="explore_as", required=True)
        if shown_as not in (_CONTEXTS, _COMPARE):
            across = st.selectbox("Across", AXES, key="explore_across", width=150)
            down = st.selectbox("Down", AXES, key="explore_down", width=150)
            figure = st.segmented_control("Show", tuple(SHOWN), key="explore_show", required=True)
    if shown_as == _COMPARE:
        draw_board(advice)
        return
    if shown_as == _CONTEXTS:
        _draw_contexts(advice)
        return
    _cells(advice.scenario, across, down, str(figure), shown_as == _TABLE)


def _cells(scenario: Scenario, across: str, down: str, figure: str, as_table: bool) -> None:
    if (explored := tried(_explored, scenario, across, down)) is None:
        return
    if as_table:
        show_table(explored_table(explored, figure))
    else:
        show_chart(explored_chart(explored, figure), "explore", scenario)
    st.caption(
        "Each cell at its own best K, unless K is an axis. Blue: faster than no speculation; –: "
        "does not fit in memory."
    )


_KEY = "live_answer"
_BESIDE_KEY = "drafters"
_DRAWING = ("svg", "phrases", "tables", "kept", "chart")
_ANSWER = component("live_answer", *_DRAWING, "command", "answer")
_BESIDE = component(_BESIDE_KEY, "svg", "kept", "drafters")
_WHY = component("live_why", *_DRAWING, "why")


def draw_live(advice: Advice) -> None:
    """Draw headline, sliders, chart, command, table and flips. A slider that is let go becomes the
    scenario's."""
    scenario = advice.scenario
    points = own_points(scenario)
    decided = NOTHING_DECIDED if points is None else decision(points[points["decides"]])
    if decided.spans:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            text = decision_text(decided, measured=False)  # the chart has them
            st.markdown(f"Yours: {plain(text)}", width="content")
            st.page_link(str(PAGES["measure"]), label="Compare", icon=":material/monitoring:")
    pins = _pins()
    price = st.session_state["load_price"]
    answers = [(pin, tried(_pinned, pin)) for pin in pins]
    beside = {pin: answer for pin, answer in answers if answer is not None}
    data = live_answer(advice, points, price, tuple(beside.values()))
    _ANSWER(
        key=_KEY,
        data=data | {"unpinnable": _unpinnable(scenario, pins), "pin_keys": list(beside)},
        on_pins_change=partial(_take_pins, scenario),
        on_moved_change=_take,
        on_how_change=_asked,
        on_wider_change=partial(_widen, scenario),
    )


def _widen(scenario: Scenario) -> None:
    if (wider := on_more_gpus(scenario)) is not None:
        show(wider, "button")


def _pins() -> list[str]:
    return list(filter(None, st.session_state["pins"].split("!")))


def _pinned(pin: str) -> Advice:
    return advice_for(setup_of(pin))


def _unpinnable(scenario: Scenario, pins: Sequence[str]) -> str:
    """Reason why a setup cannot be pinned beside those. Empty where it can."""
    facts = {
        "private": scenario.is_private,
        "again": pin_of(scenario) in pins,
        "full": len(pins) >= MOST_PINS,
        "most": MOST_PINS,
    }
    return PIN.say("refused", facts)


def _take_pins(scenario: Scenario) -> None:
    """Pin the scenario, open a pinned setup at its batch, or let one go."""
    wanted = _given("pins") or {}
    pins = _pins()
    if "open" in wanted:
        opened = setup_of(wanted["open"])
        show(opened.model_copy(update={"batch_size": scenario.batch_size}), "button")
        return
    if "drop" in wanted:
        pins = [pin for pin in pins if pin != wanted["drop"]]
    elif not _unpinnable(scenario, pins):
        pins.append(pin_of(scenario))
    st.session_state["pins"] = "!".join(pins)


def _given(name: str, key: str = _KEY) -> Any:
    """What the browser sent with a trigger, in its callback."""
    return (st.session_state.get(key) or {}).get(name)


def _take() -> None:
    moved = _given("moved") or {}
    if "batch" in moved:
        st.session_state["batch_size"] = int(moved["batch"])
    if "tab" in moved:
        st.session_state["serve_tab"] = SERVE_TABS[1]
    if "accepted" in moved:
        st.session_state["acceptance"] = str(moved["accepted"])
    if "text" in moved:
        st.session_state["acceptance"] = str(moved["text"]["acceptance"])
        st.session_state["task"] = moved["text"]["task"]


def _asked() -> None:
    point = _given("how") or {}
    ask(float(point["batch"]), int(point["k"]))


def draw_why(advice: Advice) -> None:
    """The whole tab: a round by K, why the drafted K pays, and experts on ranks where they lie on
    some."""
    _WHY(key="live_why", data=live_why(advice))
    draw_ranks_panel(advice)


_LONGEST = 120
"""Characters of a flag's value that the table shows. [-]"""


def draw_check(advice: Advice) -> None:
    """The whole tab."""
    name = engine_label(advice.scenario.engine)
    launch_line = st.text_area(
        f"Your {name} launch line", key="own_line", height=110, max_chars=MAX_LINE
    )
    if launch_line.strip():
        _checked(advice, launch_line)
    if advice.scenario.engine == "vllm" and (steps := check_steps(advice)):
        with st.expander("Measure this prediction with vLLM"):
            st.caption("Drop the results on the page Measure.")
            for step in steps:
                st.caption(plain(step.purpose))
                st.code(one_option_a_line(step.command), language=None, wrap_lines=True)


def _checked(advice: Advice, launch_line: str) -> None:
    setup = engine_setup(advice, advice.scenario.engine)
    if setup.problem:
        st.info(plain(f"{setup.problem}."))
        return
    if (
        flags := tried(
            check_line, launch_line, setup.launch_line, partial(is_served_as, advice.setup)
        )
    ) is None:
        return
    counts = {
        verdict: sum(flag.verdict == verdict for flag in flags)
        for verdict in ("change", "set", "same")
    }
    st.markdown(
        f"**Flags: {counts['change']} to change, {counts['set']} to add, {counts['same']} as "
        "recommended**"
    )
    rows = [
        (flag.verdict, flag.flag, flag.given[:_LONGEST], flag.wanted[:_LONGEST]) for flag in flags
    ]
    show_table(matrix(("Action", "Flag", "Yours", "Recommended"), rows, "llll"))
    for warning in note_texts(setup.notes, "bare"):
        st.caption(plain(f"{warning}."))


_NEAR = 8
"""Published rows that are shown. [-]"""


def draw_evidence(advice: Advice) -> None:
    """The whole tab."""
    left, right = st.columns([6, 5], gap="large")
    with left:
        _published(advice)
    with right:
        _odds(advice)
    st.subheader("Basis and caveats", anchor=False)
    st.markdown("\n".join(f"- {plain(text)}" for text in remarks(advice)))


def _published(advice: Advice) -> None:
    """The nearest published speedups, and the model's own at the same batch and K."""
    st.subheader("Published near this scenario", anchor=False)
    published = published_for(advice.scenario)
    if published is None or published.empty:
        st.caption(
            "None of this accelerator, model and number of GPUs; the page Trust has those of all."
        )
        return
    near = nearest_speedups(published, advice.scenario.batch_size, advice.curve_k, _NEAR)
    model: Column[dict[str, Any]] = Column(
        "model", lambda row: modelled(advice, row["batch_size"], row["n_draft"])
    )
    batch, k, measured, *rest = PUBLISHED
    show_table(Table((batch, k, measured, model, *rest), near.to_dict("records")))
    st.caption(
        "On this number of GPUs alone. Counts under Basis and caveats take in every number of GPUs."
    )


def modelled(advice: Advice, batch: float, n_draft: float) -> str:
    """Speedup of the model at a batch, of one K or of the best. Empty beyond the curve."""
    curve = advice.curve
    if not curve.batches[0] <= batch <= curve.batches[-1] or n_draft > curve.drafts[-1]:
        return ""
    speedup = (
        curve.speedup.max(axis=1)
        if pd.isna(n_draft)
        else curve.speedup[:, curve.column(int(n_draft))]
    )
    return f"{at_batch(curve, speedup, batch):.2f}×"


def _odds(advice: Advice) -> None:
    """Stated chances of a gain against what happened."""
    try:
        _, judged = read_judged()
    except AdvisorError as error:
        st.caption(plain(str(error)))
        return
    draw_sheet(Sheet(rows=((chances_plate(chances_kept(judged)),),)), "odds")
    rows = f"{len(judged):,} published speedups, each by a fit that had not seen its laboratory."
    st.caption(plain(f"{rows} {chance_kept_text(advice.recommendation.p_gain, judged)}"))


def remarks(advice: Advice) -> tuple[str, ...]:
    """Basis and warnings of an answer, without markup."""
    answer = advice.recommendation
    setup = advice.setup
    basis = f"Times are {tier_words(setup, answer.speedup.tier)}."
    accepted = accepted_text(advice) if setup.drafter.kind != "none" else ""
    routing = setup.routing_because if setup.architecture.moe is not None else ""
    texts = [
        said_of(advice.scenario),
        f"{basis} {errors_text(errors_for(advice.scenario))}",
        accepted,
        correction_text(advice),
        *BOOK.says(("assumed", "bound"), outcome_of(advice).facts),
        *SCHEDULE_BOOK.says(TEXTS, advice.schedule.facts),
        *note_texts(advice.notes),
        routing,
        f"{setup.cache.sentence}.",
    ]
    if answer.ttft_s is not None:
        texts.append(
            f"Time to the first token of a prompt that does not queue: {answer.ttft_s * 1e3:,.0f} "
            "ms."
        )
    return tuple(text.strip() for text in texts if text.strip())
