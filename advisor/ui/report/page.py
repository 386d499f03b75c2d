"""Report: the answer as a file to hand on, in five formats, and a preview of what it says."""

import functools

import streamlit as st

from advisor.report import MEDIA_TYPES, Format, file_name
from advisor.ui.report import report_files
from advisor.ui.shared import widgets

BUTTONS: tuple[tuple[Format, str, str], ...] = (
    ("pdf", "PDF", "A tagged PDF of four to six pages, for print and for screen readers."),
    ("html", "HTML", "One file with interactive charts that loads nothing from a network (about 5 MB)."),
    ("md", "Markdown", "Text and tables, for a wiki or a merge request."),
    ("json", "JSON", "All numbers and the whole scenario; `report --scenario` makes the report again from it."),
    ("csv", "CSV", "The curve: one row for each batch and K."),
)

scenario = widgets.scenario_or_stop()
advice = widgets.advice_or_stop(scenario)
st.title("Report", anchor=False)
date = st.date_input("Date on the report", value="today", key="report_date", format="YYYY-MM-DD")
st.caption(f"Scenario {scenario.hash}. The same scenario, data, versions and date give the same bytes.")

with st.grid(5, min_column_width=120):
    for form, label, help_text in BUTTONS:
        st.download_button(
            label,
            functools.partial(report_files.report_file, scenario, date, form),
            file_name=file_name(scenario, form),
            mime=MEDIA_TYPES[form],
            key=f"report_{form}",
            help=help_text,
            icon=":material/download:",
            on_click="ignore",
            width="stretch",
        )

widgets.show_warnings(advice)
with st.container(border=True, height=900):  # a pane of its own: wide tables scroll in it, not the page
    for text, is_code in report_files.pieces(report_files.report_file(scenario, date, "md").decode()):
        if is_code:
            st.code(text, language=None, wrap_lines=True)
        else:
            st.markdown(text)
