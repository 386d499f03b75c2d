"""Why a run is slow, from its launch line, log and results: the cause, and the remedy in numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import pandas as pd
import streamlit as st

from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.own_gap import OwnVerdict
from advisor.predict.scenario import Scenario
from advisor.show.table import Table
from advisor.show.words.diagnosis import WANTED, ComparedView, DiagnosisFinding, DiagnosisView, view_of
from advisor.text import counted
from advisor.ui.measure.session import FILES, filled_in, of_scenario
from advisor.ui.measure.traces import Heading
from advisor.ui.own_data import use_length
from advisor.ui.session import Kept
from advisor.ui.state import TO_SERVE, plain, show
from advisor.ui.widgets import show_problem, show_table

_GIVEN: Kept[tuple[UserFile, ...]] = Kept("_diagnosis_files", tuple)
VIEW: Kept[DiagnosisView | None] = Kept("_diagnosis")
Asked = tuple[list[UserFile], Mapping[str, str], Scenario]
_OF: Kept[Asked | None] = Kept("_diagnosis_of")
"""What the diagnosis was made of."""
_SHOWN_RUNS = 4
_LONGEST_TITLE = 90
_KINDS_OF_VERDICT = {"mismeasured": "Measure again before tuning", "misconfigured": "The engine is misconfigured"}
_KINDS = {"measurement": "Measurement", "configuration": "Configuration", "physics": "Physics"}


def give(runs: Sequence[UserFile]) -> None:
    """Keep the files that a diagnosis reads, and drop the one before."""
    forget()
    _GIVEN.put(tuple(runs))


def forget() -> None:
    """Drop files and diagnosis."""
    for kept in (_GIVEN, VIEW, _OF):
        kept.forget()


def run(scenario: Scenario) -> None:
    """Diagnose what was given, and keep what was found, or why nothing could be."""
    VIEW.forget()
    asked = _asked(scenario)
    VIEW.take(_diagnosed, *asked)
    _OF.put(asked)


def refresh(scenario: Scenario) -> None:
    """Diagnose again where the bar, the columns or the values filled in are others than before."""
    if _OF.result is not None and _OF.result != _asked(scenario):
        run(scenario)


def _asked(scenario: Scenario) -> Asked:
    """Files under the columns that the user chose for them, what was filled in for them, and the scenario."""
    columns = {file.name: file.columns for file in FILES.result}
    files = [replace(file, columns=columns.get(file.name, {})) for file in _GIVEN.result]
    return files, filled_in(), scenario


def _diagnosed(files: list[UserFile], values: Mapping[str, str], scenario: Scenario) -> DiagnosisView:
    own = scenario.model_config_json
    configs = {} if own is None else {scenario.model_id: own}
    bar = _of_bar(scenario)
    if all(file.name not in {one.name for one in FILES.result} for file in files):
        bar["batch_size"] = str(scenario.batch_size)  # of a launch line alone
    found = diagnose(files, values, configs=configs, otherwise=bar, source="the bar", scenario=scenario)
    reasons = (re.sub(r"; give it with --set [^,]*|; fill one with --set .*", "", text) for text in found.not_compared)
    return view_of(replace(found, not_compared=tuple(reasons)))


def draw_alone(scenario: Scenario, heading: Heading) -> None:
    """The diagnosis as the page's first panel."""
    found = VIEW.result
    if found is None:
        heading("Nothing to diagnose")
    else:
        heading(
            plain(found.sentence)
            if len(found.sentence) <= _LONGEST_TITLE
            else _KINDS_OF_VERDICT.get(found.verdict, "Diagnosis")
        )
    draw(scenario, None)


