"""Why a run is slow, from its launch line, log and results: the cause, and the remedy in
numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import streamlit as st

from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.facts import read_servers
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.diagnosis.verdict import Unfit
from advisor.catalog.models import model_meant, resolve_model_name
from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.points import for_users
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH, MAX_DRAFT
from advisor.show.own_runs import runs_sheet
from advisor.show.phrases.pages import BOOK
from advisor.show.sheet import Plate
from advisor.show.table import matrix
from advisor.show.words.diagnosis import DiagnosisFinding, DiagnosisView, Remedy, view_of
from advisor.ui.measure.session import FILES, FROM_SCENARIO, filled_in, of_scenario
from advisor.ui.measure.traces import Heading
from advisor.ui.own_data import use_length
from advisor.ui.session import Kept
from advisor.ui.sheet import draw_sheet
from advisor.ui.state import TO_SERVE, plain, show, show_other
from advisor.ui.widgets import show_problem, show_table

_GIVEN: Kept[tuple[UserFile, ...]] = Kept("_diagnosis_files", tuple)
VIEW: Kept[DiagnosisView | None] = Kept("_diagnosis")
_OF: Kept[tuple[list[UserFile], Mapping[str, str], Scenario] | None] = Kept("_diagnosis_of")
"""What the diagnosis was made of."""
_TOLD: Kept[Mapping[str, str]] = Kept("_diagnosis_told", dict)
"""What the runs leave unsaid and the user said on the page, by column."""
_SHOWN_RUNS = 4


def give(runs: Sequence[UserFile]) -> None:
    """Keep the files that a diagnosis reads, and drop the one before."""
    forget()
    _GIVEN.put(tuple(runs))


def given() -> tuple[UserFile, ...]:
    """The files that a diagnosis reads."""
    return _GIVEN.result


def launched(files: Sequence[bytes]) -> dict[str, str]:
    """Names by column of the one server that launch lines in some files start. Empty without one,
    or with several."""
    servers: list[dict[str, str]] = []
    for data in files:
        for _, facts in read_servers(data.decode("utf-8", errors="replace")):
            if facts.get("launch_line") and facts.get("model_id"):
                stated = {
                    name: str(facts[name]) for name in FROM_SCENARIO if facts.get(name) is not None
                }
                resolved_model = resolve_model_name(stated["model_id"])
                stated["model_id"] = model_meant(stated["model_id"]) or ""
                stated |= {
                    name: str(facts[name])
                    for name in ("kv_dtype", "engine_version")
                    if facts.get(name)
                }
                if resolved_model is not None:
                    stated["weight_dtype"] = (
                        facts.get("weight_dtype") or resolved_model.weight_format or ""
                    )  # "": as stored
                servers.append(
                    {
                        name: value
                        for name, value in stated.items()
                        if value or name == "weight_dtype"
                    }
                )
    served_models = {server.get("model_id", "") for server in servers}
    return (
        {name: value for server in servers for name, value in server.items()}
        if len(served_models) == 1
        else {}
    )


def forget() -> None:
    """Drop files and diagnosis."""
    for session_value in (_GIVEN, VIEW, _OF, _TOLD):
        session_value.forget()


def diagnosed(scenario: Scenario) -> DiagnosisView | None:
    """The diagnosis of what was given, anew where bar, columns or filled-in values changed. None
    where none can be."""
    # Files under the columns that the user chose for them, what was filled in for them, and the
    # scenario.
    columns = {file.name: file.columns for file in FILES.result}
    files = [replace(file, columns=columns.get(file.name, {})) for file in _GIVEN.result]
    inputs = files, {**_TOLD.result, **filled_in()}, scenario
    if _OF.result != inputs:
        VIEW.forget()
        VIEW.take(_diagnosed, *inputs)
        _OF.put(inputs)
    return VIEW.result


_OF_BAR = (
    "hardware_id",
    "model_id",
    "engine",
    "gpu_count",
    "tensor_parallel",
    "expert_parallel",
    "drafter",
)
"""What the bar says of the server, by column; the drafter is that of speculative rows."""


def _diagnosed(
    files: list[UserFile], values: Mapping[str, str], scenario: Scenario
) -> DiagnosisView:
    config = scenario.model_config_json
    configs = {} if config is None else {scenario.model_id: config}
    bar_values = {}
    for name in _OF_BAR:
        value = of_scenario(name, scenario)
        if value is not None:
            bar_values[name] = str(value)
    if scenario.hardware_json is not None:
        bar_values.pop("hardware_id", None)
    diagnosis = diagnose(
        files, values, configs=configs, otherwise=bar_values, source="bar", scenario=scenario
    )
    view = view_of(diagnosis)
    texts = {slot: for_users(text) for slot, text in view.texts.items()}
    return replace(view, texts=texts, notes=tuple(map(for_users, view.notes)))


def draw_alone(scenario: Scenario, heading: Heading) -> None:
    """The diagnosis as the page's first panel."""
    view = diagnosed(scenario)
    heading("Nothing to diagnose" if view is None else plain(view.title))
    show_problem(VIEW.problem)
    draw(view, scenario)
    draw_rests_on(view)


