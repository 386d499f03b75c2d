"""Scenario and page settings in the browser's address: read from links and on Back and Forward, written after a change.

Each change of the scenario is one entry of the browser's history, so Back undoes it and Forward does it again
(docs/decisions/0004-undo-by-url.md). Widgets bound by Streamlit itself would rewrite the entry in place instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from advisor.prediction import AdvisorError
from advisor.scenario import DOCUMENTS, FIELDS, MAX_CONFIG_BYTES, RANK_FIELDS, Scenario, pack, unpack
from advisor.ui.shared import fields, settings, state
from advisor.ui.shared.fields import START
from advisor.ui.shared.settings import SETTINGS

MAX_LINK_CHARACTERS = 30_000
"""A longer address is refused by servers and proxies; what makes it longer stays out of it."""

_WRITTEN, _PACKED_AS, _IMPLIED = "_address", "_packed_as", "_address_implied"


def follow() -> None:
    """Bring session and address together, before the navigation and all widgets are drawn.

    A first run and Back or Forward take what the address says; one that says nothing means the first screen's scenario.
    Otherwise the session is ahead: Streamlit drops the parameters when the page changes, and they are put back before
    the browser notes the new page's address.
    """
    now = st.session_state
    asked = {name: text for name, text in st.query_params.to_dict().items() if name in FIELDS or name in SETTINGS}
    opened = _WRITTEN not in now
    settings.restore()
    if opened or _is_history_navigation():
        now[_IMPLIED] = not any(name in FIELDS for name in asked)
        whole = {**(START if now[_IMPLIED] else {}), **st.query_params.to_dict()}
        _take(whole, opened and not now[_IMPLIED])
        now[_WRITTEN] = asked | (dict(START) if now[_IMPLIED] else {})
    elif asked != now[_WRITTEN] and not (now[_IMPLIED] and asked.items() <= now[_WRITTEN].items()):
        st.query_params.update(now[_WRITTEN])


def write(values: Mapping[str, Any]) -> None:
    """Put the widgets' values in the address, all in one step.

    An address that already means them is left alone.
    """
    now = st.session_state
    written: dict[str, str] = now[_WRITTEN]
    documents = {name: _packed(name, values[owner]) for name, owner in DOCUMENTS.items()}
    wanted = dict(values) | documents | settings.values()
    if any(len(str(wanted[name] or "")) > MAX_LINK_CHARACTERS for name in RANK_FIELDS):
        wanted |= dict.fromkeys(RANK_FIELDS)  # copies without their loads would be another question
    changed = {
        name: "" if value is None else str(value)
        for name, value in wanted.items()
        if not _means(written.get(name), name, value)
    }
    if not changed:
        return
    if now[_IMPLIED]:  # the address said nothing so far
        changed = dict(START) | changed
        now[_IMPLIED] = False
    if "acceptance" not in written:  # whoever copies the address bar copies an answer that says what is accepted
        changed["acceptance"] = str(values["acceptance"])
    name, text = next(iter(changed.items()))
    if len(changed) == 1 and not text and name in written and _means(None, name, wanted[name]):
        # Its absence says the same. Of several, none is taken out: each call is an entry of the history of its own.
        now[_WRITTEN] = {known: text for known, text in written.items() if known != name}
        del st.query_params[name]
        return
    now[_WRITTEN] = written | changed
    st.query_params.update(changed)


def link_to(scenario: Scenario, base: str | None) -> str | None:
    """Address that restores this scenario and the pages' settings, or None when it is too long.

    Relative when the page's own is unknown.
    """
    asked = {name: value for name, value in settings.values().items() if not _means(None, name, value)}
    query = "&".join(filter(None, (scenario.to_query(), urlencode({name: str(v) for name, v in asked.items()}))))
    documents = (getattr(scenario, name) or "" for name in DOCUMENTS)
    if len(query) > MAX_LINK_CHARACTERS or any(len(text) > MAX_CONFIG_BYTES for text in documents):
        return None
    return urlunsplit(urlsplit(base)._replace(query=query, fragment="")) if base else f"?{query}"


def _take(link: Mapping[str, str], opened: bool) -> None:
    documents, damaged = {}, []
    for name in DOCUMENTS:
        if packed := link.get(name):
            try:
                documents[name] = unpack(name, packed)
                _packings()[documents[name]] = packed
            except AdvisorError as error:
                damaged.append(str(error))
    texts = {name: text for name, text in link.items() if name not in DOCUMENTS and not name.startswith("embed")}
    notes = damaged + state.take(texts, documents, "link") + state.take_settings(texts)
    if opened and texts and "acceptance" not in texts:
        notes.append(f"The link gives no accepted length; the measured curve {fields.START_ACCEPTANCE} is used.")
    state.note(notes)


def _means(text: str | None, name: str, value: Any) -> bool:
    """Whether a parameter of the address, or its absence, stands for a value."""
    if text is None:
        if name in SETTINGS:
            return bool(value == SETTINGS[name].default)
        return bool(value == ("" if name in DOCUMENTS else fields.default(name)))
    return fields.same(text, value)


def _packed(document: str, owner: str) -> str:
    """The packed document of what `owner` names, as it came in the link where it did; empty when there is none."""
    text = fields.own(document).get(owner, "")
    if not text or len(text) > MAX_CONFIG_BYTES:
        return ""
    packed = _packings().setdefault(text, pack(text)) if text not in _packings() else _packings()[text]
    return packed if len(packed) <= MAX_LINK_CHARACTERS else ""


def _packings() -> dict[str, str]:
    known: dict[str, str] = st.session_state.setdefault(_PACKED_AS, {})
    return known


def _is_history_navigation() -> bool:
    """Whether Back or Forward asked for this run. Streamlit has no public name for it: then they are not followed."""
    return bool(getattr(get_script_run_ctx(), "is_history_navigation", False))
