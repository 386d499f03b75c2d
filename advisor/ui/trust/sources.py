"""What this scenario's answer rests on: works cited, constants, accepted length, routing, model."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.explain import cited, derive
from advisor.next_steps import design_is_searched
from advisor.summary import tier_words
from advisor.ui.shared import how_made, widgets
from advisor.ui.trust import provenance


def show_with_sources(table: pd.DataFrame) -> None:
    """A table with the numbers of its sources, and under it the sources, whose text wraps."""
    short, sources = provenance.numbered(table)
    st.dataframe(short, hide_index=True, column_config={"Source": st.column_config.NumberColumn("Source no.")})
    st.caption("\n".join(f"{number}. {widgets.plain(text)}" for number, text in enumerate(sources, 1)))


def draw(advice: Advice) -> None:
    """The whole tab."""
    speedup = advice.recommendation.speedup
    st.markdown(
        f"The times of this answer are {tier_words(advice.setup, speedup.tier)}: {widgets.plain(speedup.because)}."
    )
    widgets.show_warnings(advice)

    st.subheader("Cited by this scenario", anchor=False)
    st.caption("Works behind the formulas and constants that this answer used, the design sentence included.")
    st.markdown(
        "\n".join(
            f"1. {widgets.plain(item.citation.text)} [{item.citation.url.split('/')[2]}]({item.citation.url}) "
            f"*For: {', '.join(item.used_for)}.*"
            for item in cited(advice.setup, designs=design_is_searched(advice.setup))
        )
    )

    st.subheader("Source of each part", anchor=False)
    st.markdown("\n".join(f"- {widgets.plain(source)}" for source in advice.setup.sources))

    st.subheader("Constants at the target batch", anchor=False)
    st.caption(f"Every constant of the speedup at batch {advice.scenario.batch_size:,}, K = {advice.curve_k}.")
    how_made.constants_table(derive(advice.setup, advice.scenario.batch_size, advice.curve_k))
    how_made.button(advice.scenario.batch_size, advice.curve_k, how_made.ANSWER, "sources")

    st.subheader("Constants of the accelerator", anchor=False)
    show_with_sources(provenance.hardware_table(advice.setup.hardware))
    for note in advice.setup.hardware.notes:
        st.caption(widgets.plain(note))

    st.subheader("Accepted length by K", anchor=False)
    st.caption(widgets.acceptance_note(advice))
    st.dataframe(
        provenance.acceptance_table(advice),
        hide_index=True,
        column_config={
            name: st.column_config.NumberColumn(format="%.2f") for name in ("Tokens per step", "Low", "High")
        },
    )

    if advice.setup.routing is not None:
        st.subheader("Routing", anchor=False)
        st.caption(widgets.plain(advice.setup.routing_because))
        show_with_sources(provenance.routing_table(advice.setup.routing))

    st.subheader("Model", anchor=False)
    st.dataframe(provenance.model_table(advice.setup), hide_index=True)
