"""Load: what a token costs in money and energy, speculation over context, and other models at this load."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.charts import context_chart
from advisor.context_map import ContextMap, acceptance_texts, context_map, turn_texts, verdict
from advisor.ingest import MAX_BYTES, read_power_log
from advisor.prediction import AdvisorError
from advisor.ranking import Leaderboard, by_size, csv_rows, leaderboard, missed_texts, notes, question_of, table
from advisor.ranking import verdict as board_verdict
from advisor.scenario import Scenario
from advisor.spend import MeasuredPower, does_not_fit, power_text, price_of, spend_at, spend_text
from advisor.text import csv_text
from advisor.ui.shared import widgets
from advisor.ui.shared.remembered import remembered

_KEPT, _OWN = 32, 8


@remembered(st.cache_resource, shared=_KEPT, own=_OWN)
def _map_of(scenario: Scenario) -> ContextMap:
    return context_map(scenario)


@remembered(st.cache_resource, shared=_KEPT, own=_OWN, spinner="Ranking all models at this load ...")
def _board_of(scenario: Scenario, usd_per_hour: float | None) -> Leaderboard:
    return leaderboard(question_of(scenario, usd_per_hour))


def draw(advice: Advice) -> None:
    """The whole tab."""
    price = _cost(advice)
    _context(advice)
    _models(advice, price)


def _cost(advice: Advice) -> float | None:
    """Money and energy of a token; the price that was given."""
    st.subheader("Cost and energy", anchor=False)
    left, right = st.columns(2)
    usd = left.number_input(
        "Price of a GPU (USD/hour)",
        min_value=0.01,
        value=None,
        key="load_price",
        placeholder="the accelerator's",
        help="Empty: the accelerator profile's, with its date.",
    )
    file = right.file_uploader(
        "Power log of your run",
        type=["csv", "txt", "log"],
        key="load_power",
        max_upload_size=widgets.upload_limit(MAX_BYTES),
        help=_POWER_HELP,
    )
    if reason := does_not_fit(advice.setup):
        st.markdown(widgets.plain(reason))
        return usd
    curve, setup, best = advice.curve, advice.setup, advice.recommendation.k_draft
    try:
        price = price_of(setup.hardware, usd)
        measured = None if file is None else _measured(file.name, file.getvalue(), best, setup.placement.gpus)
    except AdvisorError as error:
        st.error(widgets.plain(str(error)))
        return None
    spend = spend_at(setup, curve, advice.batch_index, curve.column(best), price, measured)
    st.markdown(widgets.plain(spend_text(spend, setup.hardware)))
    st.caption(widgets.plain(power_text(spend)))
    return usd


_POWER_HELP = (
    "Of a run with the K recommended here: nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv, or dcgmi "
    "dmon -e 155."
)


def _measured(name: str, data: bytes, k_draft: int, gpus: int) -> MeasuredPower:
    """The power of an uploaded log."""
    log = read_power_log(name, data)
    log.check(gpus)
    return MeasuredPower(log.mean_w, log.text, k_draft)


def _context(advice: Advice) -> None:
    """The map over batch and context, and where speculation turns."""
    st.subheader("Over context", anchor=False)
    scenario = advice.scenario
    found = _map_of(scenario)
    said = (verdict(found, scenario.context_tokens, scenario.batch_size), *turn_texts(found))
    st.markdown(widgets.plain(" ".join(said)))
    widgets.show_chart(context_chart(found, scenario.context_tokens, scenario.batch_size), "context_map", scenario)
    for text in acceptance_texts(found):
        st.caption(widgets.plain(text))


def _models(advice: Advice, usd_per_hour: float | None) -> None:
    """All models at this load, when asked: two seconds of computing."""
    st.subheader("Other models at this load", anchor=False)
    if not st.toggle("Rank all models", key="load_rank"):
        st.caption(
            "Each at its best placement and K on the same machine, with the doubt in its rank. Takes two seconds."
        )
        return
    try:
        board = _board_of(advice.scenario, usd_per_hour)
    except AdvisorError as error:
        st.error(widgets.plain(str(error)))
        return
    st.markdown(widgets.plain(f"{board_verdict(board)} {by_size(board)}"))
    columns, rows = table(board)
    st.dataframe(pd.DataFrame(rows, columns=list(columns)), hide_index=True, height=380)
    st.download_button(
        "All figures as CSV",
        csv_text(*csv_rows(board)),
        file_name=f"models-{advice.scenario.hash}.csv",
        mime="text/csv",
        key="load_csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )
    for text in (*notes(board), *missed_texts(board)):
        st.caption(widgets.plain(text))
