"""The style that Streamlit's themes do not offer: the bar that folds, and charts' texts in the page's own ink."""

from __future__ import annotations

import streamlit as st

_AXES = ".xtick text, .ytick text, .xtitle, .ytitle"
_NOTES = "rect.bg[style*='fill-opacity: 0'] + .annotation-text"  # notes without a background of their own
_INK = f".js-plotly-plot :is({_AXES}, {_NOTES}) {{ fill: currentColor !important; }}"
_BAR = """
.st-key-bar { padding: 0.45rem 0.8rem 0.6rem; }
.st-key-bar_fold { order: -1; }
.st-key-bar [data-testid=stSliderThumbValue], .st-key-bar [data-testid=stSliderTickBar] { display: none; }
.st-key-bar .stSlider { padding-bottom: 0.3rem; }
@media (min-width: 641px) { .st-key-bar_fold { display: none; } }
@media (max-width: 640px) {
  .st-key-bar:not(:has(.st-key-bar_open input:checked)) .st-key-bar_fields { display: none; }
}
"""
_PAGE = """
@media (min-width: 900px) { [data-testid=stMainBlockContainer] { padding-left: 3rem; padding-right: 3rem; } }
[data-testid=stMainBlockContainer] h1 { padding: 0.1rem 0 0.1rem; line-height: 1.15; }
.st-key-numbers [data-testid=stMetricValue] { line-height: 1.2; }
@media (min-width: 1200px) { .st-key-numbers { flex-wrap: nowrap; } }
.st-key-numbers_off { opacity: 0.7; }
"""


def use() -> None:
    """The theme's grey for charts is 3.7:1 on white. A colour given to a chart would not follow a change of theme."""
    st.html(f"<style>{_INK}{_BAR}{_PAGE}</style>")
