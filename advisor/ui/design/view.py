"""Design: the routed layer to train instead, at equal quality by every law, and what k/N and shared
experts do at the target batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.candidates import keeps_baseline
from advisor.answers.design.dials import Experts, baseline_experts, costed, experts_of
from advisor.answers.design.start import (
    added_keys,
    design_name,
    experts_config,
    parse_designs,
    routing_in_serve,
)
from advisor.answers.summary import borrowed_from
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.design_sheet import design_sheet, held_sheet, own_names, shared_sheet
from advisor.show.table import capital
from advisor.show.words.design import (
    LIMITS_OF_LAWS,
    along_rows,
    answer_document,
    candidate_rows,
    warnings,
)
from advisor.text import csv_text, json_values
from advisor.ui import PAGES
from advisor.ui.design.question import (
    MOVED,
    START,
    answer_for,
    asked,
    draw_question,
    leave_start,
    own_name,
    take_model,
)
from advisor.ui.measure.profile import draw_engine_run
from advisor.ui.session import attempt
from advisor.ui.sheet import draw_sheet
from advisor.ui.state import TO_SERVE, plain, write_settings
from advisor.ui.widgets import accepted_from, download, show_problem, stop_with


def _take(answer: DesignAnswer, own_designs: Sequence[Experts], start_name: str) -> None:
    """What to do with a design: its config.json, Serve, and a measurement of it."""
    space = answer.space
    start = baseline_experts(space)
    best = None if space.best in (None, space.baseline_index()) else experts_of(space, space.best)
    offered = {capital(start_name): start, "Best": best}
    offered |= dict(zip(own_names(own_designs), own_designs, strict=True))
    designs = {name: design for name, design in offered.items() if design is not None}
    recommended = answer.recommended
    keeps = recommended is None or keeps_baseline(space, recommended)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selected_name = st.segmented_control(
            "Export", list(designs), default=capital(start_name) if keeps else "Best", required=True
        )
        experts = designs.get(str(selected_name), start)
        try:
            config = experts_config(space, experts)
        except AdvisorError as error:
            st.info(plain(str(error)))
            return
        text = json.dumps(config, indent=2) + "\n"
        name = design_name(space, experts)
        download("config.json", text, f"{name}.json", "design_config")
        routing = routing_in_serve(space, experts)
        adopted = (text, name, routing, space.question.batches)
        st.button("Open in Serve", key="design_adopt", on_click=_adopt, args=adopted)
    if new := added_keys(space, config):
        st.caption(
            f"{plain(', '.join(new))} is new to this model type; the engine must support it."
        )
    batches = tuple(space.question.batches.astype(int).tolist())
    with st.expander("Measure it", key="design_measure"):
        draw_engine_run(space.setup.scenario, name, text, batches)


def _adopt(text: str, name: str, routing: str, batches: Sequence[int]) -> None:
    take_model(text, name)
    if routing:
        st.session_state["routing"] = routing
    if len(batches) == 1:  # a mix is of no one batch
        st.session_state["batch_size"] = int(batches[0])
    TO_SERVE.put(True)


def _folded(name: str, key: str, draw: Callable[[], None]) -> None:
    """A part that is made once it is opened."""
    section = st.expander(name, key=key, on_change="rerun")
    if section.open:
        with section:
            draw()


def _draw_remarks(answer: DesignAnswer) -> None:
    remarks = (accepted_from(answer.space), *warnings(answer), *LIMITS_OF_LAWS)
    st.markdown("\n".join(f"- {plain(remark)}" for remark in remarks))


def _draw_files(answer: DesignAnswer) -> None:
    """The numbers behind the page as files, each made when it is asked for."""
    digest = answer.space.setup.scenario.hash

    def table(rows: list[dict[str, Any]], first: str) -> str:
        return csv_text(list(rows[0]) if rows else [first], rows)

    def document() -> str:
        return json.dumps(json_values(answer_document(answer)), indent=2, ensure_ascii=False)

    files: dict[str, Callable[[], str | bytes]] = {
        "best-designs.csv": lambda: table(candidate_rows(answer), "rank"),
        "along-k-over-n.csv": lambda: table(along_rows(answer.by_ratio), "n_experts"),
        "along-shared.csv": lambda: table(along_rows(answer.by_shared), "n_experts"),
        "whole-answer.json": document,
    }
    with st.popover("Data", type="tertiary"):
        for name, make in files.items():
            download(name, make, f"design-{digest}-{name}", f"design_{name}")


@st.fragment
def view(scenario: Scenario) -> None:
    """All below the bar: a change of the question draws this alone."""
    if MOVED.pop():
        if TO_SERVE.pop():
            st.switch_page(str(PAGES["serve"]))
        st.rerun()
    leave_start(scenario)
    draw_question(scenario)
    start_name = own_name(scenario)
    if start_name == "start":
        _, whence, more = START.result
        st.caption(plain(whence), help=plain(more) or None)
    try:
        answer = answer_for(scenario, asked())
    except AdvisorError as error:
        stop_with(str(error))
    space = answer.space
    typed = str(st.session_state["design_compare"])
    designs, problem = attempt(parse_designs, typed, baseline_experts(space))
    show_problem(problem)
    own_designs = [costed(space, design) for design in designs or ()]
    draw_sheet(design_sheet(answer, own_designs, start_name, borrowed_from(space)), "design_sheet")
    _take(answer, designs or (), start_name)
    if space.best is not None:
        _folded(
            "Shared experts",
            "design_shared",
            lambda: draw_sheet(shared_sheet(answer, start_name), "design_by_shared"),
        )
        _folded(
            "One count held, and quality against speed",
            "design_held",
            lambda: draw_sheet(held_sheet(answer, own_designs, start_name), "design_by_held"),
        )
    _folded(
        "Remarks and what the laws do not know", "design_remarks", lambda: _draw_remarks(answer)
    )
    _draw_files(answer)
    write_settings()