_ASKED = {
    "batch_size": (1, MAX_BATCH),
    "draft_tokens_k": (1, MAX_DRAFT),
    "accepted_length": (1.0, MAX_DRAFT + 1.0),
}
"""Columns asked for where runs leave them unsaid and the bar does not tell, and what is predicted
of each."""


def _ask(unsaid: Sequence[str], k: str = "") -> None:
    """Fields for what the runs leave unsaid. k : drafts that the accepted length is of."""
    names = [name for name in unsaid if name in _ASKED]
    if not names:
        return
    with (
        st.form("unsaid", border=False),
        st.container(horizontal=True, vertical_alignment="bottom", gap="small"),
    ):
        for name in names:
            title = COLUMNS["points"][name].title
            if k:
                title += f" at K = {k}, from the log"
            st.number_input(
                title, *_ASKED[name], value=None, key=f"unsaid_{name}", width=280 if k else 180
            )
        st.form_submit_button(
            "Predict", type="primary", key="predict_unsaid", on_click=_tell, args=(names, k)
        )


def _tell(names: Sequence[str], k: str) -> None:
    answers = {}
    for name in names:
        value = st.session_state.get(f"unsaid_{name}")
        if value is not None:
            answers[name] = f"{value:g}"
    if "accepted_length" in answers:
        answers["accepted_length"] += f"@{k}"
        use_length(answers["accepted_length"])
    _TOLD.put({**_TOLD.result, **answers})


