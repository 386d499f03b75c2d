"""Entry script: the scenario's sidebar, then the pages. `streamlit run app.py`."""

import streamlit as st

from advisor.ui import address, sidebar, style

st.set_page_config(page_title="MoE speculative decoding advisor", page_icon="⚡", layout="wide")

# No icons: the browser fetches a page's Material icon from a font server, for the tab; emoji need a font.
PAGES = [
    st.Page("advisor/ui/pages/advise.py", title="Advise", default=True),
    st.Page("advisor/ui/pages/design.py", title="Design space"),
    st.Page("advisor/ui/pages/why.py", title="Why"),
    st.Page("advisor/ui/pages/runtime_k.py", title="Run-time K"),
    st.Page("advisor/ui/pages/measurements.py", title="Measurements"),
    st.Page("advisor/ui/pages/profile.py", title="Profile this machine"),
    st.Page("advisor/ui/pages/report.py", title="Report"),
    st.Page("advisor/ui/pages/sources.py", title="Sources"),
]

address.follow()  # before the browser notes the page's address
page = st.navigation(PAGES)
style.use()
sidebar.draw()
page.run()
