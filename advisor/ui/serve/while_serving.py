"""K while serving: K by batch and context, what that gains, the engines' files, and where drafting breaks even."""

from __future__ import annotations

import functools

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.catalog import export_engines
from advisor.charts import break_even_chart, gain_chart, paying_batches, schedule_chart, shape_of
from advisor.engines import one_option_a_line
from advisor.runtime import gain_of, k_at, k_by_batch_table, last_batch, schedule_rule
from advisor.ui.serve import runtime_answers as runtime
from advisor.ui.shared import boards, how_made, widgets


def draw(advice: Advice) -> None:
    """The whole tab."""
    if advice.setup.drafter.kind == "none":
        st.info("Nothing is drafted in this scenario; choose a drafter in the bar above.")
        return
    here = int(k_at(advice.k_by_batch, advice.scenario.batch_size))
    st.subheader(f"K {shape_of(advice.k_by_batch)}", anchor=False)
    st.caption(f"At batch {advice.scenario.batch_size:,}: K = {here}. {widgets.acceptance_note(advice)}")
    chart, table = st.columns([3, 2])
    with chart:
        schedule(advice)
    with table:
        by_batch(advice)
    gains(advice)
    configuration(advice)
    break_even(advice)


def schedule(advice: Advice) -> None:
    """Chart of K by batch, at several contexts."""
    scenario = advice.scenario
    contexts = st.text_input("Context buckets (tokens)", "1024, 8192, 32768", key="context_buckets")
    buckets = runtime.attempt(runtime.by_context, scenario, contexts) or ()
    chart = schedule_chart(advice.k_by_batch, scenario.batch_size, buckets, scenario.context_tokens, advice.curve)
    widgets.show_chart(chart, "schedule", scenario)
    how_made.button(scenario.batch_size, int(k_at(advice.k_by_batch, scenario.batch_size)), how_made.ANSWER, "schedule")
    st.caption(" ".join((*advice.schedule_texts, "Circles mark the highest speedup.")))


def by_batch(advice: Advice) -> None:
    """K by batch as a table, in which a row opens how its K was made."""
    limit_ms = advice.scenario.max_tpot_ms
    columns, rows = k_by_batch_table(advice.k_by_batch, limit_ms is not None)
    table = pd.DataFrame(rows, columns=list(columns))
    table["K"] = [item.n_draft for item in advice.k_by_batch]
    table["Mean speedup"] = [item.speedup for item in advice.k_by_batch]
    table["Largest expected loss"] = [item.regret * 100 for item in advice.k_by_batch]
    st.caption(schedule_rule(limit_ms))
    st.dataframe(
        table,
        hide_index=True,
        column_config={
            "Mean speedup": st.column_config.NumberColumn(format="%.2f×"),
            "Largest expected loss": st.column_config.NumberColumn(format="%.1f%%"),
        },
        key="k_by_batch",
        selection_mode="single-row",
        on_select=functools.partial(how_made.asked_by_table, "k_by_batch", advice.k_by_batch),
    )
    st.caption("Select a row to see how its K was made.")


def gains(advice: Advice) -> None:
    """Gain of the schedule over one K on the user's own batch sizes."""
    scenario = advice.scenario
    st.markdown(
        "**What it gains on your batch sizes.** Edit the table: the time your server spends at each batch size."
    )
    table, bars = st.columns([1, 2])
    with table:
        number = st.column_config.NumberColumn
        edited = st.data_editor(
            runtime.example_histogram(advice),
            num_rows="dynamic",
            hide_index=True,
            key="batch_histogram",
            column_config={
                "batch_size": number("Batch", min_value=1, step=1, required=True),
                "weight": number("Share of time", min_value=0.0, required=True),
            },
        )
        st.caption("The first rows are an example, not a measurement.")
    with bars:
        histogram = runtime.attempt(runtime.histogram_from, edited, advice)
        if histogram is not None:
            if not edited.equals(runtime.example_histogram(advice)):
                boards.OFFERED.put(runtime.users_text(histogram, advice))
            gain = gain_of(advice.curve, advice.k_by_batch, histogram)
            widgets.show_chart(gain_chart(gain), "schedule_gain", scenario)


def configuration(advice: Advice) -> None:
    """Configuration of each engine that runs the schedule or one K of it."""
    st.subheader("Engine configuration", anchor=False)
    choice = st.selectbox("Export", runtime.export_choices(advice), key="export_choice")
    served = st.text_input("Model the engine serves", runtime.served_model(advice), key="served_model")
    draft = ""
    if runtime.needs_draft_name(advice):
        draft = st.text_input("Draft model or head (Hugging Face name or path)", key="draft_model")
        if not draft:
            st.info(f"Give the draft model's name: until then the configuration says {runtime.PLACEHOLDER}.")
            draft = runtime.PLACEHOLDER
    engines = export_engines()
    for column, engine in zip(st.columns(len(engines)), engines, strict=True):
        with column:
            st.markdown(f"**{engine.name}**")
            made = runtime.export_for(advice, engine.id, choice, served, draft)
            if isinstance(made, str):
                st.info(widgets.plain(made))
                continue
            st.code(one_option_a_line(made.launch_line), language=None, wrap_lines=True)
            if made.config is not None:
                st.code(made.config_json, language=None, wrap_lines=True)
            for warning in made.warnings:
                st.caption(widgets.plain(warning))


def break_even(advice: Advice) -> None:
    """Chart of the accepted length that pays at each batch, and the batches where the user's does."""
    st.subheader("Break-even", anchor=False)
    last = last_batch(advice.setup, advice.curve)
    chart = break_even_chart(advice.curve, advice.scenario.batch_size, advice.curve_k, last)
    widgets.show_chart(chart, "break_even", advice.scenario)
    st.markdown(paying_batches(advice.curve, advice.curve_k, last))
    st.caption("x: no acceptance can pay (more than K + 1 tokens needed). o: your accepted length is not enough.")
