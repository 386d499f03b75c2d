"""Diagnosis: why a run with speculation is slow, from its launch line, log, console block or result files."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.diagnosis import (
    COMPARED_COLUMNS,
    WANTED_COLUMNS,
    DiagnosisView,
    FindingView,
    Given,
    diagnose,
    view_of,
)
from advisor.ingest import MAX_BYTES
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.text import counted
from advisor.ui.data.upload_panel import MAX_PASTED
from advisor.ui.shared import widgets
from advisor.ui.shared.session import Slot, nothing

_FOUND: Slot[DiagnosisView | None] = Slot("_diagnosis", nothing)
_PROBLEM: Slot[str] = Slot("_diagnosis_problem", str)
_TEXT, _FILES = "diagnosis_text", "diagnosis_files"
_SHOWN_RUNS = 4
_KINDS = {"measurement": "Measurement", "configuration": "Configuration", "physics": "Physics"}
_HINT = (
    "vllm serve ... --speculative-config ...\nthe server's log\n============ Serving Benchmark Result ============\n..."
)


def draw(scenario: Scenario) -> None:
    """The whole panel: what is given, then what was found."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.text_area(
            "Launch line, server log and what the benchmark printed, in any mixture",
            key=_TEXT,
            height=220,
            max_chars=MAX_PASTED,
            placeholder=_HINT,
        )
    with right:
        st.file_uploader(
            "Or files: results, logs, launch scripts",
            key=_FILES,
            accept_multiple_files=True,
            max_upload_size=widgets.upload_limit(MAX_BYTES),
        )
        st.caption(
            "Give a run without speculation too: it helps the diagnosis most. What neither text nor files say, such "
            "as the accelerator, is taken from the bar. Nothing is kept on the server."
        )
    st.button(
        "Diagnose", key="diagnose", type="primary", icon=":material/stethoscope:", on_click=_diagnose, args=(scenario,)
    )
    if problem := _PROBLEM.get():
        st.error(widgets.plain(problem), icon=":material/error:")
    found = _FOUND.get()
    if found is not None:
        _show(found)


def _diagnose(scenario: Scenario) -> None:
    """Read what is given and keep what was found, or why nothing could be."""
    now = st.session_state
    _FOUND.drop()
    _PROBLEM.drop()
    text = str(now.get(_TEXT) or "")
    given = [Given("pasted text", text.encode("utf-8", errors="replace"))] if text.strip() else []
    given += [Given(item.name, item.getvalue()) for item in now.get(_FILES) or []]
    if not given:
        _PROBLEM.put("Nothing to diagnose: paste a launch line, a log or a benchmark's output, or give files.")
        return
    own = scenario.model_config_json
    configs = {} if own is None else {scenario.model_id: own}
    try:
        _FOUND.put(view_of(diagnose(given, configs=configs, otherwise=_of_scenario(scenario), source="the bar")))
    except AdvisorError as error:
        _PROBLEM.put(str(error))


def _of_scenario(scenario: Scenario) -> dict[str, str]:
    """What the bar says of the server, by column; the drafter is that of speculative rows."""
    said: dict[str, object] = {
        "hardware_id": scenario.hardware_id if scenario.hardware_json is None else None,
        "model_id": scenario.model_id,
        "engine": scenario.engine,
        "gpu_count": scenario.n_gpus,
        "tensor_parallel": scenario.tensor_parallel,
        "expert_parallel": scenario.expert_parallel,
    }
    if scenario.drafter_id != "none":
        said["drafter"] = scenario.drafter_id
    return {name: str(value) for name, value in said.items() if value is not None}


def _show(found: DiagnosisView) -> None:
    """The sentence, the findings, the comparison, and what could not be judged."""
    st.subheader(widgets.plain(found.sentence), anchor=False)
    for number, one in enumerate(found.findings):
        with st.container(border=True, key=f"finding_{number}"):
            _finding(one)
    _compared(found)
    _not_judged(found)
    with st.expander("What was read"):
        st.markdown("\n".join(f"- {widgets.plain(note)}" for note in found.notes))


def _finding(one: FindingView) -> None:
    """One card: what, on which evidence, why, and what to paste."""
    title = f"{one.title[0].upper()}{one.title[1:]}"
    st.markdown(f"**{_KINDS.get(one.kind, one.kind)}: {widgets.plain(title)}**")
    lines = [f"In {one.where}", *one.evidence, *(f"Differs: {text}" for text in one.differs)]
    st.markdown("\n".join(f"- {widgets.plain(line)}" for line in lines))
    st.markdown(f"{widgets.plain(one.because[0].upper() + one.because[1:])}.")
    st.code(one.fix, language=None, wrap_lines=True)
    st.caption(f"Source: {widgets.plain(one.source)}")


def _compared(found: DiagnosisView) -> None:
    """Runs beside their prediction, the first ones in full."""
    if not found.comparisons:
        return
    st.subheader("Measured beside predicted", anchor=False)
    for text in found.gaps[:_SHOWN_RUNS]:
        st.markdown(widgets.plain(text))
    for one in found.comparisons[:_SHOWN_RUNS]:
        st.caption(widgets.plain(one.title))
        st.table(pd.DataFrame(list(one.rows), columns=list(COMPARED_COLUMNS)).set_index(COMPARED_COLUMNS[0]))
        st.caption(f"{widgets.plain(one.parts)}.")
    if more := len(found.comparisons[_SHOWN_RUNS:]):
        st.caption(f"{counted(more, 'more run')} not shown; `advisor diagnose --json` lists all.")


def _not_judged(found: DiagnosisView) -> None:
    """Folded: what to collect so that more rules can be judged."""
    clean = f"{counted(len(found.clean), 'rule')} checked and clean"
    with st.expander(f"{counted(len(found.not_judged), 'rule')} not judged; {clean}"):
        st.caption("What to collect, most needed first")
        st.dataframe(pd.DataFrame(list(found.wanted), columns=list(WANTED_COLUMNS)), hide_index=True)
        rules = pd.DataFrame(list(found.not_judged), columns=["Not judged", "Needs"])
        st.dataframe(rules, hide_index=True)
        if found.clean:
            st.markdown("**Checked and clean**  \n" + "  \n".join(map(widgets.plain, found.clean)))
