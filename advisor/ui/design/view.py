"""Design: the model to train instead, at equal quality by every law, and what each of its dials is
worth.

Also one design for several targets that are typed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.candidates import keeps_baseline
from advisor.answers.design.dials import (
    Costed,
    Dial,
    Experts,
    baseline_experts,
    cloud,
    costed,
    dials,
    experts_of,
)
from advisor.answers.design.start import (
    added_keys,
    design_name,
    experts_config,
    parse_experts,
    routing_in_serve,
)
from advisor.answers.design.targets import one_design, parse_targets
from advisor.answers.summary import borrowed_from
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.design import (
    Mark,
    dial_chart,
    front_frame,
    pareto_chart,
    rule_chart,
    rule_table,
)
from advisor.show.charts.figure import Chart
from advisor.show.table import Table, capital
from advisor.show.words.design import (
    LIMITS_OF_LAWS,
    about_figures,
    answer_document,
    below_headline,
    beside_table,
    best_name,
    candidate_rows,
    dial_value,
    headline,
    mine_text,
    one_design_notes,
    one_design_table,
    one_design_text,
    time_lost,
    warnings,
)
from advisor.text import csv_text, frame_csv, json_values
from advisor.ui import PAGES
from advisor.ui.answers import remembered
from advisor.ui.design.question import (
    MOVED,
    START,
    DesignQuestion,
    answer_for,
    asked,
    draw_question,
    leave_start,
    own_name,
    take_model,
)
from advisor.ui.measure.profile import draw_engine_run
from advisor.ui.session import attempt
from advisor.ui.state import TO_SERVE, plain, write_settings
from advisor.ui.widgets import (
    accepted_from,
    download,
    show_plot,
    show_problem,
    show_table,
    stop_with,
    tried,
)

_OneDesign = tuple[str, Table[Any], tuple[str, ...]]
"""Verdict, targets and notes of one design for several targets, without the searches behind
them."""


@remembered(
    st.cache_resource, shared=12, own=4, spinner="Costing each target ...", keys=(DesignQuestion,)
)
def _one_of(scenario: Scenario, question: DesignQuestion, targets: tuple[str, ...]) -> _OneDesign:
    answer = one_design(scenario, parse_targets(targets, scenario.hardware_id), **question.limits())
    return one_design_text(answer), one_design_table(answer), one_design_notes(answer)


def draw_targets(scenario: Scenario, question: DesignQuestion) -> None:
    """One design for several targets: computed once it is opened, or where the address names
    them."""
    section = st.expander(
        "One design for several targets",
        expanded=bool(st.session_state["design_targets"]),
        key="design_several",
        on_change="rerun",
    )
    if not section.open:
        return
    with section:
        typed = st.text_input(
            "Targets",
            key="design_targets",
            placeholder="H100 SXM:8, B200 SXM:128",
            help="ACCELERATOR:BATCH, separated by commas; 2xH100 SXM:8 for two that share each "
            "matrix.",
        )
        targets = tuple(text.strip() for text in typed.split(",") if text.strip())
        answer = tried(_one_of, scenario, question, targets) if targets else None
        if answer is None:
            return
        verdict, table, notes = answer
        st.markdown(f"**{plain(verdict)}**")
        show_table(table)
        st.caption(plain(" ".join(notes)))
        name = f"one-design-{scenario.hash}.csv"
        download("All figures as CSV", table.csv(), name, "design_one_csv", quiet=True)


_LABELS = {
    "ratio": "Experts active **k / N**",
    "shared": "Shared : routed **s : k**",
    "width": "Expert **width**",
}
_LEGEND = (
    ":blue[●]&nbsp;best design of equal quality at each value &emsp; :green[▲]&nbsp;mine &emsp; "
    ":green[▮]&nbsp;quality of mine; shaded: quality as you move only this slider"
)


def _answer(scenario: Scenario) -> tuple[DesignAnswer, Experts, str]:
    """The answer, the user's design, and what is wrong with the one that is typed.

    A typed number of experts that the grid lacks is searched too.
    """
    question = asked()
    answer = answer_for(scenario, question)
    baseline = baseline_experts(answer.space)
    if not (typed := str(st.session_state["design_mine"]).strip()):
        return answer, baseline, ""
    chosen, problem = attempt(parse_experts, typed, baseline)
    if chosen is None:
        return answer, baseline, problem
    axes = (getattr(answer.space, name) for name in Experts._fields[:3])
    if not all(np.any(axis == value) for axis, value in zip(axes, chosen[:3], strict=True)):
        answer = answer_for(scenario, question.model_copy(update={"experts": chosen}))
    return answer, chosen, problem


def _head(scenario: Scenario, answer: DesignAnswer, problem: str, comparison: str) -> None:
    """What to do, and beside it the question; below, a design to try and its `comparison`."""
    left, right = st.columns([2, 1], gap="medium")
    baseline_name = own_name(scenario)
    today = baseline_experts(answer.space)
    with left:
        st.title(
            plain(headline(answer, baseline_name)),
            anchor=False,
        )
        st.markdown(
            plain(below_headline(answer, baseline_name)),
            help=plain(about_figures(answer, baseline_name)),
        )
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            example = f"{max(1, today.n_active // 2)} of {max(1, today.n_experts // 2)}"
            help_text = (
                f"Or with shared experts and width: `{today.text}`. A width left out keeps the "
                "total size."
            )
            st.text_input(
                "Try a design",
                key="design_mine",
                width=230,
                placeholder=f"e.g. {example}",
                help=help_text,
            )
            if comparison:
                st.markdown(f"**{plain(comparison)}**")
        show_problem(problem)
    with right, st.container(gap="xxsmall"):
        draw_question(scenario)
        if baseline_name == "start":
            _, whence, more = START.result
            st.caption(plain(whence), help=plain(more) or None)
        if acceptance_source := borrowed_from(answer.space):
            st.caption(f"Acceptance, on which K rests, borrowed from {plain(acceptance_source)}")


def _of_question() -> str:
    """Key of the model and the question as the controls have them now."""
    return f"{st.session_state['model_id']}_{hash(asked()):x}"


def _turn(key: str, turned: dict[str, str], question: str) -> None:
    """Callback of a dial: the typed design follows it, unless another question was asked since."""
    if question == _of_question():
        st.session_state["design_mine"] = turned[st.session_state[key]]


def _draw_dials(answer_dials: tuple[Dial, ...], lost: float) -> None:
    """Three dials with their strips; a dial stands where the typed design says, which loses `lost`
    of the time.

    A browser that has not seen an answer yet sends where the dials stood before, which is no turn
    of these: they are of one question by key and callback.
    """
    question = _of_question()
    for column, dial in zip(st.columns(3, gap="large"), answer_dials, strict=True):
        names = [dial_value(dial, at) for at in range(len(dial.designs))]
        key = f"design_dial_{dial.name}_{question}"
        st.session_state[key] = names[dial.own]
        with column, st.container(gap="xxsmall"):
            turned = {name: design.text for name, design in zip(names, dial.designs, strict=True)}
            st.select_slider(
                _LABELS[dial.name], names, key=key, on_change=_turn, args=(key, turned, question)
            )
            show_plot(dial_chart(dial, lost), f"design_{dial.name}")
    st.caption(_LEGEND)


def _marks(answer: DesignAnswer, today: Costed, chosen: Costed, best: Costed | None) -> list[Mark]:
    """The baseline, the user's and the best; what stands at one place has one mark."""
    designs: list[tuple[str, str, Costed | None]] = [
        ("today", own_name(answer.space.setup.scenario), today),
        ("mine", "mine", chosen if chosen.fits else None),
        ("best", best_name(answer), best),
    ]
    marks: dict[Experts, Mark] = {}
    for kind, name, design in designs:
        if design is not None and design.experts not in marks:
            marks[design.experts] = Mark(kind, name, today.tpot_s / design.tpot_s, design.quality)  # type: ignore[arg-type]
    return list(marks.values())


