"""A design measured in the engine itself, on Design and on Measure: the command, a run here, its points, their use."""

from __future__ import annotations

import streamlit as st

from advisor.measured import profiler_runs as runs
from advisor.measured.profiler_runs import ProfilerRun, RunUse, speedup_curves, use_of_run
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.charts.measured import before_after_chart
from advisor.ui.own_data import in_use, text_of, use_refit
from advisor.ui.session import attempt
from advisor.ui.state import plain
from advisor.ui.widgets import show_chart


def draw_engine_run(scenario: Scenario, name: str, config: str | None) -> None:
    """Draw the command that measures a design and, where an engine is installed, a run and its result.

    name, config : the design and its config.json's text; None for a shipped model's id.
    """
    st.caption("Measure this" if scenario.engine == "vllm" else "Measure this (in vLLM alone)")
    command = f"advisor profile --engine vllm --model {name}{'' if config is None else '.json'}"
    st.code(command, language=None, wrap_lines=True)
    if not runs.engine_python() or runs.refusal(st.get_option("server.address"), st.context.url, engine=True):
        return
    last = runs.latest(engine=True)
    if last is not None and last.alive:
        _watch()
        return
    with st.expander(f"Measure {plain(name)} on this machine"):
        with st.container(horizontal=True):
            batches = st.text_input("Batches", "1,2,4,8,16,32", key="engine_batches")
            drafts = st.text_input("Draft lengths K", "0,1,3", key="engine_drafts")
        st.caption(
            f"vLLM, made-up weights, random drafts, at most 5 min. The rows are kept as {plain(scenario.hardware_id)}, "
            "the accelerator in the bar: let that be this machine, and keep it idle."
        )
        if st.button("Measure", icon=":material/speed:", key="engine_start"):
            _start_or_say(attempt(runs.start_engine, scenario, name, config, batches, drafts))
    if last is not None:
        _result(last, scenario)


def _start_or_say(started: tuple[ProfilerRun | None, str]) -> None:
    if started[0] is not None:
        st.rerun()
    st.error(plain(started[1]), icon=":material/error:")


@st.fragment(run_every=2.0)
def _watch() -> None:
    """Progress of the run in hand, and the button that stops it."""
    run = runs.latest(engine=True)
    if run is None or not run.alive:
        st.rerun()
    share, words = runs.engine_progress(run)
    st.progress(share, f"Measuring {plain(run.device)}: {words}")
    word = "Stopping after the step in hand" if run.cancelled else "Cancel"
    st.button(word, on_click=runs.cancel, args=(run,), key="engine_cancel", disabled=run.cancelled)


@st.cache_resource(max_entries=4, show_spinner="Fitting")
def _use(_run: ProfilerRun, folder: str, changed: float) -> tuple[RunUse | None, str]:  # noqa: ARG001 - the cache's key
    return attempt(use_of_run, _run.folder)


def _result(run: ProfilerRun, scenario: Scenario) -> None:
    """Outcome of the last run: resume, its points on the design's curve, and the button that uses them."""
    st.markdown(f"**Measured: {plain(run.device)}**")
    if why := runs.ending(run):
        st.warning(plain(why))
    if run.can_resume and st.button("Resume", key="engine_resume"):
        _start_or_say(attempt(runs.start, run.preset, run.device, run))
    with st.expander("Log"):
        st.code(runs.log_text(run), language=None)
    if not run.has_results:
        return
    use, problem = _use(run, str(run.folder), (run.folder / "data.csv").stat().st_mtime)
    st.markdown(plain(use.result.sentence if use else problem))
    if use is None:
        return
    acceptance = load_setup(scenario).acceptance
    drafts = sorted({point.n_draft for point in use.points if 0 < point.n_draft < len(acceptance.accepted_length)})
    if drafts:
        k = st.segmented_control("K", drafts, default=drafts[-1], required=True, key="engine_k")
        show_chart(before_after_chart(speedup_curves(use, k, acceptance)), "engine_points", scenario)
        st.caption(
            f"Points: measured, T_plain / T_round times {acceptance.accepted_length[k]:.2f} tokens a round. "
            "Random drafts: no drafter's own time is in them."
        )
    for reason in use.result.reasons_against:
        st.warning(plain(reason), icon=":material/help:")
    used = in_use() == text_of(use.result)
    label = "In use" if used else "Use anyway" if use.result.reasons_against else "Use"
    st.button(f"{label} on every page", key="engine_use", on_click=use_refit, args=(use.result,), disabled=used)
