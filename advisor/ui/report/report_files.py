"""Reports as bytes, cached: a download must not change between the click and the rerun that serves it."""

from __future__ import annotations

import datetime as dt
import re

import streamlit as st

from advisor.advice import Advice
from advisor.points import Errors
from advisor.prediction import AdvisorError
from advisor.report import Format, Report, applicable_errors, build_report, published_ids, render
from advisor.scenario import Scenario
from advisor.ui.shared import answers
from advisor.ui.shared.remembered import remembered


def report_for(scenario: Scenario, date: dt.date) -> Report:
    """The report on a scenario. Raises AdvisorError as `advise` does."""
    advice, steps = answers.advice_for(scenario), answers.next_steps_for(scenario)
    return build_report(advice, date, steps=steps, validation=_known_errors(advice))


@remembered(st.cache_data, shared=24, own=5)  # the HTML file has about 5 MB
def report_file(scenario: Scenario, date: dt.date, form: Format) -> bytes:
    """The report in one format."""
    return render(report_for(scenario, date), form)


def pieces(markdown: str) -> list[tuple[str, bool]]:
    """A report's Markdown as (text, is code): code with wrapped lines needs no scrolling, by keyboard or at all."""
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
