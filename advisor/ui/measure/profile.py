"""This machine: what would be measured and at what price, the run, and what came out.

And a design measured in the engine itself, on Design and on Measure: the command, a run here, its
points, their use.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import streamlit as st

from advisor.measured import profiler_runs as runs
from advisor.measured.measurements import ProfilerSweep, read_sweep
from advisor.measured.profiler_runs import ProfilerRun, RunUse, speedup_curves, use_of_run
from advisor.measured.sweep_fit import SweepFit, fit_sweep
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.charts.measured import before_after_chart, ratio_chart
from advisor.show.table import Column, Table
from advisor.show.words.refit import sentence
from advisor.ui.own_data import in_use, text_of, use_refit
from advisor.ui.session import attempt
from advisor.ui.state import add_own_hardware, plain
from advisor.ui.widgets import download, show_chart, show_plot, show_table, tried

_PLAN: tuple[Column[dict[str, Any]], ...] = (
    Column("Block", itemgetter("name"), words=True),
    Column("Operation", itemgetter("op"), words=True),
    Column("Estimate", itemgetter("estimate_s"), "{:.1f} s".format),
    Column(
        "Memory",
        lambda row: row.get("memory_bytes"),
        lambda value: "" if value is None else f"{value / 1e6:,.0f} MB",
    ),
)


@st.cache_data(ttl=600, show_spinner="Looking for devices")
def _devices() -> Any:
    return runs.devices()


@st.cache_data(ttl=600, show_spinner="Estimating the time")
def _plan(preset: str, device: str) -> Any:
    return runs.plan(preset, device)


@st.cache_resource(max_entries=8, show_spinner="Fitting")
def _fits(_sweep: ProfilerSweep, sha256: str) -> tuple[tuple[SweepFit, ...] | None, str]:  # noqa: ARG001 - the cache's key
    return attempt(fit_sweep, _sweep)


def _choose() -> None:
    """Choice of device and preset, the plan of the sweep, and the button that starts it."""
    devices = tried(_devices)
    if not devices:
        return
    names = {entry["label"]: entry["name"] for entry in devices}
    device = st.selectbox(
        "Device", list(names), format_func=lambda key: f"{key}: {names[key]}", key="profile_device"
    )
    preset = st.segmented_control(
        "Preset", runs.PRESETS, default="quick", required=True, key="profile_preset"
    )
    facts = tried(_plan, preset, device)
    if facts is None:
        return
    st.markdown(
        f"About **{facts['estimate_s']:,.0f} s** for {len(facts['blocks'])} blocks; it stops by "
        f"itself at {facts['limit_s']:,.0f} s. Keep the machine idle; other load distorts timings."
    )
    with st.expander("The plan"):
        show_table(Table(_PLAN, facts["blocks"]))
    pressed = st.button("Measure", icon=":material/speed:", key="profile_start")
    if pressed and tried(runs.start, preset, device) is not None:
        st.rerun()


@st.fragment(run_every=2.0)
def _watch() -> None:
    """Progress of the running sweep, with its log and the button that stops it."""
    run = runs.latest()
    if run is None or not run.alive:
        st.rerun()
    at = runs.progress(run)
    st.subheader(f"Measuring {run.device}, preset {run.preset}", anchor=False)
    if at is None:
        st.progress(0.0, "Starting")
    else:
        where = f"block {at['done_blocks'] + 1} of {at['total_blocks']}: {at['block']}"
        left = f"{at['elapsed_s']:.0f} s, about {at['remaining_s']:.0f} s left"
        st.progress(runs.share_done(at), f"{left}; {where}")
    _cancel(run, "block", "profile_cancel")
    _log(run)


def _cancel(run: ProfilerRun, piece: str, key: str) -> None:
    word = f"Stopping after the {piece} in hand" if run.cancelled else "Cancel"
    st.button(word, on_click=runs.cancel, args=(run,), key=key, disabled=run.cancelled)


def _log(run: ProfilerRun) -> None:
    with st.expander("Log"):
        st.code(runs.log_text(run), language=None)


def _result(run: ProfilerRun) -> None:
    """Outcome of the last sweep, with the button that resumes where it was cut short."""
    st.subheader(f"Last sweep: {run.name}", anchor=False)
    _ending(run, "profile_resume")
    sweep = tried(read_sweep, run.folder) if run.has_results else None
    if sweep is not None:
        _summary(run, sweep)
    _log(run)


def _ending(run: ProfilerRun, key: str) -> None:
    """Why a run was cut short, and the button that resumes it."""
    if why := runs.ending(run):
        st.warning(plain(why))
    if run.can_resume and st.button("Resume", key=key):
        _start_or_say(attempt(runs.start, run.preset, run.device, run))


def _summary(run: ProfilerRun, sweep: ProfilerSweep) -> None:
    """Figures, findings and fits of a sweep that can be read."""
    copy = runs.copy_bandwidth(sweep)
    with st.grid(3, min_column_width=150):
        st.metric("Status", sweep.meta.status)
        st.metric("Measured rows", f"{sweep.meta.measured_rows:,}")
        st.metric("Copy bandwidth", f"{copy / 1e9:,.1f} GB/s" if copy else "not measured")
    st.caption(plain(f"{sweep.meta.device.name}; {sweep.meta.started_at}"))
    notes = [*sweep.meta.reasons, *sweep.meta.findings]
    st.markdown("\n".join(f"- {plain(note)}" for note in notes))
    fits, problem = _fits(sweep, sweep.sha256)
    if problem:
        st.info(plain(problem))
    for order, fit in enumerate(fit for fit in fits or () if len(fit.ratios)):
        chart = ratio_chart(fit)
        show_plot(chart, f"ratio_{order}")
        st.caption(chart.alt)
    download("Download (zip)", runs.archive(run), f"{run.name}.zip", "profile_zip")
    text, why = attempt(runs.accelerator_of, sweep)
    st.button(
        "Predict with this machine",
        key="profile_use",
        type="primary",
        on_click=_use,
        args=(text,),
        disabled=text is None,
        help=why or "As the accelerator in the bar, with the rates that were reached here.",
    )


def _use(text: str) -> None:
    """Make the measured device the accelerator of the bar."""
    st.session_state["hardware_id"] = add_own_hardware(text)


def draw_profile_panel() -> None:
    """The whole panel: the run in hand, or what could be measured and the last result."""
    st.markdown("On a GPU node, the engine itself, plain and with drafts; drop its CSV on Measure:")
    st.code(
        "advisor profile --engine vllm --model config.json --output measured",
        language=None,
        wrap_lines=True,
    )
    if off := runs.refusal(st.get_option("server.address"), st.context.url):
        st.info(off)
        return
    last = runs.latest()
    if last is not None and last.alive:
        _watch()
        return
    _choose()
    if last is not None:
        _result(last)


def draw_engine_run(
    scenario: Scenario, name: str, config: str | None, asked: tuple[int, ...] = ()
) -> None:
    """Draw the command that measures a design and, where an engine is installed, a run and its
    result.

    name, config : the design and its config.json's text; None for a shipped model's id. asked :
        further batches.
    """
    st.caption("Measure this" if scenario.engine == "vllm" else "Measure this (in vLLM alone)")
    of = name if config is None else f"{name}.json"
    batch = scenario.batch_size
    context = str(scenario.context_tokens)
    batches = ",".join(map(str, sorted({1, 4, 16, max(1, batch // 4), batch, *asked})))
    command = (
        f"advisor profile --engine vllm --model {of} --batches {batches} --context {context} "
        "--output measured"
    )
    st.code(command, language=None, wrap_lines=True)
    first = "" if config is None else f"With {plain(of)}, the model's config.json, in this folder. "
    st.caption(
        f"{first}It runs vLLM with random weights: make engine installs one for processors "
        "(--context 32 there); on a GPU name your own with --engine-python, and --hardware."
    )
    if not runs.engine_python() or runs.refusal(
        st.get_option("server.address"), st.context.url, engine=True
    ):
        return
    last = runs.latest(engine=True)
    if last is not None and last.alive:
        _watch_engine()
        return
    with st.expander(f"Measure {plain(name)} on this machine"):
        with st.container(horizontal=True):
            batches = st.text_input("Batches", batches, key="engine_batches")
            drafts = st.text_input("Draft lengths K", "0,1,3", key="engine_drafts")
            context = st.text_input("Context", context, key="engine_context")
        st.caption(
            "vLLM, random weights, random drafts, at most 5 min. The rows are kept as "
            f"{plain(scenario.hardware_id)}, the accelerator in the bar: let that be this "
            "machine, and keep it idle."
        )
        if st.button("Measure", icon=":material/speed:", key="engine_start"):
            _start_or_say(
                attempt(runs.start_engine, scenario, name, config, (batches, drafts, context))
            )
    if last is not None:
        _engine_result(last, scenario)


def _start_or_say(started: tuple[ProfilerRun | None, str]) -> None:
    if started[0] is not None:
        st.rerun()
    st.error(plain(started[1]), icon=":material/error:")


@st.fragment(run_every=2.0)
def _watch_engine() -> None:
    """Progress of the run in hand, and the button that stops it."""
    run = runs.latest(engine=True)
    if run is None or not run.alive:
        st.rerun()
    share, words = runs.engine_progress(run)
    st.progress(share, f"Measuring {plain(run.device)}: {words}")
    _cancel(run, "step", "engine_cancel")


@st.cache_resource(max_entries=4, show_spinner="Fitting")
def _use_engine(_run: ProfilerRun, folder: str, changed: float) -> tuple[RunUse | None, str]:  # noqa: ARG001 - the cache's key
    return attempt(use_of_run, _run.folder)


def _engine_result(run: ProfilerRun, scenario: Scenario) -> None:
    """Outcome of the last run: resume, its points on the design's curve, and the button that uses
    them."""
    st.markdown(f"**Measured: {plain(run.device)}**")
    _ending(run, "engine_resume")
    _log(run)
    if not run.has_results:
        return
    use, problem = _use_engine(run, str(run.folder), (run.folder / "data.csv").stat().st_mtime)
    st.markdown(plain(sentence(use.result) if use else problem))
    if use is None:
        return
    acceptance = load_setup(scenario).acceptance
    drafts = sorted(
        {
            point.n_draft
            for point in use.points
            if 0 < point.n_draft < len(acceptance.accepted_length)
        }
    )
    if drafts:
        k = st.segmented_control("K", drafts, default=drafts[-1], required=True, key="engine_k")
        show_chart(
            before_after_chart(speedup_curves(use, k, acceptance)), "engine_points", scenario
        )
        st.caption(
            f"Points: measured, T_plain / T_round times {acceptance.accepted_length[k]:.2f} "
            "tokens a round. Random drafts: no drafter's own time is in them."
        )
    for reason in use.result.reasons_against:
        st.warning(plain(reason), icon=":material/help:")
    used = in_use() == text_of(use.result)
    label = "In use" if used else "Use anyway" if use.result.reasons_against else "Use"
    st.button(
        f"{label} on every page",
        key="engine_use",
        on_click=use_refit,
        args=(use.result,),
        disabled=used,
    )
