"""Pieces of the Design space page: the columns of its tables, the laws with their limits, what was ruled out."""

from __future__ import annotations

from typing import Any

import streamlit as st

from advisor.design import Candidate, DesignAnswer
from advisor.ui import design_tables, widgets

_number, _text = st.column_config.NumberColumn, st.column_config.TextColumn
COLUMNS: dict[str, Any] = {
    "Gain": _number(format="%.2fx", help="Of the objective over the baseline's; above 1 is better."),
    "Band": _text(help="80 % band of the gain."),
    "Speedup": _number(format="%.2fx", help="Over the design's own plain decoding."),
    "ms per token": _number(format="%.2f"),
    "Tokens/s per GPU": _number(format="%.0f"),
    "K": _text(help="Best draft length."),
    "Total B": _number(format="%.1f", help="Billions of parameters."),
    "Active B": _number(format="%.2f", help="Billions of parameters, without embeddings."),
    "Quality": _number(format="%.1f %%", help="Dense-equivalent size over the baseline's, by the default law."),
    "By both laws": _number(format="%.1f %%", help="The lower of the default law and the cautious one."),
    "Largest batch": _number(format="%.0f", help="That fits in memory."),
}


def infeasible(answer: DesignAnswer) -> None:
    """Why nothing is left, with the nearest design."""
    if answer.infeasible is not None:
        st.error(widgets.plain(answer.infeasible.message), icon=":material/block:")


def limits(answer: DesignAnswer, item: Candidate | None) -> None:
    """What each quality law says of the picked design beside its limits, and how many designs each limit rules out."""
    st.subheader("Quality laws and their limits", anchor=False)
    if item is not None:
        st.caption(widgets.plain(f"For {answer.space.describe(item.index)}"))
        st.table(design_tables.laws(answer, item).set_index("Law"))
    st.markdown("\n".join(f"- {widgets.plain(limit)}" for limit in answer.limits))
    st.subheader("Ruled out", anchor=False)
    total, left = len(answer.space), len(answer.space.candidates)
    st.markdown(
        f"{total:,} designs were costed; {left:,} keep the quality at their narrowest width and meet every limit."
    )
    st.dataframe(
        design_tables.infeasible(answer), hide_index=True,
        column_config={"Designs ruled out": _number(format="localized"), "Share": _number(format="%.0f %%")},
    )  # fmt: skip
