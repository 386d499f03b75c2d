"""Load: what a token costs in money and energy, and speculation over context."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.charts import context_chart
from advisor.context_map import acceptance_texts, turn_texts, verdict
from advisor.ingest import MAX_BYTES, read_power_log
from advisor.prediction import AdvisorError
from advisor.spend import MeasuredPower, does_not_fit, power_text, price_of, spend_at, spend_text
from advisor.ui.serve import board_ask
from advisor.ui.shared import answers, widgets


def draw(advice: Advice) -> None:
    """The whole tab."""
    _cost(advice)
    _context(advice)


def _cost(advice: Advice) -> None:
    """Money and energy of a token."""
    st.subheader("Cost and energy", anchor=False)
    left, right = st.columns(2)
    with left:
        usd = board_ask.price()
    file = right.file_uploader(
        "Power log of your run",
        type=["csv", "txt", "log"],
        key="load_power",
        max_upload_size=widgets.upload_limit(MAX_BYTES),
        help=_POWER_HELP,
    )
    if reason := does_not_fit(advice.setup):
        st.markdown(widgets.plain(reason))
        return
    curve, setup, best = advice.curve, advice.setup, advice.recommendation.n_draft
    try:
        price = price_of(setup.hardware, usd)
        measured = None if file is None else _measured(file.name, file.getvalue(), best, setup.placement.gpus)
    except AdvisorError as error:
        st.error(widgets.plain(str(error)))
        return
    spend = spend_at(setup, curve, advice.batch_index, curve.column(best), price, measured)
    st.markdown(widgets.plain(spend_text(spend, setup.hardware)))
    st.caption(widgets.plain(power_text(spend)))


_POWER_HELP = (
    "Power log of a run at the recommended K: nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv, or dcgmi "
    "dmon -e 155."
)


def _measured(name: str, data: bytes, n_draft: int, gpus: int) -> MeasuredPower:
    """The power of an uploaded log."""
    log = read_power_log(name, data)
    log.check(gpus)
    return MeasuredPower(log.mean_w, log.text, n_draft)


def _context(advice: Advice) -> None:
    """The map over batch and context, and where speculation turns."""
    st.subheader("Does drafting still pay at long context", anchor=False)
    scenario = advice.scenario
    found = answers.context_map_for(scenario)
    st.markdown(f"**{widgets.plain(verdict(found, scenario.context_tokens, scenario.batch_size))}**")
    st.markdown(widgets.plain(" ".join(turn_texts(found))))
    widgets.show_chart(context_chart(found, scenario.context_tokens, scenario.batch_size), "context_map", scenario)
    for text in acceptance_texts(found):
        st.caption(widgets.plain(text))
