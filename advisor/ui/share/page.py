"""Share: the link, one page for whoever decides, the whole report, the engines' files, and a
preview."""

from __future__ import annotations

import streamlit as st

from advisor.predict.spend import MAX_USD_PER_HOUR
from advisor.show.report.formats import Format, file_name
from advisor.show.share import share_sheet
from advisor.ui.session import SMALLEST_LIMIT
from advisor.ui.share.files import (
    chosen_for,
    draw_engine_files,
    draw_one_page,
    made_later,
    named_link,
    pieces,
    report_file,
    sweep_toggle,
)
from advisor.ui.sheet import draw_sheet
from advisor.ui.state import plain
from advisor.ui.widgets import advice_or_stop, download, scenario_or_stop, show_problem, tried

BUTTONS: tuple[tuple[Format, str, str], ...] = (
    ("pdf", "PDF", "A tagged PDF of four to six pages, for print and for screen readers."),
    ("html", "HTML", "The answer with its sliders, in one file that loads nothing from a network."),
    ("md", "Markdown", "Text and tables, for a wiki or a merge request."),
    (
        "json",
        "JSON",
        "All numbers and the whole scenario; `report --scenario` makes the report again from it.",
    ),
    ("csv", "CSV", "The curve: one row for each batch and K."),
)
scenario = scenario_or_stop()
advice = advice_or_stop(scenario)
chosen = chosen_for(scenario)
draw_sheet(share_sheet(advice, named_link(scenario), chosen.extras.own), "share_head")
with st.container(key="report_files", horizontal=True, vertical_alignment="bottom", gap="small"):
    date = st.date_input(
        "Date on the report", value="today", key="report_date", format="YYYY-MM-DD", width=170
    )
    st.number_input(
        "USD per GPU-hour",
        SMALLEST_LIMIT,
        MAX_USD_PER_HOUR,
        None,
        key="load_price",
        placeholder="list price",
        width=150,
    )
    draw_one_page(scenario, date, chosen)
    for form, label, help_text in BUTTONS:
        make = made_later(scenario, date, form, chosen)
        download(label, make, file_name(scenario, form, date), f"report_{form}", help=help_text)
    draw_engine_files(advice)
with st.container(key="report_extras", horizontal=True, gap="medium"):
    st.toggle(
        "Long context too", key="report_context", help="Speedup and K over batch and context."
    )
    st.toggle(
        "Other models too", key="report_models", help="Ranked at this load. Takes two seconds."
    )
    if scenario.expert_parallel > 1:
        st.toggle(
            "Experts on ranks too",
            key="report_ranks",
            help=(
                "Slowest rank, copies of hot experts, exchange. Takes some seconds where nothing "
                "is counted yet."
            ),
        )
    sweep_toggle()
if chosen.ranks_text:
    st.caption(plain(chosen.ranks_text))
for problem in chosen.problems:
    show_problem(problem)
preview = st.expander("Preview the full report", key="share_preview", on_change="rerun")
if preview.open:
    with preview, st.container(key="preview"):
        report = tried(report_file, scenario, date, "md", chosen.extras, chosen.ranks)
        for text, is_code in pieces((report or b"").decode()):
            if is_code:
                st.code(text, language=None, wrap_lines=True)
            else:
                st.markdown(text)