def _compare(answer: DesignAnswer, today: Costed, typed: Costed, best: Costed | None) -> Chart:
    """Quality against speed, and the baseline beside the user's and the best. Returns the chart."""
    space = answer.space
    frames = front_frame(space, answer.pareto), front_frame(space, cloud(space))
    chart = pareto_chart(
        *frames, _marks(answer, today, typed, best), 1.0 - space.question.quality_eps
    )
    with st.container(key="design_compare"):
        left, right = st.columns([4, 3], gap="large")
        below = st.container()
    with left:
        st.subheader("Quality against speed", anchor=False)
        show_plot(chart, "design_pareto")
    with right:
        st.subheader("Designs side by side", anchor=False)
        show_table(
            beside_table(today, typed, best, (own_name(space.setup.scenario), best_name(answer)))
        )
        _take(answer, typed.experts, None if best is None else best.experts, below)
    return chart


def _take(
    answer: DesignAnswer, chosen: Experts, best: Experts | None, below: DeltaGenerator
) -> None:
    """What to do with a design: its config.json, Serve, and, `below`, a measurement of it."""
    space = answer.space
    recommended = answer.recommended
    today = capital(own_name(space.setup.scenario))
    offered = {today: baseline_experts(space), capital(best_name(answer)): best, "Mine": chosen}
    designs = {name: design for name, design in offered.items() if design is not None}
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        # What the headline names: the best where it is clearly faster, else the design that is
        # kept.
        unchanged_name = "Mine" if chosen != baseline_experts(space) else today
        headline_name = (
            unchanged_name
            if recommended is None or keeps_baseline(space, recommended)
            else capital(best_name(answer))
        )
        selected_name = st.segmented_control(
            "Export", list(designs), default=headline_name, required=True
        )
    experts = designs.get(str(selected_name), chosen)
    try:
        config = experts_config(space, experts)
    except AdvisorError as error:
        st.info(plain(str(error)))
        return
    text = json.dumps(config, indent=2) + "\n"
    name = design_name(space, experts)
    with row:
        download("config.json", text, f"{name}.json", "design_config")
        routing = routing_in_serve(space, experts)
        adopted = (text, name, routing, space.question.batches)
        st.button("Open in Serve", key="design_adopt", on_click=_adopt, args=adopted)
    with below:
        draw_engine_run(
            space.setup.scenario, name, text, tuple(space.question.batches.astype(int).tolist())
        )
    if new := added_keys(space, config):
        st.caption(
            f"{plain(', '.join(new))} is new to this model type; the engine must support it."
        )


