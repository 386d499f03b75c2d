"""Pieces of the Design space page: the columns of its tables, the laws with their limits, what was ruled out."""

from __future__ import annotations

from typing import Any

import streamlit as st

from advisor.charts import pareto_chart
from advisor.design import Candidate, DesignAnswer, sensitivity_text
from advisor.text import MERITS
from advisor.ui.design import tables
from advisor.ui.design.question import OBJECTIVE_NAMES
from advisor.ui.shared import widgets

_number, _text = st.column_config.NumberColumn, st.column_config.TextColumn
COLUMNS: dict[str, Any] = {
    "Gain": _number(format="%.2fx", help="Objective divided by the baseline's. Above 1 is better."),
    "Band": _text(help="80% band of the gain."),
    "Speedup": _number(format="%.2fx", help="Over the design's own plain decoding."),
    "ms per token": _number(format="%.2f"),
    "Tokens/s per GPU": _number(format="%.0f"),
    "K": _text(help="Best draft length."),
    "Total B": _number(format="%.1f", help="Billions of parameters."),
    "Active B": _number(format="%.2f", help="Billions of parameters, without embeddings."),
    "Quality": _number(
        format="%.1f%%", help="Size of an equally good dense model, relative to the baseline's, by the default law."
    ),
    "By both laws": _number(format="%.1f%%", help="The lower of the default law and the cautious one."),
    "Largest batch": _number(format="%.0f", help="That fits in memory."),
}


def below_the_title(answer: DesignAnswer) -> None:
    """Gain and price of the recommended design against the baseline, and the cautious law's view."""
    if answer.recommended is None:
        return
    st.markdown(widgets.plain(tables.below_headline(answer)))
    if footing := tables.baseline_footing(answer):
        st.caption(widgets.plain(footing))
    if cautious := tables.cautious_sentence(answer):
        st.caption(widgets.plain(cautious))


def remarks(answer: DesignAnswer) -> None:
    """Remarks on the answer: its accepted length, and its warnings."""
    said = [widgets.accepted_from(answer.space), *answer.warnings]
    with st.expander(f"{len(said)} remarks on this answer"):
        st.markdown("\n".join(f"- {widgets.plain(one)}" for one in said))


def infeasible(answer: DesignAnswer) -> None:
    """Reason that nothing is left, with the nearest design."""
    if answer.infeasible is not None:
        st.error(widgets.plain(answer.infeasible.message), icon=":material/block:")


def trade_offs(answer: DesignAnswer, item: Candidate | None, key: str) -> None:
    """Quality against the objective or another speed, where a click on a point picks its design."""
    names = {value: name for name, value in OBJECTIVE_NAMES.items()}
    options = [names[objective] for objective in tables.chart_objectives(answer)]
    name = st.segmented_control("Quality against", options, default=options[0], required=True)
    objective = OBJECTIVE_NAMES[str(name)]
    front = tables.pareto(answer, objective)
    if front.empty:
        return
    chart = pareto_chart(
        front,
        tables.marks(answer, objective, item),
        objective=str(name),
        objective_unit=MERITS[objective].unit,
        quality_eps=answer.space.question.quality_eps,
    )
    widgets.show_chart(chart, "design_trade_offs", answer.space.setup.scenario, select_key=key)
    if objective == "sd_speedup":
        st.caption("Wider experts than equal quality needs can raise the ratio, since they slow plain decoding most.")


def next_steps(answer: DesignAnswer) -> None:
    """Single changes ranked by what they bring."""
    st.subheader("Try next: single changes that help", anchor=False)
    if answer.try_next:
        effects = dict.fromkeys(("Objective", "Speedup", "Speed per token"), _number(format="%+.1f%%"))
        st.dataframe(tables.try_next(answer), hide_index=True, column_config=effects)
        st.caption("The expert width is solved again so that the quality stays.")
    else:
        st.info("No single change of experts, active experts or shared experts helps at equal quality.")


def what_would_change(answer: DesignAnswer) -> None:
    """The assumptions that would change the answer, those that do first."""
    if answer.recommended is None:
        return
    st.subheader("What would change the answer", anchor=False)
    st.markdown(widgets.plain(sensitivity_text(answer.sensitivity)))
    cost = _number(format="%.1f%%", help="Objective lost by keeping the design; empty: it is then not allowed.")
    st.dataframe(
        tables.sensitivity(answer),
        hide_index=True,
        height=250,
        column_config={"Cost of keeping the recommended design": cost},
    )


def limits(answer: DesignAnswer, item: Candidate | None) -> None:
    """Quality of the picked design by each law, and the number of designs that each limit rules out."""
    st.subheader("Quality laws and their limits", anchor=False)
    if item is not None:
        st.caption(widgets.plain(f"For {answer.space.describe(item.index)}"))
        st.table(tables.laws(answer, item).set_index("Law"))
    st.markdown("\n".join(f"- {widgets.plain(limit)}" for limit in answer.limits))
    st.subheader("Ruled out", anchor=False)
    total, left = len(answer.space), len(answer.space.candidates)
    st.markdown(f"{total:,} designs were costed; {left:,} keep the quality and meet every limit.")
    st.dataframe(
        tables.infeasible(answer),
        hide_index=True,
        column_config={"Designs ruled out": _number(format="localized"), "Share": _number(format="%.0f%%")},
    )
