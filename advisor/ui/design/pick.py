"""Picking a design on the Design space page, from the table or the chart, and making it the scenario.

One design for several: for the targets that are typed, and the map of regions over batch and accelerator.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.candidates import Candidate, candidates, setup_of
from advisor.answers.design.cells import Place
from advisor.answers.design.regions import default_places, one_design, parse_targets, region_map
from advisor.answers.design.start import added_keys, design_config, design_name
from advisor.answers.summary import tier_words
from advisor.catalog.hardware import hardware_called
from advisor.physics.hardware import hardware_ids
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.figure import Chart
from advisor.show.charts.maps import design_regions_chart
from advisor.show.words.design import (
    against_baseline,
    answer_document,
    candidate_rows,
    choices_table,
    held_where,
    one_design_notes,
    one_design_price,
    one_design_rows,
    one_design_table,
    one_design_verdict,
    region_notes,
    region_table,
    region_verdict,
)
from advisor.text import csv_text, json_values
from advisor.ui import PAGES
from advisor.ui.answers import nearby_design, remembered
from advisor.ui.design.question import DesignQuestion
from advisor.ui.design.tables import at_batch
from advisor.ui.session import Slot
from advisor.ui.state import add_own_model
from advisor.ui.widgets import ANSWER, Subject, button, csv_bytes, open_on, plain, pop_question, show_chart


@dataclass(frozen=True)
class Pick:
    """The design picked last of the answer to one question, with the selections that tell it."""

    tag: str = ""
    """Of the question, see `DesignQuestion.tag`."""
    index: int | None = None
    """Into the design space; None: nothing was picked."""
    batch: float | None = None
    """Of the map's cell that was picked; None where the design was picked elsewhere. [-]"""
    events: Mapping[str, list[int]] = field(default_factory=lambda: {"row": [], "point": [], "cell": []})
    """Design indices selected in the table, the chart and the map."""


_PICK: Slot[Pick] = Slot("_design_pick", Pick)
_NOTE: Slot[str] = Slot("_design_note", str)


def selection_keys(answer_tag: str) -> tuple[str, str, str]:
    """Keys of the table, the chart and the map in which a design is picked: new ones for each question."""
    return f"design_rows_{answer_tag}", f"design_points_{answer_tag}", f"design_cells_{answer_tag}"


def picked(answer: DesignAnswer, tag: str) -> Candidate | None:
    """The design picked last in table, chart or map, else the recommended one.

    Reads the selections from the session, so it serves before they are drawn. The one that changed last counts.
    """
    table, chart, cells = (dict(st.session_state.get(key) or {}).get("selection") or {} for key in selection_keys(tag))
    rows = [answer.top[row].index for row in table.get("rows", ()) if row < len(answer.top)]
    events = {"row": rows, "point": _indices(chart.get("points", [])), "cell": _indices(cells.get("points", []))}
    kept = _PICK.get()
    if kept.tag != tag:
        kept = Pick(tag)
    if changed := [source for source in events if events[source] != kept.events[source]]:
        found = [events[source] for source in (*changed, *events) if events[source]]
        batch = _batch(cells.get("points", [])) if changed[0] == "cell" else None
        kept = Pick(tag, found[0][0] if found else None, batch, events)
    _PICK.put(kept)
    if kept.index is None or not 0 <= kept.index < len(answer.space):
        return answer.recommended
    known = {item.index: item for item in (*answer.top, answer.recommended, answer.cautious) if item is not None}
    return known.get(kept.index) or candidates(answer.space, [kept.index])[0]


def picked_batch() -> float | None:
    """Batch of the map's cell that was picked last, or None where the design was picked elsewhere."""
    return _PICK.get().batch


def _batch(points: list[dict[str, Any]]) -> float | None:
    """Batch of the first clicked cell that holds a design."""
    found = [float(data[3]) for point in points if len(data := point.get("customdata") or []) > 3]
    return found[0] if found else None


def _indices(points: list[dict[str, Any]]) -> list[int]:
    """Design indices of clicked points; the baseline's -1 is left out."""
    found = [int(point["customdata"][0]) for point in points if point.get("customdata")]
    return [index for index in found if index >= 0]


