"""The one piece of style that Streamlit's themes do not offer: charts' axes and notes in the page's own ink."""

from __future__ import annotations

import streamlit as st

_AXES = ".xtick text, .ytick text, .xtitle, .ytitle"
_NOTES = "rect.bg[style*='fill-opacity: 0'] + .annotation-text"  # notes without a background of their own
_INK = f"<style>.js-plotly-plot :is({_AXES}, {_NOTES}) {{ fill: currentColor !important; }}</style>"


def use() -> None:
    """The theme's grey for charts is 3.7:1 on white. A colour given to a chart would not follow a change of theme."""
    st.html(_INK)
