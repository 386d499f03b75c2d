"""One page of the app under Streamlit's AppTest, opened as a link opens it: no other page is drawn before."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

APP = Path(__file__).resolve().parents[2] / "app.py"


def opened(page: str = "serve", tab: str = "", **query: str) -> AppTest:
    """The page after its first run, with these parameters in the address; fails where it shows an exception.

    tab : the tab of the page that is open; "": its first.
    """
    test = AppTest.from_file(str(APP), default_timeout=300)
    for name, value in ({f"{page}_tab": tab} if tab else {}).items() | query.items():
        test.query_params[name] = value
    go_to(test, page).run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def go_to(test: AppTest, page: str) -> AppTest:
    """Choose another page, as a click on its link does; the next run draws it."""
    test._page_hash = calc_hash("" if page == "serve" else page)
    return test
