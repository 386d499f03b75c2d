"""What Measure takes, in three cards, two of them with a sample to try."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import streamlit as st

from advisor.measured.ingest.result import csv_of
from advisor.measured.ingest.side_by_side import two_values
from advisor.measured.points import published_rows
from advisor.predict.scenario import Scenario
from advisor.show.own_runs import empty_sheet
from advisor.show.phrases.pages import BOOK
from advisor.ui.measure import session
from advisor.ui.measure.drop import take
from advisor.ui.own_data import SAMPLE
from advisor.ui.sheet import draw_sheet
from advisor.ui.state import show_other

_GRID = {"model_id": "qwen3-30b-a3b", "hardware_id": "gb200"}
"""The published runs of the first sample."""
_COLLECTION = "published_speedups_3"
_TWO = {"without": 1900.0, "with_drafts": 1450.0}
_METRIC = "output_tok_per_s"
_LOAD = {"batch_size": 48, "draft_tokens_k": 3}
"""A made-up complaint: output rates without and with drafts [tokens/s], and their load."""


def draw_empty(scenario: Scenario) -> None:
    """Headline and cards of the page before anything was given."""
    draw_sheet(empty_sheet(), "measure_head")
    for column, card in zip(st.columns(3), ("grid", "two", "also"), strict=True):
        with column.container(border=True, height="stretch"):
            st.markdown(f"**{BOOK.say(f'{card}_title', {})}**  \n{BOOK.say(f'{card}_text', {})}")
            if label := BOOK.say(f"{card}_button", _TWO):
                st.button(
                    label,
                    key=f"sample_{card}",
                    type="primary" if card == "grid" else "secondary",
                    on_click=_try,
                    args=(card, scenario),
                )


def _try(card: str, scenario: Scenario) -> None:
    """Callback: take a sample as if it had been dropped, and set the bar to its setup."""
    sample = _bytes_of(card)
    SAMPLE.put(hashlib.sha256(sample).hexdigest())
    take({BOOK.say(f"{card}_file", {}): sample}, scenario)
    read = session.upload()
    theirs = None if read is None else session.scenario_of(read.frame, scenario)
    if theirs is not None:
        show_other(theirs)


def _bytes_of(card: str) -> bytes:
    if card == "two":
        settings: Mapping[str, int] = _LOAD
        return two_values(_TWO["without"], _TWO["with_drafts"], _METRIC, settings)
    rows = published_rows(_COLLECTION)
    of_grid = (rows[list(_GRID)] == list(_GRID.values())).all(axis=1)
    return csv_of(rows[of_grid].drop(columns="defect"))
