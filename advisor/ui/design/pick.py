"""Picking a design on the Design space page, from the table or the chart, and making it the scenario."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from advisor.design import (
    Candidate,
    DesignAnswer,
    added_keys,
    answer_document,
    candidate_rows,
    candidates,
    design_config,
    design_name,
    setup_of,
)
from advisor.prediction import AdvisorError
from advisor.summary import tier_words
from advisor.text import json_values
from advisor.ui import PAGES
from advisor.ui.design import tables
from advisor.ui.shared import answers, how_made, state, widgets
from advisor.ui.shared.session import Slot


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
        st.markdown(widgets.plain(tables.at_batch(answer, item, cell)))
    batch = int(space.question.batches[-1])
    how_made.button(batch, item.n_draft[-1], how_made.ANSWER, "design")
    config, problem = config_of(answer, item.index)
    if config is None:
        st.info(widgets.plain(problem))
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
        st.caption(f"{widgets.plain(', '.join(new))} is new to this model type; the engine must support it.")


def explain_if_asked(answer: DesignAnswer, item: Candidate | None) -> None:
    """Dialog on how the picked design's numbers were made, if that was asked, at the end of the page."""
    question = how_made.pop_question()
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
    look = functools.partial(answers.nearby_design, setup)
    how_made.open_on(how_made.Subject(setup, batches, rows, look), question)


def config_of(answer: DesignAnswer, index: int) -> tuple[dict[str, Any] | None, str]:
    """config.json of a design, or None and why it cannot be written."""
    try:
        return design_config(answer.space, index), ""
    except AdvisorError as error:
        return None, str(error)


def show_adopted() -> None:
    """Says once that a design has become the scenario, with the way on."""
    if note := _NOTE.take():
        st.success(widgets.plain(note), icon=":material/check:")
        st.page_link(str(PAGES["serve"]), label="Open in Serve", icon=":material/speed:")


def downloads(answer: DesignAnswer) -> None:
    """All candidates as CSV and the whole answer as JSON."""
    import pandas as pd

    digest = answer.space.setup.scenario.hash
    with st.container(horizontal=True):
        if answer.top:
            st.download_button(
                "Candidates as CSV",
                widgets.csv_bytes(pd.DataFrame(candidate_rows(answer)), digest),
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
    st.session_state["model_id"] = state.add_own_model(text, f"{name}.json")
    _NOTE.put(
        f"{words} is now the model, under the name {st.session_state['model_id']}. The search below starts from it; "
        f"choose {before} in the bar to return."
    )
