"""Pieces that several pages draw: the answer or its problem, a chart with its data, notes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.catalog import model_name
from advisor.charts import Chart
from advisor.ingest import MIB
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.text import frame_csv
from advisor.ui.shared import answers, ranks_use, refit_use, state
from advisor.ui.shared.theme import themed

if TYPE_CHECKING:
    from advisor.design import DesignSpace


def scenario_or_stop() -> Scenario:
    """The scenario of this run, or the reason that there is none and the end of the page."""
    for note in state.link_notes():
        st.warning(note, icon=":material/link_off:")
    scenario, problem = state.scenario_or_problem()
    if state.config_problem() and scenario is not None:
        st.warning(
            f"Your config.json is not usable; this answers for {plain(model_name(scenario.model_id))}. More says why.",
            icon=":material/error:",
        )
    if scenario is None:
        stop_with(problem or "Choose a model, an accelerator and a drafter above.")
    refit_use.banner(scenario)
    ranks_use.banner(scenario)
    return scenario


def advice_or_stop(scenario: Scenario) -> Advice:
    """The answer to a scenario, or one message on why there is none and the end of the page."""
    try:
        return answers.advice_for(scenario)
    except AdvisorError as error:
        stop_with(str(error))


def stop_with(problem: str) -> NoReturn:
    """One clear message, then nothing more on this page."""
    st.title("No answer for this scenario", anchor=False)
    st.error(plain(problem), icon=":material/error:")
    st.caption("Change it in the bar above.")
    st.stop()


def place(text: str) -> None:
    """Words over the title for what the page answers for.

    The folded bar of a telephone says it already, so not there.
    """
    with st.container(key="place"):
        st.markdown(text)


def show_chart(
    chart: Chart, key: str, scenario: Scenario, *, select_key: str = "", on_select: Callable[[str], None] | None = None
) -> None:
    """A chart with its alt text, and its numbers as CSV.

    Its points can be clicked where `select_key` is given; `on_select` is then called with it, before the next run.
    """
    select: Any = "rerun" if select_key else "ignore"
    if on_select is not None:
        select = functools.partial(on_select, select_key)
    st.plotly_chart(
        themed(chart.figure),
        key=select_key or key,
        alt=chart.alt,
        config={"displaylogo": False, "displayModeBar": False},
        on_select=select,
        selection_mode="points",
    )
    if chart.left_out:
        st.caption(chart.left_out)
    st.download_button(
        "Data as CSV",
        csv_bytes(chart.data, scenario.hash),
        file_name=f"{key}-{scenario.hash}.csv",
        mime="text/csv",
        key=f"{key}_csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )


def csv_bytes(data: pd.DataFrame, scenario_hash: str) -> bytes:
    """CSV with the scenario's hash in its first column.

    Text that a spreadsheet would run as a formula is quoted.
    """
    return frame_csv(data, scenario_hash).encode()


def show_warnings(advice: Advice) -> None:
    """All warnings of an answer in one box."""
    if advice.warnings:
        st.warning("\n".join(f"- {plain(warning)}" for warning in advice.warnings))


def accepted_from(answer: Advice | DesignSpace) -> str:
    """Accepted length that an answer rests on, in one sentence without markup."""
    acceptance = answer.setup.acceptance
    source = acceptance.source.removeprefix("accepted length ")
    return f"Accepted length: {source}{' (of another model, drafter or run)' if acceptance.borrowed else ''}."


def acceptance_note(answer: Advice | DesignSpace) -> str:
    """Accepted length that an answer rests on, for a Markdown element."""
    return plain(accepted_from(answer))


def upload_limit(most_bytes: int) -> int:
    """An uploader's limit: what its reader takes, but no more than the server lets in. [MiB]"""
    return min(most_bytes // MIB, int(st.get_option("server.maxUploadSize")))


plain = state.escaped
