"""The engines' own files of what is recommended, to download: what vLLM and SGLang load."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.catalog import export_engines
from advisor.ui.serve import runtime_answers as runtime


def draw(advice: Advice) -> None:
    """A button for each engine that can run the drafter.

    It gives the launch line and the configuration in one text file.
    """
    if advice.setup.drafter.kind == "none":
        return
    served = runtime.served_model(advice) or runtime.OWN_MODEL
    draft = str(st.session_state.get("draft_model") or runtime.PLACEHOLDER)
    for engine in export_engines():
        made = runtime.export_for(advice, engine.id, runtime.RECOMMENDED, served, draft)
        if isinstance(made, str):
            continue
        config = made.config_json if made.config is not None else ""
        st.download_button(
            engine.name,
            f"{made.launch_line}\n\n{config}\n".rstrip() + "\n",
            f"{engine.id}-{advice.scenario.hash}.txt",
            "text/plain",
            key=f"engine_{engine.id}",
            icon=":material/terminal:",
            on_click="ignore",
            help=f"Launch line, and the file it loads, if any. {runtime.own_model_text(served)}".rstrip(),
        )
