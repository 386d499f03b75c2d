"""What Share hands out: the link, reports as bytes and the engines' own files.

Reports are cached: a download must not change between the click and the rerun that serves it.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import streamlit as st
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from advisor.answers.advice import Advice
from advisor.answers.expert_ranks import RanksAnswer, ranks_answer
from advisor.answers.explore.questions import SweepView
from advisor.answers.own_gap import as_measured, decision, own_schedule
from advisor.catalog.engines import load_engine
from advisor.predict.scenario import Scenario
from advisor.predict.setup import traffic_of
from advisor.prediction import Frozen
from advisor.show.live_file import live_file
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.runs import decision_text
from advisor.show.report.basis import APP_ADDRESS
from advisor.show.report.blocks import Format
from advisor.show.report.build import Report, build_report, engine_setups
from advisor.show.report.formats import render
from advisor.show.words.answer import WIDTH, paste_lines
from advisor.show.words.load import spend_of
from advisor.text import frame_csv
from advisor.ui.answers import (
    BoardAsked,
    advice_for,
    asked,
    board_for,
    context_map_for,
    errors_for,
    next_steps_for,
    remembered,
)
from advisor.ui.own_data import KEPT, map_of, own_points, shown
from advisor.ui.pins import setup_of
from advisor.ui.serve.ranks import last
from advisor.ui.session import attempt, values
from advisor.ui.state import link_to, plain
from advisor.ui.widgets import download

Form = Format | Literal["brief"]
"""`brief`: one page of PDF."""


def named_link(scenario: Scenario) -> str | None:
    """The address of the scenario, its model and accelerator among it. None where it is too
    long."""
    link = link_to(scenario, st.context.url)
    if link is None:
        return None
    parts = urlsplit(link)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    names = {
        name: getattr(scenario, name)
        for name in ("model_id", "hardware_id")
        if name not in parameters
    }
    serve = parts.path.removesuffix("/share") or "/"
    return urlunsplit(
        parts._replace(path=serve, query="&".join(filter(None, (urlencode(names), parts.query))))
    )


class Extras(Frozen):
    """Sections that the report is to hold beside the answer."""

    usd_per_hour: float | None = None
    """Of a GPU; None: the accelerator profile's."""
    over_context: bool = False
    models: BoardAsked | None = None
    """What a leaderboard is asked; None: none."""
    ranks: str | None = None
    """Name of the session's answer on experts on ranks; empty: that of the routing preset; None:
    none."""
    address: str = APP_ADDRESS
    swept: str = ""
    """What of the session's sweep is shown, as `Shown.text` says; empty: no sweep."""
    own: str = ""
    """What speedups of the user's own say of K; empty where none decide."""
    yours: tuple[tuple[int, int, int], ...] = ()
    """Their `own_schedule`."""
    runs: str = ""
    """The user's speedups, as CSV: they name those of a live file to the cache."""
    pins: str = ""
    """Pinned setups as the address has them."""

    @property
    def is_private(self) -> bool:
        """Whether a section stands on what the user gave or counted in this session."""
        return bool(self.ranks or self.swept or self.runs)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Sections chosen on the page, with what is shown beside them."""

    extras: Extras
    ranks: RanksAnswer | None
    """The answer that `extras.ranks` names."""
    ranks_text: str
    """What the ranks are counted on, empty without them."""
    problems: tuple[str, ...]
    """Reasons that a section which was chosen cannot be."""


def report_for(
    scenario: Scenario, date: dt.date, extras: Extras, ranks: RanksAnswer | None
) -> Report:
    """The report on a scenario. Raises AdvisorError as `advise` does."""
    advice = as_measured(advice_for(scenario), extras.yours)
    models = extras.models
    report = build_report(
        advice,
        date,
        steps=next_steps_for(scenario),
        validation=errors_for(scenario) or None,
        spend=spend_of(advice, extras.usd_per_hour),
        over_context=context_map_for(scenario) if extras.over_context else None,
        board=None if models is None else board_for(scenario, models),
        ranks=ranks,
        swept=_sweep() if extras.swept else None,
        address=extras.address,
    )
    if not extras.own:
        return report
    alone = f"The figures are the model's. It says: {report.verdict}"
    return replace(report, decided=extras.own, verdict=extras.own, remarks=(alone,))


@remembered(st.cache_data, shared=24, own=5, keys=(Extras,))
def report_file(
    scenario: Scenario, date: dt.date, form: Form, extras: Extras, _ranks: RanksAnswer | None = None
) -> bytes:
    """The report in one format. `extras.ranks` names the answer `_ranks` to the cache."""
    if form == "html":
        price = extras.usd_per_hour
        runs = own_points(scenario)
        beside = [advice_for(setup_of(pin)) for pin in filter(None, extras.pins.split("!"))]
        text = live_file(
            advice_for(scenario),
            date,
            own=runs,
            usd_per_hour=price,
            beside=beside,
            address=extras.address,
        )
        return text.encode()
    report = report_for(scenario, date, extras, _ranks)
    return render(report, "pdf", brief=True) if form == "brief" else render(report, form)


def made_later(
    scenario: Scenario, date: dt.date, form: Form, chosen: Chosen
) -> Callable[[], bytes]:
    """Function that a click on a download runs: a file made on a thread that belongs to this
    session.

    Streamlit runs it on a thread of its own, where the answers on a user's own data, kept for one
    session, are refused.
    """
    make = functools.partial(report_file, scenario, date, form, chosen.extras, chosen.ranks)
    begin = functools.partial(add_script_run_ctx, None, get_script_run_ctx(suppress_warning=True))

    def run() -> bytes:
        with ThreadPoolExecutor(1, initializer=begin) as pool:
            return pool.submit(make).result()

    return run


def _extras(scenario: Scenario, **further: Any) -> Extras:
    """Sections of every report that is made here, and further ones."""
    points = own_points(scenario)
    parts = urlsplit(st.context.url or APP_ADDRESS)
    decided = "" if points is None else decision_text(decision(points[points["decides"]]))
    root = urlunsplit((parts.scheme, parts.netloc, "/", "", ""))
    return Extras(
        usd_per_hour=values()["load_price"],
        address=root,
        own=decided,
        yours=own_schedule(points),
        runs="" if points is None else frame_csv(points),
        pins=st.session_state["pins"],
        **further,
    )


def draw_one_page(
    scenario: Scenario, date: dt.date | None = None, chosen: Chosen | None = None
) -> None:
    """A button for one page of PDF, of today and without further sections where nothing else is
    given."""
    day = date or dt.date.today()
    name = "own" if scenario.is_private else f"{scenario.model_id}-{scenario.hardware_id}"
    chosen = chosen or Chosen(_extras(scenario), None, "", ())
    download(
        "One-page PDF",
        made_later(scenario, day, "brief", chosen),
        f"one-page-{name}-{day}.pdf",
        "report_brief" if date else "share_brief",
        type="primary",
        help="For whoever decides: what to do, what it gains, what it costs, what would change it.",
    )


def chosen_for(scenario: Scenario) -> Chosen:
    """Sections of the report by the page's settings. A leaderboard or ranks that cannot be are left
    out, with why."""
    now = values()
    sweep = KEPT.result if now["report_sweep"] else None
    swept = "" if sweep is None else shown(sweep).text
    extras = _extras(scenario, over_context=now["report_context"], swept=swept)
    ranks = None
    ranks_text = ""
    problems: list[str] = []
    if now["report_models"]:
        board, problem = attempt(board_for, scenario, asked())
        extras = extras if board is None else extras.model_copy(update={"models": asked()})
        problems.append(problem)
    if now["report_ranks"] and scenario.expert_parallel > 1:
        ranks_result, problem = attempt(_ranks, scenario)
        if ranks_result is not None:
            name, ranks, ranks_text = ranks_result
            extras = extras.model_copy(update={"ranks": name})
        problems.append(problem)
    return Chosen(extras, ranks, ranks_text, tuple(filter(None, problems)))


def _ranks(scenario: Scenario) -> tuple[str, RanksAnswer, str]:
    """Name of an answer on experts on ranks, the answer, and what it is counted on.

    What was counted in this session for the scenario and its trace, else its own loads, or its
    routing preset.
    """
    last_answer = last(advice_for(scenario).setup)
    if last_answer is None and scenario.expert_loads is not None:
        return (
            "",
            _ranks_uncounted(scenario),
            "Experts on ranks are counted on the loads that the scenario carries.",
        )
    if last_answer is None:
        text = "routing preset's spread; what you count on Serve takes its place"
        return "", _ranks_uncounted(scenario), f"Experts on ranks are drawn from the {text}."
    name, counted = last_answer
    copies = " and ".join(f"{count:,}" for count in counted.placing.redundant)
    text = f"as you counted them on Serve: {counted.traffic.because}; {copies} copies"
    return name, counted, f"Experts on ranks are {text}."


@remembered(st.cache_resource, shared=16, own=4, spinner="Counting experts on ranks ...")
def _ranks_uncounted(scenario: Scenario) -> RanksAnswer:
    """Experts on the scenario's ranks by its own loads, or else the spread of its routing
    preset."""
    setup = advice_for(scenario).setup
    return ranks_answer(setup, traffic_of(setup, scenario.expert_loads))


def sweep_toggle() -> None:
    """The toggle that puts the session's sweep into the report, where there is one."""
    if (sweep := KEPT.result) is not None:
        help_text = (
            f"{sweep.origin}: the three questions and the map as they stand on Serve under Sweep."
        )
        st.toggle("Sweep too", key="report_sweep", help=plain(help_text))


