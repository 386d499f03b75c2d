"""Report: the answer as a file to hand on, the engines' files, the link, and a preview of what it says."""

from __future__ import annotations

import streamlit as st

from advisor.answers.summary import headline, place_text
from advisor.show.report.formats import MEDIA_TYPES, Format, file_name
from advisor.ui.report.files import chosen_for, download, draw_engine_files, pieces, report_file, sweep_toggle
from advisor.ui.state import escaped, link_to
from advisor.ui.widgets import advice_or_stop, place, plain, scenario_or_stop

BUTTONS: tuple[tuple[Format, str, str], ...] = (
    ("pdf", "PDF", "A tagged PDF of four to six pages, for print and for screen readers."),
    ("html", "HTML", "One file with interactive charts that loads nothing from a network (about 5 MB)."),
    ("md", "Markdown", "Text and tables, for a wiki or a merge request."),
    ("json", "JSON", "All numbers and the whole scenario; `report --scenario` makes the report again from it."),
    ("csv", "CSV", "The curve: one row for each batch and K."),
)
scenario = scenario_or_stop()
advice = advice_or_stop(scenario)
answer, without = advice.recommendation, advice.drafts[0]
what, where = place_text(advice)
place(f"Report on **{escaped(what)}** {escaped(where)}")
st.title(headline(advice, answer.n_draft), anchor=False)
with st.container(key="report_numbers"), st.grid(4, min_column_width=150):
    st.metric(
        "Draft length K",
        str(answer.n_draft),
        f"best with {answer.p_best:.0%} chance",
        delta_color="off",
        delta_arrow="off",
    )
    st.metric(
        "Speedup",
        f"{answer.speedup.value:.2f}×",
        f"{answer.speedup.low:.2f} to {answer.speedup.high:.2f}",
        delta_color="off",
        delta_arrow="off",
    )
    st.metric(
        "ms per token and user",
        f"{answer.tpot_s * 1e3:.3g}",
        f"{without.tpot_s * 1e3:.3g} without drafts",
        delta_color="off",
        delta_arrow="off",
    )
    st.metric(
        "Tokens/s per GPU",
        f"{answer.tokens_per_s_per_gpu:,.0f}",
        f"{without.tokens_per_s_per_gpu:,.0f} without drafts",
        delta_color="off",
        delta_arrow="off",
    )
chosen = chosen_for(scenario)
with st.container(key="report_files", horizontal=True, vertical_alignment="bottom", gap="small"):
    date = st.date_input("Date on the report", value="today", key="report_date", format="YYYY-MM-DD", width=170)
    for form, label, help_text in BUTTONS:
        st.download_button(
            label,
            download(scenario, date, form, chosen),
            file_name=file_name(scenario, form),
            mime=MEDIA_TYPES[form],
            key=f"report_{form}",
            help=help_text,
            icon=":material/download:",
            on_click="ignore",
        )
    draw_engine_files(advice)
link = link_to(scenario, st.context.url)
if link is not None:
    with st.expander("Link to this scenario"):
        st.code(link, language=None, wrap_lines=True)
st.caption(f"Scenario {scenario.hash}. The same scenario, data, versions and date give the same bytes.")
with st.container(key="report_extras", horizontal=True, gap="medium"):
    st.toggle("Long context too", key="report_context", help="Speedup and K over batch and context.")
    st.toggle(
        "Other models too",
        key="report_models",
        help="Ranked at this load, as asked on Serve under Which model. Takes two seconds.",
    )
    if scenario.expert_parallel > 1:
        st.toggle(
            "Experts on ranks too",
            key="report_ranks",
            help="Slowest rank, copies of hot experts, exchange. Takes some seconds where nothing is counted yet.",
        )
    sweep_toggle()
if chosen.ranks_text:
    st.caption(plain(chosen.ranks_text))
for problem in chosen.problems:
    st.error(plain(problem), icon=":material/error:")
with st.container(border=True, height=900, key="preview"):  # a pane of its own: wide tables scroll in it, not the page
    for text, is_code in pieces(report_file(scenario, date, "md", chosen.extras, chosen.ranks).decode()):
        if is_code:
            st.code(text, language=None, wrap_lines=True)
        else:
            st.markdown(text)
