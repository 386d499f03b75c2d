"""The upload's plain decoding over batches beside the model's own plain steps, and the button that predicts with it."""

from __future__ import annotations

import streamlit as st

from advisor.measured.ingest.result import IngestResult
from advisor.measured.own_sweep import plain_sweep_of
from advisor.predict.curve import held_sweep
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import plain_sweep_chart
from advisor.ui.own_data import SWEEP, use_sweep
from advisor.ui.widgets import plain, show_chart


def draw_sweep_of_upload(read: IngestResult, scenario: Scenario) -> None:
    """Chart, sentence and button. Nothing where the upload holds no plain sweep of this scenario, but for the reason
    where it has rows without speculation."""
    if read.kind != "points" or not read.frame["draft_tokens_k"].eq(0).any():
        return
    st.subheader("Your plain sweep", anchor=False)
    try:
        text = plain_sweep_of(read.frame, scenario)
        held = held_sweep(load_setup(scenario.model_copy(update={SWEEP: text})))
    except AdvisorError as error:
        st.caption(plain(f"Not usable: {error}."))
        return
    if held is None:
        return
    st.markdown(plain(held.text))
    show_chart(plain_sweep_chart(held), "plain_sweep", scenario)
    used = scenario.plain_sweep == text
    st.button(
        "In use on every page" if used else "Predict with this sweep on every page",
        key="use_plain_sweep",
        icon=":material/public:",
        disabled=used or not held.steady,
        on_click=use_sweep,
        args=(text,),
        help="In this session only; the link and the report of a scenario then carry it.",
    )
