"""Handing the scenario on: its link, its file, and opening a file that someone else sent."""

from __future__ import annotations

import streamlit as st

from advisor.prediction import AdvisorError
from advisor.scenario import MAX_SCENARIO_BYTES, read_scenario, scenario_json
from advisor.ui.bar import pins
from advisor.ui.shared import address, state, widgets
from advisor.ui.shared.session import Slot

_PROBLEM: Slot[str] = Slot("_scenario_file_problem", str)
_OPENED: Slot[int] = Slot("_scenario_files_opened", int)
_OPEN = "share_open"
_WRAPPED = 2000
"""Characters beyond which a link stays on one line: it would push all else out of sight."""


def draw() -> None:
    """The link and the file of the scenario on screen, and the uploader that opens one."""
    scenario, _ = state.scenario_or_problem()
    with st.popover("Share", icon=":material/link:", width="content", key=_OPEN, on_change="rerun"):
        pins.draw_button()
        if scenario is not None:
            link = address.link_to(scenario, st.context.url)
            if link is None:
                st.warning("Too large for a link: your own files make it so. Send the scenario file instead.")
            else:
                st.code(link, language=None, wrap_lines=len(link) <= _WRAPPED)
            st.download_button(
                "Scenario file",
                scenario_json(scenario),
                f"scenario-{scenario.hash}.json",
                "application/json",
                key="scenario_download",
                icon=":material/download:",
                on_click="ignore",
                width="stretch",
            )
            st.caption(f"Scenario {scenario.hash}. The browser's Back undoes a change.")
        # A new key after each file, so that no file stands there whose scenario is no longer on screen.
        st.file_uploader(
            "Open a scenario file or JSON report",
            key=_key(),
            on_change=_open,
            max_upload_size=MAX_SCENARIO_BYTES // 1_000_000,
        )
        if problem := _PROBLEM.get():
            st.error(widgets.plain(problem))


def _key() -> str:
    return f"scenario_file_{_OPENED.get()}"


def _open() -> None:
    given = st.session_state[_key()]
    if given is None:
        _PROBLEM.drop()
        return
    try:
        found = read_scenario(given.getvalue())
    except AdvisorError as error:
        _PROBLEM.put(str(error))
        return
    _PROBLEM.drop()
    _OPENED.put(_OPENED.get() + 1)
    st.session_state[_OPEN] = False
    state.show(found.scenario, "file")
    if found.note:
        state.add_note(f"{found.note[:1].upper()}{found.note[1:]}.")
