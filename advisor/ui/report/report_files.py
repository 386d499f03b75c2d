"""Reports as bytes, cached: a download must not change between the click and the rerun that serves it."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable

import streamlit as st

from advisor.advice import Advice
from advisor.points import Errors
from advisor.prediction import AdvisorError, Frozen
from advisor.report import Format, Report, applicable_errors, build_report, published_ids, render
from advisor.scenario import Scenario
from advisor.spend import Spend, does_not_fit, price_of, spend_at
from advisor.sweep import SweepView
from advisor.ui.shared import answers, boards, settings, sweeps, widgets
from advisor.ui.shared.boards import BoardAsked
from advisor.ui.shared.remembered import keys_of, remembered


class Extras(Frozen):
    """Sections that the report is to hold beside the answer."""

    usd_per_hour: float | None = None
    """Of a GPU; None: the accelerator profile's."""
    over_context: bool = False
    models: BoardAsked | None = None
    """What a leaderboard is asked; None: none."""
    swept: str = ""
    """What of the session's sweep is shown, as `Shown.text` says; empty: no sweep."""


def report_for(scenario: Scenario, date: dt.date, extras: Extras) -> Report:
    """The report on a scenario. Raises AdvisorError as `advise` does."""
    advice, models = answers.advice_for(scenario), extras.models
    return build_report(
        advice,
        date,
        steps=answers.next_steps_for(scenario),
        validation=_known_errors(advice),
        spend=_spend(advice, extras.usd_per_hour),
        over_context=answers.context_map_for(scenario) if extras.over_context else None,
        board=None if models is None else boards.board_for(scenario, models),
        swept=_sweep() if extras.swept else None,
    )


def _spend(advice: Advice, usd_per_hour: float | None) -> Spend | None:
    """Money and energy at a price of the user's own; None: as the report finds it."""
    if usd_per_hour is None or does_not_fit(advice.setup):
        return None
    price = price_of(advice.setup.hardware, usd_per_hour)
    column = advice.curve.column(advice.recommendation.n_draft)
    return spend_at(advice.setup, advice.curve, advice.batch_index, column, price)


def report_file(scenario: Scenario, date: dt.date, form: Format, extras: Extras) -> bytes:
    """The report in one format, while the page is drawn."""
    if _is_own(scenario, extras):
        return render(_own_report(scenario, date, extras), form)
    return _file(scenario, date, form, extras)


def download(scenario: Scenario, date: dt.date, form: Format, extras: Extras) -> Callable[[], bytes]:
    """A function that makes the report in one format when its button is pressed.

    Streamlit calls it in a thread of its own, where nothing of the session can be read: a report on what is the user's
    own is put together now, and only written out then.
    """
    if _is_own(scenario, extras):
        return functools.partial(render, _own_report(scenario, date, extras), form)
    return functools.partial(_file, scenario, date, form, extras)


def _is_own(scenario: Scenario, extras: Extras) -> bool:
    """Whether a report holds something of the user's own, and so stays in the session."""
    return scenario.is_private or bool(extras.swept)


@remembered(st.cache_data, shared=24, own=5, keys=(Extras,))  # the HTML file has about 5 MB
def _file(scenario: Scenario, date: dt.date, form: Format, extras: Extras) -> bytes:
    return render(report_for(scenario, date, extras), form)


@st.cache_resource(scope="session", show_spinner=False, max_entries=4, hash_funcs=keys_of(Scenario, Extras))
def _own_report(scenario: Scenario, date: dt.date, extras: Extras) -> Report:
    return report_for(scenario, date, extras)


def extras_for(scenario: Scenario) -> tuple[Extras, str]:
    """Extras of the report by the page's settings, and why there is no leaderboard, where none can be."""
    now = settings.values()
    swept = sweeps.shown(kept).text if now["report_sweep"] and (kept := sweeps.KEPT.get()) is not None else ""
    extras = Extras(usd_per_hour=now["load_price"], over_context=now["report_context"], swept=swept)
    if not now["report_models"]:
        return extras, ""
    models = boards.asked()
    try:
        boards.board_for(scenario, models)
    except AdvisorError as error:
        return extras, str(error)
    return extras.model_copy(update={"models": models}), ""


def sweep_toggle() -> None:
    """The toggle that puts the session's sweep into the report, where there is one."""
    if (kept := sweeps.KEPT.get()) is not None:
        said = f"{kept.origin}: the three questions and the map as they stand on Data under Sweep."
        st.toggle("Sweep too", key="report_sweep", help=widgets.plain(said))


def _sweep() -> SweepView | None:
    """The session's sweep as it is shown."""
    kept = sweeps.KEPT.get()
    if kept is None:
        return None
    now = sweeps.shown(kept)
    return SweepView(kept.sweep, now.max_tpot_ms, sweeps.map_of(kept, now))


def pieces(markdown: str) -> list[tuple[str, bool]]:
    """A report's Markdown as pairs (text, whether it is code).

    Code with wrapped lines needs no scrolling, by keyboard or at all.
    """
    found = re.split(r"^(`{3,})\n(.*?)\n\1$", markdown, flags=re.M | re.S)
    texts, codes = found[::3], found[2::3]
    both = [piece for text, code in zip(texts, [*codes, ""], strict=True) for piece in ((text, False), (code, True))]
    return [(text, is_code) for text, is_code in both if text.strip()]


def _known_errors(advice: Advice) -> dict[str, Errors] | None:
    """Errors on published points; None where the shipped rows cannot be read."""
    try:
        return applicable_errors(*published_ids(advice.scenario), advice.recommendation.speedup.tier)
    except AdvisorError:
        return None
