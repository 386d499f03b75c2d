"""One design for several targets: for those that are typed, and the map of regions over batch and accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from advisor.answers.design.cells import Place
from advisor.answers.design.regions import default_places, one_design, parse_targets, region_map
from advisor.catalog.hardware import hardware_called
from advisor.physics.hardware import hardware_ids
from advisor.predict.scenario import Scenario
from advisor.show.charts.figure import Chart
from advisor.show.charts.maps import design_regions_chart
from advisor.show.table import Table
from advisor.show.words.regions import (
    against_baseline,
    choices_table,
    one_design_notes,
    one_design_price,
    one_design_rows,
    one_design_table,
    one_design_verdict,
    region_notes,
    region_table,
    region_verdict,
)
from advisor.text import csv_text
from advisor.ui.answers import remembered
from advisor.ui.design.question import DesignQuestion
from advisor.ui.state import plain
from advisor.ui.widgets import download, show_chart, show_table, tried

_KEPT, _OWN = 12, 4
_MOST_PLACES = 8
"""Columns of the map that a telephone still shows in figures. [-]"""


@dataclass(frozen=True)
class _One:
    """What the page says of one design for several targets, without the searches behind it."""

    texts: tuple[str, ...]
    targets: Table[Any]
    choices: Table[Any]
    notes: tuple[str, ...]
    csv: str


@dataclass(frozen=True)
class _Map:
    """What the page says of a map of regions, without the searches behind it."""

    verdict: str
    chart: Chart | None
    """None where no cell is served."""
    regions: Table[Any]
    notes: tuple[str, ...]


@remembered(st.cache_resource, shared=_KEPT, own=_OWN, spinner="Costing each target ...", keys=(DesignQuestion,))
def _one_of(scenario: Scenario, question: DesignQuestion, targets: tuple[str, ...]) -> _One:
    found = one_design(scenario, parse_targets(targets, scenario.hardware_id), **question.limits())
    rows = one_design_rows(found)
    return _One(
        tuple(text for text in (one_design_verdict(found), against_baseline(found), one_design_price(found)) if text),
        one_design_table(found),
        choices_table(found),
        one_design_notes(found),
        csv_text(list(rows[0]), rows) if rows else "",
    )


@remembered(st.cache_resource, shared=_KEPT, own=_OWN, spinner="Costing each accelerator ...", keys=(DesignQuestion,))
def _map_of(scenario: Scenario, question: DesignQuestion, accelerators: tuple[str, ...]) -> _Map:
    found = region_map(scenario, tuple(map(Place, accelerators)), **question.limits())
    chart = design_regions_chart(found) if found.regions else None
    return _Map(region_verdict(found), chart, region_table(found), region_notes(found))


def draw_targets(scenario: Scenario, question: DesignQuestion) -> None:
    """The section, computed once it is opened, or where the address names targets."""
    typed = bool(st.session_state["design_targets"])
    section = st.expander("One design for several targets", expanded=typed, key="design_several", on_change="rerun")
    if section.open:
        with section:
            _one(scenario, question)
            _map(scenario, question)


def _one(scenario: Scenario, question: DesignQuestion) -> None:
    """One design for the targets that are typed."""
    typed = st.text_input(
        "Targets",
        key="design_targets",
        placeholder="H100 SXM:8, B200 SXM:128",
        help="ACCELERATOR:BATCH, separated by commas; 2xH100 SXM:8 for two that share each matrix.",
    )
    if not typed.strip():
        st.caption("The design that is expected to lose least against what each target alone would want.")
        return
    targets = tuple(text.strip() for text in typed.split(",") if text.strip())
    if (found := tried(_one_of, scenario, question, targets)) is None:
        return
    answer, _, rest = found.texts[0].partition(". ")
    st.markdown(f"**{plain(answer.rstrip('.'))}.** {plain(rest)}")
    for text in found.texts[1:]:
        st.markdown(plain(text))
    show_table(found.targets)
    if found.choices.rows:
        st.caption("Expected loss of the best designs, over the targets and at each.")
        show_table(found.choices)
    st.caption(plain(" ".join(found.notes)))
    if found.csv:
        download("All figures as CSV", found.csv, f"one-design-{scenario.hash}.csv", "design_one_csv", quiet=True)


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
    if (found := tried(_map_of, scenario, question, tuple(chosen))) is None:
        return
    st.markdown(plain(found.verdict))
    if found.chart is None:
        return
    show_chart(found.chart, "design_regions", scenario)
    show_table(found.regions)
    st.caption(plain(" ".join((*found.notes, "The command report puts the map into a report with --regions."))))