def panel(answer: DesignAnswer, item: Candidate) -> None:
    """The picked design in numbers, with the button that makes it the scenario and its config.json."""
    space, scenario = answer.space, answer.space.setup.scenario
    st.markdown(f"**{space.describe(item.index)}**")
    gain, faster = item.speedup_gain, item.tpot_gain
    speedup = space.question.mean_speedup(item.speedup, item.tpot_s)
    own = space.baseline.served
    base_ms = space.question.mean_tpot_s(own.tpot_s[:, 0]) * 1e3
    asked = space.question.batches
    where = f"At batch {asked[0]:g}" if len(asked) == 1 else "Over the target batches"
    st.markdown(
        f"{where}: {space.question.mean_tpot_s(item.tpot_s) * 1e3:.2f} ms per token, the baseline {base_ms:.2f} ms: "
        f"{faster.value:.2f}× as fast ({faster.low:.2f}–{faster.high:.2f}). Drafting gains {speedup:.2f}×, "
        f"{gain.value:.2f}× the baseline's gain ({gain.low:.2f}–{gain.high:.2f}). "
        f"Dense-equivalent size {item.quality_ratio:.1%} of the baseline's. "
        f"Times are {tier_words(space.setup, item.tier)}."
    )
    if (cell := picked_batch()) is not None and cell not in asked:
        st.markdown(plain(at_batch(answer, item, cell)))
    batch = int(space.question.batches[-1])
    button(batch, item.n_draft[-1], ANSWER, "design")
    config, problem = config_of(answer, item.index)
    if config is None:
        st.info(plain(problem))
        return
    text = json.dumps(config, indent=2) + "\n"
    name = design_name(space, item)
    st.button(
        "Make this the scenario",
        key="design_adopt",
        icon=":material/input:",
        on_click=_adopt,
        args=(text, name, space.describe(item.index), scenario.model_id),
    )
    st.download_button(
        "config.json",
        text,
        f"{name}.json",
        "application/json",
        key="design_config",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )
    if new := added_keys(space, config):
        st.caption(f"{plain(', '.join(new))} is new to this model type; the engine must support it.")


def explain_if_asked(answer: DesignAnswer, item: Candidate | None) -> None:
    """Dialog on how the picked design's numbers were made, if that was asked, at the end of the page."""
    question = pop_question()
    if question is None or item is None:
        return
    setup = setup_of(answer.space, item.index)
    rows = (
        ("Design", answer.space.describe(item.index)),
        ("Baseline", setup.scenario.model_id),
        ("Accelerator", setup.place),
        ("Batches", ", ".join(f"{batch:g}" for batch in answer.space.question.batches)),
    )
    batches = tuple(int(batch) for batch in answer.heat_map.batches)
    look = functools.partial(nearby_design, setup)
    open_on(Subject(setup, batches, rows, look), question)


def config_of(answer: DesignAnswer, index: int) -> tuple[dict[str, Any] | None, str]:
    """config.json of a design, or None and why it cannot be written."""
    try:
        return design_config(answer.space, index), ""
    except AdvisorError as error:
        return None, str(error)


def show_adopted() -> None:
    """Says once that a design has become the scenario, with the way on."""
    if note := _NOTE.take():
        st.success(plain(note), icon=":material/check:")
        st.page_link(str(PAGES["serve"]), label="Open in Serve", icon=":material/speed:")


def downloads(answer: DesignAnswer) -> None:
    """All candidates as CSV and the whole answer as JSON."""
    import pandas as pd

    digest = answer.space.setup.scenario.hash
    with st.container(horizontal=True):
        if answer.top:
            st.download_button(
                "Candidates as CSV",
                csv_bytes(pd.DataFrame(candidate_rows(answer)), digest),
                f"designs-{digest}.csv",
                "text/csv",
                key="design_csv",
                icon=":material/download:",
                on_click="ignore",
            )
        st.download_button(
            "Whole answer as JSON",
            json.dumps(json_values(answer_document(answer)), indent=2, ensure_ascii=False),
            f"design-{digest}.json",
            "application/json",
            key="design_json",
            icon=":material/download:",
            on_click="ignore",
        )


def _adopt(text: str, name: str, words: str, before: str) -> None:
    """Callback: the design becomes the user's own model, as an uploaded one would; acceptance stays."""
    st.session_state["model_id"] = add_own_model(text, f"{name}.json")
    _NOTE.put(
        f"{words} is now the model, under the name {st.session_state['model_id']}. The search below starts from it; "
        f"choose {before} in the bar to return."
    )