def _adopt(text: str, name: str, routing: str, batches: Sequence[int]) -> None:
    take_model(text, name)
    if routing:
        st.session_state["routing"] = routing
    if len(batches) == 1:  # a mix is of no one batch
        st.session_state["batch_size"] = int(batches[0])
    TO_SERVE.put(True)


def _rule(answer: DesignAnswer) -> None:
    """The best design at each batch, as two pictures."""
    rule = answer.rule
    if not len(rule.batches):
        return
    batch = float(answer.space.question.batches[-1])
    st.subheader("Fastest design at equal quality, by batch", anchor=False)
    _, k, s, _ = baseline = baseline_experts(answer.space)
    shares = {"active": k / baseline.n_experts, "shared": s / (k + s)}
    name = own_name(answer.space.setup.scenario)
    for column, (what, share) in zip(st.columns(2, gap="large"), shares.items(), strict=True):
        with column:
            show_plot(rule_chart(rule, what, batch, (name, share)), f"design_rule_{what}")


def _data(answer: DesignAnswer, answer_dials: tuple[Dial, ...], pareto: Chart) -> None:
    """The numbers behind the page as files, each made when it is asked for, and what the laws do
    not know."""
    digest = answer.space.setup.scenario.hash

    def best_designs() -> str:
        rows = candidate_rows(answer)
        return csv_text(list(rows[0]) if rows else ["rank"], rows)

    def document() -> str:
        return json.dumps(json_values(answer_document(answer)), indent=2, ensure_ascii=False)

    files: dict[str, Callable[[], str | bytes]] = {
        "best-designs.csv": best_designs,
        "dials.csv": lambda: frame_csv(
            pd.concat([dial_chart(dial).data for dial in answer_dials]), digest
        ),
        "quality-against-speed.csv": lambda: frame_csv(pareto.data, digest),
        "rule-over-batch.csv": lambda: frame_csv(rule_table(answer.rule), digest),
        "whole-answer.json": document,
    }
    with st.popover("Data", type="tertiary"):
        for name, make in files.items():
            download(name, make, f"design-{digest}-{name}", f"design_{name}")
    with st.expander(
        "Remarks and what the laws do not know", key="design_remarks", on_change="rerun"
    ) as section:
        if section.open:
            remarks = (accepted_from(answer.space), *warnings(answer), *LIMITS_OF_LAWS)
            st.markdown("\n".join(f"- {plain(remark)}" for remark in remarks))


@st.fragment
def view(scenario: Scenario) -> None:
    """All below the bar: a change of a dial, the batch or a limit draws this alone."""
    if MOVED.pop():
        if TO_SERVE.pop():
            st.switch_page(str(PAGES["serve"]))
        st.rerun()
    leave_start(scenario)
    try:
        answer, chosen, problem = _answer(scenario)
    except AdvisorError as error:
        draw_question(scenario)
        stop_with(str(error))
    space = answer.space
    today = costed(space, baseline_experts(space))
    typed = costed(space, chosen)
    best = None if space.best is None else costed(space, experts_of(space, space.best))
    with st.container(key="design_head"):
        _head(scenario, answer, problem, mine_text(space, today, typed))
    answer_dials = dials(answer.space, chosen)
    with st.container(key="design_dials"):
        _draw_dials(answer_dials, time_lost(typed, best))
    pareto = _compare(answer, today, typed, best)
    _rule(answer)
    draw_targets(scenario, asked())
    _data(answer, answer_dials, pareto)
    write_settings()
