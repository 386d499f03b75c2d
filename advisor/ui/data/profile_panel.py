"""Profile this machine: what would be measured and at what price, the run, and what came out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from advisor.calibration import SweepFit, fit_sweep
from advisor.charts import ratio_chart
from advisor.store import ProfilerSweep, read_sweep
from advisor.ui.data import profile_run
from advisor.ui.shared import widgets

PLAN_COLUMNS: dict[str, Any] = {"name": "Block", "op": "Operation", "estimate_s": "Estimate (s)"}
PLAN_COLUMNS["memory_bytes"] = st.column_config.NumberColumn("Memory", format="bytes")


@st.cache_data(ttl=600, show_spinner="Looking for devices")
def _devices() -> Any:
    return profile_run.devices()


@st.cache_data(ttl=600, show_spinner="Pricing the plan")
def _plan(preset: str, device: str) -> Any:
    return profile_run.plan(preset, device)


@st.cache_resource(max_entries=8, show_spinner="Fitting")
def _fits(_sweep: ProfilerSweep, sha256: str) -> tuple[tuple[SweepFit, ...] | None, str]:  # noqa: ARG001 - the cache's key
    return profile_run.attempt(fit_sweep, _sweep)


def try_or_say(action: Callable[..., Any], *arguments: Any) -> Any:
    """Result of `action`, or its error as a sentence on the page, and None."""
    answer, problem = profile_run.attempt(action, *arguments)
    if problem:
        st.error(widgets.plain(problem), icon=":material/error:")
    return answer


def choose() -> None:
    """Choice of device and preset, the plan of the sweep, and the button that starts it."""
    found = try_or_say(_devices)
    if not found:
        return
    names = {profile_run.label(item): item["name"] for item in found}
    device = st.selectbox("Device", list(names), format_func=lambda key: f"{key}: {names[key]}", key="profile_device")
    preset = st.segmented_control("Preset", profile_run.PRESETS, default="quick", key="profile_preset") or "quick"
    facts = try_or_say(_plan, preset, device)
    if facts is None:
        return
    st.markdown(
        f"About **{facts['estimate_s']:,.0f} s** for {len(facts['blocks'])} blocks; it stops by itself at "
        f"{facts['limit_s']:,.0f} s. Leave the machine alone meanwhile: other work spoils the times."
    )
    with st.expander("The plan"):
        st.dataframe(facts["blocks"], hide_index=True, column_config=PLAN_COLUMNS)
    if st.button("Measure", icon=":material/speed:", key="profile_start") and try_or_say(
        profile_run.start, preset, device
    ):
        st.rerun()


@st.fragment(run_every=2.0)
def watch() -> None:
    """Progress of the running sweep, with its log and the button that stops it."""
    run = profile_run.latest()
    if run is None or not run.alive:
        st.rerun()
    at = profile_run.progress(run)
    st.subheader(f"Measuring {run.device}, preset {run.preset}", anchor=False)
    if at is None:
        st.progress(0.0, "Starting")
    else:
        where = f"block {at['done_blocks'] + 1} of {at['total_blocks']}: {at['block']}"
        left = f"{at['elapsed_s']:.0f} s, about {at['remaining_s']:.0f} s left"
        st.progress(profile_run.share_done(at), f"{left}; {where}")
    word = "Stopping after the block in hand" if run.cancelled else "Cancel"
    st.button(word, on_click=profile_run.cancel, args=(run,), key="profile_cancel", disabled=run.cancelled)
    with st.expander("Log"):
        st.code(profile_run.log_text(run), language=None)


def result(run: profile_run.ProfilerRun) -> None:
    """Outcome of the last sweep, with the button that goes on where it was cut short."""
    st.subheader(f"Last sweep: {run.name}", anchor=False)
    if why := profile_run.ending(run):
        st.warning(widgets.plain(why))
    again = run.can_resume and st.button("Go on", key="profile_resume")
    if again and try_or_say(profile_run.start, run.preset, run.device, run):
        st.rerun()
    sweep = try_or_say(read_sweep, run.folder) if run.has_results else None
    if sweep is not None:
        summary(run, sweep)
    with st.expander("Log"):
        st.code(profile_run.log_text(run), language=None)


def summary(run: profile_run.ProfilerRun, sweep: ProfilerSweep) -> None:
    """Figures, findings and fits of a sweep that can be read."""
    copy = profile_run.copy_bandwidth(sweep)
    with st.grid(3, min_column_width=150):
        st.metric("Status", sweep.meta.status)
        st.metric("Measured rows", f"{sweep.meta.measured_rows:,}")
        st.metric("Copy bandwidth", f"{copy / 1e9:,.1f} GB/s" if copy else "not measured")
    st.caption(widgets.plain(f"{sweep.meta.device.name}; {sweep.meta.started_at}"))
    notes = [*sweep.meta.reasons, *sweep.meta.findings]
    st.markdown("\n".join(f"- {widgets.plain(note)}" for note in notes))
    fits, problem = _fits(sweep, sweep.sha256)
    if problem:
        st.info(widgets.plain(problem))
    for order, fit in enumerate(fit for fit in fits or () if len(fit.ratios)):
        chart = ratio_chart(fit)
        st.plotly_chart(chart.figure, key=f"ratio_{order}", alt=chart.alt, config={"displayModeBar": False})
        st.caption(chart.alt)
    st.download_button("Download (zip)", profile_run.archive(run), file_name=f"{run.name}.zip", on_click="ignore")
    if st.button("Keep with my measurements", key="profile_keep") and try_or_say(profile_run.keep, run):
        st.success("Kept: the MoE layers are among your measurements.")
    st.markdown("To use the whole sweep, copy its folder and build the measured tables again:")
    st.code(f"cp -r {run.folder} measurements/\npython -m advisor store build", language="bash")


def draw() -> None:
    """The whole panel: the run in hand, or what could be measured and the last result."""
    if off := profile_run.refusal(st.get_option("server.address"), st.context.url):
        st.info(off)
        return
    last = profile_run.latest()
    if last is not None and last.alive:
        watch()
        return
    choose()
    if last is not None:
        result(last)