def _sweep() -> SweepView | None:
    """The session's sweep as it is shown."""
    sweep = KEPT.result
    if sweep is None:
        return None
    now = shown(sweep)
    return SweepView(sweep.sweep, now.max_tpot_ms, map_of(sweep, now))


def pieces(markdown: str) -> list[tuple[str, bool]]:
    """A report's Markdown as (text, whether it is code). Code with wrapped lines needs no
    scrolling."""
    parts = re.split(r"^(`{3,})\n(.*?)\n\1$", markdown, flags=re.M | re.S)
    texts = parts[::3]
    codes = parts[2::3]
    both = [
        piece
        for text, code in zip(texts, [*codes, ""], strict=True)
        for piece in ((text, False), (code, True))
    ]
    return [(text, is_code) for text, is_code in both if text.strip()]


def draw_engine_files(advice: Advice) -> None:
    """A button for each engine that can run the drafter: launch line and configuration in one
    file."""
    if advice.setup.drafter.kind == "none":
        return
    for setup in engine_setups(advice):
        if setup.problem:
            continue
        text = "\n".join(paste_lines(setup, WIDTH)) + "\n"
        name = f"{setup.engine}-{advice.scenario.hash}.txt"
        help_text = next(map(plain, note_texts(setup.notes, "bare")), None)
        download(
            load_engine(setup.engine).name,
            text,
            name,
            f"engine_{setup.engine}",
            icon="terminal",
            help=help_text,
        )
