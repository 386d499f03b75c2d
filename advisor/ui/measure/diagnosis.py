"""Why a run is slow, from its launch line, log and results: the cause, and the remedy in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.own_gap import OwnVerdict
from advisor.predict.scenario import Scenario
from advisor.show.table import Table
from advisor.show.words.diagnosis import WANTED, ComparedView, DiagnosisFinding, DiagnosisView, view_of
from advisor.text import counted
from advisor.ui.measure.session import of_scenario
from advisor.ui.measure.traces import Heading
from advisor.ui.session import Kept
from advisor.ui.state import TO_SERVE, plain, show
from advisor.ui.widgets import show_problem, show_table

_GIVEN: Kept[tuple[UserFile, ...]] = Kept("_diagnosis_files", tuple)
VIEW: Kept[DiagnosisView | None] = Kept("_diagnosis")
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
    _GIVEN.forget()
    VIEW.forget()


def run(scenario: Scenario) -> None:
    """Diagnose what was given, and keep what was found, or why nothing could be."""
    VIEW.forget()
    VIEW.take(_diagnosed, list(_GIVEN.result), scenario)


def _diagnosed(files: list[UserFile], scenario: Scenario) -> DiagnosisView:
    own = scenario.model_config_json
    configs = {} if own is None else {scenario.model_id: own}
    return view_of(diagnose(files, configs=configs, otherwise=_of_bar(scenario), source="the bar"))


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

    verdict : of the rows beside it, whose accepted length the mended scenario takes.
    """
    show_problem(VIEW.problem)
    found = VIEW.result
    if found is None:
        return
    if verdict is not None or len(found.sentence) > _LONGEST_TITLE:
        st.markdown(f"**{plain(found.sentence)}**")
    if found.comparisons:
        _remedy(found.comparisons[-1], scenario, verdict)
    for number, one in enumerate(found.findings):
        with st.container(border=True, key=f"finding_{number}"):
            _finding(one)
    _compared(found)
    _not_judged(found)


def _remedy(one: ComparedView, scenario: Scenario, verdict: OwnVerdict | None) -> None:
    """What each K is predicted to give at the run's batch, and the button that opens the best of them."""
    st.caption(plain(f"Here, at batch {one.batch_size:,.0f}, with the run's accepted length: {one.title}"))
    show_table(one.remedy)
    update: dict[str, object] = {"batch_size": max(round(one.batch_size), 1), "k_max": max(one.n_draft, 1)}
    if verdict is not None and verdict.own_length is not None:
        update["acceptance"] = f"{verdict.own_length:.3g}@{verdict.n_draft}"
    mended = scenario.model_copy(update=update)
    label = f"Open K = {one.n_draft} on Serve" if one.n_draft else "Open on Serve: no drafts"
    st.button(label, key="open_mended", type="primary", on_click=_open, args=(mended,))


def _open(mended: Scenario) -> None:
    show(mended)
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


def _compared(found: DiagnosisView) -> None:
    """Runs beside their prediction, the first ones in full."""
    if not found.comparisons:
        return
    with st.expander("Measured beside predicted", expanded=not found.findings):
        for text in found.gaps[:_SHOWN_RUNS]:
            st.markdown(plain(text))
        for one in found.comparisons[:_SHOWN_RUNS]:
            st.caption(plain(one.title))
            st.table(one.table.frame.set_index("Quantity"))
            st.caption("  \n".join(plain(f"{text}.") for text in (one.product, one.parts) if text))
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
        st.markdown("\n".join(f"- {plain(note)}" for note in found.notes))
