"""Entry script: the scenario's sidebar, then the pages. `streamlit run app.py`."""

import streamlit as st

from advisor.ui import sidebar

st.set_page_config(page_title="MoE speculative decoding advisor", page_icon="⚡", layout="wide")

# Emoji, not Material icons: the browser would fetch a page's Material icon from a font server, for the tab.
PAGES = [
    st.Page("advisor/ui/pages/advise.py", title="Advise", icon="🎯", default=True),
    st.Page("advisor/ui/pages/why.py", title="Why", icon="🔍"),
    st.Page("advisor/ui/pages/runtime_k.py", title="Run-time K", icon="🎚️"),
    st.Page("advisor/ui/pages/measurements.py", title="Measurements", icon="📏"),
    st.Page("advisor/ui/pages/profile.py", title="Profile this machine", icon="⏱️"),
    st.Page("advisor/ui/pages/report.py", title="Report", icon="📄"),
    st.Page("advisor/ui/pages/sources.py", title="Sources", icon="📚"),
]

page = st.navigation(PAGES)
sidebar.draw()
page.run()