def draw(scenario: Scenario, verdict: OwnVerdict | None) -> None:
    """The sentence, the remedy, the findings and the comparison.

    Nothing before a run.

    verdict : of the rows beside it, which has the title; None: the sentence is the title.
    """
    show_problem(VIEW.problem)
    found = VIEW.result
    if found is None:
        return
    if verdict is not None or len(found.sentence) > _LONGEST_TITLE:
        st.markdown(f"**{plain(found.sentence)}**")
    if drafting := [one for one in found.comparisons if one.length]:
        _remedy(max(drafting, key=lambda one: one.loses), scenario)
    for number, one in enumerate(found.findings):
        with st.container(border=True, key=f"finding_{number}"):
            _finding(one)
    _compared(found, opened=verdict is None and not found.findings)
    _not_judged(found)


def _remedy(one: ComparedView, scenario: Scenario) -> None:
    """What each K is predicted to give at the run's batch, and the button that opens the best of them."""
    found = ", once the cause is found," if one.loses else ""
    said = f"{one.title}: predicted{found} at batch {one.batch_size:,.0f} with accepted length {one.length}"
    st.caption(plain(said))
    show_table(one.remedy)
    mended = scenario.model_copy(update={"batch_size": max(round(one.batch_size), 1), "k_max": max(one.n_draft, 1)})
    label = f"Open K = {one.n_draft} on Serve" if one.n_draft else "Open on Serve: no drafts"
    look: Literal["primary", "secondary"] = "secondary" if one.loses else "primary"
    st.button(label, key="open_mended", type=look, on_click=_open, args=(mended, one.acceptance or None))


def _open(mended: Scenario, acceptance: str | None) -> None:
    show(mended)
    use_length(acceptance)
    TO_SERVE.put(True)


def _of_bar(scenario: Scenario) -> dict[str, str]:
    """What the bar says of the server, by column; the drafter is that of speculative rows."""
    names = ("hardware_id", "model_id", "engine", "gpu_count", "tensor_parallel", "expert_parallel", "drafter")
    said = {name: str(value) for name in names if (value := of_scenario(name, scenario)) is not None}
    return {name: value for name, value in said.items() if name != "hardware_id" or scenario.hardware_json is None}


def _finding(one: DiagnosisFinding) -> None:
    """One card: what, on which evidence, why, and what to paste."""
    title = f"{one.title[0].upper()}{one.title[1:]}"
    st.subheader(f"{_KINDS.get(one.kind, one.kind)}: {plain(title)}", anchor=False)
    lines = [f"In {one.where}", *one.evidence, *(f"Differs: {text}" for text in one.differs)]
    st.markdown("\n".join(f"- {plain(line)}" for line in lines))
    st.markdown(f"{plain(one.because[0].upper() + one.because[1:])}.")
    st.code(one.fix, language=None, wrap_lines=True)
    st.caption(f"Source: {plain(one.source)}")


def _compared(found: DiagnosisView, *, opened: bool) -> None:
    """Runs beside their prediction, the first ones in full."""
    if not found.comparisons:
        return
    with st.expander("Measured beside predicted", expanded=opened):
        for text in found.gaps[:_SHOWN_RUNS]:
            st.markdown(plain(text))
        shown, more = list(found.comparisons[:_SHOWN_RUNS]), found.comparisons[_SHOWN_RUNS:]
        if more:
            label = counted(len(more), "more run")
            shown.append(st.selectbox(label, more, key="diagnosed_run", format_func=lambda one: one.title))
        for one in shown:
            st.caption(plain(one.title))
            st.table(one.table.frame.set_index("Quantity"))
            st.caption("  \n".join(plain(f"{text}.") for text in (one.product, one.parts) if text))


def _not_judged(found: DiagnosisView) -> None:
    """Folded: what to collect so that more rules can be judged."""
    with st.expander(f"{counted(len(found.clean), 'check')} passed, {len(found.not_judged)} need more input"):
        st.caption("What to collect, most needed first")
        show_table(Table(WANTED, found.wanted))
        rules = pd.DataFrame(list(found.not_judged), columns=["Not checked", "Needs"])
        st.dataframe(rules, hide_index=True)
        if found.clean:
            st.markdown("**Passed**  \n" + "  \n".join(map(plain, found.clean)))
        st.markdown("\n".join(f"- {plain(note)}" for note in found.notes))