_KEPT, _OWN = 12, 4
_MOST_PLACES = 8
"""Columns of the map that a telephone still shows in figures. [-]"""
_Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True)
class _One:
    """What the page says of one design for several targets, without the searches behind it."""

    texts: tuple[str, ...]
    targets: pd.DataFrame
    choices: pd.DataFrame
    notes: tuple[str, ...]
    csv: str


@dataclass(frozen=True)
class _Map:
    """What the page says of a map of regions, without the searches behind it."""

    verdict: str
    chart: Chart | None
    """None where no cell is served."""
    regions: pd.DataFrame
    notes: tuple[str, ...]


@remembered(st.cache_resource, shared=_KEPT, own=_OWN, spinner="Costing each target ...", keys=(DesignQuestion,))
def _one_of(scenario: Scenario, question: DesignQuestion, targets: tuple[str, ...]) -> _One:
    found = one_design(scenario, parse_targets(targets, scenario.hardware_id), **question.limits())
    rows = one_design_rows(found)
    return _One(
        tuple(text for text in (one_design_verdict(found), against_baseline(found), one_design_price(found)) if text),
        one_design_table(found).frame,
        choices_table(found).frame,
        one_design_notes(found),
        csv_text(list(rows[0]), rows) if rows else "",
    )


@remembered(st.cache_resource, shared=_KEPT, own=_OWN, spinner="Costing each accelerator ...", keys=(DesignQuestion,))
def _map_of(scenario: Scenario, question: DesignQuestion, accelerators: tuple[str, ...]) -> _Map:
    found = region_map(scenario, tuple(map(Place, accelerators)), **question.limits())
    chart = design_regions_chart(found) if found.regions else None
    regions = region_table(found).frame.assign(Holds=[held_where(found, region) for region in found.regions])
    return _Map(region_verdict(found), chart, regions, region_notes(found))


def draw_targets(scenario: Scenario, question: DesignQuestion) -> None:
    """The whole tab."""
    _one(scenario, question)
    _map(scenario, question)


def _one(scenario: Scenario, question: DesignQuestion) -> None:
    """One design for the targets that are typed."""
    st.subheader("One design for these targets", anchor=False)
    typed = st.text_input(
        "Targets",
        key="design_targets",
        placeholder="H100 SXM:8, B200 SXM:128",
        help="ACCELERATOR:BATCH, separated by commas; 2xH100 SXM:8 for two that share each matrix. Objective and "
        "limits are those above.",
    )
    if not typed.strip():
        st.caption("The design that is expected to lose least against what each target alone would want.")
        return
    try:
        found = _one_of(scenario, question, tuple(text.strip() for text in typed.split(",") if text.strip()))
    except AdvisorError as error:
        st.error(plain(str(error)))
        return
    answer, _, rest = found.texts[0].partition(". ")
    st.markdown(f"**{plain(answer.rstrip('.'))}.** {plain(rest)}")
    for text in found.texts[1:]:
        st.markdown(plain(text))
    st.dataframe(found.targets, hide_index=True)
    if len(found.choices):
        st.caption("Expected loss of the best designs, over the targets and at each.")
        st.dataframe(found.choices, hide_index=True)
    st.caption(plain(" ".join(found.notes)))
    if found.csv:
        st.download_button(
            "All figures as CSV",
            found.csv,
            f"one-design-{scenario.hash}.csv",
            "text/csv",
            key="design_one_csv",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )


def _map(scenario: Scenario, question: DesignQuestion) -> None:
    """The map of regions."""
    st.subheader("The design by batch and accelerator", anchor=False)
    start = [place.hardware_id for place in default_places(scenario)]
    known = list(dict.fromkeys((*start, *hardware_ids())))
    chosen = st.multiselect(
        "Accelerators",
        known,
        default=start,
        max_selections=_MOST_PLACES,
        key="design_places",
        format_func=hardware_called,
    )
    if not chosen:
        st.caption("Choose at least one accelerator.")
        return
    try:
        found = _map_of(scenario, question, tuple(chosen))
    except AdvisorError as error:
        st.error(plain(str(error)))
        return
    st.markdown(plain(found.verdict))
    if found.chart is None:
        return
    show_chart(found.chart, "design_regions", scenario)
    st.dataframe(found.regions, hide_index=True)
    st.caption(plain(" ".join((*found.notes, "The command report puts the map into a report with --regions."))))