def _ask_format(unfit: Unfit, scenario: Scenario) -> None:
    """Field for the weight format that a server runs which does not fit as it is predicted."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.selectbox("Weights as served", unfit.formats, key="unsaid_format", width=180)
        theirs = {
            name: getattr(unfit.scenario, name)
            for name in _OF_THE_RUN
            if name not in ("acceptance", "batch_size")
        }
        served = scenario.model_copy(update=theirs | {"weight_dtype": chosen})
        st.button(
            "Predict", type="primary", key="predict_format", on_click=show_other, args=(served,)
        )


def draw(
    view: DiagnosisView | None,
    scenario: Scenario,
    *,
    filled: bool = True,
    plate: Plate | None = None,
    command: Mapping[str, str] | None = None,
) -> None:
    """Draw reason, picture and command of a verdict, and what it asks. Nothing where nobody asked.

    filled : whether the button of its remedy is. plate, command : as in `runs_sheet`.
    """
    if view is None:
        return
    draw_sheet(runs_sheet(view, plate, command), "verdict")
    verdict = view.verdict
    if verdict.unfit is not None and verdict.unfit.formats:
        _ask_format(verdict.unfit, scenario)
    remedy = view.remedy
    if verdict.cause == "few_tokens" and remedy is not None and "," not in remedy.acceptance:
        _ask(("accepted_length",), str(verdict.k))
        filled = False
    _ask(verdict.unsaid)
    if remedy is not None:
        _remedy_button(remedy, scenario, "primary" if filled else "secondary")
        if not (view.is_far or view.by_k):
            _predicted(remedy)


def draw_rests_on(view: DiagnosisView | None) -> None:
    """Draw, folded, findings, runs beside their predictions, and rules without a finding."""
    if view is None:
        return
    counts = {"findings": len(view.findings), "clean": len(view.clean)}
    label = BOOK.say("rests_on", counts | {"not_judged": len(view.not_judged)})
    with st.expander(label):
        others = (view.texts[slot] for slot in ("below", "also", "published", "read_as"))
        st.caption(plain(" ".join(filter(None, others))))
        for number, finding in enumerate(view.findings):
            with st.container(border=True, key=f"finding_{number}"):
                _finding(finding)
        for title, table in view.comparisons[:_SHOWN_RUNS]:
            st.caption(plain(title))
            show_table(table)
        if view.remedy is not None and (view.is_far or view.by_k):
            _predicted(view.remedy)
        _checks(view)


_OF_THE_RUN = (
    *(
        "model_id",
        "model_config_json",
        "hardware_id",
        "hardware_json",
        "n_gpus",
        "tensor_parallel",
        "expert_parallel",
    ),
    *(
        "weight_dtype",
        "expert_dtype",
        "kv_dtype",
        "engine",
        "engine_version",
        "drafter_id",
        "acceptance",
        "batch_size",
    ),
)


def _predicted(remedy: Remedy) -> None:
    """What each K is predicted to give by batch."""
    st.caption(plain(remedy.title))
    show_table(remedy.table)


def _remedy_button(
    remedy: Remedy, scenario: Scenario, kind: Literal["primary", "secondary"]
) -> None:
    settings = {name: getattr(remedy.scenario, name) for name in _OF_THE_RUN}
    if settings["engine"] == scenario.engine:
        settings["engine_version"] = settings["engine_version"] or scenario.engine_version
    if remedy.n_draft is None:
        return
    settings["k_max"] = max(scenario.k_max, remedy.n_draft)
    settings |= {"acceptance": remedy.acceptance} if remedy.own_length else {}
    at = f"batch {remedy.scenario.batch_size:,}"
    label = (
        f"Open K = {remedy.n_draft} at {at} on Serve"
        if remedy.n_draft
        else f"Open {at} on Serve: no drafts"
    )
    mended = scenario.model_copy(update=settings), remedy.acceptance if remedy.own_length else None
    st.button(label, key="open_mended", type=kind, on_click=_open, args=mended)


def _open(mended: Scenario, acceptance: str | None) -> None:
    use_length(acceptance)
    show(mended)
    TO_SERVE.put(True)


def _finding(finding: DiagnosisFinding) -> None:
    """One card: what, what to do, why, on which evidence."""
    st.markdown(f"**{plain(finding.title)}** Instead: {plain(finding.fix)}")
    lines = [
        f"In {finding.where}",
        *finding.evidence,
        *(f"Differs: {text}" for text in finding.differs),
    ]
    st.caption(
        f"{plain(finding.because)}\n"
        + "\n".join(f"- {plain(line)}" for line in [*lines, f"Source: {finding.source}"])
    )


def _checks(view: DiagnosisView) -> None:
    """Rules that found nothing, rules that lack data, and what was read."""
    st.markdown(plain(view.texts["missing"]))
    show_table(matrix(("Not checked", "Needs"), view.not_judged, "ll"))
    if view.clean:
        st.markdown("**Ruled out**  \n" + "  \n".join(map(plain, view.clean)))
    st.markdown("\n".join(f"- {plain(note)}" for note in view.notes))
