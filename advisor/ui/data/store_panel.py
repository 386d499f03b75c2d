"""What the store holds, from where, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from advisor.scenario import Scenario
from advisor.ui.shared import answers, widgets

if TYPE_CHECKING:
    from advisor.store import StoreStatus


def draw(scenario: Scenario) -> None:
    """Coverage of the store, or without one the command that builds it."""
    now = answers.store_status()
    if now.problem:
        st.warning(
            "There are no measured tables on this machine, so no measured points are shown. "
            "Predictions use the constants that ship with the advisor. To build them, run:"
        )
        st.code("python -m advisor store build", language="bash")
        st.text(now.problem)
        return
    _size(now)
    _kernels(now, scenario)
    _datasets(now, scenario)
    _sweeps(now)
    with st.expander("Repeated tables and rows left out"):
        st.markdown("Tables that repeat another accelerator's, counted once:")
        st.dataframe(now.copies, hide_index=True, placeholder="")
        st.markdown("Rows left out, by file and reason:")
        st.dataframe(now.dropped, hide_index=True, placeholder="")


def _size(now: StoreStatus) -> None:
    with st.grid(4, min_column_width=150):
        st.metric("Rows", f"{sum((now.rows_by_table or {}).values()):,}")
        st.metric("Size", f"{now.size_bytes / 1e6:.0f} MB")
        st.metric("Built (UTC)", f"{now.built_utc:%Y-%m-%d}" if now.built_utc else "unknown")
        st.metric(
            "aiconfigurator-core", now.kernel_package_version or "not installed", help="The measured kernel tables."
        )
    for reason in now.stale_because:
        st.warning(f"Out of date: {widgets.plain(reason)}. Run `python -m advisor store build`.")


def _kernels(now: StoreStatus, scenario: Scenario) -> None:
    st.subheader("Measured kernels", anchor=False)
    if now.coverage is None or now.coverage.empty:
        st.info(
            "The measured kernel tables are not installed here; predictions use the fits that ship with the advisor."
        )
        return
    only = st.toggle(widgets.plain(f"Only {scenario.hardware_id}"), value=False, key="only_this_hardware")
    kernels = now.coverage[now.coverage["hardware_id"] == scenario.hardware_id] if only else now.coverage
    names = {"hardware_id": "Accelerator", "engine": "Engine", "version": "Version", "op": "Operation"}
    counts = {"n_shapes": "Shapes", "n_rows": "Rows", "min_tokens": "Fewest tokens", "max_tokens": "Most tokens"}
    _table(kernels, {**names, "dtype": "Format"}, counts)


def _datasets(now: StoreStatus, scenario: Scenario) -> None:
    st.subheader("Published and shipped data sets", anchor=False)
    rows = (now.rows_by_table or {}).items()
    sets = [(name.removeprefix("dataset_"), count) for name, count in rows if name.startswith("dataset_")]
    st.dataframe(pd.DataFrame(sets, columns=["Data set", "Rows"]), hide_index=True)
    points = answers.published_for(scenario)
    if points is not None and len(points):
        st.markdown(widgets.plain(f"Published speedups of {scenario.model_id} on {scenario.hardware_id}:"))
        st.dataframe(points, hide_index=True, placeholder="")
    else:
        st.caption(
            widgets.plain(
                f"No published speedup of {scenario.model_id} on {scenario.hardware_id} at this number of GPUs states "
                "its batch. Peaks over batch, where known, stand in the data set moesd_cells."
            )
        )


def _sweeps(now: StoreStatus) -> None:
    st.subheader("Sweeps of the profiler", anchor=False)
    if now.sweeps is None or now.sweeps.empty:
        st.caption("None yet. Measure a device on the page Profile this machine.")
        return
    names = {"name": "Sweep", "device": "Device", "status": "Status", "preset": "Preset", "torch": "torch"}
    shown = now.sweeps.drop(columns=["backend", "n_rows"])
    _table(shown, {**names, "started_at": "Started (UTC)"}, {"measured_rows": "Measured rows"})


def _table(frame: pd.DataFrame, texts: dict[str, str], counts: dict[str, str]) -> None:
    """A table under plain headers; counts with separators."""
    columns: dict[str, Any] = dict(texts)
    columns |= {name: st.column_config.NumberColumn(label, format="localized") for name, label in counts.items()}
    st.dataframe(frame, hide_index=True, placeholder="", column_config=columns)
