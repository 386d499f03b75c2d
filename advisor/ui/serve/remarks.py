"""Remarks: what else is to be known of this answer, and the accepted length and routing it rests on."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.ui.bar.start_panel import said_of
from advisor.ui.shared import widgets


def draw(advice: Advice) -> None:
    """The whole tab: text alone, so that it costs nothing below the first screen."""
    answer, setup = advice.recommendation, advice.setup
    notes = [
        said_of(advice.scenario),
        f"{answer.bound_because} Decoding without drafts is {answer.bound}-bound.",
        *advice.warnings,
        widgets.accepted_from(advice),
        setup.routing_because if setup.architecture.moe is not None else "",
        f"{setup.cache.sentence}.",
    ]
    if answer.ttft_s is not None:
        notes.append(f"Time to the first token of a prompt that does not queue: {answer.ttft_s * 1e3:,.0f} ms.")
    st.markdown("\n".join(f"- {widgets.plain(note)}" for note in notes if note))
