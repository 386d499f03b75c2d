"""One page of the app under Streamlit's AppTest, opened as a link opens it: no other page is drawn before."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

APP = Path(__file__).resolve().parent.parent / "app.py"


def opened(page: str = "advise", **query: str) -> AppTest:
    """The page after its first run, with these parameters in the address; fails where it shows an exception."""
    test = AppTest.from_file(str(APP), default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    if page != "advise":
        test.switch_page(f"advisor/ui/pages/{page}.py")
    test.run()
    assert not test.exception, [item.value for item in test.exception]
    return test
