"""Entry script: the scenario's sidebar, then the pages. `streamlit run app.py`."""

import streamlit as st

from advisor.ui import sidebar

st.set_page_config(page_title="MoE speculative decoding advisor", page_icon="⚡", layout="wide")

PAGES = [
    st.Page("advisor/ui/pages/advise.py", title="Advise", icon=":material/speed:", default=True),
    st.Page("advisor/ui/pages/design.py", title="Design space", icon=":material/grid_view:"),
    st.Page("advisor/ui/pages/why.py", title="Why", icon=":material/troubleshoot:"),
    st.Page("advisor/ui/pages/runtime_k.py", title="Run-time K", icon=":material/tune:"),
    st.Page("advisor/ui/pages/measurements.py", title="Measurements", icon=":material/database:"),
    st.Page("advisor/ui/pages/profile.py", title="Profile this machine", icon=":material/memory:"),
    st.Page("advisor/ui/pages/report.py", title="Report", icon=":material/description:"),
    st.Page("advisor/ui/pages/sources.py", title="Sources", icon=":material/menu_book:"),
]

page = st.navigation(PAGES)
sidebar.draw()
page.run()
