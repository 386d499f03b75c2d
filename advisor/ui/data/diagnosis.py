"""What the store holds, from where, and what was left out.

Diagnosis: why a run with speculation is slow, from its launch line, log, console block or result files.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import Given
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.store_build import StoreStatus
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.table import Table
from advisor.show.words.diagnosis import WANTED, DiagnosisView, FindingView, view_of
from advisor.text import counted
from advisor.ui.answers import published_for, store_status
from advisor.ui.data.upload_panel import MAX_PASTED
from advisor.ui.session import Slot, nothing
from advisor.ui.widgets import plain, show_table, upload_limit


def draw_store_panel(scenario: Scenario) -> None:
    """Coverage of the store, or without one the command that builds it."""
    now = store_status()
    if now.problem:
        st.warning(
            "There are no measured tables on this machine, so no measured points are shown. "
            "Predictions use the constants that ship with the advisor. To build them, run:"
        )
        st.code("python -m advisor store build", language="bash")
        st.text(now.problem)
        return
    _size(now)
    _kernels(now, scenario)
    _datasets(now, scenario)
    _sweeps(now)
    with st.expander("Repeated tables and rows left out"):
        st.markdown("Tables that repeat another accelerator's, counted once:")
        st.dataframe(now.copies, hide_index=True, placeholder="")
        st.markdown("Rows left out, by file and reason:")
        st.dataframe(now.dropped, hide_index=True, placeholder="")


def _size(now: StoreStatus) -> None:
    with st.grid(4, min_column_width=150):
        st.metric("Rows", f"{sum((now.rows_by_table or {}).values()):,}")
        st.metric("Size", f"{now.size_bytes / 1e6:.0f} MB")
        st.metric("Built (UTC)", f"{now.built_utc:%Y-%m-%d}" if now.built_utc else "unknown")
        st.metric(
            "aiconfigurator-core", now.kernel_package_version or "not installed", help="The measured kernel tables."
        )
    for reason in now.stale_because:
        st.warning(f"Out of date: {plain(reason)}. Run `python -m advisor store build`.")


def _kernels(now: StoreStatus, scenario: Scenario) -> None:
    st.subheader("Measured kernels", anchor=False)
    if now.coverage is None or now.coverage.empty:
        st.info(
            "The measured kernel tables are not installed here; predictions use the fits that ship with the advisor."
        )
        return
    only = st.toggle(plain(f"Only {scenario.hardware_id}"), value=False, key="only_this_hardware")
    kernels = now.coverage[now.coverage["hardware_id"] == scenario.hardware_id] if only else now.coverage
    names = {"hardware_id": "Accelerator", "engine": "Engine", "version": "Version", "op": "Operation"}
    counts = {"n_shapes": "Shapes", "n_rows": "Rows", "min_tokens": "Fewest tokens", "max_tokens": "Most tokens"}
    _table(kernels, {**names, "dtype": "Format"}, counts)


def _datasets(now: StoreStatus, scenario: Scenario) -> None:
    st.subheader("Published and shipped data sets", anchor=False)
    rows = (now.rows_by_table or {}).items()
    sets = [(name.removeprefix("dataset_"), count) for name, count in rows if name.startswith("dataset_")]
    st.dataframe(pd.DataFrame(sets, columns=["Data set", "Rows"]), hide_index=True)
    points = published_for(scenario)
    if points is not None and len(points):
        st.markdown(plain(f"Published speedups of {scenario.model_id} on {scenario.hardware_id}:"))
        st.dataframe(points, hide_index=True, placeholder="")
    else:
        st.caption(
            plain(
                f"No published speedup of {scenario.model_id} on {scenario.hardware_id} at this number of GPUs states "
                "its batch. Peaks over batch, where known, stand in the data set moesd_cells."
            )
        )


def _sweeps(now: StoreStatus) -> None:
    st.subheader("Sweeps of the profiler", anchor=False)
    if now.sweeps is None or now.sweeps.empty:
        st.caption("None yet. Measure a device on the page Profile this machine.")
        return
    names = {"name": "Sweep", "device": "Device", "status": "Status", "preset": "Preset", "torch": "torch"}
    shown = now.sweeps.drop(columns=["backend", "n_rows"])
    _table(shown, {**names, "started_at": "Started (UTC)"}, {"measured_rows": "Measured rows"})


def _table(frame: pd.DataFrame, texts: dict[str, str], counts: dict[str, str]) -> None:
    """A table under plain headers; counts with separators."""
    columns: dict[str, Any] = dict(texts)
    columns |= {name: st.column_config.NumberColumn(label, format="localized") for name, label in counts.items()}
    st.dataframe(frame, hide_index=True, placeholder="", column_config=columns)


_FOUND: Slot[DiagnosisView | None] = Slot("_diagnosis", nothing)
_PROBLEM: Slot[str] = Slot("_diagnosis_problem", str)
_TEXT, _FILES = "diagnosis_text", "diagnosis_files"
_SHOWN_RUNS = 4
_KINDS = {"measurement": "Measurement", "configuration": "Configuration", "physics": "Physics"}
_HINT = (
    "vllm serve ... --speculative-config ...\nthe server's log\n============ Serving Benchmark Result ============\n..."
)


def draw_diagnosis_panel(scenario: Scenario) -> None:
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
            max_upload_size=upload_limit(MAX_BYTES),
        )
        st.caption(
            "Give a run without speculation too: it helps the diagnosis most. What neither text nor files say, such "
            "as the accelerator, is taken from the bar. Nothing is kept on the server."
        )
    st.button(
        "Diagnose", key="diagnose", type="primary", icon=":material/stethoscope:", on_click=_diagnose, args=(scenario,)
    )
    if problem := _PROBLEM.get():
        st.error(plain(problem), icon=":material/error:")
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
        "gpu_count": max(scenario.tensor_parallel, scenario.expert_parallel),  # batch and speed are per copy
        "tensor_parallel": scenario.tensor_parallel,
        "expert_parallel": scenario.expert_parallel,
    }
    if scenario.drafter_id != "none":
        said["drafter"] = scenario.drafter_id
    return {name: str(value) for name, value in said.items() if value is not None}


def _show(found: DiagnosisView) -> None:
    """The sentence, the findings, the comparison, and what could not be judged."""
    st.subheader(plain(found.sentence), anchor=False)
    for number, one in enumerate(found.findings):
        with st.container(border=True, key=f"finding_{number}"):
            _finding(one)
    _compared(found)
    _not_judged(found)
    with st.expander("What was read"):
        st.markdown("\n".join(f"- {plain(note)}" for note in found.notes))


def _finding(one: FindingView) -> None:
    """One card: what, on which evidence, why, and what to paste."""
    title = f"{one.title[0].upper()}{one.title[1:]}"
    st.markdown(f"**{_KINDS.get(one.kind, one.kind)}: {plain(title)}**")
    lines = [f"In {one.where}", *one.evidence, *(f"Differs: {text}" for text in one.differs)]
    st.markdown("\n".join(f"- {plain(line)}" for line in lines))
    st.markdown(f"{plain(one.because[0].upper() + one.because[1:])}.")
    st.code(one.fix, language=None, wrap_lines=True)
    st.caption(f"Source: {plain(one.source)}")


def _compared(found: DiagnosisView) -> None:
    """Runs beside their prediction, the first ones in full."""
    if not found.comparisons:
        return
    st.subheader("Measured beside predicted", anchor=False)
    for text in found.gaps[:_SHOWN_RUNS]:
        st.markdown(plain(text))
    for one in found.comparisons[:_SHOWN_RUNS]:
        st.caption(plain(one.title))
        st.table(one.table.frame.set_index("Quantity"))
        st.caption(f"{plain(one.parts)}.")
    if more := len(found.comparisons[_SHOWN_RUNS:]):
        st.caption(f"{counted(more, 'more run')} not shown; `advisor diagnose --json` lists all.")


def _not_judged(found: DiagnosisView) -> None:
    """Folded: what to collect so that more rules can be judged."""
    clean = f"{counted(len(found.clean), 'rule')} checked and clean"
    with st.expander(f"{counted(len(found.not_judged), 'rule')} not judged; {clean}"):
        st.caption("What to collect, most needed first")
        show_table(Table(WANTED, found.wanted))
        rules = pd.DataFrame(list(found.not_judged), columns=["Not judged", "Needs"])
        st.dataframe(rules, hide_index=True)
        if found.clean:
            st.markdown("**Checked and clean**  \n" + "  \n".join(map(plain, found.clean)))
