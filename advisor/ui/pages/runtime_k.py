"""Run-time K: schedule and gain, engine configuration, break-even, simulation of the ways to choose K."""

import streamlit as st

from advisor.advice import Advice
from advisor.catalog import export_engines
from advisor.charts import break_even_chart, gain_chart, paying_batches, schedule_chart, shape_of, simulation_chart
from advisor.engines import check_commands
from advisor.runtime import gain_of, k_at, last_batch, schedule_rule
from advisor.ui import how_made, runtime_widgets, widgets
from advisor.ui import runtime_answers as runtime


def schedule(advice: Advice) -> None:
    scenario = advice.scenario
    contexts = st.text_input("Context buckets (tokens)", "1024, 8192, 32768", key="context_buckets")
    buckets = runtime.attempt(runtime.by_context, scenario, contexts) or ()
    chart = schedule_chart(advice.k_by_batch, scenario.batch_size, buckets, scenario.context_tokens, advice.curve)
    widgets.show_chart(chart, "schedule", scenario)
    how_made.button(scenario.batch_size, int(k_at(advice.k_by_batch, scenario.batch_size)), how_made.ANSWER, "schedule")
    st.caption(
        " ".join((*advice.schedule_texts, schedule_rule(scenario.max_tpot_ms), "Circles mark the highest speedup."))
    )
    st.markdown(
        "**What it gains on your batch sizes.** Edit the table: the time your server spends at each batch size."
    )
    table, bars = st.columns([1, 2])
    with table:
        number = st.column_config.NumberColumn
        edited = st.data_editor(
            runtime.example_histogram(advice), num_rows="dynamic", hide_index=True, key="batch_histogram",
            column_config={
                "batch_size": number("Batch", min_value=1, step=1, required=True),
                "weight": number("Share of time", min_value=0.0, required=True),
            },
        )  # fmt: skip
        st.caption("The first rows are an example, not a measurement.")
    with bars:
        histogram = runtime.attempt(runtime.histogram_from, edited, advice)
        if histogram is not None:
            gain = gain_of(advice.curve, advice.k_by_batch, histogram)
            widgets.show_chart(gain_chart(gain), "schedule_gain", scenario)


def configuration(advice: Advice) -> tuple[str, str]:
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
            st.code(made.launch_line, language="bash", wrap_lines=True)
            if made.config is not None:
                st.code(made.config_json, language="json", wrap_lines=True)
            for warning in made.warnings:
                st.caption(widgets.plain(warning))
    return served, draft


def break_even(advice: Advice) -> None:
    st.subheader("Break-even", anchor=False)
    chart = break_even_chart(advice.curve, advice.scenario.batch_size, advice.curve_k)
    widgets.show_chart(chart, "break_even", advice.scenario)
    st.markdown(paying_batches(advice.curve, advice.curve_k, last_batch(advice.setup, advice.curve)))
    st.caption("x: no acceptance can pay (more than K + 1 tokens needed). o: your accepted length is not enough.")


def simulation(advice: Advice) -> None:
    st.subheader("Simulation", anchor=False)
    choice = runtime_widgets.process_choice()
    if choice is None:
        st.info("Give a trace to simulate on it. It stays in this session.")
        return
    plan, warm = runtime_widgets.plan(advice.scenario.batch_size)
    report = runtime.attempt(runtime.simulation_for, advice.scenario, choice, plan, warm)
    if report is None:
        return
    widgets.show_chart(simulation_chart(report), "simulation", advice.scenario)
    runtime_widgets.show_outcomes(report)
    st.caption(report.load_note)
    if not report.complete:
        st.caption(f"The limit of {plan.iterations:,} iterations ended before all requests were served.")
    st.caption("Decode iterations only: prefill takes no time here. The oracle sees each round's outcome beforehand.")


scenario = widgets.scenario_or_stop()
advice = widgets.advice_or_stop(scenario)
if advice.setup.drafter.kind == "none":
    widgets.stop_with("Nothing is drafted in this scenario; choose a drafter in the sidebar.")
st.title(f"K {shape_of(advice.k_by_batch)}", anchor=False)
here = int(k_at(advice.k_by_batch, advice.scenario.batch_size))
st.caption(f"At batch {advice.scenario.batch_size:,}: K = {here}. {widgets.acceptance_note(advice)}")
schedule(advice)
served, draft = configuration(advice)
break_even(advice)
simulation(advice)
st.subheader("Check it yourself", anchor=False)
st.markdown("These commands measure the prediction with vLLM; upload their results on the Measurements page.")
for item in runtime.attempt(check_commands, advice.setup, advice.curve_k, served_model=served, draft_model=draft) or ():
    st.caption(item.purpose)
    st.code(item.command, language="bash", wrap_lines=True)
how_made.open_if_asked(advice)
