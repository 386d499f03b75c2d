"""The chart of the page Serve: speedup by batch with its band, published points and the user's own."""

from __future__ import annotations

import functools

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.catalog import drafter_name
from advisor.charts import speedup_chart
from advisor.drafter import drafter_ids
from advisor.next_steps import OwnGap, own_gap, own_gap_text
from advisor.summary import ENOUGH_ROWS
from advisor.text import counted
from advisor.ui.shared import answers, how_made, widgets
from advisor.ui.shared.own_points import own_points


def draw(advice: Advice, n_draft: int) -> None:
    """The curve of the picked K, or of the best K above 0 where none is recommended."""
    shown = n_draft or advice.curve_k
    scenario, published = advice.scenario, answers.published_for(advice.scenario)
    own_rows = own_points(scenario)
    if changed := answers.refit_text_for(scenario):
        st.markdown(f":material/tune: {widgets.plain(changed)}")
    if own_rows is not None and (gap := own_gap(advice, own_rows)) is not None:
        _explain(gap)
    note = st.empty()
    place = st.container()
    others = [int(k) for k in advice.curve.drafts if k not in (0, shown)]
    compare = st.pills("Compare with K", others, selection_mode="multi", key="compare_k") if others else []
    chart = speedup_chart(
        advice.curve,
        shown,
        scenario.batch_size,
        band_level=advice.band_level,
        compare=compare,
        measured=published,
        drafter_id=scenario.drafter_id,
        own=own_rows,
        largest_batch=advice.setup.memory.largest_batch,
    )
    note.caption(_legend(published, advice, own_rows) + _elsewhere(advice) + "Click a point to see how it was made.")
    asked = functools.partial(how_made.asked_by_chart, n_draft=shown)
    with place:
        widgets.show_chart(chart, "speedup", scenario, select_key="speedup_points", on_select=asked)


def _explain(gap: OwnGap) -> None:
    """What would explain that all own points lie on one side of the curve, with buttons that try it."""
    st.markdown(f":material/rule: {widgets.plain(own_gap_text(gap))}")
    length, k = gap.length_to_try, gap.n_draft
    with st.container(horizontal=True, gap="small"):
        if length is not None:
            whose = "your file's" if gap.stated_length is not None else "the inferred"
            st.button(
                f"Use {whose} {length:.2f} at K = {k}",
                key="use_gap_length",
                icon=":material/input:",
                on_click=_put,
                args=("acceptance", f"{length:.2f}@{k}"),
                help="Puts it at Accepted in the bar; Back undoes it.",
            )
        if gap.own_context is not None:
            st.button(
                f"Use their context {gap.own_context:,}",
                key="use_gap_context",
                icon=":material/input:",
                on_click=_put,
                args=("context_tokens", gap.own_context),
                help="Puts it at Context in the bar; Back undoes it.",
            )


def _put(field: str, value: object) -> None:
    """Callback: one field of the bar set, which the address then says."""
    st.session_state[field] = value


def _legend(published: pd.DataFrame | None, advice: Advice, own_rows: pd.DataFrame | None) -> str:
    """What the marks are, in their colours."""
    parts, drafter_id = [], advice.scenario.drafter_id
    here = f"published on {counted(advice.setup.placement.gpus, 'GPU')}"
    if published is not None and len(published):
        same = int((published["drafter"] == drafter_id).sum())
        parts += [f"◆ {same} {here}"] if same else []
        others = sorted(set(published["drafter"]) - {drafter_id})
        whose = drafter_name(others[0]) if len(others) == 1 and others[0] in drafter_ids() else "other drafters"
        parts += [f"◇ {len(published) - same} {'' if same else here + ' '}with {whose}"] if others else []
    if own_rows is not None and len(own_rows):
        parts.append(f"● {len(own_rows)} of yours")
    return " · ".join([*parts, ""])


def _elsewhere(advice: Advice) -> str:
    """That points of this model on other accelerators are judged in Report, where its own here are few."""
    errors = answers.errors_for(advice.scenario)
    here, others = errors.get("this accelerator and model"), errors.get("this model, other accelerators")
    if others is None or (here is not None and here.n >= ENOUGH_ROWS):
        return ""
    return f"{others.n} published of this model on other accelerators are in Report. "
