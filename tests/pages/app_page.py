"""One page of the app under Streamlit's AppTest, opened as a link opens it: no other page is drawn
before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

APP = Path(__file__).resolve().parents[2] / "app.py"
WAIT_S = 20.0
"""For what another process does. [s]"""


def opened(page: str = "serve", tab: str = "", **query: str) -> AppTest:
    """The page after its first run, with these parameters in the address; fails where it shows an
    exception.

    tab : the tab of the page that is open; "": its first.
    """
    test = AppTest.from_file(str(APP), default_timeout=300)
    for name, value in ({f"{page}_tab": tab} if tab else {}).items() | query.items():
        test.query_params[name] = value
    go_to(test, page).run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def go_to(test: AppTest, page: str) -> AppTest:
    """Choose another page, as a click on its link does; the next run draws it. Share comes with its
    preview open."""
    test._page_hash = calc_hash("" if page == "serve" else page)
    if page == "share":
        test.session_state["share_preview"] = True
    return test


def live(test: AppTest, name: str = "live_answer") -> Any:
    """What the page Serve hands the browser for its live answer or its Why; None where it is not
    drawn."""
    found = (one.proto for one in test.get("bidi_component") if one.proto.component_name == name)
    return next((json.loads(one.json) for one in found), None)


def press(test: AppTest, *wanted: str) -> AppTest:
    """Click buttons one after the other, each by its key or its label; fails where the page shows
    an exception."""
    for one in wanted:
        next(item for item in test.button if one in (item.key, item.label)).click().run()
        assert not test.exception, [item.value for item in test.exception]
    return test


def keys(test: AppTest) -> set[str]:
    """Keys of the page's buttons."""
    return {str(button.key) for button in test.button}


def telling(test: AppTest, words: str) -> list[str]:
    """Lines of the page's text that hold some words."""
    return [line for line in texts(test).splitlines() if words in line]


def sheets(test: AppTest) -> list[dict[str, Any]]:
    """The page's sheets as the browser gets them."""
    found = (one.proto for one in test.get("bidi_component") if one.proto.component_name == "sheet")
    return [json.loads(one.json) for one in found]


def pasted_text(test: AppTest) -> list[str]:
    """What the page's sheets give to be copied."""
    blocks = [block for one in sheets(test) for row in one["rows"] for block in row]
    return [block["text"] for block in blocks if block["kind"] == "copy"]


def titles(test: AppTest) -> list[str]:
    """Headlines of the page."""
    return [one.value for one in test.title] + [
        one["headline"] for one in sheets(test) if one["headline"]
    ]


def texts(test: AppTest) -> str:
    """All text of the page, without the marks that escape it."""
    kinds = (test.title, test.subheader, test.markdown, test.caption, test.text)
    kinds += (test.warning, test.error, test.info, test.success)
    of_sheets = [
        text
        for one in sheets(test)
        for text in (
            *(one[name] for name in ("headline", "reason", "amber")),
            *(
                block.get(name, "")
                for row in one["rows"]
                for block in row
                for name in ("title", "label", "text", "note")
            ),
        )
    ]
    return "\n".join([*(item.value for kind in kinds for item in kind), *of_sheets]).replace(
        "\\", ""
    )
