"""Reports as bytes, cached: a download must not change between the click and the rerun that serves it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from advisor.prediction import AdvisorError
from advisor.report.build import build_report
from advisor.report.document import Report
from advisor.report.evidence import applicable_errors, judged_points, published_ids
from advisor.report.formats import Format, render
from advisor.scenario import Scenario
from advisor.store import default_store_path, open_store
from advisor.ui import answers
from advisor.validation import Errors

_KEY: dict[str | type[Any], Callable[[Any], Any]] = {Scenario: Scenario.model_dump_json}
_SHARED_FILES, _OWN_FILES = 24, 5  # the HTML file has about 5 MB


def report_for(scenario: Scenario, date: dt.date) -> Report:
    """The report on a scenario. Raises AdvisorError as `advise` does."""
    return build_report(answers.advice_for(scenario), date, validation=_known_errors(scenario))


def report_file(scenario: Scenario, date: dt.date, form: Format) -> bytes:
    """The report in one format; on what is a user's own, kept in that user's session only."""
    if scenario.is_private:
        return _own_file(scenario, date, form)
    return _shared_file(scenario, date, form)


@st.cache_data(max_entries=_SHARED_FILES, show_spinner=False, hash_funcs=_KEY)
def _shared_file(scenario: Scenario, date: dt.date, form: Format) -> bytes:
    return render(report_for(scenario, date), form)


@st.cache_data(max_entries=_OWN_FILES, show_spinner=False, hash_funcs=_KEY, scope="session")
def _own_file(scenario: Scenario, date: dt.date, form: Format) -> bytes:
    return render(report_for(scenario, date), form)


def _known_errors(scenario: Scenario) -> dict[str, Errors] | None:
    """Errors on published points of the shipped store; None where there is none."""
    file = default_store_path()
    if not file.is_file():
        return None
    try:
        judged = _judged(str(file), file.stat().st_mtime_ns)
    except AdvisorError:
        return None  # the Measurements page says what is wrong with the store
    return applicable_errors(judged, *published_ids(scenario))


@st.cache_resource(max_entries=1, show_spinner="Comparing with published measurements, once for this server ...")
def _judged(path: str, modified_ns: int) -> pd.DataFrame:  # noqa: ARG001  (a rebuilt file is compared anew)
    with open_store(path) as store:
        return judged_points(store)
