"""The user's own config.json under More: given as a file or as text, what is wrong with it, and taking it back.

The answer on screen always fits what this panel says: a configuration that cannot be used, and an emptied box, put the
last shipped model back in place of the one they replace.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from advisor.catalog import model_ids, model_name
from advisor.hf import MAX_FILE_BYTES
from advisor.prediction import AdvisorError
from advisor.ui.shared import fields, state
from advisor.ui.shared.session import Slot

_PROBLEM = state.CONFIG_PROBLEM
_FROM: Slot[str] = Slot("_config_from", str)
"""file or text: where the configuration in use comes from; empty where none is."""
_SHIPPED: Slot[str] = Slot("_shipped_model", lambda: str(fields.default("model_id")))


def note_shipped(model_id: str) -> None:
    """Remember the shipped model in use: the one to go back to."""
    if model_id in model_ids():
        _SHIPPED.put(model_id)


def draw(on_model: Callable[[], None]) -> None:
    """The uploader, the text box and what is wrong with what they hold. `on_model` runs when the model has changed."""
    chosen = str(st.session_state["model_id"])
    note_shipped(chosen)
    # No `type` here: the browser would refuse other files by a red icon, without a word.
    st.file_uploader(
        "Hugging Face config.json",
        key="config_file",
        on_change=_take_file,
        args=(on_model,),
        max_upload_size=MAX_FILE_BYTES // 1_000_000,
    )
    st.text_area("or paste it", key="config_text", on_change=_take_text, args=(on_model,), height=100)
    if problem := state.config_problem():
        st.error(state.escaped(problem))
        st.caption(f"The answer is for {state.escaped(model_name(chosen))}.")
    st.caption(f"Text of at most {MAX_FILE_BYTES / 1e6:.0f} MB. It stays in this session and in links you copy.")


def _take_file(on_model: Callable[[], None]) -> None:
    given = st.session_state.config_file
    if given is None:
        _take_back("file", on_model)
    elif given.size > MAX_FILE_BYTES:
        size = f"The file has {given.size:,} bytes; a config.json has at most {MAX_FILE_BYTES:,}."
        _refuse("file", size, on_model)
    else:
        try:
            text = given.getvalue().decode("utf-8-sig")
        except UnicodeDecodeError:
            _refuse("file", "The file is not text; give the model's config.json.", on_model)
        else:
            _use("file", text, given.name, on_model)


def _take_text(on_model: Callable[[], None]) -> None:
    text = st.session_state.config_text
    if text.strip():
        _use("text", text, "", on_model)
    else:
        _take_back("text", on_model)


def _use(origin: str, text: str, file_name: str, on_model: Callable[[], None]) -> None:
    try:
        name = state.add_own_model(text, file_name)
    except AdvisorError as error:
        _refuse(origin, str(error), on_model)
        return
    _PROBLEM.drop()
    _FROM.put(origin)
    st.session_state.model_id = name
    on_model()


def _refuse(origin: str, reason: str, on_model: Callable[[], None]) -> None:
    _PROBLEM.put(reason)
    _FROM.put(origin)
    _back_to_shipped(on_model)


def _take_back(origin: str, on_model: Callable[[], None]) -> None:
    """Nothing is given there any more; what came from elsewhere stays."""
    if _FROM.get() == origin:
        _PROBLEM.drop()
        _FROM.drop()
        _back_to_shipped(on_model)


def _back_to_shipped(on_model: Callable[[], None]) -> None:
    if st.session_state.model_id not in model_ids():
        st.session_state.model_id = _SHIPPED.get()
        on_model()
