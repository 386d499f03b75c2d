"""The style that Streamlit's themes do not offer: the bar that folds, and charts' texts in the page's own ink."""

from __future__ import annotations

import streamlit as st

_AXES = ".xtick text, .ytick text, .xtitle, .ytitle"
_NOTES = "rect.bg[style*='fill-opacity: 0'] + .annotation-text"  # notes without a background of their own
_VALUES = ".bartext-outside, .textpoint text"
_INK = f".js-plotly-plot :is({_AXES}, {_NOTES}, {_VALUES}) {{ fill: currentColor !important; }}"
# Under #root, which outweighs Streamlit's own classes wherever they stand: those come after this style.
_BAR = """
#root .st-key-bar { padding: 0.45rem 0.8rem 0.6rem; }
#root .st-key-bar_fold { order: -1; }
#root .st-key-bar [data-testid=stSliderThumbValue], #root .st-key-bar [data-testid=stSliderTickBar] { display: none; }
#root .st-key-bar .stSlider { padding-bottom: 0.3rem; }
@media (min-width: 641px) { #root .st-key-bar_fold { display: none; } }
@media (max-width: 640px) {
  #root .st-key-bar:not(:has(.st-key-bar_open input:checked)) .st-key-bar_fields { display: none; }
  #root .st-key-place { display: none; }
  #root [data-testid=stExpandSidebarButton] button::after, #root button[data-testid=stExpandSidebarButton]::after {
    content: "Pages"; padding-left: 0.4rem;
  }
  #root .stButtonGroup > div { flex-wrap: wrap; }
}
"""
# Primary buttons and chosen values keep the light theme's blue: white on the dark theme's own is too faint to read.
_PAGE = """
#root [data-testid=stMainBlockContainer] { max-width: none; }
@media (min-width: 900px) {
  #root [data-testid=stMainBlockContainer] { padding-left: 3rem; padding-right: 3rem; }
}
#root [data-testid=stMainBlockContainer] h1 { padding: 0.1rem 0 0.1rem; line-height: 1.15; }
#root .st-key-preview h1 { font-size: 1.35rem; }
#root .st-key-numbers [data-testid=stMetricValue] { line-height: 1.2; }
#root [data-testid=stBaseButton-primary] { background-color: #0B5CAD; border-color: #0B5CAD; color: #FFFFFF; }
#root [data-testid=stMultiSelectTagsContainer] [data-tag] { background-color: #0B5CAD; color: #FFFFFF; }
@media (min-width: 1200px) { #root .st-key-numbers { flex-wrap: nowrap; } }
"""
# Streamlit says "Press Enter to apply" in fields of 180 pixels and more alone, so narrower ones say it below the box.
_NARROW = "#root :is(.stNumberInput, .stTextInput):not(:has([data-testid=InputInstructions])):not(.stForm *)"
_TO_APPLY = f"""
{_NARROW} {{ position: relative; }}
{_NARROW}:focus-within::after {{
  content: "Press Enter to apply"; position: absolute; top: 100%; left: 0; z-index: 5; white-space: nowrap;
  padding: 0 0.25rem; font-size: 0.75rem; line-height: 1.3; border-radius: 4px; background: Canvas; color: CanvasText;
}}
"""
# Streamlit fades each element that waits for its run over a second, sixty times a second: with ten users who wait, that
# takes their browsers longer than the change itself. Here it turns pale in one step, in the middle of that second.
_STALE = """
#root [data-stale=true] { transition: opacity 0s 1s !important; }
"""
_HEIGHTS = """
#root .st-key-bar_fields > [data-testid=stElementContainer] {
  min-height: 64px; display: flex; flex-direction: column; justify-content: flex-end;
}
#root .st-key-design_ask > * { min-height: 64px; display: flex; flex-direction: column; justify-content: flex-end; }
#root :is(.st-key-numbers, .st-key-numbers_off) { min-height: 81px; }
#root .st-key-report_numbers { min-height: 85px; }
#root .st-key-report_files { min-height: 64px; }
#root .st-key-report_extras { min-height: 38px; }
#root .st-key-design_head { min-height: 186px; }
#root [class*=st-key-bench_file] { min-height: 102px; }
@media (max-width: 1199px) {
  #root :is(.st-key-numbers, .st-key-numbers_off) { min-height: 148px; }
  #root :is(.st-key-report_files, .st-key-design_ask) { min-height: 142px; }
  #root .st-key-design_head { min-height: 272px; }
}
@media (max-width: 640px) {
  #root .st-key-report_numbers { min-height: 185px; }
  #root .st-key-report_files { min-height: 169px; }
  #root .st-key-design_head { min-height: 430px; }
  #root .st-key-design_ask { min-height: 222px; }
  #root [class*=st-key-bench_file] { min-height: 140px; }
}
"""
"""What elements take once their code has come: until then each is a grey bar, and what follows would jump."""


def element() -> str:
    """The style as HTML. `server.EarlyStyle` puts it into the page, so that nothing jumps when the app draws it again.

    The theme's grey for charts is 3.7:1 on white. A colour given to a chart would not follow a change of theme.
    """
    return f"<style>{_INK}{_BAR}{_PAGE}{_TO_APPLY}{_STALE}{_HEIGHTS}</style>"


def use() -> None:
    """Draw the style, for an app that runs without its server's guards (`streamlit run app.py`)."""
    st.html(element())
