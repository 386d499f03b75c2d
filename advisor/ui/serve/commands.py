"""What to paste: launch lines of the engines for the picked K, and what would flip the answer."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.catalog import drafter_name, export_engines
from advisor.engines import EngineExport, one_option_a_line, one_slot_a_line
from advisor.summary import Fit, flip_texts, one_k_text
from advisor.ui.serve import runtime_answers as runtime
from advisor.ui.shared import answers, state, widgets


def draw(advice: Advice, n_draft: int, fit: Fit | None) -> None:
    """Launch line of each engine, with a button that copies it, where the scenario fits.

    The recommended K is pasted as report and export have it (`Advice.to_serve`); another K runs throughout.
    """
    if fit is not None:
        st.info(f"No command: it would not start. {fit.remedy}")
        return
    engines = export_engines()
    recommended = n_draft == advice.recommendation.n_draft
    choice = runtime.RECOMMENDED if recommended else f"K = {n_draft} throughout"
    served = runtime.served_model(advice) or runtime.OWN_MODEL
    for tab, engine in zip(st.tabs([engine.name for engine in engines]), engines, strict=True):
        with tab:
            made = runtime.export_for(advice, engine.id, choice, served, runtime.PLACEHOLDER)
            if isinstance(made, str):
                st.info(widgets.plain(made))
                continue
            _paste(made)
            own = runtime.on_engine(advice, engine.id)
            said = [runtime.pasted_text(own, own.recommendation.n_draft if recommended else n_draft, made)]
            if own_model := runtime.own_model_text(served):
                said.append(own_model)
            if runtime.PLACEHOLDER in made.launch_line:
                said.append(f"Put your {drafter_name(advice.setup.drafter)} checkpoint for {runtime.PLACEHOLDER}.")
            st.caption(" ".join(said))


def _paste(made: EngineExport) -> None:
    """The launch line, and the file that it loads where it loads one."""
    st.code(one_option_a_line(made.launch_line), language=None, wrap_lines=True)
    if made.file_name:
        st.caption(f"Save as {state.escaped(made.file_name)}:")
        st.code(one_slot_a_line(made.config_json), language=None, wrap_lines=True)


def flips(advice: Advice) -> None:
    """The thresholds at which another K is recommended, computed last."""
    st.markdown("**What would flip it**")
    today = float(advice.curve.accepted_length[advice.curve.column(advice.curve_k)])
    lines = [*flip_texts(answers.flips_for(advice.scenario), advice.curve_k, today), one_k_text(advice)]
    st.markdown("\n".join(f"- {state.escaped(line)}" for line in lines))
