"""Entry script: the scenario's bar, then the pages. `streamlit run app.py`."""

import streamlit as st

from advisor.ui import HERE, HIDDEN, OLD_PATHS, PAGES
from advisor.ui.bar import draw_bar
from advisor.ui.server import in_turn, settle, use
from advisor.ui.state import PAGE, follow

st.set_page_config(page_title="MoE speculation advisor", page_icon="⚡", layout="wide")
st.logo(str(HERE / "logo.svg"), size="small")

# No icons: the browser fetches a page's Material icon from a font server, for the tab; emoji need a
# font. The default page lies at the root; the path it reserves besides is never served, and /serve
# is to lead to it.
pages = {
    name: st.Page(
        path,
        title=name.capitalize(),
        url_path="root" if name == "serve" else name,
        default=name == "serve",
        visibility="hidden" if name in HIDDEN else "visible",
    )
    for name, path in PAGES.items()
}
old = {
    path: st.Page(PAGES[name], title=path, url_path=path, visibility="hidden")
    for path, (name, _) in OLD_PATHS.items()
}

follow()  # before the browser notes the page's address
page = st.navigation([*pages.values(), *old.values()], position="top")
if page.url_path in OLD_PATHS:
    name, settings = OLD_PATHS[page.url_path]
    st.session_state.update(settings)
    st.switch_page(pages[name])
with in_turn():
    use()
    draw_bar()
    if page == pages["serve"]:  # gives the turn back after its first screen
        page.run()
if page != pages["serve"]:
    page.run()
PAGE.put(page.url_path)
settle(page.url_path)
