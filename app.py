"""Entry script: the scenario's sidebar, then the pages. `streamlit run app.py`."""

import streamlit as st

from advisor.ui import PAGES, address, sidebar, style

st.set_page_config(page_title="MoE speculative decoding advisor", page_icon="⚡", layout="wide")

# No icons: the browser fetches a page's Material icon from a font server, for the tab; emoji need a font.
pages = [
    st.Page(PAGES / "advise.py", title="Advise", default=True),
    st.Page(PAGES / "design.py", title="Design space"),
    st.Page(PAGES / "why.py", title="Why"),
    st.Page(PAGES / "runtime_k.py", title="Run-time K"),
    st.Page(PAGES / "measurements.py", title="Measurements"),
    st.Page(PAGES / "profile.py", title="Profile this machine"),
    st.Page(PAGES / "report.py", title="Report"),
    st.Page(PAGES / "sources.py", title="Sources"),
]

address.follow()  # before the browser notes the page's address
page = st.navigation(pages)
style.use()
sidebar.draw()
page.run()
