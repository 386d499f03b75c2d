"""Reports as bytes, cached: a download must not change between the click and the rerun that serves it."""

from __future__ import annotations

import datetime as dt
import re

import streamlit as st

from advisor.points import Errors
from advisor.prediction import AdvisorError
from advisor.report import Format, Report, applicable_errors, build_report, published_ids, render
from advisor.scenario import Scenario
from advisor.ui.shared import answers, boards
from advisor.ui.shared.boards import BoardAsked
from advisor.ui.shared.remembered import remembered


def report_for(scenario: Scenario, date: dt.date, models: BoardAsked | None = None) -> Report:
    """The report on a scenario, with the leaderboard where one is asked. Raises AdvisorError as `advise` does."""
    steps = answers.next_steps_for(scenario)
    board = None if models is None else boards.board_for(scenario, models)
    return build_report(
        answers.advice_for(scenario), date, steps=steps, validation=_known_errors(scenario), board=board
    )


@remembered(st.cache_data, shared=24, own=5, keys=(BoardAsked,))  # the HTML file has about 5 MB
def report_file(scenario: Scenario, date: dt.date, form: Format, models: BoardAsked | None = None) -> bytes:
    """The report in one format."""
    return render(report_for(scenario, date, models), form)


def models_asked(scenario: Scenario) -> tuple[BoardAsked | None, str]:
    """What a leaderboard is asked where the report is to hold one, and why it cannot, where it cannot."""
    if not st.session_state["report_models"]:
        return None, ""
    models = boards.asked()
    try:
        boards.board_for(scenario, models)
    except AdvisorError as error:
        return None, str(error)
    return models, ""


def pieces(markdown: str) -> list[tuple[str, bool]]:
    """A report's Markdown as (text, is code): code with wrapped lines needs no scrolling, by keyboard or at all."""
    found = re.split(r"^(`{3,})\n(.*?)\n\1$", markdown, flags=re.M | re.S)
    texts, codes = found[::3], found[2::3]
    both = [piece for text, code in zip(texts, [*codes, ""], strict=True) for piece in ((text, False), (code, True))]
    return [(text, is_code) for text, is_code in both if text.strip()]


def _known_errors(scenario: Scenario) -> dict[str, Errors] | None:
    """Errors on published points; None where the shipped rows cannot be read."""
    try:
        return applicable_errors(*published_ids(scenario))
    except AdvisorError:
        return None
